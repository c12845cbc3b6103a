"""What a sleeping thread waited for follows from the system call that it slept in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from finalising import finalise
from rlscope_trace.spool.directory import open_spool
from spool_builder import (
    BLOCKED,
    DEVICE,
    DISK,
    EVENT,
    FOUND,
    PIPE,
    RUNNABLE,
    SLEEPING,
    SOCKET,
    SpoolBuilder,
    reason,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

READ, WRITE, POLL, SELECT, NANOSLEEP, WAIT4, FUTEX, CLOCK_NANOSLEEP, EPOLL_WAIT, FSYNC, IOCTL = (
    0, 1, 7, 23, 35, 61, 202, 230, 232, 74, 16,
)  # fmt: skip
FLOCK, SEMOP = 73, 65
GIL = 0x7F0000001000
# RLS_REASON_MUTEX of bpf/records.h.
MUTEX = 1 << 47

PYTHON = {"event": "python", "pid": 10, "ts_ns": 150, "version": [3, 11, 2],
          "implementation": "cpython", "free_threaded": False,
          "runtime_start": GIL, "runtime_end": GIL + 0x1000}  # fmt: skip


def waits(
    spool: SpoolBuilder,
    tmp_path: Path,
    *,
    end_ns: int,
    probes: Sequence[dict[str, object]] = (),
    columns: str = "thread_id, start_ns, end_ns, kind",
) -> list[tuple[Any, ...]]:
    directory = spool.write(tmp_path / "t.spool", end_ns=end_ns, probes=probes)
    output = tmp_path / "t.duckdb"
    finalise(
        open_spool(directory), output,
    )  # fmt: skip
    with duckdb.connect(str(output), read_only=True) as con:
        return con.execute(f"SELECT {columns} FROM wait").fetchall()


def sleeper(why: int, state: int = SLEEPING) -> SpoolBuilder:
    """One thread that runs, sleeps in [200, 300) for this reason, and runs again."""
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.cycle(
        1, off_ns=100, in_ns=110, out_ns=200, off_state=RUNNABLE, out_state=state, out_reason=why
    )
    spool.cycle(1, off_ns=200, wake_ns=300, in_ns=310, out_ns=400, off_state=state)
    spool.close(1, off_ns=400)
    return spool


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        (reason(FUTEX, detail=0x1234), "lock"),
        (reason(READ, file=PIPE, detail=77), "pipe"),
        (reason(WRITE, file=SOCKET), "socket"),
        (reason(READ, file=DISK), "io"),
        (reason(READ, file=EVENT), "poll"),
        (reason(POLL, detail=3), "poll"),
        (reason(POLL, detail=1, file=PIPE), "pipe"),
        (reason(POLL, detail=0), "sleep"),
        (reason(SELECT, detail=0), "sleep"),
        (reason(SELECT, detail=9), "poll"),
        (reason(EPOLL_WAIT), "poll"),
        (reason(NANOSLEEP), "sleep"),
        (reason(CLOCK_NANOSLEEP), "sleep"),
        (reason(WAIT4), "process"),
        (reason(FSYNC, file=DISK), "io"),
    ],
)
def test_the_system_call_tells_the_kind(why: int, kind: str, tmp_path: Path) -> None:
    assert waits(sleeper(why), tmp_path, end_ns=500) == [(1, 200, 300, kind)]


@pytest.mark.parametrize("why", [0, reason(IOCTL, file=DEVICE), reason(9999)])
def test_what_is_not_known_is_no_row(why: int, tmp_path: Path) -> None:
    assert waits(sleeper(why, BLOCKED), tmp_path, end_ns=500) == []


def test_a_futex_inside_the_interpreter_is_its_gil(tmp_path: Path) -> None:
    inside = sleeper(reason(FUTEX, detail=GIL + 0x10))
    assert waits(inside, tmp_path, end_ns=500, probes=[PYTHON]) == [(1, 200, 300, "gil")]


@pytest.mark.parametrize("address", [GIL - 1, GIL + 0x1000])
def test_a_futex_outside_is_another_lock(address: int, tmp_path: Path) -> None:
    outside = sleeper(reason(FUTEX, detail=address))
    assert waits(outside, tmp_path, end_ns=500, probes=[PYTHON]) == [(1, 200, 300, "lock")]


def test_without_a_gil_all_futexes_are_locks(tmp_path: Path) -> None:
    free = PYTHON | {"free_threaded": True}
    spool = sleeper(reason(FUTEX, detail=GIL))
    assert waits(spool, tmp_path, end_ns=500, probes=[free]) == [(1, 200, 300, "lock")]


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        (reason(FUTEX, detail=0x1234), ("lock", 0x1234, False)),
        (reason(FUTEX, detail=0x1234 | MUTEX), ("lock", 0x1234, True)),
        (reason(FLOCK), ("lock", None, True)),
        (reason(SEMOP), ("lock", None, False)),
        (reason(READ, file=PIPE, detail=77), ("pipe", None, None)),
        (reason(FUTEX, detail=GIL | MUTEX), ("gil", None, None)),
    ],
)
def test_which_lock_it_is(
    why: int, expected: tuple[str, int | None, bool | None], tmp_path: Path
) -> None:
    columns = "kind, lock_address, is_mutex"
    assert waits(sleeper(why), tmp_path, end_ns=500, probes=[PYTHON], columns=columns) == [expected]


def test_a_lost_record_hides_why(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=200, out_reason=reason(NANOSLEEP))
    # The cycle that ended at 250 is lost, and with it why the thread slept from then on.
    spool.cycle(1, off_ns=250, wake_ns=300, in_ns=310, out_ns=400)
    spool.close(1, off_ns=400)
    assert waits(spool, tmp_path, end_ns=500) == []


def test_who_sleeps_at_the_attach_and_at_the_end_has_a_reason_too(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10, entered=FOUND, off_reason=reason(WAIT4))
    spool.cycle(1, off_ns=100, wake_ns=180, in_ns=190, out_ns=200, out_reason=reason(NANOSLEEP))
    spool.close(1, off_ns=200)
    assert waits(spool, tmp_path, end_ns=500) == [(1, 100, 180, "process"), (1, 200, 500, "sleep")]


def test_a_forked_child_has_the_gil_of_its_parent_until_it_calls_exec(tmp_path: Path) -> None:
    spool = sleeper(0)
    for child, execs in ((2, False), (3, True)):
        spool.thread(child, ts_ns=160, tid=10 * child, creator=1)
        if execs:
            spool.exec(child, ts_ns=170, tid=10 * child)
        spool.cycle(
            child, off_ns=160, in_ns=165, out_ns=200, off_state=RUNNABLE,
            out_reason=reason(FUTEX, detail=GIL),
        )  # fmt: skip
        spool.close(child, off_ns=200)
    found = waits(spool, tmp_path, end_ns=500, probes=[PYTHON])
    assert found == [(2, 200, 500, "gil"), (3, 200, 500, "lock")]


def test_the_next_program_of_a_process_has_a_gil_elsewhere(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    at = reason(FUTEX, detail=GIL)
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=200, off_state=RUNNABLE, out_reason=at)
    spool.cycle(1, off_ns=200, wake_ns=300, in_ns=310, out_ns=400, out_reason=at)
    spool.exec(1, ts_ns=350, tid=10)
    spool.close(1, off_ns=400)
    later = PYTHON | {"ts_ns": 380, "runtime_start": 2 * GIL, "runtime_end": 2 * GIL + 8}
    found = waits(spool, tmp_path, end_ns=500, probes=[PYTHON, later])
    assert found == [(1, 200, 300, "gil"), (1, 400, 500, "lock")]
