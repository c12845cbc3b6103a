"""What a recording noted in probes.jsonl: interpreters, sites, what was dropped and what failed."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlscope_analysis.schema.facts.fact import Fact, fact_of
from rlscope_analysis.schema.facts.sites import DROPPED, NOT_PROBED, PROBED, SITE_REASONS
from rlscope_trace.spool.line_files import lines_of
from rlscope_trace.spool.regular_files import open_regular

# No address, time or count gets there, and no BIGINT holds it: the line is damaged.
_IMPOSSIBLE = 2**63
# No site_id does: sites are counted up from 1, and the ids of those that have none follow.
_IMPOSSIBLE_SITE = 2**30
# The mangled name of a function may have thousands of letters.
_MOST_LETTERS = 1 << 16
_MOST_REASONS = 32


@dataclass(slots=True)
class Site:
    """One function that was found, and what became of it."""

    site_id: int
    module: str
    symbol: str
    layer: str
    file_offset: int
    state: str
    probed_ns: int | None
    dropped_ns: int | None = None
    hits: int | None = None
    time_ns: int | None = None
    is_expensive: bool | None = None
    code: str | None = None
    """Why it was dropped, or not probed."""
    detail: str | None = None
    numbers: list[float] | None = None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that was found in a process, at an instant."""

    pid: int
    ts_ns: int
    version: tuple[int, ...]
    implementation: str
    free_threaded: bool
    interpreters: int | None
    gil_start: int
    gil_end: int


@dataclass(frozen=True, slots=True)
class CudaReported:
    """What became of the CUDA libraries of a process, at an instant."""

    pid: int
    ts_ns: int
    state: str
    """probed; failed; left: CUPTI was to tell of its calls."""
    files: tuple[str, ...]
    """Names of the files whose functions are probed."""
    blind: tuple[str, ...]
    """Names of files that a runtime without names is linked into."""
    reason: str | None
    """Why functions are not probed, of some files or of all."""


@dataclass(slots=True)
class ProbeFacts:
    """All of it; empty where nothing was noted."""

    sites: dict[int, Site] = field(default_factory=dict)
    unprobed: list[Site] = field(default_factory=list)
    """Found, but never given a number."""
    interpreters: list[Interpreter] = field(default_factory=list)
    without_python: list[tuple[int, int]] = field(default_factory=list)
    """pid and time of the first look, of processes in which no Python was found then."""
    nvtx_packages: list[tuple[int, int]] = field(default_factory=list)
    """pid and time, of processes in which the Python package nvtx was found."""
    other_clocks: list[tuple[int, int]] = field(default_factory=list)
    """pid and time, of processes in a time namespace of their own."""
    held_up: list[tuple[int, int]] = field(default_factory=list)
    """pid and time, of processes whose memory or files did not answer: nobody looked further."""
    titles: list[tuple[int, int, str]] = field(default_factory=list)
    """pid, time, and what ps would have shown then."""
    cuda: list[CudaReported] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    """Addresses that were not probed, by the reason."""
    unscanned: list[tuple[int, int]] = field(default_factory=list)
    """pid and bytes of memory that were not searched for functions."""
    gil_states: dict[str, Fact | None] = field(default_factory=dict)
    """File of an interpreter -> why its GIL releases were not probed; None: they were."""
    losses: dict[str, int] = field(default_factory=dict)
    sampler: dict[str, int] = field(default_factory=dict)
    failure: str | None = None
    gave_up: Fact | None = None
    """Why all probes of calls were taken away, if they were."""
    damaged_lines: int = 0


def read_probe_facts(path: Path | None) -> ProbeFacts:
    """Read the file; lines that cannot be read are counted, not an error."""
    facts = ProbeFacts()
    if path is None:
        return facts
    with open_regular(path) as file:
        facts.damaged_lines = sum(not _take_line(facts, line) for line in lines_of(file))
    return facts


def _take_line(facts: ProbeFacts, line: bytes | None) -> bool:
    try:
        _take(facts, json.loads(line or b""))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return False
    return True


def _take(facts: ProbeFacts, line: Mapping[str, Any]) -> None:
    match line["event"]:
        case "site":
            _take_site(facts, line)
        case "dropped":
            site = facts.sites[line["site_id"]]
            _take_reason(site, line)
            site.state, site.dropped_ns = DROPPED, _number(line, "ts_ns")
        case "hits":
            site = facts.sites[line["site_id"]]
            site.hits, site.time_ns = _number(line, "hits"), _number(line, "time_ns")
        case "unscanned":
            facts.unscanned.append((_number(line, "pid"), _number(line, "bytes")))
        case "rejected":
            reason, count = _text(line, "reason"), _number(line, "count")
            is_listed = reason in facts.rejected or len(facts.rejected) < _MOST_REASONS
            facts.rejected[reason if is_listed else "for other reasons"] += count
        case "losses":
            facts.losses = {name: _number(line, name) for name in line if name != "event"}
        case "sampler":
            numbers = [name for name, value in line.items() if isinstance(value, int)]
            facts.sampler = {_text({"name": name}, "name"): _number(line, name) for name in numbers}
        case "gil":
            why = None if line["fact"] is None else _fact(line)
            facts.gil_states[_text(line, "module")] = why
        case _:
            _take_of_process(facts, line)


def _take_of_process(facts: ProbeFacts, line: Mapping[str, Any]) -> None:
    """Take what was found in a process at an instant."""
    match line["event"]:
        case "python":
            facts.interpreters.append(_interpreter(line))
        case "no_python" | "nvtx_package" | "other_clock" | "held_up":
            reported = {
                "no_python": facts.without_python,
                "nvtx_package": facts.nvtx_packages,
                "other_clock": facts.other_clocks,
                "held_up": facts.held_up,
            }[line["event"]]
            reported.append((_number(line, "pid"), _number(line, "ts_ns")))
        case "title":
            title = _text(line, "title")
            facts.titles.append((_number(line, "pid"), _number(line, "ts_ns"), title))
        case "cuda":
            facts.cuda.append(_cuda_reported(line))
        case _:
            _take_of_recording(facts, line)


def _take_of_recording(facts: ProbeFacts, line: Mapping[str, Any]) -> None:
    """Take what is about no process and no site."""
    match line["event"]:
        case "gave_up":
            facts.gave_up = _fact(line)
        case "failed":
            facts.failure = _text(line, "reason")


def _take_site(facts: ProbeFacts, line: Mapping[str, Any]) -> None:
    state = line["state"]
    if state not in (PROBED, NOT_PROBED):
        raise ValueError("state")
    site_id = _number(line, "site_id")
    if site_id >= _IMPOSSIBLE_SITE:
        raise ValueError("site_id")
    site = Site(
        site_id=site_id,
        module=_text(line, "module"),
        symbol=_text(line, "symbol"),
        layer=_text(line, "layer"),
        file_offset=_number(line, "file_offset"),
        state=state,
        probed_ns=_number(line, "ts_ns") if state == PROBED else None,
        is_expensive=line.get("is_expensive") is True if "is_expensive" in line else None,
    )
    if state == NOT_PROBED:
        _take_reason(site, line)
    if site.site_id:
        facts.sites[site.site_id] = site
    else:
        facts.unprobed.append(site)


def _take_reason(site: Site, line: Mapping[str, Any]) -> None:
    if line["code"] not in SITE_REASONS:
        raise ValueError("code")
    numbers = line.get("numbers") or []
    if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in numbers):
        raise ValueError("numbers")
    detail = None if line.get("detail") is None else _text(line, "detail")
    site.code, site.detail, site.numbers = line["code"], detail, list(numbers) or None


def _interpreter(line: Mapping[str, Any]) -> Interpreter:
    count = line.get("interpreters")
    return Interpreter(
        pid=_number(line, "pid"),
        ts_ns=_number(line, "ts_ns"),
        version=tuple(_number({"part": part}, "part") for part in line.get("version") or ()),
        implementation=_text({"implementation": "cpython", **line}, "implementation"),
        free_threaded=bool(line.get("free_threaded")),
        interpreters=count if isinstance(count, int) else None,
        gil_start=_address(line, "runtime_start"),
        gil_end=_address(line, "runtime_end"),
    )


def _cuda_reported(line: Mapping[str, Any]) -> CudaReported:
    return CudaReported(
        pid=_number(line, "pid"),
        ts_ns=_number(line, "ts_ns"),
        state=_text(line, "state"),
        files=tuple(_text({"name": name}, "name") for name in line["files"]),
        blind=tuple(_text({"name": name}, "name") for name in line["blind"]),
        reason=None if line.get("reason") is None else _text(line, "reason"),
    )


def _text(line: Mapping[str, Any], name: str) -> str:
    """Return a text that DuckDB takes: of names that are no UTF-8, the rest."""
    value = line[name]
    if not isinstance(value, str) or len(value) > _MOST_LETTERS:
        raise TypeError(name)
    return value.encode("utf-8", "replace").decode()


def _fact(line: Mapping[str, Any]) -> Fact:
    fact = fact_of(line["fact"])
    if fact is None or len(fact.subject or "") + len(fact.detail or "") > _MOST_LETTERS:
        raise ValueError("fact")
    return fact


def _number(line: Mapping[str, Any], name: str) -> int:
    value = line[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _IMPOSSIBLE:
        raise ValueError(name)
    return value


def _address(line: Mapping[str, Any], name: str) -> int:
    """Return an address; 0 where it is not known."""
    return 0 if line[name] is None else _number(line, name)
