"""Targets that end, are killed or become another program while they are traced."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Workload
from recording import Recorder, assert_conserved, assert_whole, query, rlscope

pytestmark = pytest.mark.root


def exit_codes(trace: Path) -> list[tuple[int, int | None]]:
    """Return pid and exit code of every process."""
    return query(trace, "SELECT pid, exit_code FROM process ORDER BY process_id")


def test_the_target_ends_by_itself(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=3", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    assert recorder.wait() == 0
    assert target.wait() == 0
    assert "the target has ended after" in recorder.words()
    assert f"wrote {trace}:" in recorder.words()
    assert exit_codes(trace) == [(target.pid, 0)]
    assert not recorder.spool.exists()
    assert_conserved(trace)


def test_the_target_is_killed(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=100000", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    os.kill(target.pid, signal.SIGKILL)
    assert recorder.wait() == 0
    assert "the target has ended after" in recorder.words()
    assert exit_codes(trace) == [(target.pid, 137)]
    assert_conserved(trace)


def test_one_of_two_targets_is_killed(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    targets = [workload("sleeper", "--sleeps=2", wait=True) for _ in range(2)]
    recorder = record(trace, "--pid", ",".join(str(target.pid) for target in targets)).live()
    os.kill(targets[0].pid, signal.SIGKILL)
    targets[0].wait()
    # The other one is still traced, to its end.
    targets[1].go()
    assert recorder.wait() == 0
    assert "all targets have ended after" in recorder.words()
    assert exit_codes(trace) == [(targets[0].pid, 137), (targets[1].pid, 0)]
    assert_conserved(trace)


def test_the_target_becomes_another_program(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("execer", "--execs=2", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    assert target.truth()["execs"] == 2
    assert recorder.wait() == 0
    assert exit_codes(trace) == [(target.pid, 0)]
    ((command,),) = query(trace, "SELECT command FROM process")
    assert command.endswith("execer.py --execs=2 --done=2")
    assert_conserved(trace)


def test_the_target_leaves_a_child_behind(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    source = (
        "import os, sys\n"
        "sys.stdin.readline()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.read(0, 1)\n"
        "    os._exit(0)\n"
        "print(child, flush=True)\n"
    )
    target = program(source)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    child = int(target.readline())
    assert recorder.wait() == 0
    # It lived on when the target was gone and the recording with it: no exit code is known.
    assert exit_codes(trace) == [(target.pid, 0), (child, None)]
    assert Path(f"/proc/{child}").exists()
    assert query(trace, "SELECT ended FROM thread WHERE tid = ?", [child]) == [(False,)]
    assert_conserved(trace)


@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)])
def test_a_launched_program_gives_its_code(tmp_path: Path, end: str, code: int) -> None:
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, "--", sys.executable, "-c", f"import os, sys; {end}")
    assert done.returncode == code
    assert "the program has ended after" in done.stderr
    assert_whole(done.stderr)
    assert [found for _, found in exit_codes(trace)] == [code]
    assert_conserved(trace)


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, "--", "no-such-program-of-ours")
    assert done.returncode == 127
    assert done.stderr == "error: no-such-program-of-ours: command not found\n"
    assert list(tmp_path.iterdir()) == []


def test_the_duration_of_a_launched_program(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    # Waits for a line until long after the duration; its end is waited for all the same.
    program = "import sys; sys.stdin.readline(); sys.exit(9)"
    command = ("--duration=0.05", "--", sys.executable, "-c", program)
    recorder = record(trace, *command, stdin=subprocess.PIPE)
    recorder.wait_to_say(f"wrote {trace}:")
    assert "the duration is over after 0." in recorder.words()
    assert recorder.process.poll() is None
    recorder.process.stdin.close()
    assert recorder.wait() == 9
    assert query(trace, "SELECT exit_code, count(*) FROM process GROUP BY ALL") == [(None, 1)]
    assert_conserved(trace)


def test_stdin_passes_through(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "trace.duckdb", "--", "cat", typed="line 1\nline 2\n")
    assert done.returncode == 0
    assert done.stdout == "line 1\nline 2\n"
