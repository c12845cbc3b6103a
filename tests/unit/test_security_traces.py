"""Traces of a stranger: nothing in them is run, nothing reaches the terminal, one error is told."""

from __future__ import annotations

import json
import os
import random
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import rlscope_analysis
from conftest import in_matrix
from recording import rlscope
from rlscope_analysis.contents import _KEYS
from rlscope_analysis.critical_path.path import _ACTIVITIES_SQL
from rlscope_analysis.derive import derive
from rlscope_analysis.errors import TraceError
from rlscope_analysis.trace import open_trace
from rlscope_trace.record.target import parse_process
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 60
NAME = "\x1b[31mX\x07\x7f\x9b1m\u202e\u2066\u2028"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PROGRAM = "from rlscope_trace.cli import main; main()"
COMMANDS = (
    ("summarize", "{}"),
    ("summarize", "{}", "--by", "operation"),
    ("summarize", "{}", "--view", "breakdown"),
    ("summarize", "{}", "--format", "json"),
    ("sql", "{}", "FROM timeline"),
    ("sql", "{}", "FROM timeline", "--format", "json"),
    ("sql", "{}", ".tables"),
    ("sql", "{}", 'EXPLAIN SELECT 1 AS "' + NAME + '"'),
    ("export", "chrome", "{}", "-o", "{}.json", "--force"),
    ("export", "perfetto", "{}", "-o", "{}.pftrace", "--force"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in ("thread_state", "operation", "native_call"):
        builder.coverage(kind)
    thread = builder.thread(
        builder.process(pid=7, end_ns=100), tid=7, name="main", states=[run(60), sleep(40)]
    )
    builder.operation(thread, 5, 50, "iteration")
    builder.native_call(thread, 10, 30, "simulator")
    builder.loss()
    path = builder.write()
    with duckdb.connect(str(path)) as connection:
        derive(connection)
    return path


def change(path: Path, *statements: str) -> None:
    """Do to a trace what its sender did."""
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def ask(command: tuple[str, ...], path: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does; a hang fails."""
    done = rlscope(*(word.replace("{}", str(path)) for word in command))
    assert not RAW.search(done.stdout + done.stderr)
    assert done.returncode in (0, 1, 2), done.stderr
    if done.returncode:
        assert done.stderr.startswith("error: ")
        assert "\nhint: " in done.stderr
    return done


@pytest.mark.parametrize("command", COMMANDS)
def test_no_name_reaches_the_terminal_raw(path: Path, command: tuple[str, ...]) -> None:
    change(
        path,
        f"UPDATE process SET name = '{NAME}', command = '{NAME}'",
        f"UPDATE thread SET name = '{NAME}'",
        f"UPDATE trace_stat SET kind = '{NAME}', code = '{NAME}', detail = '{NAME}'",
        f"UPDATE operation_path SET name = '{NAME}', domain = '{NAME}'",
        f"UPDATE site SET symbol = '{NAME}', state = 'dropped', code = '{NAME}', detail = '{NAME}'",
        f"INSERT INTO coverage (kind, measured, code, subject, detail)"
        f" VALUES ('{NAME}', false, '{NAME}', '{NAME}', '{NAME}')",
        f"INSERT INTO overlap_fault VALUES ('{NAME}', '{NAME}', 3)",
        f"INSERT INTO meta VALUES ('argv', '{NAME}'), ('host', '{NAME}'), ('loader', '{NAME}')",
        f"COMMENT ON TABLE thread IS '{NAME}'",
        f'CREATE TABLE "{NAME}" ("{NAME}" INTEGER)',
    )
    done = ask(command, path)
    assert done.returncode == 0, done.stderr
    if "json" in command:
        json.loads(done.stdout)


def test_json_keeps_what_it_escapes_and_csv_is_as_it_is_for_a_program(path: Path) -> None:
    change(path, f"UPDATE thread SET name = '{NAME}'")
    query = ("sql", "{}", "SELECT name FROM thread", "--format")
    assert json.loads(ask((*query, "json"), path).stdout) == [{"name": NAME}]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *(w.replace("{}", str(path)) for w in (*query, "csv"))],
        capture_output=True, text=True, timeout=DEADLINE_S, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert NAME in done.stdout


def test_a_newer_writer_and_a_process_are_named_without_commands(path: Path) -> None:
    change(
        path,
        "UPDATE meta SET value = '999' WHERE key = 'schema_version'",
        f"INSERT INTO meta VALUES ('tool_version', repeat('{NAME}', 1000))",
    )
    assert len(ask(("summarize", "{}"), path).stderr) < 1000
    stat = f"7 ({NAME}\n) S 1 1 1 0 -1 4194304 " + "0 " * 40
    process = parse_process(stat, status="Tgid:\t7\nUid:\t0\t0\t0\t0\n")
    assert process.comm.isprintable()


REFUSED = {
    "a view in place of a table": (
        "ALTER TABLE meta RENAME TO m",
        "CREATE VIEW meta AS FROM m, range(1000000000000)",
    ),
    "columns of another type": ("ALTER TABLE thread ALTER start_ns TYPE VARCHAR",),
    "columns that are computed": ("ALTER TABLE process ALTER name SET DEFAULT repeat('x', 9)",),
    "a path below itself": ("UPDATE operation_path SET parent_path_id = path_id",),
    "paths twice": ("INSERT INTO operation_path FROM operation_path",),
    "a text that no recorder writes": (
        "UPDATE thread SET name = repeat('x', 200_000_000) WHERE thread_id = 1",
    ),
    "a long text of a fact": ("INSERT INTO meta VALUES ('argv', repeat('x', 5_000_000))",),
    "a long text in a column of its own": (
        """ALTER TABLE thread ADD COLUMN "a""b" VARCHAR""",
        """UPDATE thread SET "a""b" = repeat('x', 5_000_000) WHERE thread_id = 1""",
    ),
    "many texts that compress": (
        "INSERT INTO mark_coded (thread_id, ts_ns, name)"
        " SELECT 1, 1, repeat('x', 1_000_000) FROM range(100)",
    ),
    "lists that no recorder writes": (
        "INSERT INTO stack_coded SELECT 9, list(repeat('a', 1)) FROM range(1_000_000)",
    ),
    "a tree as deep as it has rows": (
        "INSERT INTO operation_path (path_id, parent_path_id, name, source, depth)"
        " SELECT i, nullif(i - 1, 99), 'x', 'nvtx', i - 99 FROM range(100, 20_000) AS t(i)",
    ),
    "more paths than who writes traces keeps": (
        "INSERT INTO operation_path (path_id, name, source, depth)"
        " SELECT i, hash(i)::VARCHAR, 'nvtx', 0 FROM range(1000, 102_000) AS t(i)",
    ),
    "rows that no file of its size holds": (
        "INSERT INTO clock SELECT c.* FROM (SELECT 1, 1, 1) AS c, range(20_000_000)",
    ),
    "more processes than there are of any training": (
        "INSERT INTO process SELECT p.* REPLACE (i AS process_id)"
        " FROM process AS p, range(1000, 252_000) AS t(i)",
    ),
}


@pytest.mark.parametrize("statements", REFUSED.values(), ids=REFUSED)
def test_what_is_no_trace_is_refused_at_once(path: Path, statements: tuple[str, ...]) -> None:
    change(path, *statements)
    with pytest.raises(TraceError, match="a DuckDB database but not a trace") as raised:
        open_trace(path)
    assert raised.value.hint


def test_stored_views_and_macros_are_never_run(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    before = open_trace(path)
    with before:
        expected = {
            name: before.sql(f"FROM {name} ORDER BY ALL").fetchall()
            for name in ("breakdown", "thread_time", "thread_state")
        }
    change(
        path,
        f"CREATE OR REPLACE VIEW breakdown AS FROM read_csv('{secret}')",
        "CREATE OR REPLACE VIEW thread_time AS SELECT * FROM range(1000000000000)",
        "CREATE OR REPLACE VIEW thread_state AS WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL"
        " SELECT i + 1 FROM r) FROM r",
        "DROP VIEW waker",
        "CREATE TABLE waker (a INTEGER)",
        "CREATE MACRO count(x) AS (SELECT 1)",
        "CREATE MACRO sum(x) AS (SELECT 1)",
    )
    with open_trace(path) as trace:
        for name, rows in expected.items():
            assert trace.sql(f"FROM {name} ORDER BY ALL").fetchall() == rows
        assert trace.sql("SELECT count(waker_kind) FROM waker").fetchall() == [(0,)]


def test_a_hole_holds_no_rows(path: Path) -> None:
    change(path, *REFUSED["rows that no file of its size holds"])
    os.truncate(path, 1 << 40)
    done = ask(("summarize", "{}"), path)
    assert done.returncode == 1
    assert "its clock claims 20,0" in done.stderr


@pytest.mark.parametrize("query", ["SELECT list(range) FROM range(1000000000000)"])
def test_a_query_that_would_take_all_memory_ends(path: Path, query: str) -> None:
    done = ask(("sql", "{}", query), path)
    assert done.returncode == 1
    assert "memory" in done.stderr


def test_what_waits_for_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "trace.duckdb"
    os.mkfifo(fifo)
    with pytest.raises(TraceError, match="no regular file"):
        open_trace(fifo)


@pytest.mark.parametrize("suffix", [".wal", ".wal.checkpoint"])
def test_what_somebody_put_beside_a_trace_is_no_part_of_it(path: Path, suffix: str) -> None:
    beside = path.with_name(path.name + suffix)
    beside.symlink_to("/dev/zero")
    with pytest.raises(TraceError, match="not of the owner"):
        open_trace(path)


def test_no_folder_that_could_be_guessed_takes_what_does_not_fit_in_memory(path: Path) -> None:
    with open_trace(path) as trace:
        ((folder,),) = trace.sql("SELECT current_setting('temp_directory')").fetchall()
    found = Path(folder).stat()
    assert (found.st_uid, found.st_mode & 0o777) == (os.geteuid(), 0o700)
    assert str(os.getpid()) not in folder


ODD_FACTS = (
    ("argv", "[" * 100_000), ("backends", '[{"backend": {}}]'),
    ("cpus_allowed", "[1e999, NaN, null]"), ("inferred_switch_ins", "9" * 5000),
)  # fmt: skip
MORE_ODD_FACTS = (
    ("argv", '["\\ud800"]'), ("cpus_allowed", "[Infinity]"), ("inferred_switch_ins", "x"),
    ("backends", "[" * 100_000),
)  # fmt: skip


@pytest.mark.parametrize("fact", [*ODD_FACTS, *in_matrix(*MORE_ODD_FACTS)])
def test_odd_facts_are_told_or_left_as_they_are(path: Path, fact: tuple[str, str]) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("INSERT INTO meta VALUES (?, ?), (NULL, NULL)", fact)
    ask(("summarize", "{}"), path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE thread SET start_ns = -9223372036854775807, end_ns = 9223372036854775807",
        "UPDATE thread_state_coded SET start_ns = end_ns, end_ns = start_ns, state = 'lost'",
        "UPDATE thread SET thread_id = NULL, start_ns = NULL, end_ns = NULL, process_id = NULL",
        "UPDATE thread_overlap_coded SET time_ns = 9223372036854775807",
        "INSERT INTO clock VALUES (0, -9223372036854775807, 0)",
        "DROP TABLE thread",
        "ALTER TABLE thread DROP COLUMN end_ns",
    ],
)
def test_odd_values_are_one_error_or_none(path: Path, statement: str) -> None:
    change(path, statement)
    for command in (COMMANDS[0], COMMANDS[1], COMMANDS[-1]):
        ask(command, path)


def damaged(content: bytes, seed: int) -> Iterator[bytes]:
    """Yield copies with bits flipped, bytes zeroed or the end cut off."""
    chance = random.Random(seed)
    while True:
        copy = bytearray(content)
        at = chance.randrange(chance.choice((12288, len(copy))))
        kind = chance.randrange(3)
        if kind == 0:
            copy[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            copy[at : at + 64] = bytes(len(copy[at : at + 64]))
        else:
            del copy[at:]
        yield bytes(copy)


FLIPS = """
import sys
from rlscope_analysis.errors import TraceError
from rlscope_analysis.damage import damage_reported
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
for path in sys.argv[1:]:
    try:
        with damage_reported(path), open_trace(path) as trace:
            summarize(trace)
        print("read")
    except TraceError as error:
        assert error.hint, error
        print("refused")
"""


def test_a_damaged_file_is_read_or_refused(path: Path, tmp_path: Path) -> None:
    copies = damaged(path.read_bytes(), seed=20)
    paths = [tmp_path / f"{i}.duckdb" for i in range(40)]
    for copy in paths:
        copy.write_bytes(next(copies))
    done = subprocess.run(
        [sys.executable, "-c", FLIPS, *map(str, paths)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(paths)
    assert "refused" in done.stdout


@pytest.mark.parametrize("kind", ["trace", "manifest", "baseline", "partial"])
def test_a_pipe_is_not_waited_for(path: Path, kind: str) -> None:
    """Nobody writes to it: whoever opens it like a file waits for ever."""
    name = {"manifest": "manifest.json", "partial": f"{path.name}.partial.parquet"}
    pipe = path.with_name(name.get(kind, "pipe.duckdb"))
    os.mkfifo(pipe)
    if kind == "baseline":
        ask(("gate", "--max", "iteration=+3%", str(pipe), "{}"), path)
    else:
        ask(("fleet", "summarize", str(path.parent)), path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_json_of_a_stranger_is_read_as_far_as_it_may_be_large(path: Path) -> None:
    manifest = path.with_name("manifest.json")
    manifest.write_text('{"members": [' + "{}," * (6 << 20) + "{}]}")
    done = ask(("fleet", "summarize", str(manifest)), path)
    assert done.returncode == 1
    assert "more than 16 MiB" in done.stderr


def test_more_facts_than_an_export_takes_along_are_counted(path: Path) -> None:
    change(path, "INSERT INTO clock SELECT i, i, i FROM range(60_000) AS t(i)")
    with duckdb.connect(str(path)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM clock").fetchall()
    assert ask(("export", "chrome", "{}", "-o", "{}.json"), path).returncode == 0
    exported = json.loads(Path(f"{path}.json").read_text())
    assert f'"clock_left_out": {count - 50_000}' in json.dumps(exported)


def test_no_window_takes_time_by_the_square_of_its_rows() -> None:
    """DuckDB scans all rows before each for one with FILTER: 160,000 phases took 4 s, not 0.03."""
    package = Path(rlscope_analysis.__file__).parent
    sources = [path for kind in ("*.sql", "*.py") for path in package.rglob(kind)]
    assert len(sources) > 100
    slow = re.compile(r"FILTER\s*\([^()]*(\([^()]*\)[^()]*)*\)\s*OVER\b", re.IGNORECASE)
    assert slow.search("count(*) FILTER (WHERE a <> lower(b)) OVER (ORDER BY c)")
    assert [path.name for path in sources if slow.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize("value", ["lots", "4 potatoes", "\x1b[31m"])
def test_memory_that_is_no_amount_is_not_blamed_on_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=7, end_ns=100), states=[run(100)])
    path = builder.write()
    monkeypatch.setenv("RLSCOPE_MEMORY_LIMIT", value)
    with pytest.raises(TraceError, match=r"RLSCOPE_MEMORY_LIMIT=.* is no amount of memory"):
        open_trace(path)


@pytest.mark.parametrize("command", [("summarize", "{}"), ("export", "chrome", "{}", "-o", "-")])
def test_an_output_that_is_full_is_one_error_with_a_hint(
    path: Path, command: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *(word.replace("{}", str(path)) for word in command)],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write the output: ")
    assert "\nhint: " in done.stderr


@pytest.mark.parametrize("name", ["", "/", *in_matrix(".", "loop", "9" * 5000)])
@pytest.mark.parametrize(
    "command", [("report",), ("summarize",), ("fleet", "sql", "SELECT 1"), ("fleet", "summarize"),
     ("import", "kineto")],
)  # fmt: skip
def test_a_name_that_means_no_file_is_one_error_with_a_hint(
    command: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    if name == "/" and command[0] == "fleet":
        pytest.skip("all traces of the machine")
    (tmp_path / "loop").symlink_to("loop")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command, name],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(("error: ", "warning: "))
    assert "\nhint: " in done.stderr


@pytest.mark.parametrize(("table", "key"), _KEYS.items())
def test_rows_with_the_same_key_are_refused(path: Path, table: str, key: str) -> None:
    """What is joined by it would come by their square."""
    with duckdb.connect(str(path)) as connection:
        columns = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
        values = ["1" if name == key else "NULL" for name in columns]
        connection.execute(f"DELETE FROM {table}")
        connection.execute(f"INSERT INTO {table} SELECT {', '.join(values)} FROM range(2)")
    done = ask(("summarize", "{}"), path)
    assert done.returncode == 1
    assert f"its {table} has rows with the same {key}" in done.stderr


def test_activities_that_are_there_many_times_are_no_more_than_they_are(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    process = builder.process(pid=7)
    builder.cuda_call(builder.thread(process, states=[run(100)]), 0, 5, correlation_id=1)
    builder.gpu_activity(process, 10, 20, correlation_id=1)
    path = builder.write()
    change(path, "INSERT INTO gpu_activity_coded SELECT a.* FROM gpu_activity_coded a, range(99)")
    with open_trace(path) as trace:
        assert len(trace.connection.execute(_ACTIVITIES_SQL).fetchall()) == 100
