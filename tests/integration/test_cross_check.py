"""The same run counted by an independent tool: bpftrace."""

import re
import shutil
import signal
import subprocess
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

SWITCH_COUNTS = """
BEGIN { printf("live\\n"); }
tracepoint:sched:sched_switch { @out[args->prev_pid] = count(); @in[args->next_pid] = count(); }
"""


@pytest.fixture
def bpftrace(tmp_path: Path) -> Iterator[Callable[[], "subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []
    counts = tmp_path / "counts"

    def start() -> "subprocess.Popen[bytes]":
        with counts.open("wb") as output:
            started.append(subprocess.Popen(["bpftrace", "-e", SWITCH_COUNTS], stdout=output))
        until(lambda: "live" in counts.read_text(), what="bpftrace counts")
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
    bpftrace: Callable[[], "subprocess.Popen[bytes]"],
) -> None:
    trace, counts = tmp_path / "trace.duckdb", tmp_path / "counts"
    # Waits before it begins and when it has told, so both tools see all of what is between.
    target = workload("threads", "--threads=6", "--sleeps=20", "--sleep-ms=2", wait=True, hold=True)
    counter = bpftrace()
    recorder = record(trace, f"--pid={target.pid}").live()
    target.go()
    truth: Any = target.truth()
    stat = Path(f"/proc/{target.pid}/stat")
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", what="it waits again")
    assert recorder.stop() == 0
    counter.send_signal(signal.SIGINT)
    assert counter.wait(timeout=DEADLINE_S) == 0

    theirs = {
        (way, int(tid)): int(count)
        for way, tid, count in re.findall(r"@(out|in)\[(\d+)\]: (\d+)", counts.read_text())
    }
    tids = [target.pid, *[worker["tid"] for worker in truth["threads"]]]
    # Each stay on a CPU begins with a switch to the thread and ends with one away from it.
    stays = query(
        trace,
        "SELECT t.tid, count(*) FROM thread_state AS s JOIN thread AS t USING (thread_id)"
        " WHERE s.state = 'running' GROUP BY t.tid",
    )
    assert all(count >= 20 for tid, count in stays if tid != target.pid)
    # A stay is also missing where the OS kernel hid its beginning (see keep_to_cpu), or skipped the
    # program at its end: then the trace says so.
    losses = dict(query(trace, "SELECT source, sum(count)::BIGINT FROM trace_stat GROUP BY ALL"))
    hidden = losses.get("switch-ins not seen, see thread.lost_ns", 0)
    skipped = losses.get("probe runs that the OS kernel skipped", 0)
    missing = {tid: theirs["out", tid] - count for tid, count in stays}
    assert missing.keys() == set(tids)
    assert min(missing.values()) >= 0
    assert hidden <= sum(missing.values()) <= hidden + skipped, (
        missing, losses, query(trace, "FROM meta WHERE key LIKE 'inferred%'")
    )  # fmt: skip
    assert_conserved(trace)
