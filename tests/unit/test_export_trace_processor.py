"""Perfetto's own trace_processor sees every slice of an export, and finds nothing wrong with it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import trace_processor
from rlscope_analysis.export.timeline import Timeline
from rlscope_analysis.trace import Trace
from trace_builder import INTERRUPT, TraceBuilder, blocked, lost, preempted, run, sleep, woken
from trace_processor import TraceProcessor

if TYPE_CHECKING:
    from collections.abc import Iterator

ORIGIN = 4_000_000_000_000
FORMATS = pytest.mark.parametrize("form", ["perfetto", "chrome"])


@pytest.fixture(autouse=True)
def _needs_trace_processor() -> None:
    reason = trace_processor.lacking()
    if reason and "trace_processor" in os.environ.get("RLSCOPE_REQUIRE", "").split(","):
        pytest.fail(f"RLSCOPE_REQUIRE asks for trace_processor: {reason}", pytrace=False)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def trace() -> Iterator[Trace]:
    """Yield a trace with something of every kind, some of it overlapping where it should not."""
    builder = TraceBuilder(Path("in-memory"), with_views=False)
    shell = builder.process(pid=90, name="bash", start_ns=ORIGIN, end_ns=ORIGIN + 300)
    process = builder.process(
        pid=100, command="python train.py", parent=shell, start_ns=ORIGIN, end_ns=ORIGIN + 300
    )
    main = builder.thread(
        process, tid=100, name="main", start_ns=ORIGIN,
        states=[run(10), sleep(20), woken(5, by=INTERRUPT), run(5, cpu=1), preempted(10), lost(50),
                blocked(30), woken(2, by=1), run(100)],
    )  # fmt: skip
    builder.thread(process, tid=101, name="quiet", states=[run(300)], start_ns=ORIGIN)
    for start, end, name in (
        (0, 90, "iteration"), (10, 20, "forward"), (30, 100, "badly nested"),
        (120, 120, "no time"), (120, 120, "no time"), (120, 150, "last"),
    ):  # fmt: skip
        builder.operation(main, ORIGIN + start, ORIGIN + end, name, domain="D")
    builder.native_call(main, ORIGIN + 12, ORIGIN + 18, "backend", "aten::mm")
    builder.cuda_call(main, ORIGIN + 13, ORIGIN + 14, correlation_id=5)
    builder.cuda_call(main, ORIGIN + 15, ORIGIN + 16, correlation_id=2**40)
    builder.wait(main, ORIGIN + 10, ORIGIN + 30, "lock")
    builder.async_range(process, ORIGIN + 5, ORIGIN + 50, "request 1")
    builder.async_range(process, ORIGIN + 10, ORIGIN + 60, "request 2")
    for start, end, name, correlation in (
        (20, 60, "gemm", 5), (40, 80, "overlapping", 2**40),
        (45, 50, "inside", None), (60, 70, "after", 5),
    ):  # fmt: skip
        builder.gpu_activity(
            process, ORIGIN + start, ORIGIN + end, name=name, correlation_id=correlation
        )
    builder.clock(ts_ns=ORIGIN, realtime_ns=1_700_000_000_000_000_000)
    builder.loss(count=3)
    connection = duckdb.connect()
    builder.fill(connection)
    with Trace(Path("in-memory"), connection, 1) as filled:
        yield filled


def exported(trace: Trace, form: str) -> bytes:
    return b"".join(Timeline(trace, form).pieces())


def in_tables(trace: Trace) -> Counter[tuple[object, ...]]:
    """Return name, start and length of everything that is shown as a slice."""
    rows: Counter[tuple[object, ...]] = Counter()
    for query in (
        "SELECT name, start_ns, end_ns FROM operation",
        "SELECT symbol, start_ns, end_ns FROM native_call JOIN site USING (site_id)",
        "SELECT name, start_ns, end_ns FROM cuda_call",
        "SELECT kind, start_ns, end_ns FROM wait",
        "SELECT state, start_ns, end_ns FROM thread_state",
        "SELECT name, start_ns, end_ns FROM async_range",
        "SELECT name, start_ns, end_ns FROM gpu_activity",
        "SELECT 'lifetime', start_ns, end_ns FROM process",
        "SELECT 'lifetime', start_ns, end_ns FROM thread",
    ):
        for name, start_ns, end_ns in trace.connection.execute(query).fetchall():
            rows[(name, start_ns, end_ns - start_ns)] += 1
    return rows


@FORMATS
def test_every_slice_arrives_and_nothing_is_wrong(trace: Trace, form: str) -> None:
    with TraceProcessor(exported(trace, form)) as viewer:
        seen = viewer.rows("SELECT name, ts, dur FROM slice WHERE category IS NOT 'rlscope_trace'")
        assert Counter(seen) == in_tables(trace)
        assert viewer.complaints() == []


@FORMATS
def test_states_last_as_long_as_in_the_trace(trace: Trace, form: str) -> None:
    ours = trace.connection.execute(
        "SELECT state, sum(end_ns - start_ns)::BIGINT FROM thread_state GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    query = "SELECT name, sum(dur) FROM slice WHERE category = 'thread_state' GROUP BY 1 ORDER BY 1"
    with TraceProcessor(exported(trace, form)) as viewer:
        assert viewer.rows(query) == ours


def test_processes_threads_and_their_tree_are_known(trace: Trace) -> None:
    with TraceProcessor(exported(trace, "perfetto")) as viewer:
        assert viewer.rows(
            "SELECT p.pid, p.name, p.cmdline, parent.pid AS parent FROM process AS p"
            " JOIN process AS parent ON parent.upid = p.parent_upid WHERE p.pid = 100"
        ) == [(100, "python", "python train.py", 90)]
        assert viewer.rows("SELECT tid, name FROM thread WHERE tid >= 100 ORDER BY tid") == [
            (100, "main"),
            (101, "quiet"),
        ]
        # What an operation is on, and what lies below its thread.
        assert viewer.rows(
            "SELECT DISTINCT thread.tid FROM slice JOIN thread_track ON track_id = thread_track.id"
            " JOIN thread USING (utid) WHERE slice.name IN ('forward', 'aten::mm')"
        ) == [(100,)]


def test_activities_are_render_stages_of_their_process(trace: Trace) -> None:
    query = """
    SELECT s.name, t.name AS track, extract_arg(s.arg_set_id, 'correlation'), p.pid
    FROM slice AS s JOIN track AS t ON t.id = s.track_id
    JOIN process AS p ON p.upid = extract_arg(s.arg_set_id, 'upid')
    WHERE t.type = 'gpu_render_stage' ORDER BY s.ts, s.dur DESC
    """
    stream = "python GPU 0 context 1 stream 7"
    with TraceProcessor(exported(trace, "perfetto")) as viewer:
        assert viewer.rows(query) == [
            ("gemm", stream, "5", 100),
            ("overlapping", f"{stream} (overlap 1)", str(2**40), 100),
            ("inside", stream, None, 100),
            ("after", stream, "5", 100),
        ]


def test_calls_say_what_they_caused(trace: Trace) -> None:
    """Newer versions draw these as arrows; this one shows them as arguments of the call."""
    query = """
    SELECT s.name, extract_arg(s.arg_set_id, 'debug.correlation'), a.int_value
    FROM slice AS s JOIN args AS a USING (arg_set_id)
    WHERE a.flat_key = 'gpu_correlation.render_stage_submission_event_ids' ORDER BY s.ts
    """
    scope = 2 << 44
    with TraceProcessor(exported(trace, "perfetto")) as viewer:
        assert viewer.rows(query) == [
            ("cudaLaunchKernel", 5, scope + 5),
            ("cudaLaunchKernel", 2**40, scope + 2**40),
        ]


def test_arrows_of_chromes_json_lead_from_calls_to_activities(trace: Trace) -> None:
    query = """
    SELECT o.ts, i.name FROM flow
    JOIN slice AS o ON o.id = slice_out JOIN slice AS i ON i.id = slice_in ORDER BY o.ts, i.name
    """
    with TraceProcessor(exported(trace, "chrome")) as viewer:
        assert viewer.rows(query) == [
            (ORIGIN + 13, "after"),
            (ORIGIN + 13, "gemm"),
            (ORIGIN + 15, "overlapping"),
        ]


def test_losses_and_clocks_travel_along(trace: Trace) -> None:
    with TraceProcessor(exported(trace, "perfetto")) as viewer:
        assert viewer.rows(
            "SELECT extract_arg(arg_set_id, 'debug.count'), extract_arg(arg_set_id, 'debug.remedy')"
            " FROM slice WHERE name = 'loss'"
        ) == [(3, "--ring-mib 64")]
        assert viewer.rows(
            "SELECT clock_name, clock_value FROM clock_snapshot WHERE clock_id = 1"
        ) == [("REALTIME", 1_700_000_000_000_000_000)]


@FORMATS
def test_an_empty_trace_is_a_valid_file(form: str) -> None:
    builder = TraceBuilder(Path("in-memory"), with_views=False)
    connection = duckdb.connect()
    builder.fill(connection)
    with Trace(Path("in-memory"), connection, 1) as empty, TraceProcessor(
        exported(empty, form)
    ) as viewer:  # fmt: skip
        assert viewer.rows("SELECT count(*) FROM slice WHERE dur > 0") == [(0,)]
        assert viewer.complaints() == []
