"""From the records of the shims to the tables of operations: whose they are, nested, as paths."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlscope_trace._ingest import ShimScan
from rlscope_trace.ingest.store.nested_ranges import nest_ranges
from rlscope_trace.ingest.store.operation_inserts import (
    Columns,
    insert_async_ranges,
    insert_marks,
    insert_operations,
    insert_paths,
    insert_payloads,
)
from rlscope_trace.ingest.store.operation_keys import OperationKeys
from rlscope_trace.ingest.store.operation_losses import Cuts, shim_stats
from rlscope_trace.ingest.store.operation_paths import OperationPaths
from rlscope_trace.ingest.store.phase_failures import PhaseFailures
from rlscope_trace.ingest.store.python_locks import PythonLocks
from rlscope_trace.ingest.store.python_names import PythonNames
from rlscope_trace.ingest.store.ray_tasks import NO_RANGES, RayTasks, with_tasks
from rlscope_trace.ingest.store.thread_lives import ELSEWHEN, NOBODY, Life, ThreadLives
from rlscope_trace.ingest.store.thread_ranges import ThreadRanges
from rlscope_trace.ingest.writer.database_file import BATCH_ROWS
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from rlscope_trace.ingest.writer.trace_writer import TraceWriter

# Marks and start/end ranges are described so many at a time.
_DESCRIBED_ROWS = 1 << 16
_FIRST_NS, _LAST_NS = -(2**62), 2**62
# Parts of threads are nested so many at a time.
_MOST_PARTS = 1 << 12


@dataclass(frozen=True, slots=True)
class Operations:
    """What was written of the operations."""

    losses: list[TraceStat]
    processes: list[int]
    """Those whose ranges were read."""
    records: int
    """Records read, of any kind."""
    phase_failures: PhaseFailures = field(default_factory=PhaseFailures)
    python_names: PythonNames = field(default_factory=PythonNames)
    python_locks: PythonLocks = field(default_factory=PythonLocks)


class OperationWriter:
    """Writes what the shims reported into a database whose threads and processes are written."""

    def __init__(  # noqa: PLR0913 - what a spool says of itself
        self,
        trace: TraceWriter,
        shim_file: Path,
        *,
        end_ns: int,
        latest_ns: int = 0,
        execs: Sequence[tuple[int, int]] = (),
        other_clocks: Collection[int] = (),
        kept_from_ns: int = 0,
        tasks: RayTasks | None = None,
        left_out: Collection[int] = (),
    ) -> None:
        """`end_ns`: of the trace, 0 where the recorder was killed. The rest: see ThreadLives.

        `other_clocks`: process_id of those whose times are not ours: what they reported is
        counted and left out. `kept_from_ns`: what was before that was left out on purpose; 0:
        nothing. `tasks`: what workers of Ray ran. `left_out`: pids of processes that are not in
        the trace.
        """
        self._trace = trace
        self._end_ns = end_ns
        self.scan = self._scan = ShimScan(str(shim_file))
        self.lives = self._lives = ThreadLives(
            trace.con, self._scan.source_pids(), execs, other_clocks, latest_ns if end_ns else 0
        )
        self._keys = OperationKeys(self._scan.names())
        self._left_out = frozenset(left_out)
        self._tasks = RayTasks() if tasks is None else tasks
        self._first_task = self._keys.add_tasks(self._tasks.names)
        self._method_keys = self._keys.add_methods(one.name for one in self._tasks.methods)
        self._paths = OperationPaths(self._keys.lost)
        self._cuts = Cuts()
        self._kept_from_ns = kept_from_ns
        self._phase_failures = PhaseFailures()
        self._python_names = PythonNames()
        self._python_locks = PythonLocks()

    def write(self) -> Operations:
        """Fill the tables."""
        progress, rows = self._trace.progress, self._trace.rows
        incarnations = self._scan.incarnations()
        total = max(int(incarnations["ranges"].sum()), 1)
        ranges = ThreadRanges(self._scan, self._keys, self._cuts, self._lives, end_ns=self._end_ns)
        by_thread = self._by_thread(incarnations)
        self._add_threads_with_tasks(by_thread)
        lives = sorted(by_thread, key=lambda life: (life.process_id, life.thread_id))
        waiting: list[tuple[int, Columns]] = []
        count = 0
        for place, life in enumerate(lives):
            for part in self._with_tasks(life, ranges.parts(life, by_thread[life])):
                waiting.append((place, part))
                count += len(part["key"])
                # Threads of a few ranges each are nested together: they may be very many, and what
                # each has of its own then takes more memory than the ranges.
                if count >= BATCH_ROWS or len(waiting) >= _MOST_PARTS:
                    self._insert(waiting, lives)
                    waiting, count = [], 0
            progress("operations", min(rows["operation_coded"] + count, total - 1), total)
        self._insert(waiting, lives)
        self._insert_paths()
        self._insert_async()
        self._insert_marks(incarnations)
        progress("operations", total, total)
        if self._kept_from_ns:
            self._cuts.began_before = 0
        self._cuts.reported_too_often = self._python_names.left_out + self._phase_failures.left_out
        return Operations(
            losses=shim_stats(self._scan.losses(), self._cuts),
            processes=self._lives.process_ids(),
            records=self._scan.records,
            phase_failures=self._phase_failures,
            python_names=self._python_names,
            python_locks=self._python_locks,
        )

    def _by_thread(self, incarnations: NDArray[np.void]) -> dict[Life, list[int]]:
        by_thread: dict[Life, list[int]] = {}
        # Most threads that get a ring never mark anything.
        used = np.flatnonzero(incarnations["ranges"] + incarnations["gaps"])
        names = ("first_ns", "last_ns", "ranges", "pid", "tid")
        columns = [incarnations[name][used].tolist() for name in names]
        for index, *reported in zip(used.tolist(), *columns, strict=True):
            first_ns, last_ns, ranges, pid, tid = reported
            if pid in self._left_out:
                continue
            if self._lives.has_other_clock(pid, first_ns):
                self._cuts.of_other_clock += ranges
                continue
            life = self._lives.find(pid, tid, first_ns)
            if life is not None:
                by_thread.setdefault(life, []).append(index)
            elif last_ns >= self._lives.start_ns and not 0 < self._end_ns <= first_ns:
                self._cuts.of_no_thread += ranges
        return by_thread

    def _add_threads_with_tasks(self, by_thread: dict[Life, list[int]]) -> None:
        marked = {life.thread_id for life in by_thread}
        for tasks in self._tasks.threads.values():
            if tasks.thread_id not in marked:
                life = Life(tasks.process_id, tasks.thread_id, tasks.start_ns, tasks.end_ns)
                by_thread[life] = []

    def _with_tasks(self, life: Life, parts: Iterator[Columns]) -> Iterator[Columns]:
        """Put what a worker of Ray ran around the ranges of its thread."""
        tasks = self._tasks.threads.get(life.thread_id)
        if tasks is None:
            yield from parts
            return
        from_ns = _FIRST_NS
        part = next(parts, NO_RANGES)
        while True:
            later = next(parts, None)
            # A later part begins where this one ended.
            until_ns = _LAST_NS if later is None else int(part["end_ns"].max(initial=from_ns))
            yield with_tasks(part, tasks, self._first_task, self._keys.is_auto, (from_ns, until_ns))
            if later is None:
                return
            part, from_ns = later, until_ns

    def _insert(self, waiting: list[tuple[int, Columns]], lives: Sequence[Life]) -> None:
        """Nest and insert the ranges of some threads, each of them given by its place."""
        if not waiting:
            return
        ranges = {
            name: np.concatenate([part[name] for _, part in waiting]) for name in waiting[0][1]
        }
        places = np.array([place for place, _ in waiting], dtype=np.int32)
        whose = np.repeat(places, [len(part["key"]) for _, part in waiting])
        nested = nest_ranges(whose, ranges["start_ns"], ranges["end_ns"])
        self._cuts.add_crossings(nested)
        order = nested.order
        thread_ids = np.array([life.thread_id for life in lives], dtype=np.int32)
        batch: Columns = {
            "thread_id": thread_ids[nested.thread_id],
            "start_ns": nested.start_ns,
            "end_ns": nested.end_ns,
            "path_id": self._paths.intern(nested, ranges["key"][order].astype(np.int64)),
            "environment_steps": ranges["environment_steps"][order],
            "payload": ranges["payload"][order],
            "payload_type": ranges["payload_type"][order],
        }
        insert_operations(self._trace, batch)
        has_payload = batch["payload_type"] != 0
        if has_payload.any():
            batch = {name: column[has_payload] for name, column in batch.items()}
            insert_payloads(self._trace, batch)

    def _insert_paths(self) -> None:
        paths = list(self._paths.ids.items())
        batch = {
            **self._keys.columns([key for (_, key), _ in paths]),
            "path_id": np.array([path_id for _, path_id in paths], dtype=np.int32),
            "parent": np.array([parent for (parent, _), _ in paths], dtype=np.int32),
            "depth": np.array(self._paths.depths, dtype=np.uint16),
        }
        insert_paths(self._trace, batch)
        self._cuts.misplaced = self._paths.misplaced_count

    def _insert_async(self) -> None:
        reported = self._scan.async_ranges()
        found = [
            self._async_of(int(pid), reported[reported["pid"] == pid])
            for pid in np.unique(reported["pid"])
            if int(pid) not in self._left_out
        ]
        if self._tasks.methods:
            found.append(self._async_of_ray())
        rows = _sorted(found, ("process_id", "start_ns"))
        for batch in self._described(rows):
            insert_async_ranges(self._trace, batch)

    def _async_of_ray(self) -> Columns:
        methods = self._tasks.methods
        return {
            **{
                name: np.array([getattr(one, name) for one in methods], dtype=np.int64)
                for name in ("process_id", "start_ns", "end_ns")
            },
            "key": np.array([self._method_keys[one.name] for one in methods], dtype=np.int32),
        }

    def _async_of(self, pid: int, reported: NDArray[np.void]) -> Columns:
        """Return the start/end ranges of a process, cut at what was recorded of it."""
        start_ns, end_ns = reported["start_ns"], reported["end_ns"]
        process_id, _, first_ns, last_ns = self._lives.owners_at(pid, None, start_ns)
        self._cuts.of_other_clock += _count(process_id == ELSEWHEN)
        is_known = process_id > 0
        self._cuts.unended_async += _count(is_known & (end_ns == 0))
        is_nobodys = process_id == NOBODY
        self._cuts.too_late += _count(is_nobodys & self._lives.is_too_late(start_ns))
        self._cuts.of_no_thread += _count(is_nobodys & (start_ns < self._end_ns))
        end_ns = np.minimum(np.where(end_ns == 0, last_ns, end_ns), last_ns)
        is_inside = is_known & (end_ns >= first_ns) & (start_ns <= last_ns)
        self._cuts.began_before += _count(is_inside & (start_ns < first_ns))
        rows = {
            "process_id": process_id, "start_ns": np.maximum(start_ns, first_ns), "end_ns": end_ns,
            "key": reported["key"],
        }  # fmt: skip
        return {name: column[is_inside] for name, column in rows.items()}

    def _insert_marks(self, incarnations: NDArray[np.void]) -> None:
        reported = self._without_ours(self._scan.marks(), incarnations)
        pids = incarnations["pid"][reported["incarnation"]].astype(np.int64)
        if self._left_out:
            is_kept = ~np.isin(pids, list(self._left_out))
            reported, pids = reported[is_kept], pids[is_kept]
        keys = pids << 32 | incarnations["tid"][reported["incarnation"]]
        order = np.argsort(keys, kind="stable")
        whose, firsts = np.unique(keys[order], return_index=True)
        since_ns = incarnations["first_ns"][reported["incarnation"]]
        found = [
            self._marks_of(key >> 32, key & 0xFFFFFFFF, reported[here], since_ns[here])
            for key, here in zip(whose.tolist(), np.split(order, firsts[1:]), strict=False)
        ]
        rows = _sorted(found, ("process_id", "thread_id", "ts_ns"))
        for batch in self._described(rows):
            insert_marks(self._trace, batch)

    def _without_ours(
        self, marks: NDArray[np.void], incarnations: NDArray[np.void]
    ) -> NDArray[np.void]:
        """Return the program's own marks: ours tell what failed, names and locks."""
        is_ours = self._keys.is_auto[marks["key"]] != 0
        ours = marks[is_ours]
        pids = incarnations["pid"][ours["incarnation"]]
        for pid, ts_ns, key in zip(
            pids.tolist(), ours["ts_ns"].tolist(), ours["key"].tolist(), strict=True
        ):
            self._phase_failures.add(pid, ts_ns, self._keys.name(key))
            self._python_locks.add(self._keys.name(key))
            if not self._lives.has_other_clock(pid, ts_ns):
                self._python_names.add(pid, ts_ns, self._keys.name(key))
        others: NDArray[np.void] = marks[~is_ours]
        return others

    def _marks_of(
        self, pid: int, tid: int, reported: NDArray[np.void], since_ns: NDArray[np.int64]
    ) -> Columns:
        """Return the marks of a thread; `since_ns`: when it took the ring that holds each."""
        at_ns = np.ascontiguousarray(reported["ts_ns"])
        process_id, thread_id, first_ns, last_ns = self._lives.owners_at(pid, tid, at_ns)
        self._cuts.of_other_clock += _count(process_id == ELSEWHEN)
        is_late = (process_id == NOBODY) & self._lives.is_too_late(at_ns)
        self._cuts.too_late += _count(is_late)
        # Threads go on until the shims have been stopped, which is after the end of the trace.
        is_after = (at_ns >= self._end_ns) if self._end_ns else np.zeros(len(at_ns), bool)
        self._cuts.of_no_thread += _count((process_id == NOBODY) & ~is_late & ~is_after)
        # No thread marks anything before it has a ring; what was before the recording is no loss.
        is_early = (process_id > 0) & (at_ns < np.minimum(first_ns, since_ns))
        self._cuts.damaged += _count(is_early)
        rows = {"process_id": process_id, "thread_id": thread_id, "ts_ns": at_ns}
        is_inside = (process_id > 0) & (first_ns <= at_ns) & (at_ns <= last_ns)
        rows["key"] = reported["key"]
        return {name: column[is_inside] for name, column in rows.items()}

    def _described(self, rows: Columns) -> Iterator[Columns]:
        """Yield rows with what their keys say, many at a time."""
        for first in range(0, len(rows.get("key", ())), _DESCRIBED_ROWS):
            batch = {name: col[first : first + _DESCRIBED_ROWS] for name, col in rows.items()}
            yield {**self._keys.columns(batch.pop("key").tolist()), **batch}


def _count(chosen: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(chosen))


def _sorted(parts: list[Columns], names: Sequence[str]) -> Columns:
    """Return the rows of all parts in the order of some columns."""
    if not parts:
        return {}
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort([rows[name] for name in reversed(names)])
    return {name: np.ascontiguousarray(column[order]) for name, column in rows.items()}
