"""What is no readable trace: each case has its own message and a hint."""

import grp
import os
import pwd
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from rlscope_analysis import spill
from rlscope_analysis import trace as trace_module
from rlscope_analysis.errors import TraceError
from rlscope_analysis.own_name import _has_others, is_ours_alone
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_analysis.spill import _remove_left_behind
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run


def refusal(path: Path) -> tuple[str, str]:
    """Return message and hint of the error that opening `path` must raise."""
    with pytest.raises(TraceError) as raised:
        open_trace(path)
    assert raised.value.exit_code == 1
    assert "\n" not in str(raised.value)
    return str(raised.value), raised.value.hint or ""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1), states=[run(5)])
    return builder.write()


def test_a_trace_opens_read_only(path: Path) -> None:
    with open_trace(str(path)) as trace:
        assert trace.schema_version == SCHEMA_VERSION
        with pytest.raises(duckdb.Error, match="read-only"):
            trace.connection.execute("DELETE FROM trace.meta")
    with pytest.raises(duckdb.Error):
        trace.connection.execute("SELECT 1")


def test_relations_of_a_closed_trace_and_what_is_no_query_are_told(path: Path) -> None:
    with open_trace(path) as trace:
        for name in ("x; DROP TABLE meta", "main.thread", '"thread"', ""):
            with pytest.raises(TraceError, match="has no table or view"):
                trace.relation(name)
        with pytest.raises(TraceError, match="is no query"):
            trace.sql("")
        assert len(trace.relation("thread").fetchall()) == 1
    for ask in (lambda: trace.relation("thread"), lambda: trace.sql("SELECT 1")):
        with pytest.raises(TraceError, match="is closed"):
            ask()


@pytest.mark.parametrize(
    "error",
    [RuntimeError("Query interrupted"), duckdb.InterruptException("INTERRUPT Error: Interrupted!")],
)
def test_ctrl_c_while_a_trace_is_opened_is_ctrl_c(
    path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB, when it hears the signal first, gives it another name."""

    def interrupted(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("rlscope_analysis.derive.derive_in_memory", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_trace(path)


def test_a_file_that_this_process_has_open_is_told(path: Path) -> None:
    with duckdb.connect(str(path)):
        message, hint = refusal(path)
    assert "is open in this process" in message
    assert "close that connection" in hint


def test_two_readers_at_once(path: Path) -> None:
    with open_trace(path) as first, open_trace(path) as second:
        for trace in (first, second):
            assert trace.connection.execute("SELECT count(*) FROM thread").fetchall() == [(1,)]


def test_absent(tmp_path: Path) -> None:
    message, hint = refusal(tmp_path / "no.duckdb")
    assert message == f"there is no trace at {tmp_path / 'no.duckdb'}"
    assert "rlscope-trace -o" in hint


def test_directory_and_spool(tmp_path: Path) -> None:
    assert "is a directory, not a trace" in refusal(tmp_path)[0]
    (tmp_path / "records.bin").touch()
    message, hint = refusal(tmp_path)
    assert "is a spool" in message
    assert hint == f"rlscope-trace recover {tmp_path}"


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 5000, b"\x7fELF" + b"DUCK" * 9])
def test_not_a_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content if content[8:12] != b"DUCK" else content[1:])
    assert "is not a trace: no DuckDB database" in refusal(path)[0]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "CREATE TABLE meta (a INTEGER)",
        "CREATE TABLE meta (key VARCHAR, value VARCHAR)",
        "CREATE TABLE meta AS SELECT 'schema_version' AS key, 'one' AS value",
        "CREATE TABLE meta AS SELECT 'schema_version' AS key, NULL AS value",
    ],
)
def test_a_database_that_is_no_trace(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(statement)
    assert "a DuckDB database but not a trace" in refusal(path)[0]


def test_newer_schema_names_both_versions(tmp_path: Path) -> None:
    newer = str(SCHEMA_VERSION + 1)
    meta: dict[str, str | None] = {"schema_version": newer, "tool_version": "9.1"}
    message, hint = refusal(TraceBuilder(tmp_path / "new.duckdb", meta=meta).write())
    assert f"schema version {newer}, written by rlscope-trace 9.1" in message
    assert f"reads up to {SCHEMA_VERSION}" in message
    assert hint == "pip install --upgrade rlscope-trace"


@pytest.mark.parametrize("kept", [100, 5000, 20_000])
def test_cut_short(path: Path, kept: int) -> None:
    os.truncate(path, kept)
    message, hint = refusal(path)
    assert message.startswith(f"cannot read {path}: ")
    assert "recover" in hint


def test_locked_by_a_writer(path: Path) -> None:
    program = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); input()"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "open\n"
    message, hint = refusal(path)
    writer.communicate("\n", timeout=30)
    assert message == f"{path} is being written by pid {writer.pid}"
    assert "again" in hint


def test_a_trace_without_views_is_read_with_ours(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "old.duckdb", with_views=False)
    builder.thread(builder.process(pid=1), states=[run(5)])
    with open_trace(builder.write()) as trace:
        query = "SELECT running_ns, switches FROM thread_time JOIN thread_switch USING (thread_id)"
        assert trace.connection.execute(query).fetchall() == [(5, 0)]
    with duckdb.connect(str(builder.path), read_only=True) as connection:
        assert connection.execute(
            "SELECT count(*) FROM duckdb_views() WHERE view_name = 'thread_time'"
        ).fetchall() == [(0,)]


def test_a_view_inside_a_trace_reaches_no_file(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE VIEW trap AS SELECT a FROM read_csv('{secret}')")
    with open_trace(path) as trace, pytest.raises(duckdb.Error, match="disabled"):
        trace.connection.execute("SELECT a FROM trace.trap")


@pytest.mark.root
def test_what_others_may_change_is_read_from_a_copy(path: Path) -> None:
    """They could put a pipe there, or hold a lease, while DuckDB opens it by its name."""
    assert is_ours_alone(path)
    os.chown(path, 12345, 12345)
    assert not is_ours_alone(path)
    with open_trace(path) as trace:
        database = "SELECT path FROM duckdb_databases() WHERE database_name = 'trace'"
        ((read,),) = trace.connection.execute(database).fetchall()
        assert read != str(path)
        assert not Path(read).exists()
        assert trace.connection.execute("SELECT count(*) FROM thread").fetchall() == [(1,)]
    # What lies beside it is a part of a trace, too, and not copied.
    wal = Path(f"{path}.wal")
    wal.write_bytes(b"")
    assert "would be read as a part of it" in refusal(path)[0]
    wal.unlink()
    os.chown(path, 0, 0)
    os.chown(path.parent, 12345, 12345)
    assert not is_ours_alone(path)
    os.chown(path.parent, 0, 0)
    path.parent.chmod(0o777)
    assert not is_ours_alone(path)
    path.parent.chmod(0o770)
    os.chown(path.parent, 0, 12345)
    assert not is_ours_alone(path)


@pytest.mark.root
def test_what_others_may_add_to_is_read_by_another_name(path: Path) -> None:
    """As in /tmp: they could put a pipe there, or changes of theirs, in the place of its WAL."""
    path.parent.chmod(0o1777)
    assert is_ours_alone(path, beside=False)
    assert not is_ours_alone(path)
    found = path.stat()
    with open_trace(path) as trace:
        database = "SELECT path FROM duckdb_databases() WHERE database_name = 'trace'"
        ((read,),) = trace.connection.execute(database).fetchall()
        assert Path(read).parent != path.parent
        assert not Path(read).exists()
        assert trace.connection.execute("SELECT count(*) FROM thread").fetchall() == [(1,)]
    # It was no copy.
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (found.st_ino, found.st_mtime_ns)
    path.with_suffix(".duckdb.wal").write_bytes(b"")
    assert "would be read as a part of it" in refusal(path)[0]


def test_the_group_of_one_user_is_that_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Debian makes it; who has it as a primary group is in no list of its members."""
    own, group = (
        SimpleNamespace(pw_name="ada", pw_gid=77),
        SimpleNamespace(gr_name="ada", gr_mem=[]),
    )
    everybody = [own]
    monkeypatch.setattr(pwd, "getpwuid", lambda _: own)
    monkeypatch.setattr(pwd, "getpwall", lambda: everybody)
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    _has_others.cache_clear()
    assert not _has_others(77)
    _has_others.cache_clear()
    everybody.append(SimpleNamespace(pw_name="bob", pw_gid=77))
    assert _has_others(77)
    # Root's: in a container whoever has no name may be one.
    assert _has_others(0)
    _has_others.cache_clear()


def test_a_trace_that_is_taken_away_when_it_is_open_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = trace_module.connect

    def connect(files: dict[str, Path], **named: Any) -> duckdb.DuckDBPyConnection:  # noqa: ANN401
        connection = real(files, **named)
        path.unlink()
        return connection

    monkeypatch.setattr(trace_module, "connect", connect)
    with open_trace(path) as trace:
        assert trace.connection.execute("SELECT count(*) FROM thread").fetchall() == [(1,)]


@pytest.mark.root
def test_each_link_on_the_way_counts(path: Path) -> None:
    folder = path.parent
    (folder / "third").symlink_to(folder)
    (folder / "second").symlink_to("third")
    (folder / "first").symlink_to(folder / "second")
    asked = folder / "first" / ".." / folder.name / path.name
    assert is_ours_alone(asked)
    os.chown(folder / "second", 12345, 12345, follow_symlinks=False)
    assert not is_ours_alone(asked)
    (folder / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        is_ours_alone(folder / "loop")


@pytest.mark.root
def test_holes_of_a_trace_are_not_filled_in_its_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.truncate(path, 3 << 30)
    os.chown(path, 12345, 12345)
    filled: list[int] = []
    monkeypatch.setattr(Path, "unlink", lambda copy: filled.append(copy.stat().st_blocks))
    with open_trace(path):
        pass
    (blocks,) = filled
    assert blocks * 512 < 100 << 20


def test_what_a_killed_reader_spilled_is_removed_by_the_next(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import os, sys\nfrom rlscope_analysis.spill import spill_directory\n"
        "print(spill_directory(), flush=True)\nsys.stdin.read()"
    )
    folder = tmp_path / "spill"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", script]
    with (
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as lives,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as killed,
    ):
        assert lives.stdout is not None
        assert killed.stdout is not None
        kept, left = Path(lives.stdout.readline().strip()), Path(killed.stdout.readline().strip())
        killed.kill()
        killed.wait()
        assert left.is_dir()
        monkeypatch.setattr(spill, "_AGE_S", 0)
        _remove_left_behind(folder)
        assert not left.exists()
        assert kept.is_dir()
        lives.kill()
