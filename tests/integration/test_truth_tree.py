"""The traced tree against what the programs did: forks, threads, names, execs, exit codes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import WORKLOADS, Workload
from recording import (
    TICK_NS,
    Recorder,
    assert_conserved,
    assert_whole,
    query,
    rlscope,
    thread_id,
)

pytestmark = pytest.mark.root

PROCESSES = """
SELECT p.pid, parent.pid, p.exit_code, (SELECT count(*) FROM thread AS t
  WHERE t.process_id = p.process_id)
FROM process AS p LEFT JOIN process AS parent ON parent.process_id = p.parent_process_id
ORDER BY p.process_id
"""


def launched(trace: Path, name: str, *arguments: str) -> dict[str, object]:
    """Trace a workload from its first instruction and return the truth it told."""
    done = rlscope("-o", trace, "--", sys.executable, str(WORKLOADS / f"{name}.py"), *arguments)
    assert done.returncode == 0, done.stderr
    assert_whole(done.stderr)
    truth: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return truth


def test_forks_of_a_launched_program(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = launched(trace, "forker", "0", "1", "7", "255", "42")
    children = [
        (pid, truth["pid"], code, 1)
        for pid, code in zip(truth["pids"], truth["codes"], strict=True)
    ]
    assert query(trace, PROCESSES) == [(truth["pid"], None, 0, 1), *children]
    assert_conserved(trace)


def test_forks_of_a_running_program(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("forker", *map(str, range(30)), wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    truth = target.truth()
    assert recorder.wait() == 0
    assert "the target has ended" in recorder.words()
    children = [(pid, target.pid, code, 1) for code, pid in enumerate(truth["pids"])]
    assert query(trace, PROCESSES) == [(target.pid, None, 0, 1), *children]
    assert query(trace, "SELECT count(*) FROM thread WHERE NOT ended") == [(0,)]
    assert_conserved(trace)


def test_a_child_killed_by_a_signal(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = launched(trace, "killed")
    assert query(trace, "SELECT exit_code FROM process WHERE pid = ?", [truth["child"]]) == [(137,)]
    assert_conserved(trace)


def test_threads_and_their_names(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = launched(trace, "threads", "--threads=7", "--sleeps=4", "--sleep-ms=2")
    workers = [(worker["tid"], worker["name"], True) for worker in truth["threads"]]
    found = query(trace, "SELECT tid, name, ended FROM thread WHERE tid <> ? ORDER BY name",
                  [truth["pid"]])  # fmt: skip
    assert found == workers
    assert query(trace, PROCESSES) == [(truth["pid"], None, 0, 8)]
    for worker in truth["threads"]:
        least_ns = max(1, worker["running_ns"] / 2 - 100_000 * worker["timeslices"])
        most_ns = worker["running_ns"] + truth["stolen_ns"] + 2 * TICK_NS
        # All it ran for, less the instants between its own look at the clock and its end, and
        # what the OS kernel had not yet booked at that look: a tick (1 to 10 ms) at most. Its
        # account lacks what a hypervisor took, and holds the way through the scheduler: 10 to
        # 100 us at each switch of a virtual machine, most of such short bursts.
        ((running_ns,),) = query(
            trace,
            "SELECT running_ns FROM thread_time WHERE thread_id = ?",
            [thread_id(trace, worker["tid"])],
        )
        assert least_ns <= running_ns < most_ns
    assert_conserved(trace)


def test_a_program_that_replaces_itself(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = launched(trace, "execer", "--execs=3")
    assert query(trace, PROCESSES) == [(truth["pid"], None, 0, 1)]
    ((command,),) = query(trace, "SELECT command FROM process")
    assert command.endswith("execer.py --execs=3 --done=3")
    assert_conserved(trace)


def test_a_thread_that_replaces_the_program(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = launched(trace, "execer", "--execs=3", "--from-thread")
    # Each exec is called by a new thread, which gets the tid of the main thread it ends.
    assert query(trace, PROCESSES) == [(truth["pid"], None, 0, 4)]
    assert query(trace, "SELECT DISTINCT tid FROM thread") == [(truth["pid"],)]
    assert query(trace, "SELECT count(*) FROM thread WHERE NOT ended") == [(0,)]
    assert_conserved(trace)


def test_the_exit_code_of_a_signal(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, "--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == 128 + 15
    assert query(trace, "SELECT exit_code FROM process") == [(128 + 15,)]
