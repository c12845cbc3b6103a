"""Builds small trace databases for tests, from the real schema and the real views.

builder = TraceBuilder(tmp_path / "trace.duckdb")
process = builder.process(pid=100, name="python")
builder.thread(process, tid=100, states=[run(5, cpu=0), sleep(10), woken(2, by=INTERRUPT)])
path = builder.write()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.views import install_views

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
SCHEMA_SQL = REPOSITORY / "tracer/rlscope_trace/store/schema.sql"

RUNNING, RUNNABLE, SLEEPING, BLOCKED, LOST = 0, 1, 2, 3, -1
NOBODY, INTERRUPT, OUTSIDE, UNKNOWN = 0, -1, -2, -3


@dataclass(frozen=True, slots=True)
class Interval:
    """A state for so many nanoseconds; LOST leaves a gap."""

    state: int
    length_ns: int
    cpu: int = -1
    waker: int = NOBODY


def run(length_ns: int, *, cpu: int = 0) -> Interval:
    return Interval(RUNNING, length_ns, cpu=cpu)


def preempted(length_ns: int) -> Interval:
    """Runnable without a waker."""
    return Interval(RUNNABLE, length_ns)


def woken(length_ns: int, *, by: int) -> Interval:
    """Runnable after a wakeup by a thread_id, INTERRUPT, OUTSIDE or UNKNOWN."""
    return Interval(RUNNABLE, length_ns, waker=by)


def sleep(length_ns: int) -> Interval:
    return Interval(SLEEPING, length_ns)


def blocked(length_ns: int) -> Interval:
    return Interval(BLOCKED, length_ns)


def lost(length_ns: int) -> Interval:
    return Interval(LOST, length_ns)


@dataclass
class TraceBuilder:
    """Collects rows, then writes them in the stored order."""

    path: Path
    meta: dict[str, str | None] = field(default_factory=lambda: {"schema_version": "1"})
    with_views: bool = True
    _processes: list[tuple[object, ...]] = field(default_factory=list)
    _threads: list[tuple[object, ...]] = field(default_factory=list)
    _states: list[tuple[object, ...]] = field(default_factory=list)
    _losses: list[tuple[object, ...]] = field(default_factory=list)
    _clocks: list[tuple[object, ...]] = field(default_factory=list)

    def process(
        self,
        *,
        pid: int | None = None,
        name: str | None = "python",
        command: str | None = None,
        parent: int | None = None,
        start_ns: int | None = 0,
        end_ns: int | None = None,
        exit_code: int | None = None,
    ) -> int:
        """Add a process; returns its process_id."""
        process_id = len(self._processes) + 1
        self._processes.append(
            (process_id, "host", pid, parent, start_ns, end_ns, name, command, exit_code, None)
        )
        return process_id

    def thread(
        self,
        process_id: int | None,
        *,
        states: Sequence[Interval],
        tid: int | None = None,
        name: str | None = "worker",
        start_ns: int = 0,
        ended: bool | None = True,
    ) -> int:
        """Add a thread whose states follow each other from start_ns; returns its thread_id."""
        thread_id = len(self._threads) + 1
        now_ns = start_ns
        for state in states:
            then_ns = now_ns + state.length_ns
            if state.state != LOST and state.length_ns:
                self._states.append(
                    (thread_id, now_ns, then_ns, state.state, state.cpu, state.waker)
                )
            now_ns = then_ns
        lost_ns = sum(state.length_ns for state in states if state.state == LOST)
        self._threads.append((thread_id, process_id, tid, start_ns, now_ns, name, ended, lost_ns))
        return thread_id

    def loss(
        self,
        *,
        kind: str = "dropped",
        source: str = "ring cpu 0 cycle",
        count: int | None = 1,
        remedy: str | None = None,
    ) -> None:
        """Add a row of trace_stat."""
        self._losses.append((kind, source, count, None, remedy))

    def clock(self, *, ts_ns: int, realtime_ns: int) -> None:
        """Add an instant on three clocks."""
        self._clocks.append((ts_ns, realtime_ns, ts_ns))

    def write(self) -> Path:
        """Write the database as the recorder does: old storage, stored order, then the views."""
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH '{self.path}' AS trace (STORAGE_VERSION 'v1.2.0')")
            connection.execute("USE trace")
            self.fill(connection)
        return self.path

    def fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the tables and views in the database in use, with the rows collected."""
        process_of = {row[0]: row[1] or 0 for row in self._threads}
        self._states.sort(key=lambda row: (process_of[row[0]], row[0], row[1]))
        connection.execute(SCHEMA_SQL.read_text(encoding="utf-8"))
        for table, rows in (
            ("meta", list(self.meta.items())),
            ("clock", self._clocks),
            ("process", self._processes),
            ("thread", self._threads),
            ("thread_state_coded", self._states),
            ("trace_stat", self._losses),
        ):
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        if self.with_views:
            install_views(connection)
