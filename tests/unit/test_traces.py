"""Several traces in one connection: each answers as it does alone, whatever the others hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis import open_traces
from rlscope_analysis.derive import derive
from rlscope_analysis.errors import TraceError
from rlscope_analysis.query import run_query, run_together
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_analysis.trace import Trace

RELATIONS = ("breakdown", "thread_time", "operation_tree", "launch", "transitions", "timeline")


def write_trace(path: Path, length_ns: int) -> Path:
    """Write a thread that runs and sleeps, inside one operation, and launches a kernel."""
    builder = TraceBuilder(path)
    for kind in ("thread_state", "operation", "cuda_call", "gpu_activity"):
        builder.coverage(kind)
    process = builder.process(pid=7, end_ns=2 * length_ns)
    thread = builder.thread(process, states=[run(length_ns), sleep(length_ns)])
    builder.operation(thread, 2, length_ns, f"learn {length_ns}")
    builder.cuda_call(thread, 3, 4, correlation_id=1)
    builder.gpu_activity(process, 4, length_ns, correlation_id=1)
    builder.write()
    with duckdb.connect(str(path)) as connection:
        derive(connection)
    return path


def test_each_answers_as_it_does_alone(tmp_path: Path) -> None:
    names = ("base", "new", "select")
    paths = {name: tmp_path / f"{name}'s.duckdb" for name in names}
    for length_ns, path in enumerate(paths.values(), 50):
        write_trace(tmp_path / "written.duckdb", length_ns).rename(path)
    with open_traces(paths) as together, together.cursor() as cursor:
        for name, path in paths.items():
            with open_trace(path) as alone:
                for relation in RELATIONS:
                    query = f'FROM "{name}".{relation} ORDER BY ALL'
                    expected = alone.sql(f"FROM {relation} ORDER BY ALL").fetchall()
                    assert expected
                    assert together.execute(query).fetchall() == expected
                    assert cursor.execute(query).fetchall() == expected
        over_all = "SELECT n.time_ns - b.time_ns FROM base.breakdown AS b JOIN new.breakdown AS n"
        assert together.execute(f"{over_all} USING (bucket) WHERE bucket = 'sleeping'").fetchall()


def test_no_other_file_can_be_read(tmp_path: Path) -> None:
    path, other = (write_trace(tmp_path / f"{name}.duckdb", 50) for name in ("one", "two"))
    with (
        open_traces({"base": path}) as connection,
        pytest.raises(duckdb.Error, match="disabled by configuration"),
    ):
        connection.execute(f"ATTACH '{other}' AS other")


@pytest.mark.parametrize("name", ["main", "whole", "", "a b", 'a"', "1", "Ä"])
def test_a_name_that_is_none_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match="no name for a trace"):
        open_traces({name: tmp_path / "trace.duckdb"})


def test_a_file_that_is_no_trace_and_one_that_lacks_a_table_are_told(tmp_path: Path) -> None:
    sound = write_trace(tmp_path / "sound.duckdb", 50)
    with pytest.raises(TraceError, match="there is no trace"):
        open_traces({"base": sound, "new": tmp_path / "none.duckdb"})
    lacking = write_trace(tmp_path / "lacking.duckdb", 50)
    with duckdb.connect(str(lacking)) as connection:
        connection.execute("DROP TABLE transition_coded")
    with pytest.raises(TraceError, match="lacks transition_coded"):
        open_traces({"base": sound, "new": lacking})


def test_no_join_in_time_compares_every_pair(tmp_path: Path) -> None:
    """DuckDB does so where it expects few rows on one side: minutes, in a long trace."""
    with open_trace(write_trace(tmp_path / "trace.duckdb", 50)) as trace:
        ((_, plan),) = trace.sql(
            "EXPLAIN SELECT * FROM (FROM range(3) AS few (ts)) AS few"
            " ASOF JOIN (FROM range(800000) AS many (ts)) AS many ON many.ts <= few.ts"
        ).fetchall()
    assert "ASOF JOIN" in plan.upper().replace("_", " ")


@pytest.mark.parametrize("which", [0, 1])
def test_nobody_waits_for_a_reader_beside_one_that_failed(tmp_path: Path, which: int) -> None:
    done = []

    def fail(_: Trace) -> None:
        raise TraceError("no such range")

    def work(trace: Trace) -> None:
        # Some seconds, in short pieces.
        run_query(trace, "SELECT sum(a.range) FROM range(2000) AS a, range(3000000)")
        done.append(1)

    first, second = (fail, work) if which == 0 else (work, fail)
    with (
        open_trace(write_trace(tmp_path / "t.duckdb", 50)) as trace,
        pytest.raises(TraceError, match="no such range"),
    ):
        run_together(trace, first, second)
    assert not done


def test_two_readers_may_ask_for_the_same_at_once(tmp_path: Path) -> None:
    """What is worked out when it is asked for is worked out once."""
    path = write_trace(tmp_path / "t.duckdb", 50)
    queries = "FROM limit_piece", "FROM limit_share"

    def rows(trace: Trace) -> list[list[tuple[object, ...]]]:
        return [list(run_query(trace, f"{query} ORDER BY ALL").rows) for query in queries]

    with open_trace(path) as trace:
        expected = rows(trace)
    assert expected[0]
    for _ in range(3):
        with open_trace(path) as trace:
            assert run_together(trace, rows, rows) == (expected, expected)
