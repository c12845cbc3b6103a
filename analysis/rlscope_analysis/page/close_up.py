"""One iteration on all threads and GPUs: what each did, and the critical path through them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.page.slices import Slices, coarsened, joined
from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.result.note import note
from rlscope_analysis.result.page import CloseUp, Lane, Row, Word
from rlscope_analysis.schema.vocabulary import CAUSES, LAYERS, NOT_MEASURED, THREAD_STATES, WAITS
from rlscope_analysis.sweep.segments import segments

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.trace import Trace

    Ints = npt.NDArray[np.int64]

MOST_THREADS, MOST_STREAMS = 40, 16
# Of all lanes of a close-up together, and of its path.
MOST_SLICES = 20_000
# In the code of a piece of the path: short ones, of which its cause has most of the time.
_SEVERAL = 128
# Operations inside operations: so many rows of a lane.
_MOST_DEPTH = 3
_THREADS_SQL = """
SELECT
  t.thread_id, t.process_id, t.tid, coalesce(t.python_name, t.name) AS thread, p.pid, t.start_ns,
  t.end_ns, coalesce(l.thread_id = t.thread_id, false) AS speaks
FROM thread AS t
LEFT JOIN process AS p ON p.process_id = t.process_id
LEFT JOIN _leading_thread AS l ON l.process_id = t.process_id
WHERE t.start_ns < {end} AND t.end_ns > {start}
"""
_PATH_SQL = """
SELECT
  start_ns, end_ns, coalesce(thread_id, 0)::BIGINT AS thread_id,
  coalesce(device_id, -1)::BIGINT AS device_id, coalesce(stream_id, -1)::BIGINT AS stream_id,
  enum_code(cause)::BIGINT AS cause
FROM critical_path_coded WHERE iteration_id = {iteration} ORDER BY start_ns
"""
_WORK_SQL = """
SELECT
  device_id::BIGINT AS device_id, coalesce(stream_id, -1)::BIGINT AS stream_id,
  greatest(start_ns, {start}) AS start_ns, least(end_ns, {end}) AS end_ns, kind::VARCHAR AS kind,
  name
FROM gpu_activity WHERE start_ns < {end} AND end_ns > {start} AND kind <> 'sync'
ORDER BY device_id, stream_id, start_ns, end_ns
"""
_LAUNCHES_SQL = """
SELECT
  from_thread_id::BIGINT, from_ns, to_device_id::BIGINT, coalesce(to_stream_id, -1)::BIGINT, to_ns
FROM flow
WHERE kind = 'launch' AND to_thread_id IS NULL AND from_ns >= {start} AND to_ns < {end}
ORDER BY from_ns LIMIT 20000
"""


def close_up(trace: Trace, which: str, iteration: dict[str, Any], roles: dict[int, Any]) -> CloseUp:
    """Return an iteration from near; roles: what processes are, by process_id.

    iteration: iteration_id, start_ns, end_ns of one in the relations of `Trace.critical_path`.
    """
    return _Reader(trace, which, iteration, roles).read()


class _Reader:
    def __init__(
        self, trace: Trace, which: str, iteration: dict[str, Any], roles: dict[int, Any]
    ) -> None:
        self._trace, self._which, self._iteration, self._roles = trace, which, iteration, roles
        self._start_ns, self._end_ns = iteration["start_ns"], iteration["end_ns"]
        self._words: dict[Word, int] = {}
        self._lane_of: dict[tuple[str, int, int], int] = {}

    def read(self) -> CloseUp:
        path = self._columns(_PATH_SQL)
        slices = self._segments(path["thread_id"])
        lanes = [*self._thread_lanes(slices), *self._gpu_lanes(path)]
        least_ns = 0
        while sum(len(row.code) for _, rows in lanes for row in rows) > MOST_SLICES:
            least_ns = self._coarser_than(least_ns)
            lanes = [(who, [self._coarser(row, least_ns) for row in rows]) for who, rows in lanes]
        placed, path_least_ns = self._placed_path(path), 0
        while len(placed.code) > MOST_SLICES:
            path_least_ns = self._coarser_than(path_least_ns)
            placed = coarsened(placed, path_least_ns, lambda code: code | _SEVERAL)
        return CloseUp(
            self._which,
            self._iteration,
            tuple(Lane(who, tuple(map(self._row, rows))) for who, rows in lanes),
            self._left_out,
            tuple(self._words),
            self._drawn_path(placed),
            CAUSES,
            self._launches(),
            least_ns,
            path_least_ns,
        )

    def _coarser_than(self, least_ns: int) -> int:
        return least_ns * 2 or max(1, (self._end_ns - self._start_ns) // 100_000)

    def _columns(self, query: str) -> dict[str, Ints]:
        asked = query.format(
            start=self._start_ns, end=self._end_ns, iteration=self._iteration.get("iteration_id")
        )
        found = self._trace.connection.execute(asked).fetchnumpy()
        return {name: np.ma.getdata(column) for name, column in found.items()}

    def _code(self, word: Word) -> int:
        return self._words.setdefault(word, len(self._words))

    def _row(self, slices: Slices) -> Row:
        return Row(
            slices.kind, slices.start_ns - self._start_ns, slices.end_ns - self._start_ns,
            slices.code,
        )  # fmt: skip

    def _coarser(self, row: Slices, least_ns: int) -> Slices:
        words = list(self._words)

        def several(code: int) -> int:
            word = words[code]
            return self._code(Word(word.kind, word.name, word.layer, word.wait, several=True))

        return coarsened(row, least_ns, several)

    # Threads.

    def _segments(self, on_path: Ints) -> list[tuple[dict[str, Any], dict[str, Ints]]]:
        """Return the threads that are drawn, in the order of the lanes, with their segments."""
        asked = _THREADS_SQL.format(start=self._start_ns, end=self._end_ns)
        threads = {row["thread_id"]: row for row in run_records(self._trace, asked)}
        of_path = set(on_path.tolist())
        lead = self._iteration.get("thread_id")
        chosen = sorted(
            threads.values(),
            key=lambda row: (
                row["thread_id"] != lead, row["thread_id"] not in of_path, not row["speaks"],
                row["process_id"] or 0, row["thread_id"],
            ),
        )  # fmt: skip
        self._left_out = max(0, len(chosen) - MOST_THREADS)
        chosen = chosen[:MOST_THREADS]
        chosen.sort(
            key=lambda row: (
                row["thread_id"] != lead,
                row["process_id"] != self._iteration.get("process_id"),
                row["process_id"] or 0, not row["speaks"], row["thread_id"],
            )
        )  # fmt: skip
        table = self._fetched(sorted(row["thread_id"] for row in chosen))
        found = []
        for row in chosen:
            own = table["thread_id"] == row["thread_id"]
            found.append((row, {name: column[own] for name, column in table.items()}))
        return found

    def _fetched(self, thread_ids: list[int]) -> dict[str, Ints]:
        ids = np.array(thread_ids, dtype=np.int32)
        starts = np.full(len(ids), self._start_ns, dtype=np.int64)
        stream = segments(
            self._trace, only=(ids, starts, np.full(len(ids), self._end_ns, dtype=np.int64))
        )
        self._trace.connection.register("_page_stream", stream)
        try:
            query = "SELECT thread_id, start_ns, end_ns, path_id, state, layer, wait"
            found = self._trace.connection.execute(f"{query} FROM _page_stream").fetchnumpy()
        finally:
            self._trace.connection.unregister("_page_stream")
        return {name: np.ma.getdata(column).astype(np.int64) for name, column in found.items()}

    def _thread_lanes(
        self, found: list[tuple[dict[str, Any], dict[str, Ints]]]
    ) -> list[tuple[Any, list[Slices]]]:
        ancestors = self._ancestors()
        lanes: list[tuple[Any, list[Slices]]] = []
        for thread, table in found:
            self._lane_of["thread", thread["thread_id"], 0] = len(lanes)
            who = note(
                "lane",
                role=self._roles.get(thread["process_id"]),
                pid=thread["pid"],
                tid=thread["tid"],
                thread=thread["thread"],
                speaks=thread["speaks"],
            )
            rows = [*self._operation_rows(table, ancestors), self._state_row(table)]
            lanes.append((who, rows))
        return lanes

    def _ancestors(self) -> dict[int, list[str]]:
        """Return the names of the operations in each stack, the outermost first."""
        query = "SELECT path_id, parent_path_id, name FROM operation_path ORDER BY depth, path_id"
        found: dict[int, list[str]] = {0: []}
        for path_id, parent_id, name in run_query(self._trace, query).rows:
            found[path_id] = [*found.get(parent_id or 0, []), name]
        return found

    def _operation_rows(
        self, table: dict[str, Ints], ancestors: dict[int, list[str]]
    ) -> list[Slices]:
        paths, inverse = np.unique(table["path_id"], return_inverse=True)
        stacks = [ancestors.get(int(path), []) for path in paths]
        depth = min(max(map(len, stacks), default=0), _MOST_DEPTH)
        rows = []
        for level in range(depth):
            codes = [
                self._code(Word("operation", stack[level])) if len(stack) > level else -1
                for stack in stacks
            ]
            code = np.array(codes, dtype=np.int64)[inverse]
            # Another instance of the same operation begins where the stack changes in between.
            row = joined("operation", table["start_ns"], table["end_ns"], code)
            rows.append(row.without(-1))
        return rows

    def _state_row(self, table: dict[str, Ints]) -> Slices:
        keys = (table["state"] * 256 + table["layer"]) * 256 + table["wait"]
        unique, inverse = np.unique(keys, return_inverse=True)
        codes = [
            self._code(_state_word(int(key) >> 16, int(key) >> 8 & 255, int(key) & 255))
            for key in unique
        ]
        code = np.array(codes, dtype=np.int64)[inverse]
        return joined("state", table["start_ns"], table["end_ns"], code)

    # GPUs.

    def _gpu_lanes(self, path: dict[str, Ints]) -> list[tuple[Any, list[Slices]]]:
        table = self._columns(_WORK_SQL)
        if not len(table["start_ns"]):
            return []
        streams: dict[tuple[int, int], list[int]] = defaultdict(list)
        for at, key in enumerate(
            zip(table["device_id"].tolist(), table["stream_id"].tolist(), strict=True)
        ):
            streams[key].append(at)
        length = table["end_ns"] - table["start_ns"]
        ranked = sorted(streams, key=lambda key: -int(length[streams[key]].sum()))[:MOST_STREAMS]
        first = len(self._lane_of)
        lanes: list[tuple[Any, list[Slices]]] = []
        for key in sorted(ranked):
            self._lane_of[("gpu", *key)] = first + len(lanes)
            places = np.array(streams[key])
            codes = [
                self._code(Word("gpu", name, layer=kind))
                for kind, name in zip(table["kind"][places], table["name"][places], strict=True)
            ]
            row = Slices(
                "gpu",
                table["start_ns"][places],
                table["end_ns"][places],
                np.array(codes, dtype=np.int64),
            )
            who = note("gpu_lane", device=key[0], stream=None if key[1] < 0 else key[1])
            lanes.append((who, [row]))
        return lanes

    # What leads from lane to lane.

    def _placed_path(self, path: dict[str, Ints]) -> Slices:
        """Return its pieces by lane and cause, in one code; lane -1: not drawn."""
        keys = zip(
            path["thread_id"].tolist(), path["device_id"].tolist(), path["stream_id"].tolist(),
            strict=True,
        )  # fmt: skip
        lanes = [
            self._lane_of.get(("thread", thread, 0) if thread else ("gpu", device, stream), -1)
            for thread, device, stream in keys
        ]
        lane, cause = np.array(lanes, dtype=np.int64), path["cause"].astype(np.int64)
        return joined("path", path["start_ns"], path["end_ns"], (lane + 1) * 256 + cause)

    def _drawn_path(self, placed: Slices) -> tuple[Ints, ...]:
        cause = placed.code & (_SEVERAL - 1)
        return (
            placed.start_ns - self._start_ns, placed.end_ns - self._start_ns,
            (placed.code >> 8) - 1, cause + np.where(placed.code & _SEVERAL, len(CAUSES), 0),
        )  # fmt: skip

    def _launches(self) -> tuple[Ints, ...]:
        if not any(kind == "gpu" for kind, *_ in self._lane_of):
            return tuple(np.zeros(0, dtype=np.int64) for _ in range(4))
        asked = _LAUNCHES_SQL.format(start=self._start_ns, end=self._end_ns)
        rows = [
            (
                self._lane_of.get(("thread", thread, 0), -1), from_ns - self._start_ns,
                self._lane_of.get(("gpu", device, stream), -1), to_ns - self._start_ns,
            )
            for thread, from_ns, device, stream, to_ns in run_query(self._trace, asked).rows
        ]  # fmt: skip
        known = [row for row in rows if -1 not in (row[0], row[2])]
        columns = np.array(known, dtype=np.int64).reshape(-1, 4)
        return tuple(columns[:, at] for at in range(4))


def _state_word(state: int, layer: int, wait: int) -> Word:
    name = None if state == NOT_MEASURED else THREAD_STATES[state]
    return Word(
        "state",
        name,
        LAYERS[layer] if layer < len(LAYERS) and name == "running" else None,
        WAITS[wait] if wait < len(WAITS) and name in ("sleeping", "blocked") else None,
    )
