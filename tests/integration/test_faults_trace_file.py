"""Files that are no trace, or one from the future: what every reading command says."""

from pathlib import Path

import duckdb
import pytest

from conftest import in_matrix
from recording import rlscope

pytestmark = pytest.mark.root

COMMANDS = [("summarize",), ("sql",)]


def arguments(command: tuple[str, ...], path: Path) -> list[str]:
    """Return a command line that reads the file."""
    return [*command, str(path), *(["SELECT 1"] if command == ("sql",) else [])]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.duckdb"
    done = rlscope("-o", path, "--", "true")
    assert done.returncode == 0
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_trace(tmp_path: Path, command: tuple[str, ...]) -> None:
    text, empty, missing = tmp_path / "text", tmp_path / "empty", tmp_path / "missing"
    text.write_text("step,reward\n1,0.5\n" * 100)
    empty.touch()
    for path, words in (
        (text, f"error: {text} is not a trace: no DuckDB database"),
        (empty, f"error: {empty} is not a trace: no DuckDB database"),
        (missing, f"error: there is no trace at {missing}"),
        (tmp_path, f"error: {tmp_path} is a directory, not a trace"),
    ):
        done = rlscope(*arguments(command, path))
        assert done.returncode == 1
        assert done.stderr.splitlines()[0] == words
        assert done.stderr.splitlines()[1].startswith("hint: ")
        assert done.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_is_no_trace(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE meta (a INTEGER)")
    done = rlscope(*arguments(command, path))
    assert done.returncode == 1
    assert f"error: {path} is a DuckDB database but not a trace" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_trace_of_a_newer_schema(trace: Path, command: tuple[str, ...]) -> None:
    with duckdb.connect(str(trace)) as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
        connection.execute("UPDATE meta SET value = '42.0' WHERE key = 'tool_version'")
    done = rlscope(*arguments(command, trace))
    assert done.returncode == 1
    assert (
        f"error: {trace} has schema version 999, written by rlscope-trace 42.0; this one reads up"
        in done.stderr
    )
    assert "hint: pip install --upgrade rlscope-trace" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("left", [5000, *in_matrix(20, 300_000)])
def test_a_trace_that_is_cut_off(trace: Path, command: tuple[str, ...], left: int) -> None:
    trace.write_bytes(trace.read_bytes()[:left])
    done = rlscope(*arguments(command, trace))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot read {trace}: ")
    assert "hint: " in done.stderr


def test_recover_of_what_is_no_spool(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.spool"):
        done = rlscope("recover", path, "-o", tmp_path / "trace.duckdb")
        assert done.returncode == 1
        assert f"error: {path} is not a spool" in done.stderr
        assert "hint: name the directory that the recorder left beside the output" in done.stderr
