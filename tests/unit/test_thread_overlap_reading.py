"""How the overlap of threads reads a trace and writes its tables, and what it says if it cannot."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from coded import coded
from rlscope_analysis.errors import TraceError
from rlscope_analysis.sweep import thread_plan
from rlscope_analysis.sweep import threads as thread_overlap
from rlscope_analysis.sweep.threads import ThreadOverlap
from trace_builder import TraceBuilder, run, sleep

# More than one batch of any DuckDB, which holds a million rows or less.
CALLS = 1_400_000


def small_trace() -> TraceBuilder:
    builder = TraceBuilder(Path("unused"), with_views=False)
    process = builder.process()
    thread = builder.thread(process, states=[run(6), sleep(4)])
    builder.operation(thread, 1, 9, "a")
    builder.native_call(thread, 2, 5, "backend")
    builder.gpu_activity(process, 3, 8)
    return builder


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        small_trace().fill(made)
        yield made


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a trace of two processes; in each a thread makes many calls, of 4 ns every 10 ns."""
    builder = TraceBuilder(tmp_path_factory.mktemp("trace") / "long.duckdb", with_views=False)
    builder.coverage("gpu_activity")
    for _ in range(2):
        builder.thread(builder.process(), states=[run(10 * CALLS)])
    path = builder.write()
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"""
            INSERT INTO native_call_coded
            SELECT t, i * 10, i * 10 + 4, 'backend', NULL, 0, 1, 'returned'
            FROM range(1, 3) AS t(t), range({CALLS}) AS i(i) ORDER BY t, i;
            INSERT INTO gpu_activity_coded
            SELECT p, 0, 1, 1, i * 10 + 2, i * 10 + 6, 'kernel', 1, NULL, NULL, NULL, NULL
            FROM range(1, 3) AS p(p), range({CALLS}) AS i(i) ORDER BY p, i;
        """)
    return path


@contextmanager
def memory_for(more_bytes: int) -> Iterator[None]:
    """Let this process have so much more address space than now, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def rows(overlap: ThreadOverlap, *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(overlap.overlap[name].tolist() for name in names), strict=True))


def stored(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[int, ...]]:
    return connection.execute(f"FROM {coded(table)} ORDER BY ALL").fetchall()


def test_long_traces_are_read_batch_by_batch_and_part_by_part(long_trace: Path) -> None:
    with duckdb.connect(str(long_trace), read_only=True) as connection:
        plan = thread_plan.make_plan(
            connection, None, None, chunk_rows=thread_overlap.LONE_CHUNK_ROWS
        )
        found = thread_overlap.compute(connection)
    assert len(plan.chunks) > 2
    assert rows(found, "thread_id", "layer", "gpu", "time_ns", "count") == [
        (thread, layer, gpu, time_ns, CALLS)
        for thread in (1, 2)
        for layer, gpu, time_ns in (
            (0, 0, 4 * CALLS), (0, 1, 2 * CALLS), (3, 0, 2 * CALLS), (3, 1, 2 * CALLS),
        )
    ]  # fmt: skip
    assert found.transitions["count"].tolist() == [CALLS, CALLS]
    assert found.rows_out_of_order == 0


def test_a_window_of_a_long_trace(long_trace: Path) -> None:
    with duckdb.connect(str(long_trace), read_only=True) as connection:
        found = thread_overlap.compute(connection, start_ns=50_003, end_ns=60_003)
    assert rows(found, "thread_id", "layer", "gpu", "time_ns", "count", "first_ns", "last_ns")[
        :4
    ] == [
        (1, 0, 0, 4000, 1000, 50_006, 60_000),
        (1, 0, 1, 2000, 1000, 50_004, 59_996),
        (1, 3, 0, 2000, 1000, 50_010, 60_002),
        (1, 3, 1, 2000, 1001, 50_003, 60_003),
    ]
    assert found.transitions["count"].tolist() == [1000, 1000]


def test_stored_rows_are_the_computed_ones(connection: duckdb.DuckDBPyConnection) -> None:
    found = thread_overlap.compute(connection)
    thread_overlap.store(connection, found)
    assert stored(connection, "thread_overlap_coded") == rows(found, *found.overlap)
    assert stored(connection, "transition_coded") == [(1, 1, True, 0, 3, 1)]


def test_many_rows_are_stored_within_the_memory_of_the_recorder() -> None:
    builder = TraceBuilder(Path("unused"), with_views=False)
    thread = builder.thread(builder.process(), states=[run(200_000)])
    with duckdb.connect(config={"memory_limit": "80MB", "threads": "1"}) as connection:
        builder.fill(connection)
        connection.execute(
            f"INSERT INTO operation_coded SELECT {thread}, i * 10, i * 10 + 5, i + 1, NULL"
            " FROM range(20000) AS r(i)"
        )
        thread_overlap.store(connection, thread_overlap.compute(connection))
        counted = "SELECT count(*), sum(time_ns)::BIGINT FROM thread_overlap_coded"
        assert connection.execute(counted).fetchall() == [(20_001, 200_000)]


def test_views_in_the_place_of_tables_are_read(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("""
        ALTER TABLE native_call_coded RENAME TO stored_call;
        CREATE VIEW native_call_coded AS
        SELECT * REPLACE ('simulator'::LAYER AS layer) FROM stored_call
    """)
    found = thread_overlap.compute(connection)
    assert set(found.overlap["layer"].tolist()) == {0, 2}


def test_the_database_in_use_is_the_one_that_is_read(tmp_path: Path) -> None:
    builder = small_trace()
    builder.path = tmp_path / "trace.duckdb"
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{builder.write()}' AS \"the trace\"")
        connection.execute('USE "the trace"')
        assert thread_overlap.compute(connection).overlap["time_ns"].sum() == 10


def test_progress_rises_to_the_end(connection: duckdb.DuckDBPyConnection) -> None:
    reported: list[tuple[int, int]] = []
    thread_overlap.compute(connection, progress=lambda done, total: reported.append((done, total)))
    assert reported[0] == (0, 5)
    assert reported == sorted(reported)
    assert reported[-1] == (5, 5)


def test_ctrl_c_ends_it(long_trace: Path) -> None:
    calls = 0

    def interrupt(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            assert done < total
            raise KeyboardInterrupt

    with duckdb.connect(str(long_trace), read_only=True) as connection:
        with pytest.raises(KeyboardInterrupt):
            thread_overlap.compute(connection, progress=interrupt)
        assert calls == 2
        # The connection is as good as before.
        assert connection.execute("SELECT count(*) FROM thread").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP TABLE wait_coded", "wait_coded does not exist"),
        (
            "INSERT INTO native_call_coded VALUES (1, NULL, 5, 'python', NULL, 0, 1, NULL)",
            "native_call_coded holds NULL",
        ),
        (
            "INSERT INTO operation_coded VALUES (NULL, 0, 5, 1, NULL)",
            "1 rows of operation_coded have no thread_id",
        ),
        ("INSERT INTO thread SELECT * FROM thread", "thread_id 1 stands 2 times"),
        (
            "DROP TABLE wait_coded; CREATE VIEW wait_coded AS SELECT"
            " error('damaged')::INTEGER AS thread_id, 0 AS start_ns, 5 AS end_ns,"
            " 'gil'::WAIT_KIND AS kind",
            "damaged",
        ),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(
    connection: duckdb.DuckDBPyConnection, statement: str, message: str
) -> None:
    connection.execute(statement)
    with pytest.raises(TraceError, match=message) as caught:
        thread_overlap.compute(connection)
    assert caught.value.hint


def test_rows_that_are_not_in_their_order_are_counted(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    expected = rows(thread_overlap.compute(connection), "layer", "time_ns")
    connection.execute("""
        INSERT INTO native_call_coded VALUES
          (1, 8, 9, 'backend', NULL, 0, 1, NULL), (1, 1, 1, 'backend', NULL, 0, 1, NULL);
        DELETE FROM native_call_coded WHERE start_ns = 8
    """)
    found = thread_overlap.compute(connection)
    assert rows(found, "layer", "time_ns") == expected
    assert found.rows_out_of_order == 1


def test_ids_cost_no_memory_by_their_size(connection: duckdb.DuckDBPyConnection) -> None:
    before = rows(thread_overlap.compute(connection), "layer", "gpu", "time_ns")
    last = 2**31 - 1
    for table in ("thread", "thread_state_coded", "operation_coded", "native_call_coded"):
        connection.execute(
            f"INSERT INTO {table} SELECT * REPLACE ({last} AS thread_id) FROM {table}"
        )
    with memory_for(2 << 30):
        found = thread_overlap.compute(connection)
    assert rows(found, "layer", "gpu", "time_ns") == before * 2
    assert set(found.overlap["thread_id"].tolist()) == {1, last}


@pytest.mark.parametrize(("start_ns", "end_ns"), [(-(2**63), 10), (0, 2**63 - 1)])
def test_lives_that_cannot_be_summed_are_refused(
    connection: duckdb.DuckDBPyConnection, start_ns: int, end_ns: int
) -> None:
    connection.execute("UPDATE thread SET start_ns = ?, end_ns = ?", [start_ns, end_ns])
    with pytest.raises(TraceError, match="thread holds a time beyond 146 years"):
        thread_overlap.compute(connection)


def test_gpu_activity_without_an_end_fills_the_life_of_its_threads(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    last = 2**63 - 1
    connection.execute("UPDATE gpu_activity_coded SET start_ns = ?, end_ns = ?", [-last, last])
    assert (
        sum(time for gpu, time in rows(thread_overlap.compute(connection), "gpu", "time_ns") if gpu)
        == 10
    )
