"""`--view bubbles`: two ranks that wait for each other's gradients, every number by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlscope_analysis.errors import TraceError
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, lost, preempted, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

# The first iteration is in no figure.
ROUNDS = 3
WITH_FIRST = ROUNDS + 1
PARTS = ("running_ns", "runnable_ns", "waits_ns", "idle_ns", "lost_ns")


def two_ranks(path: Path, acting_ns: int = 20) -> TraceBuilder:
    """Build rounds of 100 ns; threads 1, 2, 5: a rank and its gloo, 3 and 4: the other, slower one.

    The first waits at its gloo, which waits at the loop that reads from the other's: three wakeups.
    """
    builder = TraceBuilder(path)
    for kind in ("thread_state", "operation"):
        builder.coverage(kind)
    end = 100 * WITH_FIRST
    fast, slow = (builder.process(pid=pid, name=name, end_ns=end)
                  for pid, name in ((10, "rank0"), (20, "rank1")))  # fmt: skip
    builder.thread(
        fast,
        states=[
            run(10), sleep(10), run(40), sleep(30), woken(2, by=2), run(5), preempted(3),
        ] * WITH_FIRST,
    )  # fmt: skip
    builder.thread(fast, states=[sleep(88), woken(1, by=5), run(1), sleep(10)] * WITH_FIRST)
    builder.thread(slow, states=[run(86), lost(4), run(10)] * WITH_FIRST)
    builder.thread(slow, states=[sleep(86), run(4), sleep(10)] * WITH_FIRST)
    builder.thread(fast, states=[sleep(86), woken(1, by=4), run(2), sleep(11)] * WITH_FIRST)
    for start in range(0, end, 100):
        builder.operation(1, start, start + acting_ns, "simulation", source="auto")
        builder.operation(1, start + 20, start + 100, "backpropagation", source="auto")
        builder.operation(3, start + 20, start + 90, "backpropagation", source="auto")
    return builder


def rows_of(builder: TraceBuilder) -> dict[tuple[str, int], dict[str, Any]]:
    path = builder.path if builder.path.exists() else builder.write()
    with open_trace(path) as trace:
        rows = answer(trace, REPORTS["bubbles"]).data.records()
        return {(row["phase"], row["pid"]): row for row in rows}


def test_a_wait_behind_a_thread_of_ones_own_is_for_the_other_process(tmp_path: Path) -> None:
    rows = rows_of(two_ranks(tmp_path / "trace.duckdb"))
    assert list(rows) == [
        ("backpropagation", 10), ("backpropagation", 20), ("simulation", 10), ("simulation", 20),
    ]  # fmt: skip
    learning = rows["backpropagation", 10]
    assert [learning[name] / ROUNDS for name in PARTS] == [45, 5, 30, 0, 0]
    assert (learning["waits_for_pid"], learning["waits_for"]) == (20, "rank1")
    # The other one was waited for, last in each round.
    other = rows["backpropagation", 20]
    assert [other[name] / ROUNDS for name in PARTS] == [76, 0, 0, 0, 4]
    assert (learning["times_last"], other["times_last"]) == (0, ROUNDS)
    acting = rows["simulation", 10]
    assert [acting[name] / ROUNDS for name in PARTS] == [10, 0, 0, 10, 0]
    assert acting["waits_for_pid"] is None


def test_the_parts_of_each_process_add_up_to_the_phases(tmp_path: Path) -> None:
    rows = rows_of(two_ranks(tmp_path / "trace.duckdb"))
    for row in rows.values():
        assert sum(row[name] for name in PARTS) == row["time_ns"], row
    for pid in (10, 20):
        assert sum(row["time_ns"] for (_, one), row in rows.items() if one == pid) == 100 * ROUNDS


def test_who_has_the_gil_is_not_waited_for_as_a_messenger(tmp_path: Path) -> None:
    builder = two_ranks(tmp_path / "trace.duckdb")
    for start in range(0, 100 * WITH_FIRST, 100):
        builder.wait(1, start + 60, start + 90, "gil")
    learning = rows_of(builder)["backpropagation", 10]
    assert [learning[name] / ROUNDS for name in PARTS] == [45, 5, 0, 30, 0]


def test_what_is_in_no_phase_is_outside_and_a_process_that_came_later_has_its_own_time(
    tmp_path: Path,
) -> None:
    builder = two_ranks(tmp_path / "trace.duckdb", acting_ns=15)
    late = builder.process(pid=30, name="late", start_ns=150)
    builder.thread(late, states=[run(30)], start_ns=150)
    rows = rows_of(builder)
    assert rows["(no phase)", 10]["time_ns"] == 5 * ROUNDS
    assert rows["backpropagation", 30]["time_ns"] == rows["backpropagation", 30]["running_ns"] == 30
    assert ("simulation", 30) not in rows


def test_what_was_not_measured_is_not_zero(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    builder.coverage("thread_state", measured=False)
    thread = builder.thread(builder.process(pid=1, end_ns=100), states=[], end_ns=100)
    builder.operation(thread, 0, 60, "backpropagation", source="auto")
    with open_trace(builder.write()) as trace, pytest.raises(TraceError, match="thread_state"):
        answer(trace, REPORTS["bubbles"])
