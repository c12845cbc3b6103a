"""The workloads tell the truth about themselves; the tracing tests hold the tracer to it."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest


def test_sleeper_waits_for_us_then_sleeps_at_least_as_long_as_it_says(
    workload: Callable[..., object],
) -> None:
    sleeper = workload("sleeper", "--sleeps=3", "--sleep-ms=2", wait=True)
    sleeper.go()
    truth = sleeper.truth()
    assert truth["sleeps"] == 3
    assert truth["slept_ns"] >= 3 * 2_000_000
    assert sleeper.wait() == 0


def test_forker_children_are_told_in_order(workload: Callable[..., object]) -> None:
    forker = workload("forker", "0", "3", "255")
    truth = forker.truth()
    assert truth["codes"] == [0, 3, 255]
    assert len(set(truth["pids"])) == 3
    assert forker.wait() == 0


def test_killed_child_died_of_sigkill(workload: Callable[..., object]) -> None:
    killed = workload("killed")
    assert killed.truth()["signal"] == signal.SIGKILL


def test_threads_carry_their_names(workload: Callable[..., object]) -> None:
    truth = workload("threads", "--threads=3", "--sleeps=2", "--sleep-ms=1").truth()
    assert [thread["name"] for thread in truth["threads"]] == ["worker-0", "worker-1", "worker-2"]
    assert all(thread["timeslices"] >= 2 for thread in truth["threads"])


def test_spinner_uses_the_cpu_it_says(workload: Callable[..., object]) -> None:
    (thread,) = workload("spinner", "--seconds=0.2").truth()["threads"]
    assert thread["wall_ns"] >= 200_000_000
    assert 0 < thread["cpu_ns"] <= thread["wall_ns"]


@pytest.mark.parametrize("flags", [[], ["--from-thread"]])
def test_execer_keeps_its_pid(workload: Callable[..., object], flags: list[str]) -> None:
    execer = workload("execer", "--execs=2", *flags, wait=True)
    execer.go()
    assert execer.truth()["pid"] == execer.pid
    assert execer.wait() == 0


def test_pingpong_and_yielder_count(workload: Callable[..., object]) -> None:
    assert workload("pingpong", "--round-trips=100").truth()["ns_per_round_trip"] > 0
    assert workload("yielder", "--seconds=1").truth()["yields"] >= 200


def test_hold_keeps_the_process_until_told(
    workload: Callable[..., object], poll_until: Callable[..., object]
) -> None:
    sleeper = workload("sleeper", "--sleeps=1", "--sleep-ms=1", hold=True)
    sleeper.truth()
    # It sleeps in a read of stdin: still there, and not a zombie.
    stat = Path(f"/proc/{sleeper.pid}/stat")
    poll_until(lambda: stat.read_text().split()[2] == "S", what="waiting for stdin")
    sleeper.go()
    assert sleeper.wait() == 0
