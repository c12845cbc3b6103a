"""The same run counted by an independent tool: bpftrace."""

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from recording import DEADLINE_S, Recorder, assert_conserved, query, until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("bpftrace") is None, reason="bpftrace is not installed"),
]

# Of one process, until it ends: each time that one of its threads left a CPU, on the clock that
# counts suspends.
SWITCHES = """
BEGIN { printf("live\\n"); }
tracepoint:sched:sched_switch /pid == PID/ { printf("%d out %llu\\n", args->prev_pid, nsecs); }
tracepoint:sched:sched_process_exit /args->pid == PID/ { exit(); }
"""


@pytest.fixture
def bpftrace(tmp_path: Path) -> Iterator[Callable[[int], "subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []
    words = tmp_path / "switches"

    def start(pid: int) -> "subprocess.Popen[bytes]":
        program = SWITCHES.replace("PID", str(pid))
        with words.open("wb") as output:
            started.append(subprocess.Popen(["bpftrace", "-e", program], stdout=output))
        until(lambda: "live" in words.read_text(), what="bpftrace counts")
        return started[0]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_bpftrace_counts_the_same_switches(
    tmp_path: Path,
    workload: Callable[..., Workload],
    record: Callable[..., Recorder],
    bpftrace: Callable[[int], "subprocess.Popen[bytes]"],
) -> None:
    trace, switches = tmp_path / "trace.duckdb", tmp_path / "switches"
    # Waits before it begins and when it has told, so both tools see all of what is between.
    target = workload("threads", "--threads=6", "--sleeps=20", "--sleep-ms=2", wait=True, hold=True)
    counter = bpftrace(target.pid)
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    truth: Any = target.truth()
    # What Python joins is not yet gone for the OS kernel.
    proc = Path(f"/proc/{target.pid}")
    until(lambda: len(list((proc / "task").iterdir())) == 1, what="its threads have ended")
    until(lambda: (proc / "stat").read_text().rpartition(")")[2].split()[0] == "S", what="it waits")
    assert recorder.stop() == 0
    target.go()
    assert counter.wait(timeout=DEADLINE_S) == 0
    assert "Lost" not in switches.read_text()

    # Even so a thread may leave the CPU for good only after the recording has ended: it was taken
    # away just before. Then bpftrace, which ends later, has seen more.
    ((end_ns,),) = query(trace, "SELECT value::BIGINT FROM meta WHERE key = 'end_ns'")
    suspended_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    theirs = Counter(
        int(tid)
        for tid, ts_ns in re.findall(r"^(\d+) out (\d+)$", switches.read_text(), re.MULTILINE)
        if int(ts_ns) < end_ns + suspended_ns
    )
    # Each stay on a CPU begins with a switch to the thread and ends with one away from it.
    stays = query(
        trace,
        "SELECT t.tid, count(*) FROM thread_state AS s JOIN thread AS t USING (thread_id)"
        f" WHERE s.state = 'running' AND s.end_ns < {end_ns} GROUP BY t.tid",
    )
    assert all(count >= 20 for tid, count in stays if tid != target.pid)
    # A stay is also missing where the OS kernel hid its beginning (see keep_to_cpu), or skipped the
    # program at its end: then the trace says so.
    losses = dict(query(trace, "SELECT code, sum(count)::BIGINT FROM trace_stat GROUP BY ALL"))
    hidden = losses.get("switch_in_unseen", 0)
    skipped = losses.get("probe_runs_skipped", 0)
    missing = {tid: theirs[tid] - count for tid, count in stays}
    assert missing.keys() == {target.pid, *(worker["tid"] for worker in truth["threads"])}
    assert min(missing.values()) >= 0, missing
    assert hidden <= sum(missing.values()) <= hidden + skipped, (
        missing, losses, query(trace, "FROM meta WHERE key LIKE 'inferred%'")
    )  # fmt: skip
    assert_conserved(trace)
