"""Computes for how long which resources, operations and processes were active at the same time.

Works through the trace in windows of time, so that memory depends on the window and on the number
of distinct sets, not on the length of the trace. An interval that a window cuts is joined again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis import _sweep
from rlscope_analysis.schema.enums import code_of
from rlscope_analysis.schema.vocabulary import UNANNOTATED
from rlscope_analysis.sweep.active_set_rows import OTHERS, Intervals, Key, Members, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb
    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

# Categories of the resources of a process, by code; the first is only there to be the empty set.
_ALIVE, _CPU, _CUDA_API, _GPU = 0, 1, 5, 6
_RESOURCES = (None, "cpu", "python", "simulator", "backend", "cuda_api", "gpu")
_WINDOW_ROWS = 1_000_000
# Sets of many processes are different at every switch: a table as long as the trace.
_MAX_PROCESSES = 16
# Where more sets of operations occur than this, none is distinguished: memory must not follow them.
_MAX_KNOWN_SETS = 100_000

_BATCH_ROWS = 10_000
_INSERT_SQL = """
INSERT INTO active_set SELECT
  unnest($1::VARCHAR[]), unnest($2::INTEGER[]), unnest($3::VARCHAR[]), unnest($4::VARCHAR[][]),
  unnest($5::BIGINT[]), unnest($6::BIGINT[]), unnest($7::BIGINT[]), unnest($8::BIGINT[])
"""

_INTERVALS_SQL = f"""
SELECT process_id, {_ALIVE}::INTEGER AS code, start_ns, end_ns FROM process
UNION ALL
SELECT t.process_id, {_CPU}, s.start_ns, s.end_ns
FROM thread_state_coded AS s JOIN thread AS t ON t.thread_id = s.thread_id WHERE s.state = 'running'
UNION ALL
SELECT t.process_id, {_CPU} + {code_of("LAYER", "c.layer")}, c.start_ns, c.end_ns
FROM native_call_coded AS c JOIN thread AS t ON t.thread_id = c.thread_id
WHERE c.layer IN ('python', 'simulator', 'backend', 'cuda_api')
UNION ALL
SELECT t.process_id, {_CUDA_API}, c.start_ns, c.end_ns
FROM cuda_call_coded AS c JOIN thread AS t ON t.thread_id = c.thread_id
UNION ALL
SELECT process_id, {_GPU}, start_ns, end_ns FROM gpu_activity_coded WHERE kind <> 'sync'
"""  # noqa: S608 - numbers of our own
_OPERATIONS_SQL = """
SELECT t.process_id, o.thread_id, p.name_code, o.start_ns, o.end_ns
FROM operation_coded AS o
JOIN thread AS t ON t.thread_id = o.thread_id
JOIN _operation_name AS p ON p.path_id = o.path_id
"""
_SPAN_SQL = """
SELECT min(start_ns), max(end_ns), (
  (SELECT count(*) FROM thread_state_coded) + (SELECT count(*) FROM native_call_coded)
  + (SELECT count(*) FROM cuda_call_coded) + (SELECT count(*) FROM gpu_activity_coded)
  + (SELECT count(*) FROM operation_coded)
)
FROM (SELECT start_ns, end_ns FROM process UNION ALL SELECT start_ns, end_ns FROM thread)
"""


def store(connection: duckdb.DuckDBPyConnection) -> None:
    """Compute and insert the rows of active_set."""
    rows = rows_of(_Finder(connection).find())
    while batch := list(itertools.islice(rows, _BATCH_ROWS)):
        # By columns: a row at a time takes a millisecond.
        connection.execute(_INSERT_SQL, [list(column) for column in zip(*batch, strict=True)])


@dataclass
class _Finder:
    """Goes through the windows and adds up."""

    connection: duckdb.DuckDBPyConnection
    found: dict[Key, Intervals] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    leading: dict[int, int] = field(default_factory=dict)
    has_folded: bool = False

    def find(self) -> dict[Key, Intervals]:
        ((start_ns, end_ns, rows),) = self.connection.execute(_SPAN_SQL).fetchall()
        if start_ns is None or end_ns is None or end_ns <= start_ns:
            return self.found
        self._read_names()
        windows = min(1 + rows // _WINDOW_ROWS, end_ns - start_ns)
        cuts = [start_ns + (end_ns - start_ns) * at // windows for at in range(windows + 1)]
        for from_ns, to_ns in itertools.pairwise(cuts):
            self._window(from_ns, to_ns)
        return self.found

    def _read_names(self) -> None:
        self.connection.execute(
            "CREATE OR REPLACE TEMP VIEW _operation_name AS"
            " SELECT path_id,"
            " (dense_rank() OVER (ORDER BY coalesce(name, '')) - 1)::INTEGER AS name_code"
            " FROM operation_path"
        )
        names = "SELECT DISTINCT coalesce(name, '') AS name FROM operation_path ORDER BY name"
        self.names = [name for (name,) in self.connection.execute(names).fetchall()]
        self.leading = dict(self.connection.execute("FROM _leading_thread").fetchall())

    def _window(self, from_ns: int, to_ns: int) -> None:
        intervals = _clipped(self._fetch(_INTERVALS_SQL, from_ns, to_ns), from_ns, to_ns)
        innermost = {
            # First flattened, then clipped: which operation was opened last must not be lost.
            thread_id: _flattened(part)
            for thread_id, part in self._operations(from_ns, to_ns).items()
        }
        self._resources(intervals, innermost)
        self._processes(intervals)
        self._innermost(innermost, from_ns, to_ns)
        self._fold_operations()

    def _operations(self, from_ns: int, to_ns: int) -> dict[int, Columns]:
        if not self.names:
            return {}
        return _groups(self._fetch(_OPERATIONS_SQL, from_ns, to_ns), "thread_id")

    def _fetch(self, query: str, from_ns: int, to_ns: int) -> Columns:
        """Fetch what overlaps the window, by thread or else process; an unknown process is 0."""
        columns: Columns = self.connection.execute(
            f"SELECT * REPLACE (coalesce(process_id, 0) AS process_id) FROM ({query})"  # noqa: S608 - text and numbers of our own
            f" WHERE start_ns < {to_ns} AND end_ns > {from_ns}"
        ).fetchnumpy()
        # By the thread where there is one: those of a process are not next to each other by number.
        order = np.argsort(columns.get("thread_id", columns["process_id"]), kind="stable")
        return {name: np.ascontiguousarray(values[order]) for name, values in columns.items()}

    def _resources(self, intervals: Columns, innermost: dict[int, Columns]) -> None:
        for process_id, part in _groups(intervals, "process_id").items():
            alive = part["code"] == _ALIVE
            if not alive.any():
                continue
            first_ns, last_ns = part["start_ns"][alive].min(), part["end_ns"][alive].max()
            part = _clipped(part, first_ns, last_ns)
            own = innermost.get(self.leading.get(process_id, -1))
            operations = None
            if own is not None:
                own = _clipped(own, first_ns, last_ns)
                operations = (own["code"], own["start_ns"], own["end_ns"])
            overlap = _sweep.overlap_table(
                part["code"], part["start_ns"], part["end_ns"], len(_RESOURCES), operations
            )
            names = [UNANNOTATED if code < 0 else self.names[code] for code in overlap.operation]
            self._add("resource", [process_id] * len(overlap), names, overlap, _RESOURCES)

    def _processes(self, intervals: Columns) -> None:
        works = (intervals["code"] == _CPU) | (intervals["code"] == _GPU)
        ids, codes = np.unique(intervals["process_id"][works], return_inverse=True)
        names: list[str] | None = [str(process_id) for process_id in ids]
        if len(ids) > _MAX_PROCESSES:
            codes, names = np.zeros_like(codes), None  # only how long any of them worked
        overlap = _sweep.overlap_table(
            codes.astype(np.int32),
            intervals["start_ns"][works],
            intervals["end_ns"][works],
            max(1, len(names or ())),
        )
        self._add("process", [None] * len(overlap), [None] * len(overlap), overlap, names)

    def _innermost(self, innermost: dict[int, Columns], from_ns: int, to_ns: int) -> None:
        if not innermost:
            return
        joined = {
            name: np.concatenate([part[name] for part in innermost.values()])
            for name in ("code", "start_ns", "end_ns")
        }
        code, start_ns, end_ns = _clipped(joined, from_ns, to_ns).values()
        names = None if self.has_folded else self.names
        if names is None:
            code = np.zeros_like(code)
        overlap = _sweep.overlap_table(code, start_ns, end_ns, len(self.names))
        self._add("operation", [None] * len(overlap), [None] * len(overlap), overlap, names)

    def _fold_operations(self) -> None:
        """Make one of all sets of operations, as soon as there are too many of them."""
        known = [key for key in self.found if key[0] == "operation" and key[3] is not OTHERS]
        if len(known) <= _MAX_KNOWN_SETS:
            return
        self.has_folded = True
        parts = sorted((self.found.pop(key) for key in known), key=lambda part: part.first_ns)
        folded = self.found.setdefault(("operation", None, None, OTHERS), Intervals())
        for part in parts:
            folded.add(part.time_ns, part.count, part.first_ns, part.last_ns)

    def _add(
        self,
        kind: str,
        processes: Iterable[int | None],
        operations: Iterable[str | None],
        overlap: _sweep.SetOverlap,
        names: Sequence[str | None] | None,
    ) -> None:
        """Add what the engine found; without names, all of it is of OTHERS."""
        # Properties make a new array each time they are asked for.
        times, counts = overlap.time_ns.tolist(), overlap.count.tolist()
        firsts, lasts = overlap.first_ns.tolist(), overlap.last_ns.tolist()
        sets: Iterable[Members] = itertools.repeat(OTHERS, len(overlap))
        if names is not None:
            places = np.arange(len(overlap), dtype=np.int64)
            sets = map(_sorted_members, overlap.name_lists(list(names), places))
        rows = zip(processes, operations, sets, times, counts, firsts, lasts, strict=True)
        for process_id, operation, members, *numbers in rows:
            key = (kind, process_id, operation, members)
            intervals = self.found.get(key)
            if intervals is None:
                intervals = self.found[key] = Intervals()
            intervals.add(*numbers)


def _sorted_members(names: list[str | None]) -> tuple[str, ...]:
    """Return the members that have a name: the category that is always active has none."""
    return tuple(sorted(name for name in names if name is not None))


def _groups(columns: Columns, key: str) -> dict[int, Columns]:
    """Cut columns that are sorted by the key into one set of columns per value of it."""
    values, starts = np.unique(columns[key], return_index=True)
    ends = [*starts[1:], len(columns[key])] if len(values) else []
    return {
        int(value): {name: column[start:end] for name, column in columns.items()}
        for value, start, end in zip(values, starts, ends, strict=True)
    }


def _clipped(columns: Columns, from_ns: int, to_ns: int) -> Columns:
    """Clip intervals; those outside become empty, which the engine leaves out."""
    start_ns = np.clip(columns["start_ns"], from_ns, to_ns)
    end_ns = np.clip(columns["end_ns"], start_ns, to_ns)
    return {**columns, "start_ns": start_ns, "end_ns": end_ns}


def _flattened(operations: Columns) -> Columns:
    """Turn the operations of one thread into intervals of which one owns each."""
    code, start_ns, end_ns = _sweep.flatten_operations(
        operations["name_code"], operations["start_ns"], operations["end_ns"]
    )
    return {"code": code, "start_ns": start_ns, "end_ns": end_ns}
