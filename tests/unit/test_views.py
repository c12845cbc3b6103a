"""The views on traces small enough to add up by hand."""

import re
from pathlib import Path

import duckdb
import pytest

from rlscope_analysis.catalog import describe
from rlscope_analysis.schema import create_tables
from rlscope_analysis.views import VIEW_TOPICS, install_views, view_sql
from trace_builder import (
    INTERRUPT,
    NOBODY,
    OUTSIDE,
    UNKNOWN,
    Interval,
    TraceBuilder,
    blocked,
    lost,
    preempted,
    run,
    sleep,
    woken,
)


def built(*threads: list[Interval], **options: object) -> duckdb.DuckDBPyConnection:
    """Return an in-memory trace of one process with these threads."""
    builder = TraceBuilder(Path(":memory:"))
    process = builder.process(pid=100)
    for states in threads:
        builder.thread(process, states=states, **options)
    connection = duckdb.connect()
    builder.fill(connection)
    return connection


def test_thread_time_adds_up_by_hand() -> None:
    connection = built(
        [run(5), sleep(10), woken(2, by=INTERRUPT), run(3), blocked(7), lost(4), run(1)],
        [lost(9)],
        [],
        start_ns=1000,
    )
    assert connection.execute("SELECT * FROM thread_time ORDER BY thread_id").fetchall() == [
        # thread, process, running, runnable, sleeping, blocked, lost, lifetime
        (1, 1, 9, 2, 10, 7, 4, 32),
        (2, 1, 0, 0, 0, 0, 9, 9),
        (3, 1, 0, 0, 0, 0, 0, 0),
    ]


def test_intervals_tell_their_process_and_their_length() -> None:
    builder = TraceBuilder(Path(":memory:"))
    process = builder.process(pid=100)
    thread = builder.thread(process, states=[run(5), sleep(4), woken(2, by=INTERRUPT), run(9)])
    builder.operation(thread, 1, 8, "step")
    builder.native_call(thread, 2, 4, "backend")
    builder.wait(thread, 5, 9, "gil")
    builder.cuda_call(thread, 12, 15, correlation_id=1)
    builder.gpu_activity(process, 14, 19, correlation_id=1)
    builder.gpu_activity(process, 24, 26)
    builder.collective(1, process, 24, 26)
    builder.async_range(process, 3, 7, "request")
    builder.gil_release(thread, 1, 3)
    connection = duckdb.connect()
    builder.fill(connection)
    intervals = [
        relation.name
        for relation in describe(connection)
        if relation.kind == "view" and not relation.is_private
        if {"start_ns", "end_ns"} <= {column.name for column in relation.columns}
    ]
    assert {"run_queue_latency", "thread_state", "operation", "async_range", "gil_release"} <= set(
        intervals
    )
    of_no_process = {"gpu_busy_machine", "gpu_utilization", "other_run"}
    for view in set(intervals) - of_no_process:
        rows = connection.execute(
            f"SELECT process_id, pid, duration_ns - (end_ns - start_ns) FROM {view}"
        ).fetchall()
        assert set(rows) <= {(process, 100, 0)}, view
        assert rows or view == "operation_gap", view
    # A thread that is not in the trace takes no row away.
    connection.execute("UPDATE thread SET thread_id = 99")
    counts = connection.execute("SELECT count(*), count(pid) FROM thread_state").fetchall()
    assert counts == [(4, 0)]


def test_instants_and_other_programs_tell_whose_they_are_and_how_long() -> None:
    builder = TraceBuilder(Path(":memory:"))
    thread = builder.thread(builder.process(pid=100), states=[run(9)])
    builder.quota(thread, 4)
    builder.other_run(0, 3, 8, pid=200, name="other")
    connection = duckdb.connect()
    builder.fill(connection)
    connection.execute("INSERT INTO mark_coded (thread_id, ts_ns) VALUES (1, 5), (99, 6)")

    def ask(query: str) -> list[tuple[object, ...]]:
        return connection.execute(query).fetchall()

    assert ask("SELECT process_id, pid, thread_id, ts_ns FROM cpu_quota_wait") == [(1, 100, 1, 4)]
    # What is of a thread that the trace lacks stays.
    assert ask("SELECT process_id, pid, thread_id, ts_ns FROM mark ORDER BY ts_ns") == [
        (1, 100, 1, 5), (None, None, 99, 6),
    ]  # fmt: skip
    assert ask("SELECT duration_ns FROM other_run") == [(5,)]


SWITCHES = "voluntary_switches, involuntary_switches, unknown_switches, migrations, switch_ins"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([run(5)], (0, 0, 0, 0, 0, 1), id="ran to the end: no switch"),
        pytest.param([sleep(5)], (0, 0, 0, 0, 0, 0), id="never ran"),
        pytest.param(
            [run(5), sleep(5), woken(1, by=INTERRUPT), run(5)], (1, 1, 0, 0, 0, 2), id="slept"
        ),
        pytest.param([run(5), blocked(5)], (1, 1, 0, 0, 0, 1), id="blocked at the end"),
        pytest.param(
            [run(5), preempted(5), run(5, cpu=1)], (1, 0, 1, 0, 1, 2), id="preempted and moved"
        ),
        pytest.param(
            [run(5), woken(5, by=OUTSIDE), run(5)],
            (1, 1, 0, 0, 0, 2),
            id="woken while it went to sleep",
        ),
        pytest.param(
            [run(5), sleep(5), run(5)], (1, 1, 0, 0, 0, 2), id="wakeup without latency: no row"
        ),
        pytest.param([run(5), lost(5), sleep(5)], (1, 0, 0, 1, 0, 1), id="lost after it ran"),
        pytest.param([run(5), lost(5)], (1, 0, 0, 1, 0, 1), id="lost until the end"),
        pytest.param(
            [run(5), lost(5), preempted(2), run(5, cpu=3)],
            (1, 0, 0, 1, 1, 2),
            id="runnable after a gap is no preemption, another CPU is a migration",
        ),
        pytest.param([run(5), run(5)], (1, 0, 0, 1, 0, 2), id="off for no time: cause not seen"),
        pytest.param(
            [run(1, cpu=2), sleep(1), run(1, cpu=2), sleep(1), run(1, cpu=0), sleep(1), run(1)],
            (3, 3, 0, 0, 1, 4),
            id="back on the same CPU is no migration",
        ),
    ],
)
def test_thread_switch(states: list[Interval], expected: tuple[int, ...]) -> None:
    connection = built(states)
    query = f"SELECT switches, {SWITCHES} FROM thread_switch"
    assert connection.execute(query).fetchall() == [expected]


def test_threads_do_not_leak_into_each_other() -> None:
    """The end of one thread touches the start of the next in time, CPU and storage."""
    builder = TraceBuilder(Path(":memory:"))
    process = builder.process()
    builder.thread(process, states=[run(5, cpu=0)], start_ns=0)
    builder.thread(process, states=[woken(5, by=1), run(5, cpu=1)], start_ns=5)
    connection = duckdb.connect()
    builder.fill(connection)
    query = "SELECT switches, migrations FROM thread_switch ORDER BY thread_id"
    assert connection.execute(query).fetchall() == [(0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param(
            [run(1), sleep(1), woken(7, by=INTERRUPT), run(1)],
            [(2, 9, 7, "wakeup", None, "interrupt")],
            id="woken",
        ),
        pytest.param(
            [run(1), preempted(7), run(1)], [(1, 8, 7, "preemption", None, None)], id="preempted"
        ),
        pytest.param(
            [preempted(3), woken(7, by=1), run(1)],
            [(3, 10, 7, "wakeup", 1, "thread")],
            id="a new thread waits from when its creator made it runnable",
        ),
        pytest.param([preempted(7), run(1)], [], id="runnable at the attach: beginning not seen"),
        pytest.param([run(1), preempted(7)], [], id="runnable at the end: end not seen"),
        pytest.param([run(1), lost(1), preempted(7), run(1)], [], id="beginning lost"),
        pytest.param([run(1), preempted(7), lost(1), run(1)], [], id="end lost"),
        pytest.param(
            [lost(1), woken(7, by=UNKNOWN), run(1)],
            [(1, 8, 7, "wakeup", None, "unknown")],
            id="a wakeup after a gap is a beginning",
        ),
    ],
)
def test_run_queue_latency(states: list[Interval], expected: list[tuple[object, ...]]) -> None:
    query = (
        "SELECT start_ns, end_ns, duration_ns, cause, waker_thread_id, waker_kind"
        " FROM run_queue_latency"
    )
    assert built(states).execute(query).fetchall() == expected


def test_run_queue_quantiles_are_waits_that_occurred() -> None:
    """Waits of 1..200 ns: the 100th and the 198th of them, by the definition of quantile_disc."""
    states = [part for wait in range(1, 201) for part in (run(1), preempted(wait))]
    connection = built([*states, run(1)], [run(1)])
    rows = connection.execute("SELECT * FROM run_queue_latency_summary").fetchall()
    assert rows == [(1, 200, 100, 198, 200)]


def test_waker_counts() -> None:
    waits = [woken(3, by=by) for by in (1, 1, 2, INTERRUPT, OUTSIDE, UNKNOWN, NOBODY)]
    connection = built([part for wait in waits for part in (run(1), wait)], [run(1)])
    rows = connection.execute(
        "SELECT thread_id, waker_thread_id, waker_kind, wakeups, runnable_ns FROM waker"
        " ORDER BY waker_kind, waker_thread_id"
    ).fetchall()
    assert rows == [
        (1, None, "interrupt", 1, 3),
        (1, None, "outside", 1, 3),
        (1, 1, "thread", 2, 6),
        (1, 2, "thread", 1, 3),
        (1, None, "unknown", 1, 3),
    ]


def test_views_work_on_an_empty_trace_and_with_nulls() -> None:
    connection = built()
    names = [
        row[0]
        for row in connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    ]
    assert len(names) >= len(VIEW_TOPICS)
    for name in names:
        # The process of the builder, what is said of it, the three layers of its calls, and the
        # row for time in no operation.
        expected = {"_covered": 1, "_measured": 1, "_layer_gap": 3, "_operation_node": 1}
        expected = expected.get(name, 0)
        assert connection.execute(f"SELECT count(*) FROM {name}").fetchall() == [(expected,)], name
    connection.execute("INSERT INTO thread (thread_id) VALUES (1)")
    assert connection.execute("SELECT * FROM thread_time").fetchall() == [
        (1, None, 0, 0, 0, 0, None, None)
    ]
    assert connection.execute("SELECT * FROM thread_switch").fetchall() == [
        (1, None, 0, 0, 0, 0, 0, 0)
    ]


def test_views_can_be_installed_again() -> None:
    connection = built([run(1)])
    install_views(connection)
    assert connection.execute("SELECT running_ns FROM thread_time").fetchall() == [(1,)]


@pytest.mark.parametrize("topic", VIEW_TOPICS)
def test_views_follow_the_house_rules(topic: str) -> None:
    text = view_sql(topic)
    code = re.sub(r"--[^\n]*|'[^']*'", "", text)
    assert not re.search(r"(SELECT|,|\.)\s*\*", code), "SELECT * in a view"
    assert not re.search(r"\b(DROP|INSERT|UPDATE|DELETE|DISTINCT ON)\b", code)
    assert text.startswith("-- "), "a file opens with what it makes"


def test_every_table_view_and_column_is_commented() -> None:
    connection = duckdb.connect()
    create_tables(connection)
    install_views(connection)
    assert (
        connection.execute(
            """
        SELECT table_name FROM duckdb_tables() WHERE NOT internal AND comment IS NULL
        UNION ALL
        SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL
        UNION ALL
        SELECT table_name || '.' || column_name FROM duckdb_columns()
        WHERE NOT internal AND comment IS NULL
        """
        ).fetchall()
        == []
    )
