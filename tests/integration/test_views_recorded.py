"""The views on real recordings: every part adds up to a whole that plain Python works out."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from recording import rlscope
from rlscope_analysis.reports import REPORTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.root

# Two processes on one CPU, threads that sleep, processes that come and go.
RECORDED = {
    "pingpong": ["--round-trips=2000"],
    "threads": ["--threads=4"],
    "forker": ["0", "3"],
}
NOT_RECORDED = {"layer", "transitions", "gpu", "kernel", "launch", "idle"}
# Measured, and none of these programs has any.
# Refused or empty in a program without operations, GPU, GIL waits or Python functions.
NONE_MARKED = {"operation", "operation-overlap", "gil", "peer", "functions", "operation-functions"}


@pytest.fixture(scope="module", params=RECORDED)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a workload."""
    name = request.param
    path: Path = tmp_path_factory.mktemp("recorded") / f"{name}.duckdb"
    done = rlscope(
        "-o", path, "--", sys.executable, WORKLOADS / f"{name}.py", *RECORDED[name], typed="\n"
    )
    assert done.returncode == 0, done.stderr
    return path


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Return how long at least one of the intervals lasted."""
    total_ns, reached_ns = 0, None
    for start_ns, end_ns in sorted(intervals):
        begin_ns = start_ns if reached_ns is None else max(start_ns, reached_ns)
        total_ns += max(0, end_ns - begin_ns)
        reached_ns = max(begin_ns, end_ns)
    return total_ns


def sums(trace: rlscope_analysis.Trace, query: str) -> dict[int, int]:
    return {key: int(value) for key, value in trace.sql(query).fetchall()}


def check_conservation(trace: rlscope_analysis.Trace) -> None:
    """Hold every view to the rows of the tables it is made from."""
    threads = trace.sql("SELECT thread_id, end_ns - start_ns, lost_ns FROM thread").fetchall()
    lifetimes = {thread_id: length_ns for thread_id, length_ns, _ in threads if length_ns}
    for view in ("breakdown", "thread_bucket", "resource_time", "thread_overlap"):
        found = sums(trace, f"SELECT thread_id, sum(time_ns) FROM {view} GROUP BY 1")
        assert found == lifetimes, view
    states = trace.sql("SELECT thread_id, start_ns, end_ns, state FROM thread_state").fetchall()
    by_state: Counter[str] = Counter({"lost": sum(row[2] for row in threads)})
    running: Counter[int] = Counter()
    for thread_id, start_ns, end_ns, state in states:
        by_state[state] += end_ns - start_ns
        running[thread_id] += (end_ns - start_ns) * (state == "running")
    # Which of the layers, and which of the waits, is the business of other tests.
    on_cpu = "('python', 'simulator', 'backend', 'cuda_api', 'spin', 'other', 'running')"
    off_cpu = "('gil_wait', 'gpu_wait', 'io_wait', 'sleeping')"
    buckets = dict(
        trace.sql(
            f"SELECT CASE WHEN bucket IN {on_cpu} THEN 'running' WHEN bucket IN {off_cpu} THEN"
            " 'off' ELSE bucket END, sum(time_ns)::BIGINT FROM breakdown GROUP BY 1"
        ).fetchall()
    )
    by_state["off"] = by_state.pop("sleeping", 0) + by_state.pop("blocked", 0)
    assert buckets == {state: time_ns for state, time_ns in by_state.items() if time_ns}
    ((waited_ns,),) = trace.sql(
        "SELECT coalesce(sum(time_ns), 0)::BIGINT FROM blocked_on"
    ).fetchall()
    assert waited_ns == by_state["off"]
    check_sets(trace, [(start, end) for _, start, end, state in states if state == "running"])
    query = "SELECT track, count(*) FROM timeline WHERE track = 'thread_state' GROUP BY 1"
    assert trace.sql(query).fetchall() == [("thread_state", len(states))]


def check_sets(trace: rlscope_analysis.Trace, running: list[tuple[int, int]]) -> None:
    processes = sums(trace, "SELECT process_id, end_ns - start_ns FROM process")
    found = sums(trace, "SELECT process_id, sum(time_ns) FROM resource_overlap GROUP BY 1")
    assert found == {process: length for process, length in processes.items() if length}
    ((worked_ns,),) = trace.sql("SELECT sum(time_ns)::BIGINT FROM process_overlap").fetchall()
    assert worked_ns == union_ns(running)


def test_every_view_adds_up(recorded: Path) -> None:
    with rlscope_analysis.open(recorded) as trace:
        check_conservation(trace)
        ((span_ns,),) = trace.sql("SELECT max(end_ns) - min(start_ns) FROM thread").fetchall()
    third_ns = span_ns // 3
    for start_ns, end_ns in ((0, third_ns), (third_ns, 2 * third_ns), (2 * third_ns, span_ns)):
        with rlscope_analysis.open(recorded, start=f"{start_ns}ns", end=f"{end_ns}ns") as part:
            check_conservation(part)


def test_stretches_add_up_to_the_whole(recorded: Path) -> None:
    query = "SELECT bucket, sum(time_ns) FROM breakdown GROUP BY 1"
    with rlscope_analysis.open(recorded) as trace:
        whole: dict[Any, int] = sums(trace, query)
        ((span_ns,),) = trace.sql("SELECT max(end_ns) - min(start_ns) FROM thread").fetchall()
    parts: Counter[Any] = Counter()
    for at in range(3):
        bounds = {"start": f"{span_ns * at // 3}ns", "end": f"{span_ns * (at + 1) // 3}ns"}
        with rlscope_analysis.open(recorded, **bounds) as part:
            parts.update(sums(part, query))
    assert parts == whole


@pytest.mark.parametrize("name", REPORTS)
def test_each_view_is_printed_or_says_that_it_was_not_measured(recorded: Path, name: str) -> None:
    done = rlscope("summarize", recorded, "--view", name, "--format", "json")
    if name in NOT_RECORDED:
        assert done.returncode == 1
        assert "was not measured" in done.stderr
        assert not done.stdout
    else:
        assert done.returncode == 0, done.stderr
        assert bool(json.loads(done.stdout)["rows"]) is (name not in NONE_MARKED)
