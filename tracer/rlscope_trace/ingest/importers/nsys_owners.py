"""The processes and threads that events of Nsight Systems exports belong to."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.nsys_sqlite import NsysFile
from rlscope_trace.ingest.writer.columns import Table

# A global id is made of hardware (8 bits), VM (8 bits), pid (24 bits), tid (24 bits).
TID_BITS = 24
_ID_MASK = (1 << TID_BITS) - 1
# Processes and threads of all exports.
_MAX_OWNERS = 50_000
# Stands for an id that the export does not tell.
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Extent:
    """From the first to the last instant something was seen."""

    start_ns: int
    end_ns: int

    def joined(self, other: "Extent | None") -> "Extent":
        """Return the shortest extent around both."""
        if other is None:
            return self
        return Extent(min(self.start_ns, other.start_ns), max(self.end_ns, other.end_ns))


@dataclass(slots=True)
class Owner:
    """A process, or a thread where global_tid is one."""

    file_index: int
    global_id: int
    extent: Extent | None = None
    name: str | None = None
    host: str | None = None
    lost_ns: int | None = None
    """None where states were not measured."""


@dataclass
class Owners:
    """Numbers processes and threads in the order they are met; tables() renumbers them by time."""

    processes: list[Owner] = field(default_factory=list)
    threads: list[Owner] = field(default_factory=list)
    process_of: list[int] = field(default_factory=list)
    """Per thread, its process."""
    _process_keys: dict[tuple[int, int], int] = field(default_factory=dict)
    _thread_keys: dict[tuple[int, int], int] = field(default_factory=dict)

    def processes_at(
        self, file_index: int, global_pids: NDArray[Any], starts: NDArray[Any], ends: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return the process of each event, by its global pid (UNKNOWN: not recorded)."""
        keys, place = np.unique(without_tid(global_pids), return_inverse=True)
        extents = _extents(len(keys), place, starts, ends)
        found = [
            self._process(file_index, int(key), extent)
            for key, extent in zip(keys.tolist(), extents, strict=True)
        ]
        return np.array(found, dtype=np.int32)[place]

    def threads_at(
        self, file_index: int, global_tids: NDArray[Any], starts: NDArray[Any], ends: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return the thread of each event, by its global tid (UNKNOWN: not recorded)."""
        keys, place = np.unique(global_tids, return_inverse=True)
        extents = _extents(len(keys), place, starts, ends)
        found = [
            self._thread(file_index, int(key), extent)
            for key, extent in zip(keys.tolist(), extents, strict=True)
        ]
        return np.array(found, dtype=np.int32)[place]

    def processes_of_file(self, file_index: int) -> list[int]:
        """Return the processes met in a file."""
        return [n for n, owner in enumerate(self.processes) if owner.file_index == file_index]

    def pids_of_file(self, file_index: int) -> list[int]:
        """Return the global pids of the processes met in a file."""
        return [self.processes[number].global_id for number in self.processes_of_file(file_index)]

    def extend_threads(self, numbers: list[int], end_ns: int) -> None:
        """Let threads, and their processes, last until end_ns."""
        for number in numbers:
            _extend(self.threads[number], end_ns)
            _extend(self.processes[self.process_of[number]], end_ns)

    def extend_processes(self, numbers: list[int], end_ns: int) -> None:
        """Let processes last until end_ns."""
        for number in numbers:
            _extend(self.processes[number], end_ns)

    def learn_names(self, file: NsysFile, file_index: int, host: str | None) -> None:
        """Look up what the processes and threads of a file are called."""
        names = dict(file.rows("PROCESSES", globalPid=int, name=str))
        thread_names = _thread_names(file)
        for owner in self.processes:
            if owner.file_index == file_index:
                pid = (owner.global_id >> TID_BITS) & _ID_MASK
                main = thread_names.get(owner.global_id + pid)
                owner.name, owner.host = names.get(owner.global_id) or main, host
        for owner in self.threads:
            if owner.file_index == file_index:
                owner.name = thread_names.get(owner.global_id)

    def order(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the final id of each process and of each thread, counted from 1 by time."""
        return _ranks(self.processes), _ranks(self.threads)

    def tables(self) -> dict[str, Table]:
        """Return the tables process and thread."""
        process_ids, thread_ids = self.order()
        by_id = {int(key): owner for key, owner in zip(process_ids, self.processes, strict=True)}
        processes = [by_id[key] for key in sorted(by_id)]
        order = np.argsort(thread_ids)
        threads = [self.threads[n] for n in order]
        return {
            "process": {
                "process_id": sorted(by_id),
                "host": [owner.host for owner in processes],
                "pid": [_part(owner.global_id >> TID_BITS) for owner in processes],
                **_times(processes),
                "name": [owner.name for owner in processes],
            },
            "thread": {
                "thread_id": sorted(thread_ids.tolist()),
                "process_id": [int(process_ids[self.process_of[n]]) for n in order],
                "tid": [_part(owner.global_id) for owner in threads],
                **_times(threads),
                "name": [owner.name for owner in threads],
                "lost_ns": [owner.lost_ns for owner in threads],
            },
        }

    def _process(self, file_index: int, global_pid: int, extent: Extent) -> int:
        key = (file_index, global_pid)
        number = self._process_keys.setdefault(key, len(self.processes))
        if number == len(self.processes):
            self._check_count()
            self.processes.append(Owner(file_index, global_pid))
        owner = self.processes[number]
        owner.extent = extent.joined(owner.extent)
        return number

    def _check_count(self) -> None:
        if len(self.processes) + len(self.threads) >= _MAX_OWNERS:
            raise ImportFileError(
                f"the events belong to more than {_MAX_OWNERS:,} processes and threads",
                hint="import one export at a time, and export it once more",
            )

    def _thread(self, file_index: int, global_tid: int, extent: Extent) -> int:
        process = self._process(file_index, int(without_tid(np.array([global_tid]))[0]), extent)
        key = (file_index, global_tid)
        number = self._thread_keys.setdefault(key, len(self.threads))
        if number == len(self.threads):
            self._check_count()
            self.threads.append(Owner(file_index, global_tid))
            self.process_of.append(process)
        owner = self.threads[number]
        owner.extent = extent.joined(owner.extent)
        return number


def without_tid(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the global pids of global tids; UNKNOWN stays UNKNOWN."""
    return np.where(global_ids == UNKNOWN, UNKNOWN, global_ids & ~_ID_MASK)


def _extend(owner: Owner, end_ns: int) -> None:
    owner.extent = Extent(end_ns, end_ns).joined(owner.extent)


def _extents(
    count: int, place: NDArray[Any], starts: NDArray[Any], ends: NDArray[Any]
) -> list[Extent]:
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, place, starts)
    np.maximum.at(last, place, ends)
    return [Extent(*pair) for pair in zip(first.tolist(), last.tolist(), strict=True)]


def _thread_names(file: NsysFile) -> dict[int, str]:
    """Return the name of each thread; of several the one of the highest priority."""
    rows = file.rows("ThreadNames", globalTid=int, nameId=int, priority=int)
    rows = [row for row in rows if row[0] is not None and row[1] is not None]
    strings = file.strings(name_id for _, name_id, _ in rows)
    rows.sort(key=lambda row: row[2] or 0)
    return {tid: strings[name_id] for tid, name_id, _ in rows if name_id in strings}


def _ranks(owners: list[Owner]) -> NDArray[np.int32]:
    def entered(number: int) -> tuple[int, int]:
        extent = owners[number].extent
        return (extent.start_ns if extent else 0, number)

    ranks = np.empty(len(owners), dtype=np.int32)
    ranks[sorted(range(len(owners)), key=entered)] = np.arange(1, len(owners) + 1)
    return ranks


def _part(global_id: int) -> int | None:
    return None if global_id == UNKNOWN else global_id & _ID_MASK


def _times(owners: list[Owner]) -> dict[str, list[int | None]]:
    extents = [owner.extent for owner in owners]
    return {
        "start_ns": [extent.start_ns if extent else None for extent in extents],
        "end_ns": [extent.end_ns if extent else None for extent in extents],
    }
