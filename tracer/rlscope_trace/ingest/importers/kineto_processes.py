"""Which processes and threads the events of a Kineto file belong to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace._ingest import MISSING
from rlscope_trace.ingest.importers.kineto_file import Columns, KinetoFile

# As Kineto writes the name of a thread: thread 4242 (python)
_THREAD_NAME = re.compile(r"thread \S+ \((?P<name>.*)\)", re.DOTALL)
INT32_MAX = 2**31 - 1


@dataclass(slots=True)
class KinetoProcesses:
    """The processes and threads of all files, as rows; ids count from 1."""

    processes: list[dict[str, Any]] = field(default_factory=list)
    threads: list[dict[str, Any]] = field(default_factory=list)
    orphan_count: int = 0
    """GPU activities whose call is in no file."""
    first_orphan_ns: int | None = None

    def place(
        self,
        file: KinetoFile,
        ranges: dict[str, NDArray[Any]],
        calls: dict[str, NDArray[Any]],
        activities: dict[str, NDArray[Any]],
    ) -> tuple[int, ...]:
        """Add thread_id to ranges and calls, process_id to activities; returns the process_ids."""
        process_of_pid = self._add_processes(file)
        thread_ids = self._add_threads(file, (ranges, calls), process_of_pid)
        for source in (ranges, calls):
            source["thread_id"] = thread_ids[source["thread"]]
        activities["process_id"] = self._launchers(file, calls, activities, process_of_pid)
        process_ids = tuple(process_of_pid.values())
        self._set_lifetimes(thread_ids, process_ids, (ranges, calls, activities))
        return process_ids

    def _add_processes(self, file: KinetoFile) -> dict[str, int]:
        """Give the processes of a file their ids, by pid, the main one first."""
        weight: dict[str, tuple[int, int]] = {}
        for rank, source in ((0, file.calls), (1, file.ranges)):
            threads, counts = np.unique(source["thread"], return_counts=True)
            for thread, count in zip(threads.tolist(), counts.tolist(), strict=True):
                known = list(weight.get(file.threads[thread][0], (0, 0)))
                known[rank] += count
                weight[file.threads[thread][0]] = (known[0], known[1])
        # The main one launches most; of equal ones the first in the file.
        pids = sorted(weight, key=lambda pid: (-weight[pid][0], -weight[pid][1]))
        if not pids and len(file.activities["role"]):
            pids = [""]
        names = dict(reversed(file.process_names))
        ids: dict[str, int] = {}
        for pid in pids:
            ids[pid] = len(self.processes) + 1
            self.processes.append(
                {
                    "process_id": ids[pid],
                    "host": file.host,
                    "pid": _int32(pid),
                    "name": names.get(pid) or None,
                }
            )
        return ids

    def _add_threads(
        self, file: KinetoFile, sources: Sequence[Columns], process_of_pid: dict[str, int]
    ) -> NDArray[np.int32]:
        """Give the threads of CPUs their ids, in the order of their processes; 0: of no CPU."""
        used = np.unique(np.concatenate([source["thread"] for source in sources])).tolist()
        names = dict(reversed(file.thread_names))
        ids = np.zeros(len(file.threads), dtype=np.int32)
        for thread in sorted(used, key=lambda thread: process_of_pid[file.threads[thread][0]]):
            pid, tid = file.threads[thread]
            name = names.get((pid, tid)) or None
            short = _THREAD_NAME.fullmatch(name or "")
            ids[thread] = len(self.threads) + 1
            self.threads.append(
                {
                    "thread_id": len(self.threads) + 1,
                    "process_id": process_of_pid[pid],
                    "tid": _int32(tid),
                    "name": short["name"] if short else name,
                }
            )
        return ids

    def _launchers(
        self,
        file: KinetoFile,
        calls: Columns,
        activities: Columns,
        process_of_pid: dict[str, int],
    ) -> NDArray[np.int32]:
        """Return the process of each GPU activity: that of its call, else the main one."""
        main = next(iter(process_of_pid.values()), 0)
        process_of_thread = np.array(
            [process_of_pid.get(pid, main) for pid, _ in file.threads], dtype=np.int32
        )
        call_process = process_of_thread[calls["thread"]]
        known = calls["correlation"] != MISSING
        correlations, call_process = calls["correlation"][known], call_process[known]
        # Where two processes use the same number, the main one comes first: its id is the smallest.
        order = np.lexsort((call_process, correlations))
        correlations, call_process = correlations[order], call_process[order]
        wanted = activities["correlation"]
        place = np.searchsorted(correlations, wanted)
        found = np.zeros(len(wanted), dtype=bool)
        inside = place < len(correlations)
        found[inside] = correlations[place[inside]] == wanted[inside]
        self._count_orphans(activities["start_ns"][~found])
        process_ids = np.full(len(wanted), main, dtype=np.int32)
        process_ids[found] = call_process[place[found]]
        return process_ids

    def _count_orphans(self, start_ns: NDArray[np.int64]) -> None:
        if len(start_ns):
            self.orphan_count += len(start_ns)
            first_ns = int(start_ns.min())
            self.first_orphan_ns = min(first_ns, self.first_orphan_ns or first_ns)

    def _set_lifetimes(
        self,
        thread_ids: NDArray[np.int32],
        process_ids: Sequence[int],
        sources: tuple[Columns, Columns, Columns],
    ) -> None:
        """Give threads and processes the extent of what they did."""
        ranges, calls, activities = sources
        thread_count, process_count = len(self.threads) + 1, len(self.processes) + 1
        threads = _Extents(thread_count)
        for source in (ranges, calls):
            threads.add(source["thread_id"], source)
        processes = _Extents(process_count)
        processes.add(activities["process_id"], activities)
        for thread_id in thread_ids[thread_ids > 0].tolist():
            thread = self.threads[thread_id - 1]
            thread["start_ns"], thread["end_ns"] = threads.of(thread_id)
            processes.include(thread["process_id"], *threads.of(thread_id))
        for process_id in process_ids:
            process = self.processes[process_id - 1]
            process["start_ns"], process["end_ns"] = processes.of(process_id)


class _Extents:
    """First start and last end, by id."""

    def __init__(self, count: int) -> None:
        self._first = np.full(count, np.iinfo(np.int64).max)
        self._last = np.full(count, np.iinfo(np.int64).min)

    def add(self, ids: NDArray[Any], columns: Columns) -> None:
        np.minimum.at(self._first, ids, columns["start_ns"])
        np.maximum.at(self._last, ids, columns["end_ns"])

    def include(self, index: int, start_ns: int, end_ns: int) -> None:
        self._first[index] = min(start_ns, self._first[index])
        self._last[index] = max(end_ns, self._last[index])

    def of(self, index: int) -> tuple[int, int]:
        return int(self._first[index]), int(self._last[index])


def _int32(text: str) -> int | None:
    """Return a pid or tid that the column can hold; NULL for a made-up one."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if 0 <= number <= INT32_MAX else None
