"""Attaching to programs that run already: everybody is found, and what each was doing."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Workload
from recording import (
    Recorder,
    assert_conserved,
    assert_whole,
    keep_to_cpu,
    query,
    rlscope,
    until,
)

pytestmark = pytest.mark.root

# A process with threads and two generations below it, each with threads. All of them wait for
# ever; the pipe tells when the last has begun to.
FAMILY = """
import json, os, sys, threading
reads, writes = os.pipe()
def wait():
    os.write(writes, b"!")
    threading.Event().wait()
def start(threads):
    for _ in range(threads):
        threading.Thread(target=wait, daemon=True).start()
start(3)
if os.fork() == 0:
    start(2)
    if os.fork() == 0:
        start(1)
        wait()
    wait()
if os.fork() == 0:
    wait()
waiting = 0
while waiting < 9:
    waiting += len(os.read(reads, 9))
print("ready", flush=True)
sys.stdin.readline()
os.killpg(0, 9)
"""
# Burns its CPU until it is told to end, without ever leaving it; tells from when to when the OS
# kernel did not switch away from it.
SPINNER = """
import json, os, select, time
def switches():
    lines = open("/proc/self/status").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
print("ready", flush=True)
os.read(0, 1)
stays = [[0, 0, -1]]
while not select.select([0], [], [], 0)[0]:
    now_ns, count = time.monotonic_ns(), switches()
    if count == stays[-1][2]:
        stays[-1][1] = now_ns
    else:
        now_ns = time.monotonic_ns()
        stays.append([now_ns, now_ns, count])
print(json.dumps(dict(stays=stays[1:])), flush=True)
"""


def tree(pid: int) -> dict[int, int | None]:
    """Return the processes from this one down, each with its parent, None for the first."""
    found: dict[int, int | None] = {pid: None}
    pending = [pid]
    while pending:
        above = pending.pop()
        for task in Path(f"/proc/{above}/task").iterdir():
            for child in (task / "children").read_text().split():
                found[int(child)] = above
                pending.append(int(child))
    return found


@pytest.fixture
def family(program: Callable[..., Workload]) -> Iterator[Workload]:
    target = program("import os; os.setpgid(0, 0)\n" + FAMILY)
    assert target.readline() == "ready"
    yield target
    os.killpg(target.pid, signal.SIGKILL)


@pytest.mark.parametrize("capture", ["btf", "tracefs"])
def test_every_thread_is_found_and_sleeps(tmp_path: Path, family: Workload, capture: str) -> None:
    trace = tmp_path / "trace.duckdb"
    processes = tree(family.pid)
    assert len(processes) == 4
    tids = {int(task.name) for pid in processes for task in Path(f"/proc/{pid}/task").iterdir()}
    assert len(tids) == 4 + 3 + 2 + 1
    done = rlscope("-o", trace, f"--pid={family.pid}", "--duration=0.3", f"--capture={capture}")
    assert done.returncode == 0
    assert f"tracing pid {family.pid} (python" in done.stderr
    assert "): 10 threads" in done.stderr
    assert "the duration is over" in done.stderr
    found = query(
        trace,
        "SELECT p.pid, parent.pid FROM process AS p"
        " LEFT JOIN process AS parent ON parent.process_id = p.parent_process_id",
    )
    assert dict(found) == processes
    assert {tid for (tid,) in query(trace, "SELECT tid FROM thread")} == tids
    # None of them wakes up: from the attach to the end each sleeps, in one row.
    assert query(
        trace,
        "SELECT state, count(*), count(DISTINCT s.thread_id) FROM thread_state AS s"
        " JOIN thread AS t ON t.thread_id = s.thread_id"
        " AND t.start_ns = s.start_ns AND t.end_ns = s.end_ns GROUP BY state",
    ) == [("sleeping", 10, 10)]
    assert query(trace, "SELECT count(*) FROM thread_state") == [(10,)]
    assert query(trace, "SELECT count(*) FROM process WHERE exit_code IS NOT NULL") == [(0,)]
    assert_conserved(trace)


def test_a_thread_that_never_leaves_its_cpu_runs_all_the_time(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    cpu = max(os.sched_getaffinity(0))
    # Some attempts are none: the spinner was interrupted, as the OS kernel does each second.
    for attempt in range(8):
        trace = tmp_path / f"trace-{attempt}.duckdb"
        target = program(SPINNER)
        assert target.readline() == "ready"
        keep_to_cpu(target.pid, cpu)
        recorder = record(trace, f"--pid={target.pid}", "--duration=0.2")
        # Loading is over, attaching begins.
        until(recorder.spool.exists, what="the recorder makes its spool")
        target.go()
        assert recorder.wait() == 0
        target.go()
        stays = target.truth()["stays"]
        ((start_ns, end_ns),) = query(trace, "SELECT start_ns, end_ns FROM thread")
        if any(first_ns < start_ns < end_ns < last_ns for first_ns, last_ns, _ in stays):
            rows = query(trace, "SELECT start_ns, end_ns, state, cpu FROM thread_state")
            assert rows == [(start_ns, end_ns, "running", cpu)]
            return
    pytest.fail("no attempt had a spinner that spun from before the attach to after the end")


def test_a_partly_named_tree_is_traced_once(tmp_path: Path, family: Workload) -> None:
    trace = tmp_path / "trace.duckdb"
    pids = ",".join(map(str, tree(family.pid)))
    done = rlscope("-o", trace, "--pid", pids, "--pid", str(family.pid), "--duration=0.1")
    assert done.returncode == 0
    assert query(trace, "SELECT count(*), count(DISTINCT tid) FROM thread") == [(10, 10)]
    assert query(trace, "SELECT count(*) FROM process") == [(4,)]


def test_bystanders_are_not_in_the_trace(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    bystander = workload("forker", *["0"] * 20, wait=True)
    target = workload("sleeper", "--sleeps=5", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    bystander.go()
    target.go()
    assert json.dumps(bystander.truth()["codes"]) == json.dumps([0] * 20)
    assert bystander.wait() == 0
    assert recorder.wait() == 0
    assert query(trace, "SELECT pid FROM process") == [(target.pid,)]
    assert query(trace, "SELECT tid FROM thread") == [(target.pid,)]


ZOMBIE_PARENT = """
import os, sys
for _ in range(3):
    if os.fork() == 0:
        os._exit(0)
print("forked", flush=True)
sys.stdin.readline()
for _ in range(3):
    os.wait()
print("reaped", flush=True)
sys.stdin.readline()
"""


def test_zombies_have_nothing_to_tell(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    parent = program(ZOMBIE_PARENT)
    assert parent.readline() == "forked"
    recorder = record(trace, f"--pid={parent.pid}").live()
    parent.go()
    assert parent.readline() == "reaped"
    assert recorder.stop() == 0
    assert query(trace, "SELECT tid, lost_ns FROM thread") == [(parent.pid, 0)]
    assert_whole(recorder.words())


def test_children_that_are_found_have_their_commands(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    parent = program(
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.readline()\n"
        "child.kill()\n"
    )
    child_pid = int(parent.readline())
    recorder = record(trace, f"--pid={parent.pid}").live()
    assert recorder.stop() == 0
    parent.go()
    found = query(trace, "SELECT command FROM process WHERE pid = ?", [child_pid])
    assert found == [("sleep 1000",)]
