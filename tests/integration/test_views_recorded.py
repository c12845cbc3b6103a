"""The views on real recordings: every part adds up to a whole that plain Python works out."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from typer import Typer
from typer.testing import CliRunner

import rlscope_analysis
from conftest import WORKLOADS
from recording import rlscope
from rlscope_analysis.reports import REPORTS
from rlscope_trace.cli.summarize import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    Rows = list[tuple[Any, ...]]

pytestmark = pytest.mark.root

# Two processes on one CPU, threads that sleep, processes that come and go; and with layers.
PLAIN = ["--sample-hz=0", "--transitions=off"]
RECORDED = {
    "pingpong": (PLAIN, ["--round-trips=2000"]),
    "threads": (PLAIN, ["--threads=4"]),
    "forker": (PLAIN, ["0", "3"]),
    "sampled": (["--sample-hz=999"], ["threads"]),
}
GPU = {
    "gpu", "kernel", "launch", "idle", "utilization", "attribution", "latency", "gpu-idle",
}  # fmt: skip
# Recordings of tests take no calibration.
COSTS = {"corrected", "overhead", "wall"}
NOT_RECORDED = GPU | {
    "layer", "transitions", "functions", "path-functions", "operation-functions",
    "launch-functions",
}  # fmt: skip
# Measured, and none of these programs has any; or as with samples and no GPU, in part.
NONE_MARKED = {"operation", "operation-overlap", "launch-functions"}
LAYERS = {"python", "simulator", "backend", "spin", "other", "running"}
# What a thread slept in, as the bucket that it is counted in.
BUCKETS = {
    None: "sleeping", "lock": "sleeping", "sleep": "sleeping", "process": "sleeping",
    "gil": "gil_wait",
    "io": "io_wait", "pipe": "io_wait", "socket": "io_wait", "poll": "io_wait",
}  # fmt: skip


@pytest.fixture(scope="module", params=RECORDED)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a workload."""
    name = request.param
    options, arguments = RECORDED[name]
    path: Path = tmp_path_factory.mktemp("recorded") / f"{name}.duckdb"
    done = rlscope(
        "-o", path, *options, "--", sys.executable, WORKLOADS / f"{name}.py", *arguments, typed="\n"
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
    waits = trace.sql("SELECT thread_id, start_ns, end_ns, kind FROM wait").fetchall()
    running: Counter[int] = Counter()
    for thread_id, start_ns, end_ns, state in states:
        running[thread_id] += (end_ns - start_ns) * (state == "running")
    expected = by_bucket(states, waits)
    expected["lost"] = sum(row[2] for row in threads)
    assert merged(sums(trace, "SELECT bucket, sum(time_ns) FROM breakdown GROUP BY 1")) == {
        bucket: time_ns for bucket, time_ns in expected.items() if time_ns
    }
    assert sums(trace, "SELECT thread_id, running_ns FROM cpu_share") == {
        thread_id: running[thread_id] for thread_id, _, _ in threads
    }
    waited = trace.sql("SELECT coalesce(sum(time_ns), 0)::BIGINT FROM blocked_on").fetchall()
    assert waited == [(sum(expected[bucket] for bucket in set(BUCKETS.values())),)]
    check_sets(trace, [(start, end) for _, start, end, state in states if state == "running"])
    for track, *counts in trace.sql(TRACKS).fetchall():
        assert len(set(counts)) == 1, track


TRACKS = """
WITH rows(track, held) AS (
    SELECT 'thread_state', count(*) FROM thread_state UNION ALL
    SELECT 'wait', count(*) FROM wait UNION ALL
    SELECT 'native_call', count(*) FROM native_call UNION ALL
    SELECT 'operation', count(*) FROM operation
)
SELECT coalesce(r.track, t.track), coalesce(r.held, 0), count(t.track)
FROM rows AS r FULL JOIN timeline AS t ON t.track = r.track
GROUP BY r.track, t.track, r.held
"""


def by_bucket(states: Rows, waits: Rows) -> Counter[str]:
    """Add up in plain Python what every bucket must hold; the layers together are running."""
    kinds = {(thread_id, start, end): kind for thread_id, start, end, kind in waits}
    found: Counter[str] = Counter()
    reported = set()
    for thread_id, start_ns, end_ns, state in states:
        interval = (thread_id, start_ns, end_ns)
        bucket = state
        if state in {"sleeping", "blocked"}:
            reported.add(interval)
            unknown = "io" if state == "blocked" else None
            bucket = BUCKETS[kinds.get(interval, unknown)]
        found[bucket] += end_ns - start_ns
    # A reason is told of whole sleeps only.
    assert kinds.keys() <= reported
    return found


def merged(buckets: dict[Any, int]) -> Counter[str]:
    """Return the buckets with all layers as one."""
    found: Counter[str] = Counter()
    for bucket, time_ns in buckets.items():
        found["running" if bucket in LAYERS else bucket] += time_ns
    return found


def check_sets(trace: rlscope_analysis.Trace, running: list[tuple[int, int]]) -> None:
    processes = sums(trace, "SELECT process_id, end_ns - start_ns FROM process")
    found = sums(trace, "SELECT process_id, sum(time_ns) FROM resource_overlap GROUP BY 1")
    assert found == {process: length for process, length in processes.items() if length}
    ((worked_ns,),) = trace.sql(
        "SELECT coalesce(sum(time_ns), 0)::BIGINT FROM process_overlap"
    ).fetchall()
    assert worked_ns == union_ns(running)


def test_every_view_adds_up(recorded: Path) -> None:
    with rlscope_analysis.open(recorded) as trace:
        check_conservation(trace)
        ((span_ns,),) = trace.sql("SELECT max(end_ns) - min(start_ns) FROM thread").fetchall()
    third_ns = span_ns // 3
    for start_ns, end_ns in ((0, third_ns), (third_ns, 2 * third_ns), (2 * third_ns, span_ns)):
        with rlscope_analysis.open(recorded, start=f"{start_ns}ns", end=f"{end_ns}ns") as part:
            check_conservation(part)


def test_intervals_add_up_to_the_whole(recorded: Path) -> None:
    query = "SELECT bucket, sum(time_ns) FROM breakdown GROUP BY 1"
    with rlscope_analysis.open(recorded) as trace:
        whole: dict[Any, int] = sums(trace, query)
        ((span_ns,),) = trace.sql("SELECT max(end_ns) - min(start_ns) FROM thread").fetchall()
    parts: Counter[Any] = Counter()
    for at in range(3):
        bounds = {"start": f"{span_ns * at // 3}ns", "end": f"{span_ns * (at + 1) // 3}ns"}
        with rlscope_analysis.open(recorded, **bounds) as part:
            parts.update(sums(part, query))
    # What samples split, they split within each interval: only the whole is the same.
    assert merged(parts) == merged(whole)
    if "sampled" not in recorded.name:
        assert parts == whole


def test_each_view_is_printed_or_says_that_it_was_not_measured(recorded: Path) -> None:
    """In this process: its start takes longer than most views."""
    app = Typer()
    app.command()(summarize)
    none_has_rows = NONE_MARKED | lacking(recorded)
    for name in REPORTS:
        done = CliRunner().invoke(app, [str(recorded), "--view", name, "--format", "json"])
        if name in COSTS:
            assert "does not tell what its recording cost" in str(done.exception), name
            assert not done.stdout
        elif name in (GPU if "sampled" in recorded.name else NOT_RECORDED):
            assert "was not measured" in str(done.exception), name
            assert not done.stdout
        else:
            assert done.exit_code == 0, (name, done.exception)
            assert bool(json.loads(done.stdout)["rows"]) is (name not in none_has_rows), name


@pytest.mark.parametrize(("name", "message"), [("cpu", ""), ("kernel", "was not measured")])
def test_the_command_says_so_too(recorded: Path, name: str, message: str) -> None:
    done = rlscope("summarize", recorded, "--view", name, "--format", "json")
    assert done.returncode == bool(message), done.stderr
    assert message in done.stderr
    assert bool(done.stdout) is not bool(message)


def lacking(path: Path) -> set[str]:
    """Return the reports of waits and causes that this program had none of; that is chance."""
    with rlscope_analysis.open(path) as trace:
        kinds = {kind for (kind,) in trace.sql("SELECT DISTINCT kind FROM wait").fetchall()}
        none_found = set() if trace.sql("FROM finding").fetchall() else {"findings"}
    needed = {"gil": {"gil"}, "peer": {"pipe", "socket", "poll", "process"}}
    return none_found | {name for name, some in needed.items() if not some & kinds}
