"""Gives every process and thread of a trace a pid and a tid that no other one has.

Viewers know processes and threads by these numbers alone; in a trace they may be reused, equal on
two machines, or unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# Numbers that no kernel gives out: pids end at 2^22.
_FIRST_MADE_UP_PID = 1_000_000_000
_FIRST_MADE_UP_TID = 1_500_000_000
FIRST_LANE_TID = 1_800_000_000


@dataclass(frozen=True, slots=True)
class Thread:
    """One life of a thread; `tid` is the one it goes by in the export."""

    thread_id: int
    process_id: int
    tid: int
    real_tid: int | None
    name: str | None

    @property
    def label(self) -> str:
        """Return what lines of the thread are called."""
        return self.shown_name or "thread"

    @property
    def shown_name(self) -> str | None:
        """Return the name, with the real tid where another one had to be given; None: no name."""
        return _shown(self.name, "tid", self.real_tid, self.tid)


@dataclass(frozen=True, slots=True)
class Process:
    """One life of a process; `pid` is the one it goes by in the export."""

    process_id: int
    pid: int
    real_pid: int | None
    host: str | None
    name: str | None
    command: str | None
    parent_process_id: int | None
    threads: list[Thread] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Return what lines of the process are called."""
        return self.shown_name or f"process {self.process_id}"

    @property
    def shown_name(self) -> str | None:
        """Return the name, with the real pid where another one had to be given; None: no name."""
        return _shown(self.name, "pid", self.real_pid, self.pid)


def _shown(name: str | None, label: str, real: int | None, given: int) -> str | None:
    if real is None or real == given:
        return name
    return f"{name or ''} ({label} {real})".lstrip()


_PROCESSES_SQL = """
SELECT process_id, pid, host, name, command, parent_process_id FROM process
WHERE process_id IS NOT NULL ORDER BY process_id
"""
_THREADS_SQL = """
SELECT t.thread_id, coalesce(t.process_id, 0), t.tid, t.name, p.process_id IS NOT NULL
FROM thread AS t LEFT JOIN process AS p ON p.process_id = t.process_id
WHERE t.thread_id IS NOT NULL ORDER BY coalesce(t.process_id, 0), t.thread_id
"""


def read_processes(connection: duckdb.DuckDBPyConnection) -> list[Process]:
    """Return the processes with their threads, both in the order in which tables are stored.

    A thread whose process is not in the trace gets one without a name.
    """
    thread_rows = connection.execute(_THREADS_SQL).fetchall()
    process_rows = connection.execute(_PROCESSES_SQL).fetchall()
    known = {row[0] for row in process_rows}
    orphaned = sorted({row[1] for row in thread_rows if row[1] not in known})
    process_rows += [(process_id, None, None, None, None, None) for process_id in orphaned]
    processes: dict[int, Process] = {}
    taken: set[int] = set()
    for process_id, pid, *rest in sorted(process_rows, key=lambda row: row[0]):
        number = _free(pid, _FIRST_MADE_UP_PID + process_id, taken)
        processes[process_id] = Process(process_id, number, pid, *rest)
    for thread_id, process_id, tid, name, _ in thread_rows:
        process = processes[process_id]
        is_main = tid is not None and tid == process.real_pid == process.pid
        # The main thread has the number of its process; any other number may be taken by one.
        free = is_main and not any(thread.tid == tid for thread in process.threads)
        number = tid if free else _free(tid, _FIRST_MADE_UP_TID + thread_id, taken)
        process.threads.append(Thread(thread_id, process_id, number, tid, name))
    return list(processes.values())


def _free(wanted: int | None, otherwise: int, taken: set[int]) -> int:
    number = wanted if wanted is not None and wanted > 0 and wanted not in taken else otherwise
    taken.add(number)
    return number
