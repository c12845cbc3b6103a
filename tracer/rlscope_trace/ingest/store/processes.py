"""Makes processes out of threads: which lives there were, whose children, with which command.

A pid can be reused within a trace, so a process is one life of it. A life begins with the creation
of its main thread; threads that existed at the attach are grouped by their pid.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CREATED = 0
_UNKNOWN_EXIT_STATUS = -(2**31)
_NO_EXIT_CODE = -1
_CHUNK_THREADS = 4096
_BATCH_THREADS = 65536

Columns = dict[str, NDArray[Any]]
# (ts_ns, thread_id, tid, old_tid, ns_tgid, args_total, filename, args), as the decoder gives them.
Exec = tuple[int, int, int, int, int, int, bytes, bytes]


@dataclass(slots=True)
class _Process:
    process_id: int
    tgid: int = 0
    pid: int = 0
    created: bool = False
    creator_thread_id: int = 0
    parent_tgid: int = 0
    parent: "_Process | None" = None
    first_ns: int = 0
    born_ns: int = 0
    name: str | None = None
    leader_thread_id: int = 0
    first_command: str | None = None
    commands: list[tuple[int, str]] = field(default_factory=list)
    last_exit: tuple[int, bool, int] | None = None

    def command_at(self, ts_ns: int) -> str | None:
        """Return the command line at an instant."""
        command = self.first_command
        for since_ns, later in self.commands:
            if since_ns <= ts_ns:
                command = later
        return command

    def exit_code(self) -> int:
        """Return the exit code as a shell shows it; _NO_EXIT_CODE if it is not known."""
        if self.last_exit is None or self.last_exit[2] == _UNKNOWN_EXIT_STATUS:
            return _NO_EXIT_CODE
        status = self.last_exit[2]
        signal = status & 0x7F
        return 128 + signal if signal else (status >> 8) & 0xFF


def command_of(record: Exec) -> str:
    """Return the command line that an exec record tells."""
    args_total, filename, args = record[5:]
    if not args:
        return filename.decode("utf-8", "replace")
    words = args.removesuffix(b"\0").split(b"\0")
    command = b" ".join(words).decode("utf-8", "replace")
    return f"{command} ..." if args_total > len(args) else command


def text_of(comm: bytes) -> str | None:
    """Decode a thread name as the OS kernel keeps it; None if it was never reported."""
    return comm.partition(b"\0")[0].decode("utf-8", "replace") or None


@dataclass(frozen=True, slots=True)
class Life:
    """When a process began, and when it replaced its program."""

    process_id: int
    pid: int
    parent_process_id: int
    """0: created outside the trace."""
    first_ns: int
    exec_ns: tuple[int, ...]


class ProcessTree:
    """All processes and threads of a trace that ends at end_ns (0: the end is not known)."""

    def __init__(
        self,
        threads: NDArray[np.void],
        execs: Sequence[Exec],
        *,
        end_ns: int,
        left_out: Collection[int] = (),
    ) -> None:
        """left_out: pids of processes that are not to be in the trace."""
        slots = np.argsort(threads["thread_id"], kind="stable")
        is_in_trace = threads["has_state"][slots] != 0
        if end_ns > 0:
            is_in_trace &= threads["start_ns"][slots] < end_ns
        self.left_out: list[int] = []
        """thread_id of each thread of those."""
        if left_out:
            pids = np.where(threads["ns_tgid"], threads["ns_tgid"], threads["tgid"])[slots]
            is_left_out = np.isin(pids, list(left_out))
            self.left_out = threads["thread_id"][slots[is_left_out]].tolist()
            is_in_trace &= ~is_left_out
        slots = slots[is_in_trace]
        self._thread_ids = threads["thread_id"][slots]
        tids = np.where(threads["ns_tid"], threads["ns_tid"], threads["tid"])
        self._tids = _ids(tids[slots])
        self._processes: list[_Process] = []
        self._lives: dict[int, list[_Process]] = {}
        self._unknown: _Process | None = None
        self._process_ids = np.zeros(len(slots), dtype=np.int32)
        self._group_threads(threads, slots)
        self._find_parents()
        self._apply_execs(execs)
        self._inherit_commands()
        self._read_exits_and_names(threads, slots)
        self._order = np.argsort(self._process_ids, kind="stable")
        self.slots: NDArray[np.uint32] = slots[self._order].astype(np.uint32)
        self._names = threads["name"][self.slots]
        self.unknown_start_count = int(np.count_nonzero(threads["has_start"][slots] == 0))

    @property
    def process_ids(self) -> NDArray[np.int32]:
        """The process_id of each thread in `slots`."""
        return self._process_ids[self._order]

    def lives(self) -> list[Life]:
        """Return every process whose pid is known, in the order of process_id."""
        return [
            Life(
                process_id=process.process_id,
                pid=process.pid,
                parent_process_id=process.parent.process_id if process.parent else 0,
                first_ns=process.first_ns,
                exec_ns=tuple(ts_ns for ts_ns, _ in process.commands),
            )
            for process in self._processes
            if process.pid
        ]

    def thread_batches(self, outcomes: NDArray[np.void]) -> Iterator[Columns]:
        """Make the columns of table thread; outcomes are those of `slots`, in their order.

        An unknown tid is 0, an unknown name empty: DuckDB 1.5 fails on columns that begin with a
        thousand None.
        """
        for first in range(0, len(self._order), _BATCH_THREADS):
            batch = slice(first, first + _BATCH_THREADS)
            order, fates = self._order[batch], outcomes[batch]
            yield {
                "thread_id": fates["thread_id"].astype(np.int32),
                "process_id": self._process_ids[order],
                "tid": self._tids[order],
                "start_ns": np.ascontiguousarray(fates["start_ns"]),
                "end_ns": np.ascontiguousarray(fates["end_ns"]),
                "name": _texts([text_of(name) for name in self._names[batch]]),
                "ended": fates["ended"] != 0,
                "lost_ns": np.ascontiguousarray(fates["lost_ns"]),
            }

    def process_columns(
        self, outcomes: NDArray[np.void], host: str | None, titles: Mapping[int, str]
    ) -> Columns:
        """Make the columns of table process: unknown ids are 0, texts empty, exit codes -1.

        titles: by process_id.
        """
        count = len(self._processes)
        firsts = np.searchsorted(self._process_ids[self._order], np.arange(1, count + 1))
        ended = np.logical_and.reduceat(outcomes["ended"] != 0, firsts) if count else np.zeros(0)
        starts = np.minimum.reduceat(outcomes["start_ns"], firsts) if count else np.zeros(0, "i8")
        ends = np.maximum.reduceat(outcomes["end_ns"], firsts) if count else np.zeros(0, "i8")
        exit_codes = [process.exit_code() for process in self._processes]
        parents = [p.parent.process_id if p.parent else 0 for p in self._processes]
        return {
            "process_id": np.arange(1, count + 1, dtype=np.int32),
            "host": _texts([host] * count),
            "pid": _ids(np.array([process.pid for process in self._processes], dtype=np.int64)),
            "parent_process_id": np.array(parents, dtype=np.int32),
            "start_ns": starts,
            "end_ns": ends,
            "name": _texts([process.name for process in self._processes]),
            "command": _texts([process.command_at(2**63) for process in self._processes]),
            "exit_code": np.where(ended, exit_codes, _NO_EXIT_CODE).astype(np.int32),
            "born_ns": np.array([process.born_ns for process in self._processes], dtype=np.int64),
            "title": _texts([titles.get(process.process_id) for process in self._processes]),
        }

    def _add_process(self, *, first_ns: int) -> _Process:
        process = _Process(process_id=len(self._processes) + 1, first_ns=first_ns)
        self._processes.append(process)
        return process

    def _group_threads(self, threads: NDArray[np.void], slots: NDArray[np.intp]) -> None:
        facts = _rows(
            threads, slots,
            "thread_id", "has_start", "entered", "tid", "tgid", "ns_tgid", "start_ns", "born_ns",
            "creator_thread_id", "parent_tgid",
        )  # fmt: skip
        for position, row in facts:
            thread_id, has_start, entered, tid, tgid, ns_tgid, start_ns, born_ns, *origin = row
            if not has_start or tgid == 0:
                if self._unknown is None:
                    self._unknown = self._add_process(first_ns=start_ns)
                    self._unknown.name = "(unknown)"
                self._process_ids[position] = self._unknown.process_id
                continue
            lives = self._lives.setdefault(tgid, [])
            if not lives or (tid == tgid and entered == _CREATED):
                process = self._add_process(first_ns=start_ns)
                process.tgid, process.pid = tgid, ns_tgid or tgid
                process.created = entered == _CREATED
                process.creator_thread_id, process.parent_tgid = origin
                lives.append(process)
            process = lives[-1]
            if entered != _CREATED:
                # It began a thread after it was marked, and before it was entered itself.
                process.created = False
            if tid == tgid:
                process.leader_thread_id, process.born_ns = thread_id, born_ns
            self._process_ids[position] = process.process_id

    def _position_of(self, thread_id: int) -> int | None:
        # A plain int would make numpy convert the whole array at each call.
        position = int(np.searchsorted(self._thread_ids, np.uint32(thread_id)))
        is_there = position < len(self._thread_ids) and self._thread_ids[position] == thread_id
        return position if is_there else None

    def _process_of_thread(self, thread_id: int) -> _Process | None:
        position = self._position_of(thread_id)
        if position is None:
            return None
        return self._processes[int(self._process_ids[position]) - 1]

    def _find_parents(self) -> None:
        for process in self._processes:
            creator = self._process_of_thread(process.creator_thread_id)
            if creator is not None and creator not in (process, self._unknown):
                process.parent = creator
                continue
            lives = [p for p in self._lives.get(process.parent_tgid, []) if p is not process]
            older = [p for p in lives if p.process_id < process.process_id]
            found = [p for p in lives if not p.created]
            process.parent = older[-1] if older else next(iter(found), None)

    def _apply_execs(self, execs: Sequence[Exec]) -> None:
        found = {p.pid: p for p in reversed(self._processes) if p.pid and not p.created}
        for record in execs:
            ts_ns, thread_id, tid, old_tid, ns_tgid = record[:5]
            if thread_id == 0:
                at_attach = found.get(ns_tgid)
                if at_attach is not None:
                    at_attach.first_command = command_of(record)
                continue
            position = self._position_of(thread_id)
            if position is None:
                continue
            process = self._processes[int(self._process_ids[position]) - 1]
            if process is self._unknown:
                continue
            process.commands.append((ts_ns, command_of(record)))
            if old_tid not in (0, tid):
                # The OS kernel kills the other threads and gives the caller the main thread's tid.
                self._tids[position] = process.pid
                process.leader_thread_id = thread_id

    def _inherit_commands(self) -> None:
        for process in self._processes:
            if process.created and process.parent is not None:
                process.first_command = process.parent.command_at(process.first_ns)

    def _read_exits_and_names(self, threads: NDArray[np.void], slots: NDArray[np.intp]) -> None:
        for position, row in _rows(threads, slots, "thread_id", "exit_ns", "exit_status", "name"):
            thread_id, exit_ns, exit_status, name = row
            process = self._processes[self._process_ids[position] - 1]
            is_leader = thread_id == process.leader_thread_id
            if is_leader:
                process.name = text_of(name)
            # After exit_group all threads have its status; a main thread that left before has not.
            if exit_ns and (exit_ns, is_leader, exit_status) > (process.last_exit or (0, False, 0)):
                process.last_exit = (exit_ns, is_leader, exit_status)


def _texts(values: Sequence[str | None]) -> NDArray[np.object_]:
    texts = np.empty(len(values), dtype=object)
    texts[:] = [value or "" for value in values]
    return texts


def _rows(
    threads: NDArray[np.void], slots: NDArray[np.intp], *names: str
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the position in slots and some facts of each thread; few at once, to save memory."""
    for first in range(0, len(slots), _CHUNK_THREADS):
        chunk = threads[slots[first : first + _CHUNK_THREADS]]
        columns = [chunk[name].tolist() for name in names]
        yield from enumerate(zip(*columns, strict=True), first)


def _ids(values: NDArray[Any]) -> NDArray[np.int32]:
    """Kernel ids as INTEGER, 0 where a damaged record holds none that fits."""
    return np.where(values <= np.iinfo(np.int32).max, values, 0).astype(np.int32)
