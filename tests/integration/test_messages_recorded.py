"""Messages that their reader did not sleep for: who sent them, and when."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from flow_checks import check_edges
from recording import rlscope

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

ROUNDS = 40
ENDS = """
if sys.argv[1] == "socket":
    ends = socket.socketpair()
    to, source = (end.detach() for end in ends)
else:
    source, to = os.pipe()
"""
SENDING = """
for _ in range(int(sys.argv[2])):
    end_ns = time.thread_time_ns() + 2_000_000
    while time.thread_time_ns() < end_ns:
        pass
    os.write(to, b"m")
    os.read(back, 1)
os.waitpid(reader, 0)
print(os.getpid(), reader)
"""
# Both on one CPU: whoever asks whether something has come gives the CPU away, and waits for it
# until the other has worked, and sent.
PROGRAM = (
    """
import os, socket, sys, time

def take(fd):
    while True:
        os.sched_yield()
        try:
            return os.read(fd, 1)
        except BlockingIOError:
            pass

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
"""
    + ENDS
    + """
os.set_blocking(source, False)
back, done = os.pipe()
reader = os.fork()
if reader == 0:
    for _ in range(int(sys.argv[2])):
        take(source)
        os.write(done, b"d")
    os._exit(0)
"""
    + SENDING
)


def record(
    folder: Path, channel: str, messages: str, program: str = PROGRAM
) -> tuple[Path, int, int]:
    path = folder / "trace.duckdb"
    done = rlscope(
        "-o", path, "--sample-hz=0", "--transitions=off", f"--messages={messages}", "--",
        sys.executable, "-c", program, channel, str(ROUNDS),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sender, reader = map(int, done.stdout.split()[-2:])
    return path, sender, reader


@pytest.mark.parametrize(("channel", "messages"), [("socket", "sockets"), ("pipe", "all")])
def test_who_sent_what_nobody_slept_for(tmp_path: Path, channel: str, messages: str) -> None:
    path, sender, reader = record(tmp_path, channel, messages)
    with rlscope_analysis.open(path) as trace:
        check_edges(trace.connection)
        reported = trace.sql("""
            SELECT s.pid, r.pid, m.channel, count(*) FROM early_message AS m
            JOIN _thread_owner AS s ON s.thread_id = m.sender_thread_id
            JOIN _thread_owner AS r ON r.thread_id = m.thread_id
            GROUP BY ALL
        """).fetchall()
        found = {(from_pid, to_pid): count for from_pid, to_pid, *_, count in reported}
        # One that was sent just after the reader had got a CPU of its own has no edge.
        assert ROUNDS * 0.8 <= found[sender, reader] <= ROUNDS
        assert {row[2] for row in reported} == {channel}
        # Both ran then, and the reader had waited for a CPU when it was sent.
        states = """
            SELECT s.state, count(*) FROM early_message AS m
            JOIN thread_state AS s ON s.thread_id = m.{thread}
              AND m.{column} > s.start_ns AND m.{column} <= s.end_ns
            GROUP BY ALL
        """
        count = sum(found.values())
        for column, thread, state in (
            ("sent_ns", "sender_thread_id", "running"),
            ("sent_ns", "thread_id", "runnable"),
            ("read_ns", "thread_id", "running"),
        ):
            asked = states.format(column=column, thread=thread)
            assert trace.sql(asked).fetchall() == [(state, count)]
        edges = "SELECT count(*) FROM flow WHERE kind = 'message' AND wait IS NULL"
        assert trace.sql(edges).fetchall() == [(count,)]


# The reader has a CPU of its own, and asks until something has come, by reading or by poll(0), as
# often as multiprocessing does.
ASKING = (
    """
import os, select, socket, sys, time

cpus = sorted(os.sched_getaffinity(0))
"""
    + ENDS
    + """
back, done = os.pipe()
reader = os.fork()
if reader == 0:
    os.sched_setaffinity(0, {cpus[0]})
    os.set_blocking(source, sys.argv[1] == "socket")
    asked = select.poll()
    asked.register(source, select.POLLIN)
    for _ in range(int(sys.argv[2])):
        while True:
            for _ in range(500):
                pass
            if sys.argv[1] == "socket" and not asked.poll(0):
                continue
            try:
                os.read(source, 1)
                break
            except BlockingIOError:
                pass
        os.write(done, b"d")
    os._exit(0)
os.sched_setaffinity(0, {cpus[-1]})
"""
    + SENDING
)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("channel", ["socket", "pipe"])
def test_who_sent_what_somebody_asked_for_in_a_loop(tmp_path: Path, channel: str) -> None:
    path, sender, reader = record(tmp_path, channel, "all", ASKING)
    with rlscope_analysis.open(path) as trace:
        check_edges(trace.connection)
        found = trace.sql(f"""
            SELECT a.state, m.read_ns - m.sent_ns FROM early_message AS m
            JOIN _thread_owner AS s ON s.thread_id = m.sender_thread_id AND s.pid = {sender}
            JOIN _thread_owner AS r ON r.thread_id = m.thread_id AND r.pid = {reader}
            JOIN thread_state AS a ON a.thread_id = m.thread_id
              AND m.sent_ns > a.start_ns AND m.sent_ns <= a.end_ns
            WHERE m.channel = '{channel}'
        """).fetchall()
        # A reader may be faster than the end of the sender's call. Others take its CPU, too.
        assert ROUNDS * 0.7 <= len(found) <= ROUNDS
        assert {state for state, _ in found} <= {"running", "runnable"}
        asked = [delay_ns for state, delay_ns in found if state == "running"]
        assert asked
        assert max(asked) < 200_000


# What two senders have in common: a socket's end, in which the later one puts more; a pipe that was
# closed unread, and the next one, which has its memory. All on one CPU, the reader after others.
# Says of each read when it was, and whose bytes came first.
SENDERS = """
import os, signal, socket, sys, time

def work():
    end_ns = time.thread_time_ns() + 2_000_000
    while time.thread_time_ns() < end_ns:
        pass

def say(*words):
    # In one piece: others write there, too.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def take(fd):
    while True:
        os.sched_yield()
        before_ns = time.monotonic_ns()
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            continue
        say(before_ns, time.monotonic_ns(), data[:1].decode())
        return data

def child(function, *arguments):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        function(*arguments)
        os._exit(0)
    return pid

def hurry():
    # Before the reader, whatever the OS kernel thinks is fair.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

def first(to, after):
    hurry()
    work()
    os.write(to, b"A")
    os.write(after, b"g")

def second(to, before):
    hurry()
    os.read(before, 1)
    os.write(to, b"B" * 34_000)

def read_all(source, count):
    os.nice(19)
    os.set_blocking(source, False)
    while count:
        count -= len(take(source))

def sender(to):
    work()
    os.write(to, b"B")

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
for _ in range(int(sys.argv[2])):
    if sys.argv[1] == "socket":
        to, source = (end.detach() for end in socket.socketpair())
        before, after = os.pipe()
        children = [child(read_all, source, 34_001)]
        children += [child(second, to, before), child(first, to, after)]
        fds = [to, source, before, after]
    else:
        old = os.pipe()
        os.write(old[1], b"A")
        for fd in old:
            os.close(fd)
        fds = source, to = os.pipe()
        children = [child(read_all, source, 1), child(sender, to)]
    say("round", *children, os.getpid())
    for fd in fds:
        os.close(fd)
    for pid in children:
        os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("channel", ["socket", "pipe"])
def test_a_message_is_of_who_sent_its_first_byte(tmp_path: Path, channel: str) -> None:
    path = tmp_path / "trace.duckdb"
    done = rlscope(
        "-o", path, "--sample-hz=0", "--transitions=off", "--messages=all", "--",
        sys.executable, "-c", SENDERS, channel, "60",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    senders = {}
    for _, reader, *others in (line for line in lines if line[0] == "round"):
        # Of a socket the second sender was started first; the parent sent into the closed pipe.
        second, first = others[:2]
        senders[int(reader)] = {"A": int(first), "B": int(second)}
    reads = [(int(line[0]), int(line[1]), line[2]) for line in lines if line[0] != "round"]
    with rlscope_analysis.open(path) as trace:
        found = trace.sql("""
            SELECT m.read_ns, r.pid, s.pid FROM early_message AS m
            JOIN _thread_owner AS s ON s.thread_id = m.sender_thread_id
            JOIN _thread_owner AS r ON r.thread_id = m.thread_id
        """).fetchall()
    checked = 0
    for read_ns, reader, sender in found:
        if int(reader) not in senders:
            continue
        (byte,) = (byte for begin, end, byte in reads if begin <= read_ns <= end)
        assert sender == senders[reader][byte]
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize(("channel", "messages"), [("socket", "off"), ("pipe", "sockets")])
def test_what_was_not_asked_for_is_not_measured(
    tmp_path: Path, channel: str, messages: str
) -> None:
    path, _, _ = record(tmp_path, channel, messages)
    with rlscope_analysis.open(path) as trace:
        assert trace.sql("SELECT count(*) FROM early_message").fetchall() == [(0,)]
        measured = f"SELECT measured FROM coverage WHERE kind = 'early_message:{channel}'"
        assert trace.sql(measured).fetchall() == [(False,)]


@pytest.mark.matrix
def test_workers_that_take_turns_are_named_where_others_want_the_cpus(tmp_path: Path) -> None:
    with contextlib.ExitStack() as beside:
        for cpu in os.sched_getaffinity(0):
            command = [sys.executable, WORKLOADS / "neighbour.py", "busy", str(cpu)]
            program = beside.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            assert program.stdout is not None
            assert program.stdout.readline() == b"begun\n"
            beside.callback(program.kill)
        trace = tmp_path / "trace.duckdb"
        planted = [sys.executable, WORKLOADS / "planted.py", "idle_workers", "40"]
        assert rlscope("-o", trace, "--", *planted).returncode == 0
    shown = rlscope("summarize", trace, "--per", "iteration", "--format", "json")
    reported = [
        found["code"] for found in json.loads(shown.stdout)["findings"]
        if found["code"] not in ("cpu_taken_by_others", "cpu_wait")
    ]  # fmt: skip
    assert reported[0] == "idle_workers"
