"""From the records of the shims to the tables of operations: whose they are, nested, as paths."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from rlscope_trace._capture import PhaseNames, ShimRangeReader, ShimScan, merge_phases
from rlscope_trace._import import intern_paths
from rlscope_trace.store.database_file import BATCH_ROWS, ReportProgress
from rlscope_trace.store.nested_ranges import NestedRanges, nest_ranges
from rlscope_trace.store.operation_inserts import (
    Columns,
    insert_async_ranges,
    insert_marks,
    insert_operations,
    insert_paths,
    insert_payloads,
)
from rlscope_trace.store.operation_keys import OperationKeys
from rlscope_trace.store.operation_losses import Cuts, shim_stats
from rlscope_trace.store.stats import TraceStat
from rlscope_trace.store.thread_lives import Life, ThreadLives


@dataclass(slots=True)
class _Paths:
    """The paths met so far; ids count from 1."""

    ids: dict[tuple[int, int], int] = field(default_factory=dict)
    """By parent path (0: none) and key."""
    depths: list[int] = field(default_factory=list)

    def intern(self, nested: NestedRanges, key: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the path of each range of one thread."""
        local, parents, keys, depths = intern_paths(nested.parent, key)
        mine = np.zeros(len(keys) + 1, dtype=np.int32)
        for index, (parent, own) in enumerate(zip(parents.tolist(), keys, strict=True)):
            name = (int(mine[parent]), int(own))
            if name not in self.ids:
                self.ids[name] = len(self.ids) + 1
                self.depths.append(int(depths[index]))
            mine[index + 1] = self.ids[name]
        return mine[local]


@dataclass(frozen=True, slots=True)
class Operations:
    """What was written of the operations."""

    rows: dict[str, int]
    """By table."""
    losses: list[TraceStat]
    processes: list[int]
    """Those whose ranges were read."""
    records: int
    """Records read, of any kind."""


class OperationWriter:
    """Writes what the shims told into a database whose threads and processes are written."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        shim_file: Path,
        *,
        is_clean: bool,
        execs: Sequence[tuple[int, int]] = (),
        other_clocks: Collection[int] = (),
    ) -> None:
        """`is_clean`: the recorder lived to end the recording. `execs`: see ThreadLives.

        `other_clocks`: process_id of those whose times are not ours: what they told is counted and
        left out.
        """
        self._con = con
        self._is_clean = is_clean
        self.scan = self._scan = ShimScan(str(shim_file))
        self.lives = self._lives = ThreadLives(con, self._scan.source_pids(), execs, other_clocks)
        self._keys = OperationKeys(self._scan.names())
        self._paths = _Paths()
        self._cuts = Cuts()
        self._rows: dict[str, int] = {}

    def write(self, progress: ReportProgress) -> Operations:
        """Fill the tables."""
        self._rows = dict.fromkeys(
            ("operation_coded", "operation_payload", "operation_path", "async_range", "mark"), 0
        )
        tenancies = self._scan.tenancies()
        total = max(int(tenancies["ranges"].sum()), 1)
        waiting: list[Columns] = []
        by_thread = self._by_thread(tenancies)
        for life in sorted(by_thread, key=lambda life: (life.process_id, life.thread_id)):
            for rows in self._thread(life, by_thread[life]):
                waiting.append(rows)
                if sum(len(batch["path_id"]) for batch in waiting) >= BATCH_ROWS:
                    self._insert(waiting)
                    waiting = []
                progress("operations", min(self._rows["operation_coded"], total - 1), total)
        self._insert(waiting)
        self._insert_paths()
        self._insert_async()
        self._insert_marks(tenancies)
        progress("operations", total, total)
        return Operations(
            rows=self._rows,
            losses=shim_stats(self._scan.losses(), self._cuts),
            processes=self._lives.process_ids(),
            records=self._scan.records,
        )

    def _by_thread(self, tenancies: NDArray[np.void]) -> dict[Life, list[int]]:
        by_thread: dict[Life, list[int]] = {}
        for index, tenancy in enumerate(tenancies):
            pid, tid, first_ns = (int(tenancy[name]) for name in ("pid", "tid", "first_ns"))
            if self._lives.has_other_clock(pid, first_ns):
                self._cuts.of_other_clock += int(tenancy["ranges"])
                continue
            life = self._lives.find(pid, tid, first_ns)
            if life is not None:
                by_thread.setdefault(life, []).append(index)
            elif int(tenancy["last_ns"]) >= self._lives.start_ns:
                self._cuts.of_no_thread += int(tenancy["ranges"])
        return by_thread

    def _parts(self, life: Life, tenancies: list[int], cuts: Cuts) -> Iterator[Columns]:
        """Yield the ranges of a thread, a part at a time: a later one begins where this ended.

        What is cut off is added to `cuts`.
        """
        for tenancy in tenancies:
            reader = ShimRangeReader(self._scan, tenancy)
            while (part := reader.next(BATCH_ROWS)) is not None:
                yield self._clip(part, life, cuts)

    def _thread(self, life: Life, tenancies: list[int]) -> Iterator[Columns]:
        """Yield the rows of one thread, nested and in their order, a part at a time."""
        names = self._names(life, tenancies)
        for ranges in self._parts(life, tenancies, self._cuts):
            merged = self._merge(ranges, names)
            nested = nest_ranges(
                np.full(len(merged["start_ns"]), life.thread_id, dtype=np.int32),
                merged["start_ns"],
                merged["end_ns"],
            )
            self._cuts.add_crossings(nested)
            row = merged["row"][nested.order]
            yield {
                "thread_id": nested.thread_id,
                "start_ns": nested.start_ns,
                "end_ns": nested.end_ns,
                "path_id": self._paths.intern(nested, ranges["key"][row].astype(np.int64)),
                "payload": ranges["payload"][row],
                "payload_type": ranges["payload_type"][row],
            }

    def _clip(self, ranges: Columns, life: Life, cuts: Cuts) -> Columns:
        """Cut ranges at the ends of what was recorded of their thread."""
        start_ns, end_ns = ranges["start_ns"], ranges["end_ns"]
        end_ns = life.before_exec(start_ns, np.where(end_ns == 0, life.end_ns, end_ns))
        is_inside = (end_ns > life.start_ns) & (start_ns < life.end_ns)
        # Some phase is always under way: that one is cut is no news.
        is_told = is_inside & (self._keys.is_auto[ranges["key"]] == 0)
        began_before = is_told & (start_ns < life.start_ns)
        is_open = is_told & ((ranges["is_open"] != 0) | (end_ns > life.end_ns))
        if not self._is_clean:
            # A recorder that was killed had read the rings more often than the states of threads.
            cuts.after_end += int(np.count_nonzero(start_ns >= life.end_ns))
        cuts.began_before += int(np.count_nonzero(began_before))
        cuts.open_at_end += int(np.count_nonzero(is_open))
        clipped = {
            **ranges,
            "start_ns": np.maximum(start_ns, life.start_ns),
            "end_ns": np.minimum(end_ns, life.end_ns),
        }
        return {name: column[is_inside] for name, column in clipped.items()}

    def _names(self, life: Life, tenancies: list[int]) -> PhaseNames | None:
        """Learn which names of the program stand for phases; None: only one kind is there."""
        if not self._keys.is_auto.any() or self._keys.is_auto.all():
            return None
        names = PhaseNames()
        for ranges in self._parts(life, tenancies, Cuts()):
            names.add(*self._columns(ranges, _outermost_first(ranges)))
        return names

    def _columns(self, ranges: Columns, order: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return start_ns, end_ns, key and is_auto in an order."""
        names = ("start_ns", "end_ns", "key")
        return *(ranges[name][order] for name in names), self._keys.is_auto[ranges["key"][order]]

    def _merge(self, ranges: Columns, names: PhaseNames | None) -> Columns:
        """Let the program's own ranges win over phases of the same meaning."""
        if names is None:
            rows = np.arange(len(ranges["key"]))
            return {"start_ns": ranges["start_ns"], "end_ns": ranges["end_ns"], "row": rows}
        order = _outermost_first(ranges)
        start_ns, end_ns, row = merge_phases(*self._columns(ranges, order), names=names)
        return {"start_ns": start_ns, "end_ns": end_ns, "row": order[row]}

    def _insert(self, waiting: list[Columns]) -> None:
        if not waiting:
            return
        batch = {name: np.concatenate([part[name] for part in waiting]) for name in waiting[0]}
        insert_operations(self._con, batch)
        self._rows["operation_coded"] += len(batch["path_id"])
        has_payload = batch["payload_type"] != 0
        if has_payload.any():
            batch = {name: column[has_payload] for name, column in batch.items()}
            insert_payloads(self._con, batch)
            self._rows["operation_payload"] += len(batch["path_id"])

    def _insert_paths(self) -> None:
        paths = list(self._paths.ids.items())
        batch = {
            **self._keys.columns([key for (_, key), _ in paths]),
            "path_id": np.array([path_id for _, path_id in paths], dtype=np.int32),
            "parent": np.array([parent for (parent, _), _ in paths], dtype=np.int32),
            "depth": np.array(self._paths.depths, dtype=np.uint16),
        }
        self._rows["operation_path"] = insert_paths(self._con, batch)

    def _insert_async(self) -> None:
        rows = list(self._async_rows())
        numbers = np.array(rows, dtype=np.int64).reshape(-1, 4)
        batch = {
            **self._keys.columns([row[3] for row in rows]),
            "process_id": numbers[:, 0].copy(),
            "start_ns": numbers[:, 1].copy(),
            "end_ns": numbers[:, 2].copy(),
        }
        self._rows["async_range"] = insert_async_ranges(self._con, batch)

    def _async_rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield process, start, end and key."""
        for start_ns, end_ns, pid, key in self._scan.async_ranges().tolist():
            if self._lives.has_other_clock(pid, start_ns):
                self._cuts.of_other_clock += 1
                continue
            process = self._lives.process(pid, start_ns)
            if process is None:
                continue
            self._cuts.unended_async += end_ns == 0
            end = min(end_ns or process.end_ns, process.end_ns)
            if end < process.start_ns or start_ns > process.end_ns:
                continue
            self._cuts.began_before += start_ns < process.start_ns
            yield process.process_id, max(start_ns, process.start_ns), end, key

    def _insert_marks(self, tenancies: NDArray[np.void]) -> None:
        rows = []
        for ts_ns, tenancy, key in self._scan.marks().tolist():
            pid, tid = int(tenancies["pid"][tenancy]), int(tenancies["tid"][tenancy])
            if self._lives.has_other_clock(pid, ts_ns):
                self._cuts.of_other_clock += 1
                continue
            life = self._lives.find(pid, tid, ts_ns)
            if life is None or not life.start_ns <= ts_ns <= life.end_ns:
                self._cuts.of_no_thread += life is None
                continue
            rows.append((life.process_id, life.thread_id, ts_ns, key))
        numbers = np.array(rows, dtype=np.int64).reshape(-1, 4)
        batch = {
            **self._keys.columns([row[3] for row in rows]),
            "process_id": numbers[:, 0].copy(),
            "thread_id": numbers[:, 1].copy(),
            "ts_ns": numbers[:, 2].copy(),
        }
        self._rows["mark"] = insert_marks(self._con, batch)


def _outermost_first(ranges: Columns) -> NDArray[np.int64]:
    return np.lexsort((-ranges["end_ns"], ranges["start_ns"])).astype(np.int64)
