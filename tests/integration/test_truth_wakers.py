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
# How often a thread slept, by the OS kernel's own count: one that is preempted until its timer has
# expired does not sleep, so on a busy machine it is less often than it asked to.
SLEPT = "import resource; slept = lambda: resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw\n"
# One CPU: a child that spins, in and out of system calls, and a parent that sleeps by the timer.
TIMER_BESIDE_SPINNER = (
    SLEPT
    + """
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
start_ns, before = time.monotonic_ns(), slept()
for _ in range(100):
    time.sleep(0.005)
times = slept() - before
end_ns = time.monotonic_ns()
os.kill(child, 9)
os.waitpid(child, 0)
print(json.dumps(dict(start_ns=start_ns, end_ns=end_ns, slept=times)), flush=True)
"""
)


def assert_woken_by_timer(trace: Path, pid: int, window: list[int], times: int) -> None:
    """Each sleep of a thread ended by the timer, but for wakeups that the trace counts as unseen.

    An interrupt in a thread that the OS kernel hides from probes is hidden with it.
    """
    [(kind, waker, count)] = query(trace, WAKEUPS, [thread_id(trace, pid), *window])
    [(unseen,)] = query(
        trace, "SELECT coalesce(sum(count), 0) FROM trace_stat WHERE code = 'wakeup_unseen'"
    )
    assert (kind, waker) == ("timer", None)
    assert times - min(unseen, 3) <= count <= times


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
    assert 90 <= truth["slept"] <= 100
    assert_woken_by_timer(trace, target.pid, window, truth["slept"])
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


# Waits 30 times until a timeout, then 20 times for an answer that a child sends over TCP.
POLLED = (
    SLEPT
    + """
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
times, before = [time.monotonic_ns()], slept()
for _ in range(30):
    assert poll.poll(0.002) == []
timeouts = slept() - before
times.append(time.monotonic_ns())
for _ in range(20):
    ours.send(b"x")
    poll.poll()
    ours.recv(1)
times.append(time.monotonic_ns())
os.kill(child, 9)
os.waitpid(child, 0)
print(json.dumps({"times": times, "timeouts": timeouts, "child": child}), flush=True)
"""
)


def test_a_timeout_of_a_poll_is_a_timer_and_data_over_tcp_has_its_sender(
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
    assert 25 <= truth["timeouts"] <= 30
    assert_woken_by_timer(trace, target.pid, [begin, middle], truth["timeouts"])
    # One that had no CPU until the answer came did not sleep. A loaded CPU leaves the work of the
    # network stack to a thread of the OS kernel: then it is not known who sent.
    sender = thread_id(trace, truth["child"])
    found = {
        (kind, waker): count for kind, waker, count in query(trace, WAKEUPS, [key, middle, end])
    }
    assert found.keys() <= {("thread", sender), ("device", None)}
    assert 15 <= sum(found.values()) <= 20
    assert found[("thread", sender)] >= 10


# Two clients of one server, each in a thread, that ask over TCP and get answers in their order.
SERVED = """
import json, os, socket, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
pairs = []
for _ in range(2):
    ours = socket.create_connection(server.getsockname())
    pairs.append((ours, server.accept()[0]))
children = []
for _, peer in pairs:
    child = os.fork()
    if child == 0:
        while peer.recv(1):
            time.sleep(0.002)
            peer.send(b"x")
        os._exit(0)
    children.append(child)
print("ready", flush=True)
sys.stdin.readline()
tids = {}
def ask(number):
    tids[number] = threading.get_native_id()
    for _ in range(50):
        pairs[number][0].send(b"x")
        pairs[number][0].recv(1)
threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
print(json.dumps({"children": children, "tids": [tids[0], tids[1]]}), flush=True)
"""


def test_of_two_senders_over_tcp_each_is_the_waker_of_its_own_reader(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = program(SERVED)
    assert target.readline() == "ready"
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    truth: Any = target.truth()
    assert recorder.wait() == 0
    messages = query(
        trace,
        "SELECT r.tid, s.tid, count(*) FROM flow AS f"
        " JOIN thread AS r ON r.thread_id = f.to_thread_id"
        " JOIN thread AS s ON s.thread_id = f.from_thread_id"
        " WHERE f.kind = 'message' AND f.wait = 'socket' AND list_contains($1, r.tid) GROUP BY ALL",
        [truth["tids"]],
    )
    found = {(reader, sender): count for reader, sender, count in messages}
    own = list(zip(truth["tids"], truth["children"], strict=True))
    assert all(found.get(pair, 0) >= 25 for pair in own), found
    # An interrupt of another connection in that instant is rare.
    assert sum(count for pair, count in found.items() if pair not in own) <= 2
