"""Who woke whom: a partner over a pipe, a timer beside a busy thread, a thread outside."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from recording import Recorder, assert_conserved, keep_to_cpu, query, thread_id

pytestmark = pytest.mark.root

WAKEUPS = """
SELECT waker_kind, waker_thread_id, count(*) FROM thread_state
WHERE waker_kind IS NOT NULL AND thread_id = $1 AND start_ns BETWEEN $2 AND $3 GROUP BY ALL
"""
# One CPU: a child that spins, in and out of system calls, and a parent that sleeps by the timer.
TIMER_BESIDE_SPINNER = """
import json, os, sys, time
print("ready", flush=True)
sys.stdin.readline()
child = os.fork()
if child == 0:
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    zero = os.open("/dev/zero", os.O_RDONLY)
    while os.getppid() != 1:
        os.read(zero, 100_000)
        sum(range(1000))
start_ns = time.monotonic_ns()
for _ in range(100):
    time.sleep(0.005)
end_ns = time.monotonic_ns()
os.kill(child, 9)
os.waitpid(child, 0)
print(json.dumps(dict(child=child, start_ns=start_ns, end_ns=end_ns)), flush=True)
"""


def test_a_ping_pong_is_woken_by_its_partner(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("pingpong", "--round-trips=2000", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    truth: Any = target.truth()
    assert recorder.wait() == 0
    keys = {pid: thread_id(trace, pid) for pid in (target.pid, truth["child"])}
    all_by_partner = 0
    for pid, partner in ((target.pid, truth["child"]), (truth["child"], target.pid)):
        wakeups = query(trace, WAKEUPS, [keys[pid], 0, 2**62])
        by_partner = sum(count for _, waker, count in wakeups if waker == keys[partner])
        total = sum(count for *_, count in wakeups)
        assert by_partner > 0.95 * total, wakeups
        all_by_partner += by_partner
    # Each round trip wakes both. Only one where the OS kernel lets the woken one run at once: then
    # its answer is there before the other has gone to sleep. The last wakeup is the child's end.
    assert 2000 <= all_by_partner <= 4001
    assert_conserved(trace)


def test_a_timer_beside_a_traced_spinner(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = program(TIMER_BESIDE_SPINNER)
    assert target.readline() == "ready"
    recorder = record(trace, f"--pid={target.pid}").live()
    keep_to_cpu(target.pid, max(os.sched_getaffinity(0)))
    target.go()
    truth: Any = target.truth()
    assert recorder.wait() == 0
    window = [truth["start_ns"], truth["end_ns"]]
    assert query(trace, WAKEUPS, [thread_id(trace, target.pid), *window]) == [("timer", None, 100)]
    assert_conserved(trace)


def test_a_thread_outside_the_trace(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=0", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    assert recorder.wait() == 0
    # The first thing that happens to it is our line on its stdin.
    first = query(
        trace,
        "SELECT waker_kind FROM thread_state WHERE waker_kind IS NOT NULL"
        " ORDER BY start_ns LIMIT 1",
    )
    assert first == [("outside",)]


# Waits 30 times until a timeout, then 20 times for an answer that comes through the network stack.
POLLED = """
import json, os, select, socket, sys, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
ours = socket.create_connection(server.getsockname())
peer, _ = server.accept()
child = os.fork()
if child == 0:
    while peer.recv(1):
        time.sleep(0.005)
        peer.send(b"x")
    os._exit(0)
poll = select.epoll()
poll.register(ours, select.EPOLLIN)
print("ready", flush=True)
sys.stdin.readline()
times = [time.monotonic_ns()]
for _ in range(30):
    assert poll.poll(0.002) == []
times.append(time.monotonic_ns())
for _ in range(20):
    ours.send(b"x")
    poll.poll()
    ours.recv(1)
times.append(time.monotonic_ns())
os.kill(child, 9)
os.waitpid(child, 0)
print(json.dumps({"times": times}), flush=True)
"""


def test_a_timeout_of_a_poll_is_a_timer_and_data_from_the_network_a_device(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = program(POLLED)
    assert target.readline() == "ready"
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    truth: Any = target.truth()
    begin, middle, end = truth["times"]
    assert recorder.wait() == 0
    key = thread_id(trace, target.pid)
    assert query(trace, WAKEUPS, [key, begin, middle]) == [("timer", None, 30)]
    # One that had no CPU until the answer came did not sleep.
    ((kind, waker, count),) = query(trace, WAKEUPS, [key, middle, end])
    assert (kind, waker) == ("device", None)
    assert 15 <= count <= 20
