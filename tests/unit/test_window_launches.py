"""launch-functions of an interval: samples of calls before it, and intervals that add up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis.relations import show, show_whole
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.schema import declared_tables
from rlscope_analysis.window import EARLIEST_NS, LATEST_NS, Window, restrict
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def trace() -> Iterator[duckdb.DuckDBPyConnection]:
    """Hold two calls: of a graph whose nodes run long after it, and one of a copy."""
    builder = TraceBuilder(Path("in-memory"))
    process = builder.process(pid=1, end_ns=100)
    thread = builder.thread(process, states=[run(100)])
    builder.operation(thread, 0, 100, "learn")
    builder.cuda_call(thread, 5, 20, name="cudaGraphLaunch", correlation_id=1)
    for ts_ns in (8, 15):
        builder.sample(thread, ts_ns, "backend", frames=("main", "train"))
    builder.gpu_activity(process, 30, 50, correlation_id=1)
    builder.gpu_activity(process, 60, 70, correlation_id=1)
    # The GPU begins before the samples fall into the call.
    builder.cuda_call(thread, 40, 80, name="cudaMemcpy", correlation_id=2)
    for ts_ns in (72, 74, 76):
        builder.sample(thread, ts_ns, "backend", frames=("main", "copy_back"))
    builder.gpu_activity(process, 55, 75, kind="memcpy", correlation_id=2)
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS trace; USE trace")
        builder.fill(connection)
        connection.execute("USE memory")
        show(connection, "trace", declared_tables())
        show_whole(connection, "trace", declared_tables())
        yield connection


# Function, samples, calls, activities.
Row = tuple[str, int, int, int]
WHOLE: list[Row] = [("copy_back", 3, 1, 1), ("train", 2, 1, 2)]


def within(
    trace: duckdb.DuckDBPyConnection, start_ns: int = EARLIEST_NS, end_ns: int = LATEST_NS
) -> duckdb.DuckDBPyConnection:
    """Let the connection show a part of the trace, instead of the one that it showed."""
    trace.execute("DROP VIEW IF EXISTS _window")
    restrict(trace, Window(start_ns, end_ns))
    return trace


def functions(trace: duckdb.DuckDBPyConnection) -> list[Row]:
    report = f"SELECT function, samples, calls, activities FROM ({REPORTS['launch-functions'].sql})"
    return trace.execute(report).fetchall()


def test_samples_before_and_after_the_window_name_its_activities(
    trace: duckdb.DuckDBPyConnection,
) -> None:
    assert functions(trace) == WHOLE
    cut = within(trace, 25, 58)
    launched = (
        "SELECT kind, s.leaf FROM launch LEFT JOIN stack AS s USING (stack_id) ORDER BY start_ns"
    )
    assert cut.execute(launched).fetchall() == [("kernel", "train"), ("memcpy", "copy_back")]
    assert cut.execute("FROM cpu_sample").fetchall() == []
    assert functions(cut) == [("copy_back", 3, 1, 1), ("train", 2, 1, 1)]


@pytest.mark.parametrize("cuts", [[31, 60], [10, 58, 74]])
def test_intervals_add_up_to_the_whole(trace: duckdb.DuckDBPyConnection, cuts: list[int]) -> None:
    parts = {"copy_back": [0, 0, 0], "train": [0, 0, 0]}
    for start_ns, end_ns in zip([0, *cuts], [*cuts, 100], strict=True):
        for function, *numbers in functions(within(trace, start_ns, end_ns)):
            parts[function] = [a + b for a, b in zip(parts[function], numbers, strict=True)]
    assert [(function, *numbers) for function, numbers in parts.items()] == WHOLE


def test_what_began_before_the_window_is_no_row_of_it(trace: duckdb.DuckDBPyConnection) -> None:
    assert functions(within(trace, 71)) == []
    # The node begins here, its call counted where the first one did: no samples to have shares of.
    cut = within(trace, 58, 65)
    assert functions(cut) == [("train", 0, 0, 1)]
    shares = cut.execute(f"SELECT share FROM ({REPORTS['launch-functions'].sql})").fetchall()
    assert shares == [(None,)]
