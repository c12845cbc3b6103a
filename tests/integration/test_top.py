"""Watching programs that run: figures equal the trace, and terminals are restored."""

import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from recording import COMMAND, DEADLINE_S, assert_conserved, assert_whole, query, rlscope, until
from terminals import Terminal

pytestmark = pytest.mark.root

# A parent that computes and waits for what its child answers.
PAIR = """
import os, sys, time
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(there[1])
    while os.read(there[0], 1):
        end = time.monotonic() + 0.003
        while time.monotonic() < end: pass
        os.write(back[1], b"!")
    os._exit(0)
print("ready", flush=True)
while True:
    sum(range(20_000))
    os.write(there[1], b"!")
    os.read(back[0], 1)
"""
STATES = """
SELECT s.state,
  coalesce(sum(least(s.end_ns, $2) - greatest(s.start_ns, $1)), 0)::BIGINT
FROM thread_state AS s JOIN thread AS t ON t.thread_id = s.thread_id
WHERE s.start_ns < $2 AND s.end_ns > $1 AND t.tid = $3 GROUP BY s.state
"""
POINTS = 0.04


@pytest.fixture
def pair(program: Callable[..., Workload]) -> Workload:
    made = program(PAIR)
    assert made.readline() == "ready"
    return made


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str | Path) -> Terminal:
        made = Terminal(*arguments)
        opened.append(made)
        return made

    yield start
    for made in opened:
        made.close()


def views(text: str) -> list[dict[str, Any]]:
    """Return the objects that top wrote."""
    return [json.loads(line) for line in text.splitlines()]


def assert_adds_up(view: dict[str, Any]) -> None:
    """Hold the shares of each thread, and of the phases, to 1."""
    for process in view["processes"]:
        assert sum(process["times"].values()) == pytest.approx(1)
    if view["phases"] is not None:
        assert sum(phase["share"] for phase in view["phases"]) == pytest.approx(1)


def test_figures_are_those_of_the_trace_of_the_same_time(tmp_path: Path, pair: Workload) -> None:
    trace = tmp_path / "trace.duckdb"
    done = rlscope(
        "top", "--pid", str(pair.pid), "--format", "json", "--keep", "-n", "4", "-o", trace
    )
    assert done.returncode == 0, done.stderr
    assert_whole(done.stderr)
    assert_conserved(trace)
    shown = views(done.stdout)
    assert len(shown) == 4
    for view in shown:
        assert_adds_up(view)
        assert view["lost"] == 0
        assert [process["role"] for process in view["processes"]] == ["main", "process"]
        window = [view["start_ns"], view["end_ns"]]
        for process in view["processes"]:
            states = dict(query(trace, STATES, [*window, process["tid"]]))
            whole = sum(states.values())
            assert whole == pytest.approx(window[1] - window[0], rel=0.02)
            reported = process["times"]
            waits = states.get("sleeping", 0) + states.get("blocked", 0)
            assert reported["running"] == pytest.approx(states["running"] / whole, abs=POINTS)
            assert reported["queue"] == pytest.approx(states.get("runnable", 0) / whole, abs=POINTS)
            assert reported["waits"] == pytest.approx(waits / whole, abs=POINTS)
    parent, child = shown[-1]["processes"]
    assert (parent["waits_for"], child["waits_for"]) == ("process", "main")


def test_threads_that_ended_count_while_older_records_are_dropped(
    program: Callable[..., Workload],
) -> None:
    """Nearly all threads live for 2 ms, between two looks; at any time there are two."""
    made = program(
        "import threading, time\n"
        "def burn():\n"
        "    end = time.thread_time() + 0.002\n"
        "    while time.thread_time() < end: pass\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    thread = threading.Thread(target=burn)\n"
        "    thread.start(), thread.join()\n"
    )
    assert made.readline() == "ready"
    done = rlscope("top", "--pid", str(made.pid), "--format", "json", "--last", "1", "-n", "5")
    assert done.returncode == 0, done.stderr
    for view in views(done.stdout):
        (process,) = view["processes"]
        assert process["threads"] > 4
        assert view["lost"] == 0


def test_a_thread_that_sleeps_for_long_is_shown_as_waiting(
    program: Callable[..., Workload],
) -> None:
    made = program("import time; print('ready', flush=True); time.sleep(1000)")
    assert made.readline() == "ready"
    done = rlscope("top", "--pid", str(made.pid), "--format", "json", "-n", "2")
    assert done.returncode == 0, done.stderr
    for view in views(done.stdout):
        (process,) = view["processes"]
        assert process["times"] == pytest.approx(
            {"running": 0, "queue": 0, "waits": 1, "lost": 0}, abs=0.001
        )


def test_nothing_is_left_of_what_was_only_watched(tmp_path: Path, pair: Workload) -> None:
    done = subprocess.run(
        [*COMMAND, "top", "--pid", str(pair.pid), "-n", "1", "--format", "lines"],
        cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    assert done.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_ends_it(pair: Workload) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*COMMAND, "top", "--pid", str(pair.pid), "--format", "json"],
            stdout=write, stderr=subprocess.PIPE, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


def test_r_keeps_the_last_seconds_and_what_follows(
    tmp_path: Path, pair: Workload, terminal: Callable[..., Terminal]
) -> None:
    trace = tmp_path / "kept.duckdb"
    began_ns = time.monotonic_ns()
    screen = terminal("top", "--pid", str(pair.pid), "--last", "2", "-o", trace)
    before = screen.settings()
    screen.wait_for("Processes")
    spool = tmp_path / "kept.duckdb.spool"
    screen.type(b"t")
    screen.wait_for("switches/s")
    screen.type(b"w")
    screen.wait_for("wakes/s")
    until(lambda: not (spool / "records-0.bin").exists(), what="the beginning is dropped")
    pressed_ns = time.monotonic_ns()
    screen.type(b"r")
    screen.wait_for("the last seconds are kept")
    segments = sorted(spool.glob("records-*.bin"))
    known = sum(file.stat().st_size for file in segments)
    until(
        lambda: sum(file.stat().st_size for file in segments) > known + 10_000,
        what="it is recorded",
    )
    screen.type(b"q")
    assert screen.wait() == 0
    assert screen.settings() == before
    assert sorted(spool.parent.iterdir()) == [trace]
    assert_whole(screen.shown[screen.shown.index("wrote ") :])
    assert_conserved(trace)
    assert query(trace, "SELECT count(*) FROM process") == [(2,)]
    (command,) = query(trace, "SELECT command FROM process WHERE pid = ?", [pair.pid])[0]
    assert sys.executable in command
    # More than a second before r, and nothing of the beginning.
    ((first_ns, left_out_ns),) = query(
        trace,
        "SELECT (SELECT min(start_ns) FROM thread_state),"
        " (SELECT duration_ns FROM coverage WHERE code = 'kept_last')",
    )
    assert began_ns + left_out_ns <= first_ns <= pressed_ns - 1_000_000_000
    assert left_out_ns > 0


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.matrix),
        pytest.param(signal.SIGSEGV, marks=pytest.mark.matrix),
    ],
    ids=str,
)
def test_the_terminal_is_restored(
    tmp_path: Path, pair: Workload, terminal: Callable[..., Terminal], number: int
) -> None:
    screen = terminal("top", "--pid", str(pair.pid), "-o", tmp_path / "t.duckdb")
    before = screen.settings()
    screen.wait_for("Processes")
    assert screen.settings() != before
    screen.process.send_signal(number)
    screen.wait()
    until(lambda: screen.settings() == before, what="the terminal is as it was")
    assert screen.shown.rindex("\x1b[?1049l") > screen.shown.rindex("\x1b[?1049h")
    assert screen.shown.rindex("\x1b[?25h") > screen.shown.rindex("\x1b[?25l")
    local = before[3]
    assert isinstance(local, int)
    assert local & termios.ECHO


def test_a_launched_program_ends_it(tmp_path: Path) -> None:
    done = rlscope(
        "top", "-o", tmp_path / "t.duckdb", "--", sys.executable, "-c",
        "import time, sys; print('said'); time.sleep(2.5); sys.exit(7)",
    )  # fmt: skip
    assert done.returncode == 7
    assert "said" in done.stderr
    assert "lost 0" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to watch"),
        (("--pid=1", "--", "true"), "both --pid and a command"),
        (("--format", "screen", "--", "true"), "no terminal"),
        (("--inject", "--", "true"), "--inject is for running processes"),
    ],
)
def test_what_cannot_be_asked_for(arguments: tuple[str, ...], words: str) -> None:
    done = rlscope("top", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "hint: " in done.stderr
