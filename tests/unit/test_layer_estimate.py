"""The split of running time by samples: against plain Python, and always adding up."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import layer_estimate_reference as reference
from coded import coded
from random_traces import traces
from rlscope_analysis.derive import complete
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep

PARTS = f"""
SELECT thread_id, path_id, call_layer, gpu, layer, time_ns, samples, method, stderr_ns
FROM {coded("layer_estimate_coded")} ORDER BY ALL
"""


def completed(builder: TraceBuilder) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    builder.fill(connection)
    complete(connection)
    return connection


@given(traces())
@settings(max_examples=10, deadline=None)
def test_is_what_plain_python_finds_and_conserves_time(builder: TraceBuilder) -> None:
    with completed(builder) as connection:
        found = connection.execute(PARTS).fetchall()
        expected = reference.estimate_rows(connection)
        assert [row[:-1] for row in found] == [row[:-1] for row in expected]
        assert [row[-1] for row in found] == pytest.approx([row[-1] for row in expected])
        lifetimes = dict(
            connection.execute(
                "SELECT thread_id, end_ns - start_ns FROM thread WHERE end_ns > start_ns"
            ).fetchall()
        )
        for view in ("breakdown", "thread_bucket"):
            sums = connection.execute(
                f"SELECT thread_id, sum(time_ns)::BIGINT FROM {view} GROUP BY ALL"
            ).fetchall()
            assert dict(sums) == lifetimes, view
        wrong = connection.execute(
            "SELECT * FROM breakdown WHERE time_ns <= 0 OR sampled_ns > time_ns"
            " OR (sampled_ns = 0) <> (count IS NOT NULL)"
        ).fetchall()
        assert wrong == []


@given(traces(), st.integers(1, 20))
@settings(max_examples=8, deadline=None)
def test_windows_conserve_time_too(
    tmp_path_factory: pytest.TempPathFactory, builder: TraceBuilder, cut_ns: int
) -> None:
    builder.path = tmp_path_factory.mktemp("trace") / "t.duckdb"
    builder.with_views = True
    builder.write()
    with duckdb.connect(str(builder.path)) as connection:
        complete(connection)
        ((first_ns,),) = connection.execute("SELECT min(start_ns) FROM thread").fetchall()
    if first_ns is None:
        return
    with open_trace(builder.path, end=f"{cut_ns}ns") as trace:
        sums = trace.sql("SELECT thread_id, sum(time_ns) FROM breakdown GROUP BY ALL").fetchall()
        lifetimes = trace.sql("SELECT thread_id, end_ns - start_ns FROM thread").fetchall()
        assert sorted(sums) == sorted(row for row in lifetimes if row[1] > 0)
        samples = trace.sql("SELECT sum(count) FROM sample_count_coded").fetchall()
        inside = trace.sql(
            "SELECT nullif(count(*), 0) FROM cpu_sample JOIN thread AS t USING (thread_id)"
            " WHERE ts_ns >= t.start_ns AND ts_ns < t.end_ns"
        ).fetchall()
        assert samples == inside


@pytest.fixture
def builder() -> TraceBuilder:
    builder = TraceBuilder(Path("unused"), with_views=False)
    for kind in ("thread_state", "cpu_sample", "native_call"):
        builder.coverage(kind)
    return builder


def buckets(builder: TraceBuilder) -> dict[str, tuple[int, int]]:
    with completed(builder) as connection:
        rows = connection.execute(
            "SELECT bucket, sum(time_ns)::BIGINT, sum(sampled_ns)::BIGINT FROM breakdown"
            " GROUP BY ALL"
        ).fetchall()
    return {bucket: (time_ns, sampled_ns) for bucket, time_ns, sampled_ns in rows}


def test_exact_calls_come_first(builder: TraceBuilder) -> None:
    """Of 100 ns on a CPU 40 are in the simulator; samples in there say nothing of the rest."""
    thread = builder.thread(builder.process(), states=[run(100), sleep(50)])
    builder.native_call(thread, 0, 40, "simulator")
    for ts_ns in range(0, 40, 2):
        builder.sample(thread, ts_ns, "simulator")
    for ts_ns, layer in ((40, "python"), (60, "python"), (80, "backend"), (99, None)):
        builder.sample(thread, ts_ns, layer)
    assert buckets(builder) == {
        "simulator": (40, 0),
        "python": (30, 30),
        "backend": (15, 15),
        "running": (15, 15),
        "sleeping": (50, 0),
    }


def test_without_samples_the_layer_stays_unknown(builder: TraceBuilder) -> None:
    builder.thread(builder.process(), states=[run(100)])
    other = builder.thread(builder.process(), states=[run(10)])
    builder.sample(other, 5, "python")
    assert buckets(builder) == {"running": (100, 0), "python": (10, 10)}


def test_spinning_inside_the_backend_is_told_apart(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(100)])
    builder.native_call(thread, 0, 80, "backend")
    for ts_ns, layer in ((10, "spin"), (30, "backend"), (50, "spin"), (70, "other")):
        builder.sample(thread, ts_ns, layer)
    assert buckets(builder) == {"spin": (40, 40), "backend": (40, 40), "running": (20, 0)}


def test_an_operation_without_samples_borrows_from_its_name(builder: TraceBuilder) -> None:
    process = builder.process()
    first = builder.thread(process, states=[run(100)])
    second = builder.thread(process, states=[run(10)])
    builder.operation(first, 0, 50, "learn")
    builder.operation(second, 0, 10, "learn")
    builder.sample(first, 10, "backend")
    builder.sample(first, 70, "python")
    with completed(builder) as connection:
        found = connection.execute(
            "SELECT thread_id, layer, time_ns, method FROM layer_estimate_coded WHERE time_ns > 0"
            " ORDER BY ALL"
        ).fetchall()
    assert found == [
        (first, "python", 50, "own"), (first, "backend", 50, "own"),
        (second, "backend", 10, "operation"),
    ]  # fmt: skip


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (0, 10), (10, 10), (3, 10), (0, 100)])
def test_two_standard_errors_reach_the_exact_interval(
    builder: TraceBuilder, hits: int, n: int
) -> None:
    """Where a normal error would be 0: the 95 % bounds by Clopper and Pearson, which are wide."""
    thread = builder.thread(builder.process(), states=[run(10_000)])
    elsewhere = builder.thread(1, states=[run(10_000)])
    for place in range(n):
        builder.sample(thread, place * 10, "spin" if place < hits else "python")
    builder.sample(elsewhere, 0, "python")
    with completed(builder) as connection:
        rows = connection.execute(
            "SELECT layer, stderr_ns / 10000 FROM layer_estimate_coded WHERE thread_id = ?",
            [thread],
        ).fetchall()
    error = dict(rows)["spin" if hits else "python"]
    share = hits / n if hits else 1.0
    least = {5: 0.478, 10: 0.692, 100: 0.964}[n] if hits in {0, n} else None
    if least is not None:
        assert 1 - 2 * error <= least
    else:
        assert error == pytest.approx((share * (1 - share) / n) ** 0.5, rel=0.2)
