"""What processes in a time namespace tell of themselves is left out, counted, and said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_spool import losses, rows, saved
from shim_builder import END, MARK, START, ShimBuilder
from spool_builder import DEAD, SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

FINISH = 10_000
OPERATIONS = "operation_other_clock"
GPU_RECORDS = "gpu_other_clock"
TOLD_NS = 150
TABLES = {
    "operation": ("start_ns", 4), "async_range": ("start_ns", 1), "mark": ("ts_ns", 1),
    "cuda_call": ("start_ns", 1), "gpu_activity": ("start_ns", 1), "gpu_overhead": ("start_ns", 1),
    "gpu_memory": ("ts_ns", 1),
}  # fmt: skip
"""Table -> its time, and how many rows it has of a process below."""


def lives(
    spool: SpoolBuilder, thread_id: int, tid: int, *, start_ns: int = 100, creator: int = 0
) -> None:
    """Let a process live to the end."""
    end_ns = FINISH - 50
    spool.thread(thread_id, ts_ns=start_ns, tid=tid, creator=creator)
    spool.cycle(thread_id, off_ns=start_ns, wake_ns=start_ns, in_ns=start_ns + 10, out_ns=end_ns)
    spool.close(thread_id, off_ns=end_ns)


def kernel_half(folder: Path) -> Path:
    """Write process 10 with another clock, its fork 20, and process 30 with ours."""
    spool = SpoolBuilder()
    lives(spool, 1, 10)
    lives(spool, 2, 20, start_ns=200, creator=1)
    lives(spool, 3, 30)
    session = {
        "host": "box", "operations": {"measured": True}, "gpu": {"measured": True},
    }  # fmt: skip
    other = {"event": "other_clock", "pid": 10, "ts_ns": TOLD_NS}
    return spool.write(folder, end_ns=FINISH, session=session, probes=[other])


def reported(shim: ShimBuilder, pid: int, at_ns: int) -> None:
    """Let a process tell one thing of each kind: six of operations, four of the GPU."""
    shim.source(pid=pid)
    shim.thread(tid=pid, ts_ns=at_ns)
    shim.status(ts_ns=at_ns)
    for step in range(4):
        shim.range("step", at_ns + 10 * step, at_ns + 10 * step + 5)
    shim.event(START, "async", at_ns, 0, id=1)
    shim.event(END, "", 0, at_ns + 50, id=1)
    shim.event(MARK, "mark", at_ns + 1, 0)
    shim.call(pid, at_ns + 2, at_ns + 3, correlation=1)
    shim.activity(at_ns + 4, at_ns + 8, "kernel", correlation=1)
    shim.overhead(1, at_ns + 10, at_ns + 20)
    shim.memory(at_ns + 30, 64, 1, release=False)


# By the other clock: in the trace, though it was not then; long after it.
@pytest.fixture(scope="module", params=[5_000, 10**15])
def trace(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return the trace of all three."""
    shim = ShimBuilder()
    reported(shim, 10, request.param)
    reported(shim, 20, request.param)
    reported(shim, 30, 1_000)
    return saved(kernel_half(tmp_path_factory.mktemp("t") / "spool"), shim)[0]


@pytest.mark.parametrize("table", TABLES)
def test_only_what_our_clock_dates_is_stored(trace: Path, table: str) -> None:
    time, of_ours = TABLES[table]
    ((count, first_ns),) = rows(trace, f"SELECT count(*), min({time}) FROM {table}")
    assert count == of_ours
    assert 1_000 <= int(str(first_ns)) <= 1_030


def test_all_else_is_a_loss_of_the_fork_too(trace: Path) -> None:
    assert losses(trace) == {OPERATIONS: ("unmatched", 12), GPU_RECORDS: ("unmatched", 8)}


def test_it_is_not_measured_and_why(trace: Path) -> None:
    reported_of = rows(
        trace,
        "SELECT DISTINCT kind, process_id, measured, code = 'other_clock' FROM coverage"
        " WHERE process_id IS NOT NULL ORDER BY ALL",
    )
    others = [
        (kind, process, False, True)
        for kind in ("cuda_call", "gpu_activity", "operation") for process in (1, 2)
    ]  # fmt: skip
    ours = [("cuda_call", 3, True, False), ("gpu_activity", 3, True, False)]
    assert reported_of == sorted([*others, *ours])
    assert rows(trace, "SELECT process_id, ts_ns FROM gpu_status ORDER BY 1") == [
        (1, None), (2, None), (3, 1_000),
    ]  # fmt: skip


def test_a_process_that_got_the_pid_later_keeps_its_times(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.cycle(1, off_ns=100, wake_ns=100, in_ns=110, out_ns=900, out_state=DEAD)
    lives(spool, 2, 10, start_ns=1_000)
    other = {"event": "other_clock", "pid": 10, "ts_ns": TOLD_NS}
    folder = spool.write(tmp_path / "spool", end_ns=FINISH, probes=[other])
    shim = ShimBuilder()
    reported(shim, 10, 300)
    reported(shim, 10, 2_000)
    path, _ = saved(folder, shim)
    assert rows(path, "SELECT thread_id, count(*) FROM operation GROUP BY 1") == [(2, 4)]
    assert rows(path, "SELECT thread_id, start_ns FROM cuda_call") == [(2, 2_002)]
    assert losses(path) == {OPERATIONS: ("unmatched", 6), GPU_RECORDS: ("unmatched", 4)}
