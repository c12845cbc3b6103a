"""What docs/overhead.md says of hits, event by event: slow, and next to nothing to get wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coded import coded
from rlscope_analysis.schema.vocabulary import EVENTS, LAYERS, NOT_MEASURED

if TYPE_CHECKING:
    import duckdb

CUDA_API = LAYERS.index("cuda_api")
_SOURCES = {"nvtx": "range", "auto": "range_auto"}


class Reference:
    """The rows of a trace in memory; each question goes through all of them."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query).fetchall()

        self.threads = {
            row[0]: row[1:]
            for row in rows(
                "SELECT thread_id, coalesce(process_id, 0), start_ns, end_ns FROM thread"
            )
        }
        self.states = rows(
            "SELECT thread_id, start_ns, end_ns, state, waker_thread_id"
            f" FROM {coded('thread_state_coded')}"
        )
        self.operations = rows("SELECT thread_id, start_ns, end_ns, path_id FROM operation_coded")
        self.paths = {
            row[0]: row[1:]
            for row in rows(
                "SELECT path_id, coalesce(parent_path_id, 0), source FROM operation_path"
            )
        }
        self.calls = rows(
            "SELECT thread_id, start_ns, end_ns, layer, parent_layer, site_id"
            f" FROM {coded('native_call_coded')}"
        )
        self.expensive = {row[0] for row in rows("SELECT site_id FROM site WHERE is_expensive")}
        self.cuda = rows("SELECT thread_id, start_ns, end_ns FROM cuda_call_coded")
        self.samples = rows("SELECT thread_id, ts_ns FROM cpu_sample_coded")
        self.releases = rows("SELECT thread_id, start_ns FROM gil_release")
        self.activities = rows(
            "SELECT process_id, start_ns, end_ns FROM gpu_activity_coded WHERE kind <> 'sync'"
        )
        self.measured = dict(
            rows(
                "SELECT process_id, bool_or(measured) FROM coverage WHERE kind = 'gpu_activity'"
                " GROUP BY ALL"
            )
        )
        on = rows("SELECT process_id, ts_ns, is_late FROM gpu_status WHERE state = 'on'")
        firsts = [row for row in on if not any(row[0] == o[0] and o[1] < row[1] for o in on)]
        self.late = {process: ts_ns for process, ts_ns, is_late in firsts if is_late}

    def hits(self, from_ns: int = -(2**62), to_ns: int = 2**62) -> list[tuple[int, ...]]:
        """Return the rows of probe_hits_coded, sorted, for the events of an interval."""
        counts: Counter[tuple[int, ...]] = Counter()
        for event, thread, at_ns, parts in self._events():
            if thread not in self.threads or not from_ns <= at_ns < to_ns:
                continue
            _, start_ns, end_ns = self.threads[thread]
            if start_ns <= at_ns < end_ns and self._runs(thread, at_ns):
                for inside, path, layer in parts:
                    gpu = self._gpu(thread, at_ns)
                    counts[thread, path, layer, gpu, EVENTS.index(event), inside] += 1
        return sorted((*key, count) for key, count in counts.items())

    def _events(self) -> list[tuple[str, int, int, list[tuple[int, int, int]]]]:
        """Return kind, thread, time, and per part: whether inside, path and layer."""
        instants = [("switch", row[0], row[1]) for row in self.states if row[3] == 0]
        instants += [("wakeup", row[4], row[1]) for row in self.states if row[3] == 1 and row[4]]
        instants += [("sample", *row) for row in self.samples]
        instants += [("gil_release", *row) for row in self.releases]
        found = [
            (event, thread, at, [(0, self._path(thread, at), self._layer(thread, at))])
            for event, thread, at in instants
        ]
        for thread, at, _, layer, around, site in self.calls:
            path, in_cuda = self._path(thread, at), self._open(self.cuda, thread, at)
            own = CUDA_API if in_cuda else layer
            around = CUDA_API if in_cuda else around
            event = "call_expensive" if site in self.expensive else "call"
            found.append((event, thread, at, [(0, path, around), (1, path, own)]))
        for thread, at, _, path in self.operations:
            parent, source = self.paths[path]
            layer = self._layer(thread, at)
            if source in _SOURCES:
                found.append((_SOURCES[source], thread, at, [(0, parent, layer), (1, path, layer)]))
        return found

    @staticmethod
    def _open(rows: list[tuple[Any, ...]], of: int, at_ns: int) -> list[tuple[Any, ...]]:
        return [row for row in rows if row[0] == of and row[1] <= at_ns < row[2]]

    def _runs(self, thread: int, at_ns: int) -> bool:
        return any(row[3] == 0 for row in self._open(self.states, thread, at_ns))

    def _path(self, thread: int, at_ns: int) -> int:
        # The one opened last: rows are in stored order.
        around = self._open(self.operations, thread, at_ns)
        return around[-1][3] if around else 0

    def _layer(self, thread: int, at_ns: int) -> int:
        if self._open(self.cuda, thread, at_ns):
            return CUDA_API
        around = self._open(self.calls, thread, at_ns)
        return around[-1][3] if around else 0

    def _gpu(self, thread: int, at_ns: int) -> int:
        process = self.threads[thread][0]
        if not self.measured.get(process, self.measured.get(None, False)):
            return NOT_MEASURED
        if process in self.late and at_ns < self.late[process]:
            return NOT_MEASURED
        return int(bool(self._open(self.activities, process, at_ns)))
