"""Where traces were made: facts of a machine and a program that a difference may come from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlscope_analysis.compare.run import Run

_PLAIN = ("kernel", "machine", "cpus_allowed", "loader", "capture", "tool_version", "backends")


def environment_of(meta: Mapping[str, str]) -> dict[str, str]:
    """Return what meta tells of the machine, the program and the recorder, as words."""
    found = {name: meta[name] for name in _PLAIN if name in meta}
    if isinstance(cpu := _parsed(meta, "calibration_key").get("cpu"), str):
        found["cpu"] = cpu
    for name, value in _parsed(meta, "environment").items():
        if isinstance(value, (str, int, float)) or value is None:
            found[name] = "none" if value is None else str(value)
    for name, value in _parsed(meta, "environment_variables").items():
        if isinstance(value, str):
            found[f"${name}"] = value
    # How it was recorded: what differs there may shift times.
    probe_settings = _parsed(meta, "probe_settings")
    for name in ("transitions", "sample_hz", "gil", "cuda_calls", "messages"):
        if isinstance(value := probe_settings.get(name), (str, int, float)):
            found[f"recorder {name}"] = str(value)
    return found


def _parsed(meta: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return a fact that has parts; a trace may come from a stranger."""
    try:
        value = json.loads(meta.get(name, "{}"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def environment_differences(
    base: Sequence[Run], new: Sequence[Run]
) -> list[tuple[str, str | None, str | None]]:
    """Return what is not the same on both sides: the fact, and what each side has; None: not known.

    Where runs of a side differ, all of their values stand there, sorted.
    """
    names = sorted({name for run in (*base, *new) for name in run.environment})
    rows = []
    for name in names:
        sides = [_values(side, name) for side in (base, new)]
        if sides[0] != sides[1]:
            rows.append((name, *(", ".join(side) if side else None for side in sides)))
    return rows  # type: ignore[return-value]


def _values(runs: Sequence[Run], name: str) -> list[str]:
    return sorted({run.environment[name] for run in runs if name in run.environment})
