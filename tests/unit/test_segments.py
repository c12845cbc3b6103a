"""The segments of threads: they tile every life, and add up to what is stored of it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import rlscope_analysis
from random_traces import INSTANTS, LENGTHS, traces
from rlscope_analysis.derive import complete
from rlscope_analysis.sweep import segments as segment_module
from rlscope_analysis.sweep import thread_plan
from rlscope_analysis.sweep.segments import Segments
from rlscope_analysis.sweep.threads import compute
from segment_reference import check_tiling, rows_of, stored_sums, sums_of
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_FIXTURE_PER_EXAMPLE = [HealthCheck.function_scoped_fixture]
ROUNDS = 60_000


@pytest.fixture
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even the smallest process into as many intervals as it has rows."""
    monkeypatch.setattr(segment_module, "LONE_CHUNK_ROWS", 1)
    monkeypatch.setattr(thread_plan, "_THREAD_ROWS", 1)


def opened(builder: TraceBuilder) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    builder.fill(connection)
    return connection


def expected_sums(
    connection: duckdb.DuckDBPyConnection, start_ns: int | None = None, end_ns: int | None = None
) -> list[tuple[int, ...]]:
    """Return the totals of the same sweep, which are held to plain SQL elsewhere."""
    columns = compute(connection, start_ns=start_ns, end_ns=end_ns).overlap
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


@given(traces())
@settings(max_examples=30, deadline=None)
def test_segments_tile_every_life_and_add_up_to_the_totals(builder: TraceBuilder) -> None:
    with opened(builder) as connection:
        rows = rows_of(Segments(connection, None, None))
        check_tiling(connection, rows)
        assert sums_of(rows) == expected_sums(connection)


@given(traces(), INSTANTS, LENGTHS)
@settings(max_examples=20, deadline=None, suppress_health_check=NO_FIXTURE_PER_EXAMPLE)
@pytest.mark.usefixtures("tiny_chunks")
def test_a_window_is_that_part_however_it_is_cut(
    builder: TraceBuilder, start_ns: int, length_ns: int
) -> None:
    end_ns = start_ns + length_ns
    with opened(builder) as connection:
        rows = rows_of(Segments(connection, start_ns, end_ns))
        check_tiling(connection, rows, start_ns, end_ns)
        assert sums_of(rows) == expected_sums(connection, start_ns, end_ns)


@given(traces())
@settings(max_examples=20, deadline=None)
def test_cuts_change_nothing(builder: TraceBuilder) -> None:
    with opened(builder) as connection, pytest.MonkeyPatch.context() as patch:
        whole = rows_of(Segments(connection, None, None))
        patch.setattr(segment_module, "LONE_CHUNK_ROWS", 1)
        patch.setattr(thread_plan, "_THREAD_ROWS", 1)
        assert rows_of(Segments(connection, None, None)) == whole


def saved(builder: TraceBuilder, *more: str) -> Path:
    """Write a trace; more: statements that add rows before anything is derived."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{builder.path}' AS trace (STORAGE_VERSION 'v1.2.0')")
        connection.execute("USE trace")
        builder.fill(connection)
        for statement in more:
            connection.execute(statement)
        complete(connection)
    return builder.path


# Thread 1 runs for 3 ns and sleeps for 6, again and again; thread 2 sleeps through all of it, and
# has a segment for each change of the GPU all the same.
MANY_STATES = f"""
INSERT INTO thread_state_coded
SELECT 1, 9 * i + from_ns, 9 * i + to_ns, state, -1, NULL, NULL
FROM
  range({ROUNDS}) AS r(i),
  (VALUES (0, 3, 'running'), (3, 9, 'sleeping')) AS s(from_ns, to_ns, state)
ORDER BY ALL;
INSERT INTO thread_state_coded VALUES (2, 0, {9 * ROUNDS}, 'sleeping', -1, NULL, NULL)
"""
MANY_ACTIVITIES = f"""
INSERT INTO gpu_activity_coded (process_id, device_id, start_ns, end_ns, kind)
SELECT 1, 0, 90 * i + 1, 90 * i + 6, 'kernel' FROM range({ROUNDS // 10}) AS r(i)
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rlscope_analysis.Trace]:
    """Yield a trace with more segments than three batches hold."""
    builder = TraceBuilder(tmp_path_factory.mktemp("segments") / "trace.duckdb", with_views=False)
    for kind in ("thread_state", "operation", "gpu_activity"):
        builder.capture(kind)
    process = builder.process(pid=1)
    for _ in range(2):
        builder.thread(process, states=[], end_ns=9 * ROUNDS)
    builder.operation(1, 4, 9 * ROUNDS - 4, "training")
    with rlscope_analysis.open(saved(builder, MANY_STATES, MANY_ACTIVITIES)) as opened_trace:
        yield opened_trace


def test_a_long_stream_is_whole_and_in_order(trace: rlscope_analysis.Trace) -> None:
    rows = rows_of(rlscope_analysis.segments(trace))
    assert len(rows) > 100_000
    check_tiling(trace.connection, rows)
    assert sums_of(rows) == stored_sums(trace.connection)


def test_the_relation_has_words_and_keeps_the_order(trace: rlscope_analysis.Trace) -> None:
    relation = trace.segments()
    assert relation.limit(3).fetchall() == [
        (1, 0, 1, 1, 0, "running", None, None, False),
        (1, 1, 3, 2, 0, "running", None, None, True),
        (1, 3, 4, 1, 0, "sleeping", None, None, True),
    ]
    coded = rows_of(rlscope_analysis.segments(trace))
    found = trace.segments().project("thread_id, start_ns, end_ns, path_id").fetchall()
    assert found == [row[:4] for row in coded]
    stored = "SELECT state, gpu_busy, sum(time_ns) FROM thread_overlap GROUP BY ALL ORDER BY ALL"
    summed = "SELECT state, gpu_busy, sum(duration_ns) FROM segment GROUP BY ALL ORDER BY ALL"
    assert trace.sql(summed).fetchall() == trace.sql(stored).fetchall()


def test_every_reader_of_arrow_streams_takes_it(trace: rlscope_analysis.Trace) -> None:
    stream = rlscope_analysis.segments(trace, start_ns=100, end_ns=1000)
    count = len(rows_of(stream))
    assert pl.DataFrame(stream).height == count
    with duckdb.connect() as connection:
        assert connection.from_arrow(stream).aggregate("count(*)").fetchall() == [(count,)]


def test_columns_outlive_their_batch(trace: rlscope_analysis.Trace) -> None:
    reader = pa.RecordBatchReader.from_stream(rlscope_analysis.segments(trace))
    column = reader.read_next_batch().column(1)
    del reader
    gc.collect()
    assert column.to_pylist()[:3] == [0, 1, 3]


def sweeping() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "segments"]


def test_a_stream_that_nobody_reads_on_ends(trace: rlscope_analysis.Trace) -> None:
    for thread in sweeping():
        thread.join(60)
    unread = rlscope_analysis.segments(trace).__arrow_c_stream__()
    assert not sweeping(), "it begins when it is read"
    reader = pa.RecordBatchReader.from_stream(rlscope_analysis.segments(trace))
    reader.read_next_batch()
    (thread,) = sweeping()
    reader.close()
    del reader, unread
    thread.join(60)
    assert not thread.is_alive()


READ_IN_PART = """
import sys, pyarrow, rlscope_analysis
trace = rlscope_analysis.open(sys.argv[1])
reader = pyarrow.RecordBatchReader.from_stream(rlscope_analysis.segments(trace))
print(len(reader.read_next_batch()))
"""


def test_a_program_may_end_while_it_reads(trace: rlscope_analysis.Trace) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ_IN_PART, str(trace.path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "32768\n"), done.stderr


def test_what_fails_while_it_is_read_is_an_error(trace: rlscope_analysis.Trace) -> None:
    stream = rlscope_analysis.segments(trace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "_sweep", fail)
        reader = pa.RecordBatchReader.from_stream(stream)
        with pytest.raises(OSError, match="the disk is gone"):
            reader.read_all()


def fail(*_: object) -> None:
    raise duckdb.IOException("the disk is gone\nwith all that was on it")


@pytest.mark.parametrize("cuts", [1, 1 << 30])
def test_rows_out_of_order_are_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: int
) -> None:
    monkeypatch.setattr(segment_module, "LONE_CHUNK_ROWS", cuts)
    monkeypatch.setattr(thread_plan, "_THREAD_ROWS", 1)
    builder = TraceBuilder(tmp_path / "trace.duckdb", with_views=False)
    builder.capture("thread_state")
    for _ in range(2):
        process = builder.process(pid=1)
        for _ in range(2):
            builder.thread(process, states=[run(3), sleep(4), run(5), sleep(6)])
    with duckdb.connect() as connection:
        builder.fill(connection)
        expected = rows_of(Segments(connection, None, None))
        connection.execute(
            "CREATE TABLE other AS FROM thread_state_coded ORDER BY end_ns DESC;"
            "DROP TABLE thread_state_coded; ALTER TABLE other RENAME TO thread_state_coded"
        )
        with pytest.raises(OSError, match="thread_state_coded are not in the order"):
            rows_of(Segments(connection, None, None))
        complete(connection)
        rows = rows_of(Segments(connection, None, None))
    assert len(rows) == 16
    assert rows == expected


def test_a_window_of_an_open_trace_has_its_totals(trace: rlscope_analysis.Trace) -> None:
    with rlscope_analysis.open(trace.path, start="101ns", end="4us") as window:
        rows = rows_of(rlscope_analysis.segments(window))
        check_tiling(window.connection, rows)
        assert sums_of(rows) == stored_sums(window.connection)
        assert window.segments().aggregate("min(start_ns), max(end_ns)").fetchall() == [(101, 4000)]


def test_a_closed_trace_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb", with_views=False)
    builder.thread(builder.process(pid=1), states=[run(3)])
    trace = rlscope_analysis.open(saved(builder))
    trace.close()
    with pytest.raises(rlscope_analysis.TraceError):
        trace.segments()
