"""Times and counts of the trace against the program's clock and the OS kernel's own accounts."""

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from recording import (
    TICK_NS,
    Recorder,
    assert_conserved,
    assert_whole,
    keep_to_cpu,
    query,
    state_ns,
    thread_id,
    thread_times,
)

pytestmark = pytest.mark.root

# Threads that yield or sleep, pinned to one CPU, each with the OS kernel's accounts of it
# at both ends of its work. A sleep makes the OS kernel book the running time up to now, which it
# does only at a tick otherwise; the clock is read on both sides of the counts.
ACCOUNTED = """
import hashlib, json, os, sys, threading, time
BLOCK = b"x" * 300_000
told = []
def stolen_ns():
    cpu = f"cpu{max(os.sched_getaffinity(0))} "
    ticks = [line.split()[8] for line in open("/proc/stat") if line.startswith(cpu)]
    return int(ticks[0]) * 10**9 // os.sysconf("SC_CLK_TCK")
def account():
    time.sleep(0.0001)
    running_ns = int(open("/proc/thread-self/schedstat").read().split()[0])
    at_ns = time.monotonic_ns()
    before_ns = time.monotonic_ns()
    lines = open("/proc/thread-self/status").read().splitlines()
    after_ns = time.monotonic_ns()
    counts = {line.split(":")[0]: int(line.split()[1]) for line in lines if "ctxt" in line}
    return dict(running_ns=running_ns, stolen_ns=stolen_ns(),
                at_ns=at_ns, before_ns=before_ns, after_ns=after_ns,
                voluntary=counts["voluntary_ctxt_switches"],
                involuntary=counts["nonvoluntary_ctxt_switches"])
def work(kind):
    first = account()
    while time.monotonic_ns() < first["at_ns"] + 700_000_000:
        if kind == "sleeper":
            time.sleep(0.002)
        for _ in range(5):
            hashlib.sha256(BLOCK).digest()
        if kind == "yielder":
            os.sched_yield()
    told.append(dict(kind=kind, tid=threading.get_native_id(), first=first, last=account()))
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work, args=(kind,)) for kind in sys.argv[1:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(told), flush=True)
"""

SWITCHES = """
SELECT
  count(*) FILTER (WHERE next_state IN ('sleeping', 'blocked') OR next_waker IS NOT NULL),
  count(*) FILTER (WHERE next_state = 'runnable' AND next_waker IS NULL)
FROM (
  SELECT state, end_ns, lead(state) OVER ordered AS next_state,
    lead(waker_kind) OVER ordered AS next_waker
  FROM thread_state WHERE thread_id = $1 WINDOW ordered AS (ORDER BY start_ns)
)
WHERE state = 'running' AND end_ns > $2 AND end_ns <= $3
"""


@pytest.fixture
def accounted(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> Callable[..., tuple[Path, list[dict[str, Any]]]]:
    def run(*kinds: str) -> tuple[Path, list[dict[str, Any]]]:
        trace = tmp_path / "trace.duckdb"
        trace.unlink(missing_ok=True)
        target = program(ACCOUNTED, *kinds)
        assert target.readline() == "ready"
        recorder = record(trace, f"--pid={target.pid}").live()
        keep_to_cpu(target.pid, max(os.sched_getaffinity(0)))
        target.go()
        reported: Any = json.loads(target.readline())
        assert recorder.wait() == 0
        assert_whole(recorder.words())
        assert_conserved(trace)
        return trace, reported

    return run


def test_23_sleeps_of_10_ms(
    tmp_path: Path,
    workload: Callable[..., Workload],
    record: Callable[..., Recorder],
    busy_cpu: Callable[[], int],
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=23", "--sleep-ms=10", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    keep_to_cpu(target.pid, busy_cpu())
    target.go()
    truth: Any = target.truth()
    assert recorder.wait() == 0
    sleeps = query(
        trace,
        "SELECT end_ns, end_ns - start_ns FROM thread_state"
        " WHERE state = 'sleeping' AND start_ns BETWEEN $1 AND $2 ORDER BY start_ns",
        [truth["start_ns"], truth["end_ns"]],
    )
    assert len(sleeps) == 23
    # The clock that a sleep is measured by starts in the program, so from wakeup to wakeup it is
    # 10 ms or more, always. The interval off the CPU is shorter by what passed between the two,
    # as a rule a few us, more if the program lost its CPU just there.
    wakeups = [truth["start_ns"], *[end_ns for end_ns, _ in sleeps]]
    assert all(after - before >= 10_000_000 for before, after in pairwise(wakeups))
    assert sum(duration_ns >= 9_900_000 for _, duration_ns in sleeps) >= 20
    assert sum(duration_ns for _, duration_ns in sleeps) <= truth["slept_ns"]
    woken = query(
        trace,
        "SELECT waker_kind, count(*) FROM thread_state WHERE waker_kind IS NOT NULL"
        " AND start_ns BETWEEN $1 AND $2 GROUP BY waker_kind",
        [truth["start_ns"], truth["end_ns"]],
    )
    assert woken == [("timer", 23)]
    assert_conserved(trace)


# A hypervisor may take the CPU away for a while: the OS kernel leaves that out of its account of a
# thread, and counts it in steps of a tick. What such a step can hide is measured again.
ATTEMPTS = 6


def test_running_time_is_the_kernels(accounted: Callable[..., Any]) -> None:
    for _ in range(ATTEMPTS):
        trace, reported = accounted("yielder", "yielder", "sleeper", "sleeper")
        assert len(reported) == 4
        if all(_is_the_kernels(trace, thread) for thread in reported):
            return
    pytest.fail(f"not within 1 % of the OS kernel's account, {ATTEMPTS} times")


def _is_the_kernels(trace: Path, thread: dict[str, Any]) -> bool:
    first, last = thread["first"], thread["last"]
    booked_ns = last["running_ns"] - first["running_ns"]
    stolen_ns = last["stolen_ns"] - first["stolen_ns"]
    traced_ns = state_ns(
        trace, thread["tid"], "running", start_ns=first["at_ns"], end_ns=last["at_ns"]
    )
    within = 0.01 * booked_ns
    assert booked_ns - within <= traced_ns <= booked_ns + within + stolen_ns + TICK_NS, thread
    return bool(traced_ns <= booked_ns + within + stolen_ns)


def test_switches_are_the_kernels(accounted: Callable[..., Any]) -> None:
    trace, reported = accounted("yielder", "yielder", "sleeper", "sleeper")
    for thread in reported:
        first, last, key = thread["first"], thread["last"], thread_id(trace, thread["tid"])
        # The counts were read between two looks at the clock: the window is not shorter than the
        # one, nor longer than the other.
        inner = query(trace, SWITCHES, [key, first["after_ns"], last["before_ns"]])[0]
        outer = query(trace, SWITCHES, [key, first["before_ns"], last["after_ns"]])[0]
        for name, least, most in zip(("voluntary", "involuntary"), inner, outer, strict=True):
            assert least <= last[name] - first[name] <= most, (thread["kind"], name)
        assert sum(inner) > 20
    migrations = query(
        trace,
        "SELECT max(migrations) FROM thread_switch JOIN thread USING (thread_id)"
        " WHERE tid = ANY($1)",
        [[thread["tid"] for thread in reported]],
    )
    assert migrations == [(0,)]


def test_two_spinners_share_a_cpu(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    targets = [workload("spinner", "--seconds=1", wait=True) for _ in range(2)]
    for target in targets:
        os.sched_setaffinity(target.pid, {min(os.sched_getaffinity(0))})
    pids = ",".join(str(target.pid) for target in targets)
    recorder = record(trace, "--pid", pids).live()
    for target in targets:
        target.go()
    spinners: Any = [target.truth()["threads"][0] for target in targets]
    assert recorder.wait() == 0
    assert "all targets have ended" in recorder.words()
    start_ns = max(spinner["start_ns"] for spinner in spinners)
    end_ns = min(spinner["start_ns"] + spinner["wall_ns"] for spinner in spinners)
    shares = []
    for spinner in spinners:
        times = thread_times(trace, spinner["tid"])
        # It never waits but for its CPU: what is left is its start, and the GIL of its process.
        known_ns = times["runnable_ns"] + times["running_ns"] + times["lost_ns"]
        assert known_ns >= 0.98 * times["lifetime_ns"]
        window = {"start_ns": start_ns, "end_ns": end_ns}
        shares.append(state_ns(trace, spinner["tid"], "running", **window))
    assert sum(shares) <= end_ns - start_ns
    # Others on this machine may take of that CPU, but from both alike.
    assert min(shares) >= 0.4 * sum(shares)
    migrations = query(trace, "SELECT DISTINCT migrations FROM thread_switch")
    assert migrations == [(0,)]
    assert_conserved(trace)
