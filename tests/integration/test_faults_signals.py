"""Signals that reach the recorder at awkward moments: none goes astray, nothing is lost."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Workload
from recording import Recorder, assert_conserved, meta, query, rlscope, until

pytestmark = pytest.mark.root

# Writes down every signal it gets that usually ends a program; SIGTERM ends it, with a code.
LISTENER = """
import os, pathlib, signal, sys
heard = pathlib.Path(sys.argv[1])
def note(number, _frame):
    with heard.open("a") as file:
        file.write(f"{signal.Signals(number).name}\\n")
    if number == signal.SIGTERM:
        os._exit(7)
for name in ("INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "TERM"):
    signal.signal(getattr(signal, f"SIG{name}"), note)
heard.touch()
while True:
    signal.pause()
"""

# Longer than the recorder waits at a time, so that the wait is over when it goes on.
STOPPED_S = 0.7


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def stop_and_continue(recorder: Recorder) -> None:
    """Do what Ctrl-Z and fg do to the recorder."""
    recorder.signal(signal.SIGSTOP)
    until(lambda: is_stopped(recorder.pid), what="the recorder is stopped")
    end = time.monotonic() + STOPPED_S
    until(lambda: time.monotonic() > end, what="it stays so for a while")
    recorder.signal(signal.SIGCONT)
    until(lambda: not is_stopped(recorder.pid), what="the recorder goes on")


def drained_ns(recorder: Recorder) -> bytes:
    """Return the bytes of progress.bin, which change with every look into the ring."""
    return (recorder.spool / "progress.bin").read_bytes()


def test_an_attached_recorder_survives_being_stopped(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    target = workload("sleeper", "--sleeps=100000", "--sleep-ms=1", wait=True)
    recorder = record(tmp_path / "trace.duckdb", f"--pid={target.pid}").live()
    target.go()
    for _ in range(3):
        stop_and_continue(recorder)
        before = drained_ns(recorder)
        until(lambda seen=before: drained_ns(recorder) != seen, what="it records again")
    assert recorder.process.poll() is None, recorder.words()
    assert recorder.stop() == 0
    assert recorder.words().count("stopped after") == 1
    assert_conserved(tmp_path / "trace.duckdb")


def test_a_stopped_recorder_sends_nothing_to_its_program(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace, heard = tmp_path / "trace.duckdb", tmp_path / "heard"
    recorder = record(trace, "--", sys.executable, "-c", LISTENER, heard)
    until(heard.exists, what="the program listens")
    for _ in range(3):
        stop_and_continue(recorder)
    assert heard.read_text() == ""
    recorder.signal(signal.SIGTERM)
    assert recorder.wait() == 7
    assert heard.read_text() == "SIGTERM\n"
    assert f"wrote {trace}:" in recorder.words()


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM"])
def test_a_signal_is_passed_on_once(
    tmp_path: Path, record: Callable[..., Recorder], name: str
) -> None:
    trace, heard = tmp_path / "trace.duckdb", tmp_path / "heard"
    recorder = record(trace, "--", sys.executable, "-c", LISTENER, heard)
    until(heard.exists, what="the program listens")
    recorder.signal(getattr(signal, name))
    until(heard.read_text, what="the program hears it")
    recorder.signal(signal.SIGTERM)
    assert recorder.wait() == 7
    assert heard.read_text() == f"{name}\nSIGTERM\n"
    assert f"wrote {trace}:" in recorder.words()


def test_nohup_keeps_an_attached_recorder(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    target = workload("sleeper", "--sleeps=100000", "--sleep-ms=1", wait=True)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        recorder = record(tmp_path / "trace.duckdb", f"--pid={target.pid}").live()
    finally:
        signal.signal(signal.SIGHUP, before)
    target.go()
    recorder.signal(signal.SIGHUP)
    for _ in range(5):
        seen = drained_ns(recorder)
        until(lambda seen=seen: drained_ns(recorder) != seen, what="it records on")
    assert recorder.process.poll() is None, recorder.words()
    assert recorder.stop() == 0


def test_a_signal_while_saving_still_reaches_the_program(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace, heard = tmp_path / "trace.duckdb", tmp_path / "heard"
    recorder = record(trace, "--duration=0.5", "--", sys.executable, "-c", LISTENER, heard)
    recorder.wait_to_say("the duration is over")
    recorder.signal(signal.SIGTERM)
    assert recorder.wait() == 7
    assert heard.read_text() == "SIGTERM\n"
    assert f"wrote {trace}:" in recorder.words()
    assert meta(trace)["ended_cleanly"] == "true"
    assert query(trace, "SELECT ended FROM thread") == [(False,)]


# What signals come while the modules that save are still loaded, or costs are looked for.
EARLY = """
import os, signal, sys
from rlscope_trace.cli import calibrating, main
numbers = [int(number) for number in sys.argv.pop(1).split(",")]
# What the shell that runs the tests in the background ignores would stay ignored.
for number in {*numbers} - {signal.SIGINT}: signal.signal(number, signal.SIG_DFL)
calibrating.add_to_spool = lambda *_, **__: [os.kill(os.getpid(), number) for number in numbers]
main()
"""


@pytest.mark.parametrize(
    "numbers", [[signal.SIGTERM], [signal.SIGHUP], [signal.SIGQUIT], [signal.SIGINT] * 2]
)
def test_what_stops_saving_before_it_has_begun_is_one_error(
    tmp_path: Path, numbers: list[int]
) -> None:
    trace = tmp_path / "trace.duckdb"
    done = subprocess.run(
        [sys.executable, "-c", EARLY, ",".join(f"{number:d}" for number in numbers),
         "-o", trace, "--", "true"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    # The program's own code, as always.
    assert done.returncode == 0, done.stderr
    assert "error: interrupted before the trace was complete\nhint: rlscope-trace" in done.stderr
    assert rlscope("recover", f"{trace}.spool").returncode == 0
    assert_conserved(trace)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM])
def test_one_interrupt_before_saving_has_begun_stops_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Nor what batch jobs send to a program that has ended."""
    trace = tmp_path / "trace.duckdb"
    done = subprocess.run(
        [sys.executable, "-c", EARLY, str(int(number)), "-o", trace, "--", "true"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"wrote {trace}:" in done.stderr.replace("\n", "")
    assert_conserved(trace)
