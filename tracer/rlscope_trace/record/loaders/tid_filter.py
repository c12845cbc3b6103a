"""The filter without BTF: a hash of tids, filled from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.procfs import split_stat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlscope_trace import _capture

PROC = Path("/proc")
# Letters of /proc/PID/stat -> enum rls_off_state of bpf/records.h; everything else sleeps.
_OFF_STATES = {"R": 0, "D": 2}
_SLEEPING = 1


@dataclass(frozen=True, slots=True)
class _Stat:
    """The fields of one /proc/.../stat that the filter needs."""

    comm: str
    state: str
    parent_pid: int
    born_ns: int
    cpu: int


def enter_from_proc(table: _capture.ThreadTable, pids: Iterable[int]) -> int:
    """Enter every thread of the processes and of their descendants; return how many.

    Repeated until a walk finds nobody new: a thread seen in one walk can create another before it
    is entered, and only what entered threads create enters by itself.
    """
    roots = set(pids)
    entered = 0
    while new := sum(_enter_process(table, pid) for pid in process_tree(roots)):
        entered += new
    return entered


def process_tree(roots: set[int]) -> Iterator[int]:
    """Yield the processes and their descendants, never the recorder itself."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (stat := _read_stat(entry / "stat")):
            children.setdefault(stat.parent_pid, []).append(int(entry.name))
    pending = list(roots)
    while pending:
        pid = pending.pop()
        if pid != os.getpid():
            yield pid
            pending += children.get(pid, [])


def parent_of(pid: int) -> int:
    """Return the process id of the parent of a process; 0: it has none, or is gone."""
    stat = _read_stat(PROC / str(pid) / "stat")
    return 0 if stat is None else stat.parent_pid


def _enter_process(table: _capture.ThreadTable, pid: int) -> int:
    try:
        tids = [int(entry.name) for entry in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return 0
    return sum(_enter_thread(table, pid, tid) for tid in tids)


def _enter_thread(table: _capture.ThreadTable, pid: int, tid: int) -> bool:
    stat = _read_stat(PROC / str(pid) / "task" / str(tid) / "stat")
    if stat is None or stat.state in "ZX":
        return False
    return table.enter(
        tid=tid,
        tgid=pid,
        parent_tgid=stat.parent_pid,
        born_ns=stat.born_ns,
        off_state=_OFF_STATES.get(stat.state, _SLEEPING),
        cpu=stat.cpu,
        comm=stat.comm,
    )


def _read_stat(path: Path) -> _Stat | None:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return None
    comm, fields = split_stat(text)
    # Clock ticks (10 ms as a rule) since boot, suspend included: close enough for a birthday.
    born_ns = int(fields[19]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return _Stat(
        comm=comm,
        state=fields[0],
        parent_pid=int(fields[1]),
        born_ns=born_ns,
        cpu=int(fields[36]),
    )
