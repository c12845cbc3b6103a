"""The overlap of threads against plain SQL on random traces, however they are cut."""

from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thread_overlap_reference as reference
from rlscope_analysis import thread_overlap, thread_overlap_plan
from rlscope_analysis.schema.vocabulary import GPU_ACTIVITY_KINDS, WAITS
from rlscope_analysis.thread_overlap import ThreadOverlap
from trace_builder import BLOCKED, LOST, RUNNABLE, RUNNING, SLEEPING, Interval, TraceBuilder

# Few instants: most of what begins meets something that ends.
INSTANTS = st.integers(-2, 24)
LENGTHS = st.integers(0, 9)
LAYERS = st.sampled_from(["python", "simulator", "backend"])
SAMPLED = (None, "python", "simulator", "backend", "cuda_api", "spin", "other")
STATES = st.builds(
    Interval, st.sampled_from([RUNNING, RUNNABLE, SLEEPING, BLOCKED, LOST]), st.integers(0, 6)
)


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    builder = TraceBuilder(Path("unused"), with_views=False)
    processes = [builder.process(pid=number) for number in range(draw(st.integers(1, 3)))]
    for kind in ("thread_state", "gpu_activity"):
        for process_id in draw(st.sets(st.sampled_from([None, *processes]))):
            builder.capture(kind, process_id=process_id, measured=draw(st.booleans()))
    builder.capture("operation")
    # Threads of one process do not follow each other, as in a trace of several at once.
    threads = [
        builder.thread(
            draw(st.sampled_from(processes)),
            states=draw(st.lists(STATES, max_size=6)),
            start_ns=draw(st.integers(0, 5)),
        )
        for _ in range(draw(st.integers(0, 5)))
    ]
    if threads:
        add_rows(draw, builder, st.sampled_from(threads))
    for _ in range(draw(st.integers(0, 6))):
        start, length = draw(INSTANTS), draw(LENGTHS)
        kind = draw(st.sampled_from([kind for kind in GPU_ACTIVITY_KINDS if kind]))
        builder.gpu_activity(
            draw(st.sampled_from(processes)), start, start + length, kind=kind,
            device_id=draw(st.integers(0, 1)), stream_id=draw(st.integers(0, 1)),
        )  # fmt: skip
    return builder


def add_rows(draw: st.DrawFn, builder: TraceBuilder, threads: st.SearchStrategy[int]) -> None:
    for _ in range(draw(st.integers(0, 25))):
        thread, start, length = draw(threads), draw(INSTANTS), draw(LENGTHS)
        what = draw(st.sampled_from(["operation", "native", "cuda", "sync", "wait", "sample"]))
        if what == "operation":
            builder.operation(thread, start, start + length, draw(st.sampled_from("abc")))
        elif what == "native":
            flags = draw(st.integers(0, 2))
            builder.native_call(thread, start, start + length, draw(LAYERS), flags=flags)
        elif what == "sample":
            builder.sample(thread, start, draw(st.sampled_from(SAMPLED)))
        elif what == "wait":
            builder.wait(thread, start, start + length, draw(st.sampled_from(WAITS[1:])))
        else:
            kind = "sync" if what == "sync" else "launch"
            builder.cuda_call(thread, start, start + length, kind=kind)


def opened(builder: TraceBuilder) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    builder.fill(connection)
    return connection


def rows_of(columns: dict[str, np.ndarray]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def tables_of(overlap: ThreadOverlap) -> tuple[list[tuple[int, ...]], ...]:
    return rows_of(overlap.overlap), rows_of(overlap.transitions), rows_of(overlap.samples)


def expected_of(
    connection: duckdb.DuckDBPyConnection, start_ns: int = -(2**62), end_ns: int = 2**62
) -> tuple[list[tuple[int, ...]], ...]:
    return (
        reference.overlap_rows(connection, start_ns, end_ns),
        reference.transition_rows(connection, start_ns, end_ns),
        reference.sample_rows(connection, start_ns, end_ns),
    )


@pytest.fixture
def tiny_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even the smallest process into as many stretches of time as it has rows."""
    monkeypatch.setattr(thread_overlap_plan, "CELL_ROWS", 1)
    monkeypatch.setattr(thread_overlap_plan, "_THREAD_ROWS", 1)


@given(traces())
@settings(max_examples=50, deadline=None)
def test_is_what_plain_sql_finds(builder: TraceBuilder) -> None:
    with opened(builder) as connection:
        assert tables_of(thread_overlap.compute(connection)) == expected_of(connection)


@given(traces())
@settings(max_examples=20, deadline=None)
def test_the_rows_of_a_thread_add_up_to_its_lifetime(builder: TraceBuilder) -> None:
    with opened(builder) as connection:
        found = thread_overlap.compute(connection).overlap
        lifetimes = connection.execute(
            "SELECT thread_id, end_ns - start_ns FROM thread WHERE end_ns > start_ns"
        ).fetchall()
    sums = {
        thread_id: found["time_ns"][found["thread_id"] == thread_id].sum()
        for thread_id in set(found["thread_id"].tolist())
    }
    assert sums == dict(lifetimes)


@given(traces())
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.usefixtures("tiny_cells")
def test_cuts_and_jobs_change_nothing(builder: TraceBuilder) -> None:
    with opened(builder) as connection:
        expected = expected_of(connection)
        one = thread_overlap.compute(connection, jobs=1)
        four = thread_overlap.compute(connection, jobs=4)
    assert tables_of(one) == expected
    assert tables_of(four) == expected
    assert one.faults == four.faults


@given(traces(), INSTANTS, LENGTHS)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.usefixtures("tiny_cells")
def test_a_window_is_that_part_of_every_lifetime(
    builder: TraceBuilder, start_ns: int, length_ns: int
) -> None:
    end_ns = start_ns + length_ns
    with opened(builder) as connection:
        found = thread_overlap.compute(connection, start_ns=start_ns, end_ns=end_ns)
        assert tables_of(found) == expected_of(connection, start_ns, end_ns)


@given(traces())
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_faults_do_not_depend_on_the_cuts(builder: TraceBuilder) -> None:
    with opened(builder) as connection, pytest.MonkeyPatch.context() as patch:
        whole = thread_overlap.compute(connection).faults
        patch.setattr(thread_overlap_plan, "CELL_ROWS", 1)
        patch.setattr(thread_overlap_plan, "_THREAD_ROWS", 1)
        assert thread_overlap.compute(connection).faults == whole


TABLES = (
    "thread_state_coded", "operation_coded", "native_call_coded", "wait_coded", "cuda_call_coded",
    "gpu_activity_coded", "cpu_sample_coded",
)  # fmt: skip


@given(traces(), st.sampled_from(TABLES), st.integers(1, 7))
@settings(max_examples=20, deadline=None)
def test_rows_out_of_order_are_sorted_and_counted(
    builder: TraceBuilder, table: str, seed: int
) -> None:
    with opened(builder) as connection:
        expected = tables_of(thread_overlap.compute(connection))
        stored = connection.execute(f"SELECT * FROM {table}").fetchall()
        connection.execute(
            f"CREATE TABLE other AS FROM {table} ORDER BY hash(rowid * 7 + {seed});"
            f"DROP TABLE {table}; ALTER TABLE other RENAME TO {table}"
        )
        found = thread_overlap.compute(connection)
        is_shuffled = connection.execute(f"SELECT * FROM {table}").fetchall() != stored
    assert found.rows_out_of_order >= 0
    if not has_ties(stored):
        assert tables_of(found) == expected
        assert is_shuffled or not found.rows_out_of_order


def has_ties(rows: list[tuple[int, ...]]) -> bool:
    """Whether the order of some rows cannot be told from what they say."""
    times = [row[:3] for row in rows]
    return len(set(times)) < len(times)
