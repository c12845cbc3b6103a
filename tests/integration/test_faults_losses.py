"""A ring that is too small for what happens: every lost record is counted, told and remedied."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from recording import Recorder, assert_conserved, assert_whole, query, rlscope, until

pytestmark = pytest.mark.root

# Two processes that hand one CPU to each other, N times each; each tells the OS kernel's count of
# how often it left the CPU, just before its end.
COUNTED_YIELDERS = """
import json, os, sys
yields = int(sys.argv[1])
def switches():
    lines = open("/proc/self/status").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
reads, writes = os.pipe()
print("ready", flush=True)
sys.stdin.readline()
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
for _ in range(2):
    if os.fork() == 0:
        for _ in range(yields):
            os.sched_yield()
        os.write(writes, f"{os.getpid()} {switches()}\\n".encode())
        os._exit(0)
os.close(writes)
for _ in range(2):
    os.wait()
told = dict(map(int, line.split()) for line in os.fdopen(reads))
print(json.dumps({str(pid): count for pid, count in told.items()}), flush=True)
"""
RING_RECORDS = (1 << 20) // 56


def lossy(
    target: Workload, trace: Path, record: Callable[..., Recorder], *options: str
) -> Recorder:
    """Record a target with a ring of 1 MiB and a recorder that stands still until it is done."""
    assert target.readline() == "ready"
    recorder = record(trace, "--ring-mib=1", *options, f"--pid={target.pid}").live()
    recorder.signal(signal.SIGSTOP)
    until(
        lambda: Path(f"/proc/{recorder.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T",
        what="the recorder stands still",
    )
    target.go()
    return recorder


def test_losses_are_counted_and_told(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = program(COUNTED_YIELDERS, "100000")
    recorder = lossy(target, trace, record, "--strict")
    reported: dict[str, int] = json.loads(target.readline(deadline_s=60))
    recorder.signal(signal.SIGCONT)
    assert recorder.wait() == 3
    warnings = re.findall(
        r"warning: ([\d,]+) dropped: ring cpu (\d+) cycle\nhint: (.*)", recorder.words()
    )
    assert warnings
    assert {remedy for *_, remedy in warnings} == {"--ring-mib 2"}
    assert "nothing lost" not in recorder.words()

    stats = query(
        trace,
        "SELECT cpu, count, first_ns FROM trace_stat WHERE code = 'ring_full' AND record = 'cycle'",
    )
    assert [(int(cpu), int(count.replace(",", ""))) for count, cpu, _ in warnings] \
        == [(cpu, count) for cpu, count, _ in stats]  # fmt: skip
    ((start_ns, end_ns),) = query(trace, "SELECT min(start_ns), max(end_ns) FROM thread")
    assert all(start_ns < first_ns < end_ns for _, _, first_ns in stats)

    # Each switch of the two is in the trace or among the lost. Beyond what they counted there are
    # their ends and the few switches of their parent.
    lost = sum(count for _, count, _ in stats)
    (kept,) = query(
        trace,
        "SELECT count(*) FROM thread_state AS s JOIN thread AS t USING (thread_id)"
        " WHERE s.state = 'running' AND t.tid = ANY($1)",
        [[int(pid) for pid in reported]],
    )[0]
    assert 0 <= lost + kept - sum(reported.values()) <= 200
    assert kept >= 0.8 * RING_RECORDS
    assert_conserved(trace)
    assert query(trace, "SELECT count(*) FROM thread WHERE lost_ns > 0") >= [(1,)]


def test_the_summary_tells_losses_and_their_remedy(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = program(COUNTED_YIELDERS, "50000")
    recorder = lossy(target, trace, record)
    assert target.readline(deadline_s=60)
    recorder.signal(signal.SIGCONT)
    # Without --strict a trace with losses is a trace that was saved.
    assert recorder.wait() == 0
    table = rlscope("summarize", trace, "--all")
    assert table.returncode == 0
    assert re.search(r"losses +dropped: [\d,]+ records, ring cpu \d+ cycle\n", table.stdout)
    assert "hint: --ring-mib 2\n" in table.stdout
    assert "nothing lost" not in table.stdout
    assert "threads that lack part of their states" in table.stdout
    document: dict[str, Any] = json.loads(rlscope("summarize", trace, "--format=json").stdout)
    losses = [loss for loss in document["losses"] if loss["kind"] == "dropped"]
    assert all(loss["remedy"] == "--ring-mib 2" for loss in losses)
    assert sum(loss["count"] for loss in losses) > 0
    for thread in [thread for process in document["processes"] for thread in process["threads"]]:
        times = dict(thread["times"])
        lifetime_ns = times.pop("lifetime_ns")
        assert sum(times.values()) == lifetime_ns


def test_strict_without_losses(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "trace.duckdb", "--strict", "--", "true")
    assert_whole(done.stderr)
    # A switch that the OS kernel hid is a loss too.
    assert done.returncode == (0 if "nothing lost" in done.stderr else 3)


def test_strict_leaves_a_failing_programs_code(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "trace.duckdb", "--strict", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7


@pytest.mark.parametrize("size", ["0", "3", "2048", "-1"])
def test_a_ring_of_a_size_that_cannot_be(tmp_path: Path, size: str) -> None:
    done = rlscope("-o", tmp_path / "trace.duckdb", f"--ring-mib={size}", "--", "true")
    assert done.returncode == 2
    assert f"error: --ring-mib {size} is not a power of two from 1 to 1024" in done.stderr
    assert "hint: --ring-mib 64" in done.stderr
    assert list(tmp_path.iterdir()) == []
