"""A trace whose writer knew fewer tables and views answers what it can, for the connection only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis import derive as derive_module
from rlscope_analysis.derive import derive
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.schema import DERIVED_FROM_SAMPLES, schema_sql
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from rlscope_analysis.views import view_sql
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from pathlib import Path

FIRST_TABLES = {"meta", "clock", "process", "thread", "thread_state_coded", "trace_stat"}


@pytest.fixture
def first_trace(tmp_path: Path) -> Path:
    """Write a trace as the first version did: states, and nothing about calls or operations."""
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(schema_sql("session"))
        connection.execute(schema_sql("threads"))
        connection.execute("DROP TABLE capture")
        connection.execute("INSERT INTO meta VALUES ('schema_version', '1')")
        connection.execute(
            "INSERT INTO process (process_id, pid, start_ns, end_ns) VALUES (1, 7, 0, 30)"
        )
        connection.execute("INSERT INTO thread VALUES (1, 1, 7, 0, 30, 'main', true, 0)")
        connection.execute(
            "INSERT INTO thread_state_coded VALUES (1, 0, 10, 0, 0, 0), (1, 10, 30, 2, -1, 0)"
        )
        connection.execute(view_sql("state_step"))
    return path


def test_it_is_summarized_as_ever(first_trace: Path) -> None:
    with open_trace(first_trace) as trace:
        summary = summarize(trace)
    assert summary.total.times.running_ns == 10
    assert summary.total.times.lifetime_ns == 30
    assert summary.reports == ()


def test_its_buckets_are_worked_out_when_it_is_opened(first_trace: Path) -> None:
    with open_trace(first_trace) as trace:
        buckets = trace.sql("SELECT bucket, time_ns, gpu_busy FROM breakdown ORDER BY bucket")
        assert buckets.fetchall() == [("running", 10, None), ("sleeping", 20, None)]
        assert answer(trace, REPORTS["cpu"]).rows[0][2:6] == (7, 7, "main", 10)
        assert trace.sql("SELECT count(*), sum(busy_ns) FROM gpu_time").fetchall() == [(0, None)]


def test_a_window_of_it_works_too(first_trace: Path) -> None:
    with open_trace(first_trace, start="5ns", end="15ns") as trace:
        buckets = trace.sql("SELECT bucket, time_ns FROM breakdown ORDER BY bucket").fetchall()
    assert buckets == [("running", 5), ("sleeping", 5)]


def test_the_file_stays_as_it_was(first_trace: Path) -> None:
    before = first_trace.read_bytes()
    with open_trace(first_trace) as trace:
        assert trace.sql("FROM timeline").fetchall()
    assert first_trace.read_bytes() == before
    with duckdb.connect(str(first_trace), read_only=True) as connection:
        tables = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
    assert tables == FIRST_TABLES | {"thread_state", "_state_step"}


@pytest.fixture
def trace_without_samples(tmp_path: Path) -> Path:
    """Write a trace as before samples were known: tables, columns and views are missing."""
    builder = TraceBuilder(tmp_path / "older.duckdb")
    for kind in ("thread_state", "native_call"):
        builder.capture(kind)
    thread = builder.thread(builder.process(pid=7, end_ns=100), states=[run(60), sleep(40)])
    builder.native_call(thread, 10, 30, "simulator")
    path = builder.write()
    with duckdb.connect(str(path)) as connection:
        derive(connection)
        for view in ("cpu_sample", "native_call", "_bucket_part"):
            connection.execute(f"DROP VIEW {view}")
        connection.execute(
            "CREATE OR REPLACE VIEW breakdown AS SELECT process_id, thread_id, operation,"
            " 'running' AS bucket, gpu_busy, time_ns, count FROM thread_overlap"
        )
        for table in sorted(DERIVED_FROM_SAMPLES | {"cpu_sample_coded", "stack", "gil_release"}):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE native_call_coded DROP COLUMN flags")
        for column in ("probed_ns", "dropped_ns", "hits", "time_ns"):
            connection.execute(f"ALTER TABLE site DROP COLUMN {column}")
    return path


@pytest.mark.parametrize(("end", "times"), [(None, [40, 20]), ("20ns", [10, 10])])
def test_columns_that_came_later_are_not_known(
    trace_without_samples: Path, end: str | None, times: list[int]
) -> None:
    with open_trace(trace_without_samples, end=end) as trace:
        rows = trace.sql("SELECT symbol, outcome, hits FROM native_call JOIN site USING (site_id)")
        assert rows.fetchall() == [("f", None, None)]
        buckets = trace.sql(
            "SELECT time_ns, sampled_ns, stderr_ns FROM breakdown"
            " WHERE bucket IN ('running', 'simulator') ORDER BY bucket"
        )
        assert buckets.fetchall() == [(time_ns, 0, 0) for time_ns in times]
        assert trace.sql("FROM cpu_sample").fetchall() == []


def test_its_overlaps_are_not_worked_out_again(
    trace_without_samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("nothing is missing that samples would not have to tell")

    monkeypatch.setattr(derive_module, "derive_temporarily", refuse)
    with open_trace(trace_without_samples) as trace:
        assert trace.sql("SELECT sum(time_ns) FROM breakdown").fetchall() == [(100,)]


def test_a_window_of_a_trace_whose_derived_tables_had_fewer_columns(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "older.duckdb")
    thread = builder.thread(builder.process(pid=7, end_ns=100), states=[run(60), sleep(40)])
    builder.native_call(thread, 10, 30, "simulator")
    path = builder.write()
    with duckdb.connect(str(path)) as connection:
        derive(connection)
        connection.execute("DROP VIEW transitions")
        connection.execute("ALTER TABLE transition_coded DROP COLUMN is_probed")
    with open_trace(path, start="5ns", end="50ns") as trace:
        buckets = trace.sql("SELECT bucket, time_ns FROM breakdown ORDER BY bucket").fetchall()
        assert buckets == [("running", 25), ("simulator", 20)]
        assert trace.sql("SELECT sum(count) FROM transition_coded").fetchall() == [(1,)]


# As it was before it told of machines: with the same columns.
OLDER_GPU_TIME = """
CREATE OR REPLACE VIEW gpu_time AS
SELECT 'trace' AS scope, NULL::INTEGER AS process_id, NULL::VARCHAR AS host,
  NULL::INTEGER AS device_id, NULL::BIGINT AS stream_id, NULL::VARCHAR AS kind,
  count(*) AS activities, sum(end_ns - start_ns)::BIGINT AS sum_ns, 0::BIGINT AS busy_ns,
  min(start_ns) AS first_ns, max(end_ns) AS last_ns, 0::BIGINT AS span_ns, 0::BIGINT AS idle_ns
FROM gpu_activity_coded
"""


def test_gpu_time_of_machines_is_told_though_the_columns_are_the_same(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "older.duckdb")
    builder.capture("gpu_activity")
    for pid, start_ns in ((7, 10), (8, 20)):
        builder.gpu_activity(builder.process(pid=pid, end_ns=100), start_ns, start_ns + 40)
    path = builder.write()
    with duckdb.connect(str(path)) as connection:
        connection.execute("DROP VIEW gpu_busy_machine")
        connection.execute(OLDER_GPU_TIME)
    with open_trace(path, derives=False) as trace:
        machines = trace.sql("SELECT busy_ns FROM gpu_time WHERE scope = 'machine'")
        assert machines.fetchall() == [(50,)]
        assert "machine" in {row[0] for row in answer(trace, REPORTS["gpu"]).rows}
