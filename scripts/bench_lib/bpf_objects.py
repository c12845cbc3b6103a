"""The BPF objects that exist on the machine, as bpftool tells them, and who holds them."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("prog", "link", "map")
_STATS_SWITCH = Path("/proc/sys/kernel/bpf_stats_enabled")

Objects = dict[tuple[str, int], str]


def show(kind: str) -> list[dict[str, Any]]:
    """Return all objects of a kind."""
    reported = subprocess.run(
        ["bpftool", "--json", kind, "show"], check=True, capture_output=True, text=True
    )
    answer = json.loads(reported.stdout or "[]")
    return answer if isinstance(answer, list) else []


def existing() -> Objects:
    """Return the name of each program, link and map by its kind and id."""
    return {
        (kind, found["id"]): found.get("name") or str(found.get("prog_id", found.get("type", "")))
        for kind in KINDS
        for found in show(kind)
    }


def holders() -> dict[tuple[str, int], set[int]]:
    """Return the processes that have each object open."""
    holding: dict[tuple[str, int], set[int]] = defaultdict(set)
    for info in Path("/proc").glob("[0-9]*/fdinfo/*"):
        try:
            lines = info.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(":")
            if name in {"prog_id", "link_id", "map_id"}:
                holding[name.removesuffix("_id"), int(value)].add(int(info.parts[2]))
    return holding


def run_time_ns(holder: int, name: str | None = None) -> int:
    """Return how long the programs of a process ran while that was counted; or of one name."""
    held = {
        number for (kind, number), pids in holders().items() if kind == "prog" and holder in pids
    }
    return sum(
        found.get("run_time_ns", 0)
        for found in show("prog")
        if found["id"] in held and name in {None, found.get("name")}
    )


@contextmanager
def run_time_counted() -> Iterator[None]:
    """Let the OS kernel count the run time of BPF programs."""
    before = _STATS_SWITCH.read_text()
    _STATS_SWITCH.write_text("1")
    try:
        yield
    finally:
        _STATS_SWITCH.write_text(before)
