"""--from and --to: every number is that of the interval alone; intervals add up to the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recording import rlscope
from rlscope_analysis.errors import QuestionError, TraceError
from rlscope_analysis.trace import Trace, open_trace
from rlscope_analysis.window import AskedWindow, asked_window, parse_instant
from trace_builder import TraceBuilder, lost, preempted, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("0", 0),
        ("1.5", 1_500_000_000),
        (".25s", 250_000_000),
        ("2s", 2 * SECOND_NS),
        ("200ms", 200_000_000),
        ("7 us", 7_000),
        ("12ns", 12),
        ("0.000000001", 1),
        ("123456789.987654321", 123_456_789_987_654_321),
    ],
)
def test_times_are_read_exactly(text: str, expected_ns: int) -> None:
    assert parse_instant(text) == expected_ns


@pytest.mark.parametrize("text", ["", ".", "-1", "1m", "1e3", "abc", "1.2.3", "٣"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(QuestionError, match="is no time") as caught:
        parse_instant(text)
    assert caught.value.hint is not None
    assert "200ms" in caught.value.hint


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize(
    "command",
    [("summarize",), ("report",), ("explain",), ("balance",), ("whatif", "--speedup", "x=2"),
     ("export", "perfetto"), ("export", "chrome")],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_a_time_that_is_none_is_an_error_of_usage(
    tmp_path: Path, command: tuple[str, ...], option: str
) -> None:
    done = rlscope(*command, write_trace(tmp_path), option, "soon")
    assert done.returncode == 2
    assert "'soon' is no time" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["trace.duckdb"]


@given(st.integers(0, 2**62 - 1))
def test_every_nanosecond_can_be_named(instant_ns: int) -> None:
    seconds, rest = divmod(instant_ns, SECOND_NS)
    assert parse_instant(f"{seconds}.{rest:09}") == instant_ns
    assert parse_instant(f"{instant_ns}ns") == instant_ns


def write_trace(directory: Path) -> Path:
    """Write a thread that begins at 1000 ns, with a loss, operations, calls and a kernel."""
    builder = TraceBuilder(directory / "trace.duckdb")
    for kind in ("thread_state", "operation", "native_call", "cuda_call", "gpu_activity"):
        builder.coverage(kind)
    process = builder.process(pid=1, start_ns=1000, end_ns=1200)
    states = [run(40), sleep(20), woken(10, by=-1), run(30), lost(20), preempted(5), run(75)]
    thread = builder.thread(process, start_ns=1000, states=states)
    builder.operation(thread, 1010, 1110, "learn")
    builder.operation(thread, 1050, 1050, "mark")
    builder.native_call(thread, 1015, 1060, "backend")
    builder.native_call(thread, 1030, 1030, "simulator")
    builder.cuda_call(thread, 1020, 1040, correlation_id=1)
    builder.gpu_activity(process, 1030, 1130, correlation_id=1)
    return builder.write()


@pytest.fixture
def trace_path(tmp_path: Path) -> Path:
    return write_trace(tmp_path)


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("shared"))


def rows(trace: Trace, query: str) -> list[tuple[Any, ...]]:
    return trace.connection.execute(query).fetchall()


TIMES = "SELECT running_ns, runnable_ns, sleeping_ns, lost_ns, lifetime_ns FROM thread_time"


def test_intervals_are_cut_at_the_edges(trace_path: Path) -> None:
    with open_trace(trace_path, start="30ns", end="110ns") as trace:
        assert rows(trace, TIMES) == [(40, 10, 20, 10, 80)]
        assert rows(trace, "SELECT start_ns, end_ns, name FROM operation") == [
            (1030, 1110, "learn"),
            (1050, 1050, "mark"),
        ]
        assert rows(trace, "SELECT start_ns, end_ns FROM gpu_busy") == [(1030, 1110)]
        assert rows(
            trace, "SELECT operation, gpu_busy, sum(time_ns) FROM breakdown GROUP BY ALL"
        ) == [("learn", True, 80)]


def test_without_a_window_all_is_there(trace_path: Path) -> None:
    with open_trace(trace_path) as trace:
        assert rows(trace, TIMES) == [(145, 15, 20, 20, 200)]


def test_half_a_wait_for_a_cpu_is_none(trace_path: Path) -> None:
    """The wakeup at 60 ns is seen whole; from 65 ns on, or up to 65 ns, it is not."""
    waits = "SELECT count(*) FROM run_queue_latency"
    for start, end, expected in (("50ns", "90ns", 1), ("65ns", "90ns", 0), ("50ns", "65ns", 0)):
        with open_trace(trace_path, start=start, end=end) as trace:
            assert rows(trace, waits) == [(expected,)], (start, end)


@settings(deadline=None, max_examples=4)
@given(
    cuts=st.lists(
        st.sampled_from([15, 20, 30, 50]) | st.integers(1, 199), max_size=3, unique=True
    ).map(sorted)
)
def test_intervals_add_up_to_the_whole(cuts: list[int], shared_path: Path) -> None:
    sums = (
        "SELECT coalesce(sum(running_ns), 0) FROM thread_time",
        "SELECT coalesce(sum(lost_ns), 0) FROM thread_time",
        "SELECT coalesce(sum(end_ns - start_ns), 0) FROM gpu_busy",
        "SELECT coalesce(sum(time_ns), 0) FROM breakdown WHERE operation = 'learn' AND gpu_busy",
        "SELECT coalesce(sum(time_ns), 0) FROM resource_overlap",
        # Events are in one interval each: what begins in it, and what takes no time.
        "SELECT coalesce(sum(count), 0) FROM transitions",
        "SELECT count(latency_ns) FROM launch",
        "SELECT count(*) FROM operation WHERE name = 'mark'",
    )
    with open_trace(shared_path) as trace:
        whole = [int(rows(trace, query)[0][0]) for query in sums]
    parts = [0] * len(sums)
    for start, end in zip([0, *cuts], [*cuts, 200], strict=True):
        with open_trace(shared_path, start=f"{start}ns", end=f"{end}ns") as trace:
            for at, query in enumerate(sums):
                parts[at] += int(rows(trace, query)[0][0])
    assert parts == whole


def test_a_window_after_the_trace_is_told(trace_path: Path) -> None:
    with pytest.raises(TraceError, match=r"starts at 1, and the trace lasts 0\.000000200 s"):
        open_trace(trace_path, start="1", end="2")
    with pytest.raises(TraceError, match="starts at 200ns, and the trace lasts"):
        open_trace(trace_path, start="200ns")


@pytest.mark.parametrize("end", ["201ns", "99999999999999999999999"])
def test_a_window_may_end_after_the_trace(trace_path: Path, end: str) -> None:
    with open_trace(trace_path, start="190ns", end=end) as trace:
        assert rows(trace, TIMES) == [(10, 0, 0, 0, 10)]


def test_every_window_of_an_empty_trace_is_empty(tmp_path: Path) -> None:
    with open_trace(TraceBuilder(tmp_path / "t.duckdb").write(), start="1", end="2") as trace:
        assert rows(trace, "SELECT count(*) FROM timeline") == [(0,)]


def test_marks_and_numbers_of_operations_are_those_of_the_window(trace_path: Path) -> None:
    with duckdb.connect(str(trace_path)) as connection:
        connection.execute(
            "INSERT INTO mark_coded (thread_id, ts_ns, name) VALUES (1, 1029, 'a'), (1, 1030, 'b'),"
            " (1, 1049, 'c'), (1, 1050, 'd')"
        )
        connection.execute(
            "INSERT INTO operation_payload (thread_id, start_ns, path_id, integer_value)"
            " SELECT thread_id, start_ns, path_id, depth FROM operation"
        )
    with open_trace(trace_path, start="30ns", end="50ns") as trace:
        assert rows(trace, "SELECT name FROM mark") == [("b",), ("c",)]
        # Of what the window cuts, the length is that of the part inside.
        assert rows(trace, "SELECT end_ns - start_ns FROM thread WHERE thread_id = 1") == [(20,)]
        joined = (
            "SELECT o.start_ns, o.name FROM operation AS o JOIN operation_payload AS p"
            " USING (thread_id, start_ns, path_id)"
        )
        assert rows(trace, joined) == [(1030, "learn")]
    with open_trace(trace_path, start="110ns") as trace:
        assert rows(trace, "FROM operation_payload") == []


def test_what_was_asked_for_is_kept(trace_path: Path) -> None:
    with open_trace(trace_path) as trace:
        assert asked_window(trace.connection) is None
    with open_trace(trace_path, start="5ns") as trace:
        asked = asked_window(trace.connection)
        assert asked == AskedWindow(5, None)
        assert str(asked) == "0.000000005 s to its end, since the start of the trace"
    with open_trace(trace_path, end="100ns") as trace:
        asked = asked_window(trace.connection)
        assert asked == AskedWindow(None, 100)
        assert str(asked) == "its start to 0.0000001 s, since the start of the trace"


LAUNCHES = (
    "SELECT start_ns, end_ns, call_start_ns, latency_ns, queue_ns, operation, running_operation"
    " FROM launch"
)


def test_the_call_of_a_launch_may_lie_before_the_window(trace_path: Path) -> None:
    """The operation of the call is told; how long the GPU took only where it began."""
    call = (1020, 10, -10, "learn", "learn")
    with open_trace(trace_path, start="25ns") as trace:
        assert rows(trace, LAUNCHES) == [(1030, 1130, *call)]
        assert rows(trace, "SELECT start_ns, end_ns FROM cuda_call") == [(1025, 1040)]
    with open_trace(trace_path, start="45ns", end="60ns") as trace:
        assert rows(trace, LAUNCHES) == [(1045, 1060, 1020, None, None, "learn", "learn")]
    with open_trace(trace_path, end="30ns") as trace:
        assert rows(trace, LAUNCHES) == []


def test_a_graph_that_began_before_the_window_is_no_launch_of_it(tmp_path: Path) -> None:
    """Its first node had ended by then: the next one tells nothing of how long it took to begin."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("gpu_activity")
    process = builder.process(pid=1, end_ns=100)
    thread = builder.thread(process, states=[run(100)])
    builder.cuda_call(thread, 5, 6, name="cudaGraphLaunch", correlation_id=1)
    builder.gpu_activity(process, 10, 20, correlation_id=1)
    builder.gpu_activity(process, 40, 50, correlation_id=1)
    path = builder.write()
    latency = "SELECT calls, max_latency_ns FROM launch_latency"
    with open_trace(path) as trace:
        assert rows(trace, latency) == [(1, 5)]
    with open_trace(path, start="30ns") as trace:
        assert rows(trace, latency) == []


def test_a_gap_knows_its_call_though_it_lies_before_the_window(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in ("thread_state", "operation", "cuda_call", "gpu_activity"):
        builder.coverage(kind)
    process = builder.process(pid=1, end_ns=100)
    thread = builder.thread(process, states=[run(100)])
    builder.operation(thread, 0, 100, "learn")
    builder.cuda_call(thread, 5, 6, correlation_id=1)
    builder.gpu_activity(process, 20, 40)
    builder.gpu_activity(process, 50, 60, correlation_id=1)
    with open_trace(builder.write(), start="30ns") as trace:
        gaps = "SELECT start_ns, end_ns, cause, operation, state, next_operation FROM idle_gap"
        assert rows(trace, gaps) == [(40, 50, "launched", "learn", "running", "learn")]


def test_a_window_that_ends_before_it_begins_is_told(trace_path: Path) -> None:
    with pytest.raises(TraceError, match="not after its start"):
        open_trace(trace_path, start="2", end="1")
