"""The overlap of threads against plain SQL on random traces, however they are cut."""

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thread_overlap_reference as reference
from random_traces import INSTANTS, LENGTHS, traces
from rlscope_analysis.sweep import thread_plan
from rlscope_analysis.sweep import threads as thread_overlap
from rlscope_analysis.sweep.threads import ThreadOverlap
from trace_builder import TraceBuilder


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
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even the smallest process into as many intervals as it has rows."""
    monkeypatch.setattr(thread_plan, "CHUNK_ROWS", 1)
    monkeypatch.setattr(thread_overlap, "LONE_CHUNK_ROWS", 1)
    monkeypatch.setattr(thread_plan, "_THREAD_ROWS", 1)


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
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.usefixtures("tiny_chunks")
def test_cuts_change_nothing(builder: TraceBuilder) -> None:
    with opened(builder) as connection:
        assert tables_of(thread_overlap.compute(connection)) == expected_of(connection)


@given(traces(), INSTANTS, LENGTHS)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.usefixtures("tiny_chunks")
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
        patch.setattr(thread_plan, "CHUNK_ROWS", 1)
        patch.setattr(thread_overlap, "LONE_CHUNK_ROWS", 1)
        patch.setattr(thread_plan, "_THREAD_ROWS", 1)
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
