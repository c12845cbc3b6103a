"""Reads the file of what the OS kernel counted: lines [time in ns, scope, of what, {name: value}].

The first line is that of a counter file: what a full disk did not take.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlscope_trace.spool.counter_file import DAMAGE, Counted, counted, text, whole
from rlscope_trace.spool.line_files import lines_of
from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCOPES = ("system", "cgroup", "process")


@dataclass(frozen=True, slots=True)
class Reading:
    """One number at one instant."""

    ts_ns: int
    scope: str
    pid: int | None
    """With the scope process."""
    cgroup: str | None
    """With the scope cgroup: its folder."""
    name: str
    value: int


@dataclass(slots=True)
class OsCounterLines:
    """What a file holds besides its readings; complete when they have all been read."""

    damaged: int = 0
    """Lines that cannot be read."""
    lost: Counted = field(default_factory=Counted)


def read_os_counter_file(path: Path, lines: OsCounterLines) -> Iterator[Reading]:
    """Yield each reading; damaged lines are counted. OSError where the file cannot be read."""
    with open_regular(path) as file:
        for line in lines_of(file):
            yield from _read_line(line or b"", lines)


def _read_line(line: bytes, lines: OsCounterLines) -> list[Reading]:
    try:
        return _readings(line, lines)
    except DAMAGE:
        lines.damaged += 1
        return []


def _readings(line: bytes, lines: OsCounterLines) -> list[Reading]:
    value = json.loads(line)
    if isinstance(value, dict):
        lines.lost = counted(value["lost"])
        return []
    ts_ns, scope, key, values = value
    if scope not in SCOPES:
        raise ValueError(scope)
    pid = whole(key) if scope == "process" else None
    cgroup = text(key) if scope == "cgroup" else None
    return [
        Reading(whole(ts_ns), scope, pid, cgroup, text(name), whole(number))
        for name, number in values.items()
    ]
