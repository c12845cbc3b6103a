"""A recorder that is stopped, killed, or killed while it saves: the target is never harmed."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Workload
from recording import (
    Recorder,
    assert_conserved,
    assert_whole,
    bpf_programs,
    meta,
    query,
    rlscope,
    until,
)

pytestmark = pytest.mark.root


def runs(target: Workload) -> bool:
    """Tell whether a target still does what it is there for."""
    return target.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_and_saves(
    tmp_path: Path,
    workload: Callable[..., Workload],
    record: Callable[..., Recorder],
    number: signal.Signals,
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=100000", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    recorder.signal(number)
    assert recorder.wait() == 0
    assert "stopped after" in recorder.words()
    assert f"wrote {trace}:" in recorder.words()
    assert_whole(recorder.words())
    assert runs(target)
    assert meta(trace)["ended_cleanly"] == "true"
    assert meta(trace)["recovered"] == "false"
    assert not recorder.spool.exists()
    assert_conserved(trace)


def test_sigterm_goes_to_the_launched_program(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace, mark = tmp_path / "trace.duckdb", tmp_path / "mark"
    program = (
        "import pathlib, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        f"pathlib.Path({str(mark)!r}).touch()\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "sys.exit(33)\n"
    )
    recorder = record(trace, "--", sys.executable, "-c", program)
    until(mark.exists, what="the program runs")
    recorder.signal(signal.SIGTERM)
    assert recorder.wait() == 33
    assert query(trace, "SELECT exit_code FROM process") == [(33,)]


def test_a_launched_program_that_sigterm_kills(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace, mark = tmp_path / "trace.duckdb", tmp_path / "mark"
    recorder = record(trace, "--", "sh", "-c", f"touch {mark}; exec sleep 60")
    until(mark.exists, what="the program runs")
    recorder.signal(signal.SIGTERM)
    assert recorder.wait() == 128 + signal.SIGTERM
    assert query(trace, "SELECT exit_code FROM process WHERE parent_process_id IS NULL") == [(143,)]


def killed_in_mid_run(recorder: Recorder, target: Workload) -> None:
    """Kill the recorder once records of the target are on the disk."""
    target.go()
    records = recorder.spool / "records.bin"
    until(lambda: records.stat().st_size > 4096, what="the spool grows")
    recorder.signal(signal.SIGKILL)
    assert recorder.wait() == -signal.SIGKILL


def test_a_killed_recorder_leaves_a_spool(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=100000", "--sleep-ms=1", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    killed_in_mid_run(recorder, target)
    assert runs(target)
    assert not trace.exists()
    assert recorder.spool.is_dir()

    done = rlscope("summarize", recorder.spool)
    assert done.returncode == 1
    assert "is a spool: its recording was not finished" in done.stderr
    assert f"hint: rlscope-trace recover {recorder.spool}" in done.stderr

    done = rlscope("recover", recorder.spool)
    assert done.returncode == 0, done.stderr
    assert "note: the recording was cut off: threads end at their last record" in done.stderr
    assert f"wrote {trace}:" in done.stderr
    assert "warning: 1 truncated: threads alive when the recorder was killed" in done.stderr
    assert "nothing lost" not in done.stderr
    assert not recorder.spool.exists()
    facts = meta(trace)
    assert (facts["ended_cleanly"], facts["recovered"]) == ("false", "true")
    assert query(trace, "SELECT pid FROM process") == [(target.pid,)]
    assert query(trace, "SELECT count(*) > 20 FROM thread_state") == [(True,)]
    assert_conserved(trace)

    summary = rlscope("summarize", trace, "--all")
    assert summary.returncode == 0
    assert "warning: the recording of this trace was cut off" in summary.stdout
    assert "truncated: 1 record, threads alive when the recorder was killed" in summary.stdout


def test_a_launched_program_outlives_its_recorder(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace, mark, end = tmp_path / "trace.duckdb", tmp_path / "mark", tmp_path / "end"
    program = (
        "import os, pathlib, sys\n"
        f"pathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\n"
        "sys.stdin.readline()\n"
        f"pathlib.Path({str(end)!r}).touch()\n"
    )
    read, write = os.pipe()
    with os.fdopen(write, "w") as master:
        recorder = record(trace, "--", sys.executable, "-c", program, stdin=read)
        os.close(read)
        until(lambda: mark.exists() and mark.read_text(), what="the program runs")
        recorder.signal(signal.SIGKILL)
        assert recorder.wait() == -signal.SIGKILL
        assert Path(f"/proc/{mark.read_text()}").exists()
        master.write("go on\n")
        master.flush()
        until(end.exists, what="the program goes on to its end")
    done = rlscope("recover", recorder.spool)
    assert done.returncode == 0
    assert query(trace, "SELECT pid FROM process") == [(int(mark.read_text()),)]


def killed_in_finalise(recorder: Recorder, target: Workload) -> None:
    """Record so much that saving takes its time, and kill the recorder as soon as it saves."""
    target.go()
    target.truth()
    partial = recorder.output.with_name(recorder.output.name + ".partial")
    until(lambda: partial.exists() or recorder.process.poll() is not None, what="it saves")
    recorder.signal(signal.SIGKILL)
    assert recorder.wait() == -signal.SIGKILL


def test_a_recorder_killed_while_it_saves(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("yielder", "--seconds=0.5", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    killed_in_finalise(recorder, target)
    assert not trace.exists()
    assert recorder.spool.is_dir()
    done = rlscope("recover", recorder.spool)
    assert done.returncode == 0, done.stderr
    # The recording was complete, so nothing is missing.
    assert_whole(done.stderr)
    facts = meta(trace)
    assert (facts["ended_cleanly"], facts["recovered"]) == ("true", "true")
    assert query(trace, "SELECT count(*) > 1000 FROM thread_state") == [(True,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "trace.duckdb",
        "trace.duckdb.stderr",
    ]
    assert_conserved(trace)


def test_ctrl_c_while_it_saves(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("yielder", "--seconds=1", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    target.truth()
    partial = trace.with_name("trace.duckdb.partial")
    until(lambda: partial.exists() or recorder.process.poll() is not None, what="it saves")
    recorder.signal(signal.SIGINT)
    recorder.wait_to_say("saving; Ctrl-C again stops it and leaves the spool")
    recorder.signal(signal.SIGINT)
    assert recorder.wait() == 1
    assert f"error: interrupted before {trace} was complete" in recorder.words()
    assert f"hint: rlscope-trace recover {recorder.spool}" in recorder.words()
    assert not trace.exists()
    assert not partial.exists()
    assert rlscope("recover", recorder.spool).returncode == 0
    assert_conserved(trace)


def test_nothing_is_left_in_the_kernel(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    target = workload("sleeper", "--sleeps=100000", wait=True)
    recorder = record(tmp_path / "trace.duckdb", f"--pid={target.pid}").live()
    held = {program["name"] for program in bpf_programs() if program["id"] in recorder.held}
    assert {"on_switch", "on_waking", "on_newtask", "on_exit"} <= held
    assert recorder.stop() == 0
    left = {program["id"] for program in bpf_programs()}
    assert not left & recorder.held


def test_only_the_main_thread_takes_signals(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    # A thread that does not block them, started by some library, gets a signal whenever the main
    # thread is not just waiting for one: then it ends the recorder instead of the recording.
    target = workload("sleeper", "--sleeps=100000", wait=True)
    recorder = record(tmp_path / "trace.duckdb", f"--pid={target.pid}").live()
    seen = set()
    for task in Path(f"/proc/{recorder.pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            # One that opened something for a moment.
            continue
        status = dict(line.split(":", 1) for line in lines)
        blocked = int(status["SigBlk"], 16)
        seen.add(status["Name"].strip())
        if int(task.name) != recorder.pid:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                assert blocked >> (number - 1) & 1, (status["Name"], number)
    assert "rls-drain" in seen
    assert recorder.stop() == 0
