"""The shell of `sql`: what it reads, what it answers, and a run on a real terminal."""

import os
import pty
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlscope_analysis.trace import open_trace
from rlscope_trace.cli.sql import ResultFormat, answer
from rlscope_trace.cli.sql_shell import SqlShell, history_file, is_finished
from trace_builder import TraceBuilder, run

DEADLINE_S = 10
LONG_QUERY = b"SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 3;\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=100), tid=100, name="main", states=[run(5)])
    return builder.write()


@pytest.fixture
def type_in(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str, list[str]]]:
    """Return `type_in(*lines)`: what a shell prints, on stdout and stderr, and its prompts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def shell(*lines: str | type[BaseException]) -> tuple[str, str, list[str]]:
        prompts: list[str] = []
        typed = iter([*lines, EOFError])

        def read_line(prompt: str) -> str:
            prompts.append(prompt)
            line = next(typed)
            if isinstance(line, str):
                return line
            raise line

        with open_trace(path) as trace:

            def chunks(text: str) -> Iterator[str]:
                return answer(trace, text, ResultFormat.CSV, limit=None)

            SqlShell(trace=trace, answer=chunks, read_line=read_line).run()
        out, err = capsys.readouterr()
        assert out.startswith(f"{path}: .tables")
        return out.partition("\n")[2], err, prompts

    return shell


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1;  \n", True),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT 'it''s;';", True),
        ('SELECT ";";', True),
        ('SELECT ";', False),
        ("SELECT 1 -- not yet;", False),
        ("SELECT 1; -- done", True),
        ("SELECT 1 /* ; */", False),
        ("SELECT 1 /* ;", False),
        ("SELECT $$;$$;", True),
        ("SELECT $$;", False),
        ("SELECT $a$ ; $$ ; $a$;", True),
    ],
)
def test_where_a_statement_ends(text: str, finished: bool) -> None:
    assert is_finished(text) is finished


def test_statements_over_several_lines(type_in: Callable[..., tuple[str, str, list[str]]]) -> None:
    out, err, prompts = type_in("", "SELECT 'a;", "b' AS x,", "1 AS y;", "SELECT 2 AS z; SELECT 3;")
    assert out == 'x,y\n"a;\nb",1\nz\n2\n3\n3\n\n'
    assert err == ""
    assert prompts == ["trace> ", "trace> ", "  ...> ", "  ...> ", "trace> ", "trace> "]


def test_ctrl_c_drops_the_lines_and_goes_on(
    type_in: Callable[..., tuple[str, str, list[str]]],
) -> None:
    out, err, prompts = type_in("SELECT 1,", KeyboardInterrupt, "SELECT 2 AS two;")
    assert (out, err) == ("\ntwo\n2\n\n", "")
    assert prompts == ["trace> ", "  ...> ", "trace> ", "trace> "]


def test_errors_leave_the_shell_open(type_in: Callable[..., tuple[str, str, list[str]]]) -> None:
    out, err, _ = type_in("SELEC;", "DELETE FROM meta;", ".nope", "SELECT 1 AS one;")
    assert out == "one\n1\n\n"
    errors = err.splitlines()
    assert errors[0].startswith("error: Parser Error")
    assert errors[1].startswith("error: a trace is read-only")
    assert errors[2].startswith("hint: save a result")
    assert errors[3:] == [
        "error: no such command: .nope",
        "hint: .tables, .schema NAME, .help, .quit",
    ]


def test_dot_commands(type_in: Callable[..., tuple[str, str, list[str]]]) -> None:
    out, _, _ = type_in(".help", ".tables", ".schema waker;", ".quit", "SELECT 'not reached';")
    assert "Ctrl-D" in out
    assert "run_queue_latency_summary" in out
    listed = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert "thread_state" in listed
    assert not {"thread_state_coded", "_state_step"} & listed
    assert "view waker: Who woke each thread" in out
    assert "not reached" not in out


def test_a_query_that_is_interrupted_leaves_the_shell_open(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["SELECT 1;", "SELECT 2;"])

    def read_line(_: str) -> str:
        for line in lines:
            return line
        raise EOFError

    def interrupted(text: str) -> Iterator[str]:
        if "1" in text:
            raise KeyboardInterrupt
        return iter(["two\n"])

    with open_trace(path) as trace:
        SqlShell(trace=trace, answer=interrupted, read_line=read_line).run()
    assert capsys.readouterr().err == "stopped\n"


@contextmanager
def on_terminal(path: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the command on a terminal."""
    program = "import typer; from rlscope_trace.cli.sql import sql; typer.run(sql)"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TERM": "dumb",
    }
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as shell:
        os.close(theirs)
        try:
            yield shell, ours
        finally:
            shell.kill()
            os.close(ours)


def test_on_a_terminal_with_history(path: Path, tmp_path: Path) -> None:
    with on_terminal(path, tmp_path) as (shell, terminal):
        seen = read_until(terminal, "trace> ")
        os.write(terminal, b"SELECT name\n")
        seen += read_until(terminal, "  ...> ")
        os.write(terminal, b"FROM thread;\n")
        seen += read_until(terminal, "trace> ")
        os.write(terminal, b"\x04")
        assert shell.wait(timeout=DEADLINE_S) == 0
    assert "main" in seen
    assert "(1 row)" in seen
    history = (tmp_path / "state/rlscope-trace/sql_history").read_text()
    assert "FROM thread;" in history


def test_ctrl_c_stops_a_long_query(path: Path, tmp_path: Path) -> None:
    """A query that would take hours, in a shell on a terminal."""
    with on_terminal(path, tmp_path) as (shell, terminal):
        seen = read_until(terminal, "trace> ")
        # A Ctrl-C that comes before the shell has taken the line only drops it: then once more.
        while "stopped" not in seen:
            os.write(terminal, LONG_QUERY)
            read_until(terminal, "3;\r\n")
            shell.send_signal(signal.SIGINT)
            seen = read_until(terminal, "trace> ")
        os.write(terminal, b"SELECT 'alive' AS still;\n")
        seen = read_until(terminal, "(1 row)")
        os.write(terminal, b".quit\n")
        assert shell.wait(timeout=DEADLINE_S) == 0
    assert "alive" in seen


def read_until(terminal: int, end: str) -> str:
    """Read what the shell prints until `end`; fail where that takes longer than any shell may."""
    text = ""
    with selectors.DefaultSelector() as selector:
        selector.register(terminal, selectors.EVENT_READ)
        while end not in text:
            assert selector.select(DEADLINE_S), f"no {end!r} after {text!r}"
            text += os.read(terminal, 4096).decode()
    return text


@pytest.mark.root
def test_root_keeps_no_history_where_another_user_could_lead_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, secret = tmp_path / "theirs/state", tmp_path / "secret"
    secret.mkdir(mode=0o700)
    state.parent.mkdir()
    state.symlink_to(secret)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    for path in (state.parent, state):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    assert history_file() is None
    assert list(secret.iterdir()) == []
    state.unlink()
    (state / "rlscope-trace").mkdir(parents=True)
    for path in (state, state / "rlscope-trace"):
        os.chown(path, 12345, 12345)
    os.mkfifo(state / "rlscope-trace/sql_history")
    assert history_file() is None
