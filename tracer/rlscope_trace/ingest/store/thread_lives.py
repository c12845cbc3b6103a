"""Whose a thread id was at an instant: ids are reused, lives are not."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

# In place of an id: the interval lies wholly before what was recorded of its owner; there was no
# such owner; its times are of another clock than those of the trace; it begins after its owner's
# end.
OUTSIDE, NOBODY, ELSEWHEN, AFTER = 0, -1, -2, -3
# What is dated so long after all else cannot be of this recording.
_TOO_LATE_NS = 60 * 10**9
_Id = TypeVar("_Id", np.int32, np.int64)


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a thread, or of a process (thread_id 0), within the trace."""

    process_id: int
    thread_id: int
    start_ns: int
    end_ns: int
    execs_ns: tuple[int, ...] = ()
    """When the thread replaced its program, in the order of time."""

    def before_exec(self, start_ns: NDArray[Any], end_ns: NDArray[Any]) -> NDArray[Any]:
        """Return the ends of ranges, none after the program that began it was replaced (ns)."""
        if not self.execs_ns:
            return end_ns
        limits = np.array([*self.execs_ns, np.iinfo(np.int64).max])
        place = np.searchsorted(limits[:-1], start_ns, side="right")
        return np.asarray(np.minimum(end_ns, limits[place]))


class ThreadLives:
    """The threads of some processes, as a trace database holds them."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        pids: list[int],
        execs: Sequence[tuple[int, int]] = (),
        other_clocks: Collection[int] = (),
        latest_ns: int = 0,
    ) -> None:
        """`execs`: when (ns) which thread replaced its program.

        `other_clocks`: process_id of those whose times are not ours.
        `latest_ns`: a time that no sound record is after; 0: not known.
        """
        self._other_clocks = frozenset(other_clocks)
        execs_ns: dict[int, list[int]] = {}
        for ts_ns, thread_id in sorted(execs):
            execs_ns.setdefault(thread_id, []).append(ts_ns)
        self._threads: dict[tuple[int, int], list[Life]] = {}
        self._processes: dict[int, list[Life]] = {}
        self._execs_ns: dict[int, set[int]] = {}
        chosen = sorted(set(pids))
        threads = con.execute(
            "SELECT p.pid, t.tid, t.process_id, t.thread_id, t.start_ns, t.end_ns"
            " FROM thread AS t JOIN process AS p ON p.process_id = t.process_id"
            " WHERE p.pid IN (SELECT unnest(?)) ORDER BY t.start_ns",
            [chosen],
        ).fetchall()
        for pid, tid, process_id, thread_id, start_ns, end_ns in threads:
            replaced = tuple(execs_ns.get(thread_id, ()))
            life = Life(process_id, thread_id, start_ns, end_ns, replaced)
            self._threads.setdefault((pid, tid), []).append(life)
            self._execs_ns.setdefault(process_id, set()).update(replaced)
        processes = con.execute(
            "SELECT pid, process_id, 0, start_ns, end_ns FROM process"
            " WHERE pid IN (SELECT unnest(?)) ORDER BY start_ns",
            [chosen],
        ).fetchall()
        for pid, *facts in processes:
            self._processes.setdefault(pid, []).append(Life(*facts))
        self.start_ns = min((row[4] for row in threads), default=0)
        """The first instant of any of them."""
        self.end_ns = max((row[5] for row in threads), default=2**62)
        """The last one."""
        self._latest_ns = latest_ns or self.end_ns + _TOO_LATE_NS

    def find(self, pid: int, tid: int, ts_ns: int) -> Life | None:
        """Return the thread that had these ids at an instant, or did when it was first seen."""
        return _at(self._threads.get((pid, tid), []), ts_ns)

    def process(self, pid: int, ts_ns: int) -> Life | None:
        """Return the process that had this id at an instant, or did when it was first seen."""
        return _at(self._processes.get(pid, []), ts_ns)

    def process_reported(self, pid: int, ts_ns: int) -> Life | None:
        """Return the process that reported something, perhaps just after its trace had ended."""
        lives = self._processes.get(pid, [])
        return _at(lives, ts_ns) or (lives[-1] if lives else None)

    def has_other_clock(self, pid: int, ts_ns: int) -> bool:
        """Tell whether the process that reported something did so by another clock than ours."""
        life = self.process_reported(pid, ts_ns)
        return life is not None and life.process_id in self._other_clocks

    def is_by_other_clock(self, process_id: int) -> bool:
        """Tell the same of a process that is known already."""
        return process_id in self._other_clocks

    def execs_ns(self, process_id: int) -> list[int]:
        """Return when a process replaced its program (ns), in the order of time."""
        return sorted(self._execs_ns.get(process_id, ()))

    def threads_at(
        self, pid: int, tid: int, start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return whose each interval of a thread id is: a thread_id, or one of those above."""
        owners = _owners(self._threads.get((pid, tid), []), start_ns, end_ns, is_thread=True)
        return self._by_our_clock(owners, pid, start_ns)

    def processes_at(
        self, pid: int, start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return whose each interval of a pid is: a process_id, or one of those above."""
        owners = _owners(self._processes.get(pid, []), start_ns, end_ns, is_thread=False)
        return self._by_our_clock(owners, pid, start_ns)

    def _by_our_clock(
        self, owners: NDArray[_Id], pid: int, start_ns: NDArray[np.int64]
    ) -> NDArray[_Id]:
        """Put ELSEWHEN where has_other_clock() is true."""
        lives = self._processes.get(pid, [])
        is_other = np.array([life.process_id in self._other_clocks for life in lives], dtype=bool)
        if is_other.any():
            ends = np.array([life.end_ns for life in lives[:-1]], dtype=np.int64)
            owners[is_other[np.searchsorted(ends, start_ns, side="right")]] = ELSEWHEN
        return owners

    def owners_at(
        self, pid: int, tid: int | None, at_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], ...]:
        """Return whose each instant is: process_id (or one of those above), thread_id, start, end.

        As find() and, without a thread id, process() tell of one instant.
        """
        of_pid = self._processes.get(pid, [])
        lives = of_pid if tid is None else self._threads.get((pid, tid), [])
        facts = [(one.process_id, one.thread_id, one.start_ns, one.end_ns) for one in lives]
        facts.append((NOBODY, NOBODY, 0, 0))
        ends = np.array([one.end_ns for one in lives], dtype=np.int64)
        found = np.array(facts, dtype=np.int64)[np.searchsorted(ends, at_ns, side="right")]
        process_id = self._by_our_clock(found[:, 0].copy(), pid, at_ns)
        return process_id, found[:, 1], found[:, 2], found[:, 3]

    def is_too_late(self, at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which instants lie after the recording, so that nothing happened then."""
        return at_ns > self._latest_ns

    def process_ids(self) -> list[int]:
        """Return all processes that have one of the pids."""
        return sorted(life.process_id for lives in self._processes.values() for life in lives)


def _at(lives: list[Life], ts_ns: int) -> Life | None:
    """Return the first life that ends after an instant; lives are in the order of time."""
    place = bisect_right([life.end_ns for life in lives], ts_ns)
    return lives[place] if place < len(lives) else None


def _owners(
    lives: list[Life], start_ns: NDArray[np.int64], end_ns: NDArray[np.int64], *, is_thread: bool
) -> NDArray[np.int32]:
    """As _at(), of many: the first life that ends after the start, if it began before the end."""
    if not lives:
        return np.full(len(start_ns), NOBODY, dtype=np.int32)
    ends = np.array([life.end_ns for life in lives], dtype=np.int64)
    begins = np.array([*(life.start_ns for life in lives), np.iinfo(np.int64).min], dtype=np.int64)
    ids = [life.thread_id if is_thread else life.process_id for life in lives]
    place = np.searchsorted(ends, start_ns, side="right")
    owners = np.array([*ids, AFTER], dtype=np.int32)[place]
    begin = begins[place]
    owners[(start_ns < begin) & (end_ns <= begin)] = OUTSIDE
    return owners
