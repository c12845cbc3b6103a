"""The versioned contract: what a reader does with a trace of another version, older or newer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis.derive import derive
from rlscope_analysis.errors import TraceError
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from pathlib import Path

# What a reader has to cope with: everything but what no trace can do without.
ADDED_TABLES = (
    "cpu_sample_coded", "stack_coded", "sample_count_coded", "layer_estimate_coded",
    "gil_release_coded", "probe_hits_coded", "transition_coded", "gpu_device", "counter",
    "other_program", "other_run_coded", "cpu_quota_wait_coded", "early_message", "node",
    "ray_process", "python_lock", "gpu_collective_coded", "async_range_coded",
    "mark_coded",
)  # fmt: skip
ADDED_COLUMNS = {
    "native_call_coded": ("outcome",),
    "site": ("probed_ns", "dropped_ns", "hits", "time_ns"),
    "process": ("born_ns",),
    "wait_coded": ("lock_address", "is_mutex"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a trace of a call of 20 ns inside a thread that runs for 60 and sleeps for 40."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in ("thread_state", "native_call"):
        builder.coverage(kind)
    thread = builder.thread(builder.process(pid=7, end_ns=100), states=[run(60), sleep(40)])
    builder.native_call(thread, 10, 30, "simulator")
    builder.write()
    with duckdb.connect(str(builder.path)) as connection:
        derive(connection)
    return builder.path


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        (SCHEMA_VERSION - 1, "recover its spool"),
        (SCHEMA_VERSION + 1, "pip install --upgrade"),
    ],
)
def test_another_version_is_one_error_with_a_hint(path: Path, version: int, hint: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
        connection.execute("DROP TABLE thread")
    with pytest.raises(TraceError, match=f"schema version {version}") as caught:
        open_trace(path)
    assert hint in str(caught.value.hint)


def test_tables_and_columns_that_were_added_later_are_empty(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        for table in ADDED_TABLES:
            connection.execute(f"DROP TABLE {table}")
        for table, columns in ADDED_COLUMNS.items():
            for column in columns:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    with open_trace(path) as trace:
        rows = trace.sql("SELECT symbol, outcome, hits FROM native_call JOIN site USING (site_id)")
        assert rows.fetchall() == [("f", None, None)]
        assert trace.sql("FROM cpu_sample").fetchall() == []
        buckets = trace.sql("SELECT bucket, time_ns FROM breakdown ORDER BY bucket").fetchall()
        assert buckets == [("running", 40), ("simulator", 20), ("sleeping", 40)]
        # It was missing, and is derived.
        assert trace.sql("SELECT sum(count) FROM transition_coded").fetchall() == [(1,)]
        assert summarize(trace).total.times.running_ns == 60
        assert list(answer(trace, REPORTS["breakdown"]).data.rows)


def test_a_window_of_such_a_trace(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE transition_coded DROP COLUMN is_probed")
        connection.execute("DROP TABLE gpu_activity_coded")
    with open_trace(path, start="5ns", end="50ns") as trace:
        buckets = trace.sql("SELECT bucket, time_ns FROM breakdown ORDER BY bucket").fetchall()
        assert buckets == [("running", 25), ("simulator", 20)]
        assert trace.sql("SELECT sum(count) FROM transition_coded").fetchall() == [(1,)]


def test_what_only_a_later_writer_knows_is_left_alone(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE thread ADD COLUMN mood VARCHAR")
        connection.execute("CREATE TABLE dream (thread_id INTEGER)")
    with open_trace(path) as trace:
        assert trace.sql("SELECT sum(time_ns) FROM breakdown").fetchall() == [(100,)]
        assert trace.sql("FROM trace.dream").fetchall() == []


def test_the_views_of_a_reader_are_its_own(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE OR REPLACE VIEW breakdown AS SELECT 1 AS time_ns")
        connection.execute("DROP VIEW IF EXISTS thread_time")
    with open_trace(path) as trace:
        assert trace.sql("SELECT sum(time_ns) FROM breakdown").fetchall() == [(100,)]
        assert trace.sql("SELECT count(*) FROM thread_time").fetchall() == [(1,)]


def test_the_file_stays_as_it_was(path: Path) -> None:
    before = path.read_bytes()
    with open_trace(path, start="5ns") as trace:
        assert trace.sql("FROM timeline").fetchall()
    assert path.read_bytes() == before


def test_one_trace_is_open_as_often_as_one_likes(path: Path) -> None:
    with open_trace(path) as one, open_trace(path, end="50ns") as other:
        assert one.sql("SELECT sum(time_ns) FROM breakdown").fetchall() == [(100,)]
        assert other.sql("SELECT sum(time_ns) FROM breakdown").fetchall() == [(50,)]
        with duckdb.connect(str(path), read_only=True) as connection:
            assert connection.execute("SELECT count(*) FROM thread").fetchall() == [(1,)]
