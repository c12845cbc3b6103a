"""What single events cost, as measured beside the recording: from the spool into the trace."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, BinaryIO

from rlscope_analysis.schema.facts.qualities import GOOD, GRADES, REASONS, Quality, quality
from rlscope_analysis.schema.vocabulary import (
    BYSTANDER_EVENTS,
    EVENT_PARTS,
    EVENTS,
)
from rlscope_trace.errors import reason_of
from rlscope_trace.spool.directory import CALIBRATION_FILE
from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CALLS = ("call", "call_expensive", "bystander_call")
_FORMAT = 6
# No cost takes so many ns, no measurement is taken so often.
_MOST = 10**12
# No file of costs is so large, no way of measuring has so long a name.
_MOST_BYTES = 1 << 24
_SHOWN = 80
_LONGEST = 1000
# Of all of them, in calibration: a loop on this machine.
_METHOD = "micro"
_UNKNOWN = quality("event_unknown")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one event costs the thread it happens on: a row of the table calibration.

    All times in ns of CPU time; None: not measured.
    """

    event: str
    part: str | None
    """inside, outside; None: cannot be distinguished."""
    how: str = ""
    """What of several ways was measured: of probing calls, or of capturing; "": there is one."""
    mean_ns: float | None = None
    stddev_ns: float | None = None
    n: int = 0
    low_ns: float | None = None
    high_ns: float | None = None
    quality: Quality = GOOD


def dump_costs(costs: Iterable[Cost], facts: dict[str, object]) -> str:
    """Return the costs as the text of a calibration.json; facts: of the machine and the moment."""
    reported = {"format": _FORMAT, **facts, "costs": [asdict(cost) for cost in costs]}
    return json.dumps(reported, indent=1) + "\n"


def read_costs(path: Path) -> tuple[list[Cost], dict[str, object]]:
    """Return the costs of a calibration.json, and its facts.

    Raises OSError where it cannot be read, ValueError where it is damaged or of another format.
    """
    with open_regular(path) as file:
        return read_costs_from(file)


def read_costs_from(file: BinaryIO) -> tuple[list[Cost], dict[str, object]]:
    """Return the same of an open file."""
    text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError("it is too large")
    try:
        reported = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(reported, dict) or reported.pop("format", None) != _FORMAT:
        raise ValueError("not a calibration of this version")
    listed = reported.pop("costs", None)
    if not isinstance(listed, list):
        raise ValueError("it holds no costs")
    costs = [read_cost(entry) for entry in listed]
    # One that is there twice would be subtracted twice.
    if len({(cost.event, cost.part, cost.how) for cost in costs}) < len(costs):
        raise ValueError("a cost is there twice")
    return costs, reported


def read_cost(entry: object) -> Cost:
    """Return a cost as asdict() made it; ValueError where it is damaged."""
    names = {field.name for field in fields(Cost)}
    if not isinstance(entry, dict) or set(entry) != names:
        raise ValueError("a cost has other fields")
    texts = [entry[name] for name in ("event", "how")]
    times = [entry[name] for name in ("mean_ns", "stddev_ns", "low_ns", "high_ns")]
    if (
        not all(_is_text(text) for text in texts)
        or entry["part"] not in (None, *EVENT_PARTS)
        or type(entry["n"]) is not int
        or not 0 <= entry["n"] < _MOST
        or not all(time_ns is None or _is_time(time_ns) for time_ns in times)
        or not _is_consistent(*times)
    ):
        raise ValueError(f"the cost of {str(entry['event'])[:_SHOWN]!r} is damaged")
    return Cost(**{**entry, "quality": read_quality(entry["quality"])})


def read_quality(reported: object) -> Quality:
    """Return a quality as asdict() made it; ValueError where it is damaged."""
    names = {field.name for field in fields(Quality)}
    if (
        not isinstance(reported, dict)
        or set(reported) != names
        or not isinstance(reported["numbers"], list)
    ):
        raise ValueError("a quality has other fields")
    texts = [reported[name] for name in ("code", "subject", "detail") if reported[name] is not None]
    if (
        reported["grade"] not in GRADES
        or reported["code"] not in (None, *REASONS)
        or not all(_is_text(text) for text in texts)
        or not all(_is_time(number) for number in reported["numbers"])
    ):
        raise ValueError("a quality is damaged")
    return Quality(**{**reported, "numbers": tuple(reported["numbers"])})


def _is_text(text: object) -> bool:
    # Half a surrogate pair passes for a character in JSON; DuckDB takes none.
    return (
        isinstance(text, str)
        and len(text) <= _LONGEST
        and not any("\ud800" <= letter <= "\udfff" for letter in text)
    )


def _is_time(number: object) -> bool:
    # Not NaN, which JSON as Python reads it may hold, nor true, which Python takes for a number.
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return False
    return abs(number) < _MOST


def _is_consistent(
    mean_ns: float | None, stddev_ns: float | None, low_ns: float | None, high_ns: float | None
) -> bool:
    """Tell whether an estimate has what belongs to it, and lies in its interval."""
    if mean_ns is None:
        return stddev_ns is low_ns is high_ns is None
    if stddev_ns is not None and stddev_ns < 0:
        return False
    if low_ns is None or high_ns is None:
        return low_ns is high_ns
    return low_ns <= mean_ns <= high_ns


def rows_of(costs: Iterable[Cost]) -> list[tuple[Any, ...]]:
    """Return costs as rows of the table calibration_measured."""
    return [
        (cost.event, cost.part, _METHOD, cost.mean_ns, cost.stddev_ns, cost.n, cost.low_ns,
         cost.high_ns, False, *cost.quality.columns)
        for cost in costs
    ]  # fmt: skip


def costs_of_spool(directory: Path, session: dict[str, object]) -> list[Cost]:
    """Return the costs that are valid for a recording, and for each other event why there is none.

    Of an event that can be caused in several ways, the way of this recording counts.
    session: the facts of the recording, as in session.json.
    """
    try:
        costs, _ = read_costs(directory / CALIBRATION_FILE)
        missing = _UNKNOWN
    except FileNotFoundError:
        costs, missing = [], quality("no_calibration")
    except (OSError, ValueError) as error:
        costs = []
        missing = quality("calibration_damaged", subject=CALIBRATION_FILE, detail=reason_of(error))
    return costs_of_recording(costs, session, missing)


def costs_of_recording(
    costs: list[Cost], session: dict[str, object], missing: Quality = _UNKNOWN
) -> list[Cost]:
    """Return those that are valid for a recording, and for events of no cost a row that says so.

    session: as in costs_of_spool. missing: the quality of such a row.
    """
    valid = _of_this_recording(costs, session)
    known = {cost.event for cost in valid}
    left = [event for event in (*EVENTS, *BYSTANDER_EVENTS) if event not in known]
    return valid + [Cost(event, None, quality=missing) for event in left]


def _of_this_recording(costs: list[Cost], session: dict[str, object]) -> list[Cost]:
    probe_settings = session.get("probe_settings")
    mode = probe_settings.get("call_probes") if isinstance(probe_settings, dict) else None
    capture = session.get("capture")
    chosen = []
    for cost in costs:
        way = mode if cost.event in CALLS else capture
        if not cost.how or cost.how == way:
            chosen.append(cost)
    seen = {cost.event for cost in chosen}
    for event in sorted({cost.event for cost in costs} - seen):
        # Calls that were not probed cost nothing, and say so where they would be listed.
        way = mode or "none (no call was probed)" if event in CALLS else capture
        ways = ", ".join(sorted({cost.how for cost in costs if cost.event == event}))
        code = "other_way" if mode or event not in CALLS else "nothing_probed"
        why = quality(code, subject=ways, detail=str(way))
        chosen.append(Cost(event, None, quality=why))
    return chosen
