"""`sql`: one query in every format, refusals, and what a user sees of an error."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner, Result

from rlscope_analysis.errors import TraceError
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli.sql import sql
from rlscope_trace.errors import UsageError
from trace_builder import TraceBuilder, run, sleep


@pytest.fixture
def path(tmp_path: Path) -> Path:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    process = builder.process(pid=100)
    builder.thread(process, tid=100, name="main", states=[run(5), sleep(10)])
    builder.thread(process, tid=None, name="a,b\x1b", states=[run(7)])
    return builder.write()


def ask(path: Path, *arguments: str, stdin: str | None = None) -> Result:
    app = Typer()
    app.command()(sql)
    return CliRunner().invoke(app, [str(path), *arguments], input=stdin)


def refusal(path: Path, query: str, *options: str) -> TraceError:
    error = ask(path, query, *options).exception
    assert isinstance(error, TraceError)
    assert error.exit_code == 1
    assert "\n" not in str(error)
    return error


def is_private(name: str) -> bool:
    return name.startswith("_") or name.endswith("_coded")


THREADS = "SELECT tid, name, running_ns FROM thread JOIN thread_time USING (thread_id) ORDER BY 3"


def test_table(path: Path) -> None:
    assert ask(path, THREADS).stdout.splitlines() == [
        " tid  name     running_ns",
        " 100  main              5",
        "NULL  a,b\\x1b           7",
        "(2 rows)",
    ]


def test_table_of_one_column(path: Path) -> None:
    assert ask(path, "SELECT name FROM thread WHERE tid = 100").stdout == "name\nmain\n(1 row)\n"


def test_table_tells_what_it_leaves_out(path: Path) -> None:
    many = "SELECT i FROM range(1001) AS r(i)"
    assert ask(path, many).stdout.endswith(
        "\n999\n(the first 1,000 rows; all of them: --all, or --format csv)\n"
    )
    assert ask(path, many, "--all").stdout.endswith("1000\n(1,001 rows)\n")
    assert ask(path, "SELECT i FROM range(1000) AS r(i)").stdout.endswith("(1,000 rows)\n")


def test_times_with_a_time_zone_can_be_shown(path: Path) -> None:
    answer = ask(path, "SELECT TIMESTAMPTZ '2026-11-20 12:00:00+00' AS t", "--format", "csv")
    assert answer.exit_code == 0, answer.exception
    assert "2026-11-20" in answer.stdout


def test_csv(path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(ask(path, THREADS, "--format", "csv").stdout)))
    assert rows == [
        {"tid": "100", "name": "main", "running_ns": "5"},
        {"tid": "", "name": "a,b\x1b", "running_ns": "7"},
    ]


def test_json(path: Path) -> None:
    assert json.loads(ask(path, THREADS, "--format", "json").stdout) == [
        {"tid": 100, "name": "main", "running_ns": 5},
        {"tid": None, "name": "a,b\x1b", "running_ns": 7},
    ]
    none = "SELECT tid FROM thread WHERE false"
    assert json.loads(ask(path, none, "--format", "json").stdout) == []


def test_json_of_every_kind_of_value(path: Path) -> None:
    query = """
    SELECT 1 AS a, 2 AS a, 'nan'::DOUBLE AS nan, 1.5::DECIMAL(4, 1) AS half, [1, NULL] AS list,
      {'k': 1} AS struct, '\\x00'::BLOB AS blob, DATE '2026-11-20' AS day, TRUE AS yes,
      9007199254740993 AS big, sum(1::HUGEINT) AS huge
    """
    assert json.loads(ask(path, query, "--format", "json").stdout) == [
        {
            "a": 1, "a_2": 2, "nan": None, "half": 1.5, "list": [1, None], "struct": {"k": 1},
            "blob": "00", "day": "2026-11-20", "yes": True, "big": 9007199254740993, "huge": 1,
        }
    ]  # fmt: skip
    assert "2026-11-20" in ask(path, query, "--format", "csv").stdout
    assert '{"k": 1}' in ask(path, query).stdout


def test_query_from_a_pipe(path: Path) -> None:
    done = ask(path, "--format", "csv", stdin="SELECT count(*) AS n\nFROM thread;\n")
    assert done.stdout == "n\n2\n"
    error = ask(path, stdin="").exception
    assert isinstance(error, TraceError)
    assert str(error) == "no statement where one query is expected"


@pytest.mark.parametrize("query", ["SHOW TABLES", "show tables;", " SHOW\n TABLES FROM main ; "])
def test_show_tables_lists_what_dot_tables_does(path: Path, query: str) -> None:
    listed = json.loads(ask(path, query, "--format", "json").stdout)
    found = {row["name"]: row for row in listed}
    names = list(found)
    assert found["thread"] == {
        "name": "thread", "kind": "table",
        "comment": "The traced threads, one row per life: tids are reused, thread_id is not",
    }  # fmt: skip
    assert found["finding"]["kind"] == "on demand"
    assert not [name for name in names if is_private(name)]
    lines = ask(path, ".tables").stdout.splitlines()
    assert names == [line.split()[0] for line in lines[1 : len(names) + 1]]
    with open_trace(path) as trace:
        assert [name for name, *_ in trace.sql(query).fetchall()] == names


def test_what_only_looks_like_show_tables_is_left_alone(path: Path) -> None:
    assert "_state_step" in ask(path, "SHOW ALL TABLES", "--format", "csv").stdout
    assert ask(path, "SELECT 'SHOW TABLES' AS a", "--format", "csv").stdout == "a\nSHOW TABLES\n"
    assert "nope" in str(refusal(path, "SHOW TABLES FROM nope"))


def test_show_tables_of_a_trace_beside_it(path: Path) -> None:
    beside = ["--with", f"new={path}", "--format", "csv"]
    listed = ask(path, "SHOW TABLES FROM new", *beside).stdout
    names = [row["name"] for row in csv.DictReader(io.StringIO(listed))]
    assert {"thread", "thread_time"} <= set(names)
    assert not [name for name in names if is_private(name)]


def test_dot_commands_as_a_query(path: Path) -> None:
    tables = ask(path, ".tables").stdout
    assert "thread_time" in tables
    assert "_state_step" not in tables
    assert "finding " in tables
    assert "on demand" in tables
    assert "low_share" in ask(path, ".schema finding").stdout
    schema = ask(path, ".schema THREAD").stdout
    assert schema.startswith("table thread: The traced threads")
    assert "INTEGER  Thread id as seen" in schema
    assert "no table or view nope" in str(refusal(path, ".schema nope"))
    assert "no such command: .drop" in str(refusal(path, ".drop"))


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM meta",
        "DROP VIEW thread_time",
        "CREATE TABLE t (a INTEGER)",
        "UPDATE thread SET tid = 1",
    ],
)
def test_a_trace_cannot_be_changed(path: Path, query: str) -> None:
    before = path.read_bytes()
    error = refusal(path, query)
    assert str(error).startswith("a trace is read-only: ")
    assert "--format csv" in (error.hint or "")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "query",
    [
        "COPY meta TO '{directory}/out.csv'",
        "ATTACH '{directory}/other.duckdb'",
        "EXPORT DATABASE '{directory}/out'",
        "SELECT content FROM read_text('/etc/hostname')",
        "INSTALL httpfs",
    ],
)
def test_queries_reach_no_other_file(path: Path, tmp_path: Path, query: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    error = refusal(path, query.format(directory=tmp_path))
    assert str(error).startswith("queries reach nothing but the trace: ")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "query", ["SET enable_external_access = true", "SET profile_output = '/tmp/out'"]
)
def test_the_lock_stays_closed(path: Path, query: str) -> None:
    assert "configuration has been locked" in str(refusal(path, query))


def test_a_name_is_never_a_python_variable(path: Path) -> None:
    assert "does not exist" in str(refusal(path, "SELECT * FROM trace"))


def test_sql_errors_are_one_line_with_a_hint(path: Path) -> None:
    syntax = refusal(path, "SELEC 1")
    assert str(syntax).startswith("Parser Error: ")
    unknown = refusal(path, "SELECT nam FROM thread")
    assert "nam" in str(unknown)
    assert "name" in (unknown.hint or "")
    assert "thread_time" in (refusal(path, "SELECT 1 FROM thread_tim").hint or "")
    # In a row that is not looked at otherwise.
    late = refusal(
        path,
        "SELECT (CASE WHEN i > 5000 THEN 'x' ELSE '1' END)::INTEGER FROM range(9000) r(i)",
        "--all",
    )
    assert "Conversion Error" in str(late)


def test_two_statements_are_refused_and_neither_runs(path: Path) -> None:
    assert str(refusal(path, "SELECT 1; SELECT 2")) == "2 statements where one query is expected"


def test_two_traces_are_asked_at_once(path: Path, tmp_path: Path) -> None:
    other = TraceBuilder(tmp_path / "other.duckdb")
    other.thread(other.process(pid=1), tid=99, states=[run(7), sleep(3)])
    query = "SELECT tid, end_ns, (SELECT count(*) FROM thread) AS here FROM old.thread"
    reported = ask(path, query, "--with", f"old={other.write()}", "--format", "json")
    assert json.loads(reported.stdout) == [{"tid": 99, "end_ns": 10, "here": 2}]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("old", "names no trace"), ("old=", "names no trace"), ("main=X", "is no name"),
        ("trace=X", "is no name"), ("a b=X", "is no name"), ("old=absent.duckdb", "absent.duckdb"),
    ],
)  # fmt: skip
def test_what_is_no_other_trace(path: Path, option: str, words: str) -> None:
    error = ask(path, "SELECT 1", "--with", option).exception
    assert isinstance(error, (TraceError, UsageError))
    assert words in str(error)
