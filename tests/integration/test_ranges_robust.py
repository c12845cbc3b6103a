"""NVTX ranges where it is hard: many at once, killed processes, sandboxes, other tools."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from conftest import Workload, in_matrix
from nvtx_client import compiled
from recording import Recorder, assert_conserved, meta, query, rlscope, until
from rlscope_trace.spool.directory import RECORD_KINDS

pytestmark = pytest.mark.root

NOBODY = 65534
PYTHON_RANGES = """
import sys, nvtx
nvtx.mark("begins")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[1])):
    nvtx.push_range("ours")
    nvtx.pop_range()
print("done", flush=True)
sys.stdin.readline()
"""


def traced(trace: Path, *command: str | Path, code: int = 0) -> str:
    """Trace a program that marks its own operations; return its output."""
    done = rlscope("-o", trace, "--no-auto", "--", *command)
    assert done.returncode == code, done.stderr
    return done.stdout


def ranges(trace: Path, name: str) -> int:
    ((count,),) = query(trace, "SELECT count(*) FROM operation WHERE name = ?", [name])
    return int(count)


def lost(trace: Path, source: str) -> int:
    """Return how many the trace says were lost so."""
    rows = query(trace, "SELECT count FROM trace_stat WHERE code = ?", [source])
    return int(rows[0][0]) if rows else 0


def operation_capture(trace: Path) -> list[tuple[object, ...]]:
    return query(
        trace,
        "SELECT measured, code FROM coverage WHERE kind = 'operation' ORDER BY process_id"
        " NULLS FIRST",
    )


def test_a_million_ranges_from_eight_threads(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, client, "storm", "8", "125000")
    stored = ranges(trace, "storm")
    assert stored > 0
    assert stored + lost(trace, "operation_ring_full") == 1_000_000
    # Of those that lack some, the time is known in which they were.
    threads = query(
        trace,
        "SELECT o.thread_id, count(*), o.thread_id IN (SELECT thread_id FROM operation_gap)"
        " FROM operation AS o WHERE o.name = 'storm' GROUP BY ALL",
    )
    assert [has_gap for *_, has_gap in threads] == [count < 125_000 for _, count, _ in threads]
    assert_conserved(trace)
    assert query(trace, "SELECT coalesce(sum(duration_ns), 0) FROM operation_gap") == query(
        trace, "SELECT coalesce(sum(time_ns), 0) FROM breakdown WHERE operation = '(lost)'"
    )


def test_rings_that_go_around_many_times(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, client, "steady", "400000")
    stored = ranges(trace, "steady")
    # More than any ring holds: 32,768.
    assert stored > 100_000
    assert stored + lost(trace, "operation_ring_full") == 400_000
    assert query(
        trace,
        "SELECT count(*) FROM (SELECT start_ns, lag(end_ns) OVER (ORDER BY start_ns) AS before_ns"
        " FROM operation) WHERE start_ns < before_ns",
    ) == [(0,)]


def test_threads_that_come_and_go(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, client, "threads", "1000")
    assert query(
        trace, "SELECT count(*), count(DISTINCT thread_id) FROM operation WHERE name = 'storm'"
    ) == [(1000, 1000)]


def test_two_hundred_forked_workers(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, client, "forks", "200", "50")
    assert (
        query(
            trace,
            "SELECT t.process_id, count(*) FROM operation JOIN thread AS t USING (thread_id)"
            " WHERE operation.name = 'storm' GROUP BY 1 HAVING count(*) <> 50",
        )
        == []
    )
    assert ranges(trace, "storm") == 200 * 50
    assert (ranges(trace, "child"), ranges(trace, "parent")) == (200, 1)


def test_processes_killed_at_random_moments(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = json.loads(traced(trace, client, "kills", "100"))
    found = dict(
        query(
            trace,
            "SELECT pid, count(*) FROM operation WHERE name = 'until killed' GROUP BY 1",
        )
    )
    assert len(truth["children"]) == 100
    assert sum(done for _, done in truth["children"]) > 0
    for pid, done in truth["children"]:
        # One may have been under way: begun, or ended but not yet counted.
        assert done <= found.get(pid, 0) <= done + 1


def test_an_exec_begins_anew(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, client, "exec")
    assert query(
        trace, "SELECT name, depth, count(*) FROM operation GROUP BY ALL ORDER BY 1, 2"
    ) == [("before exec", 0, 1), ("storm", 0, 10), ("storm", 1, 3)]
    # The new program marks on a second thread.
    assert query(trace, "SELECT count(DISTINCT thread_id) FROM operation") == [(2,)]


def test_a_seccomp_filter_that_kills_finds_nothing_to_kill(tmp_path: Path, client: Path) -> None:
    before, after = tmp_path / "before.duckdb", tmp_path / "after.duckdb"
    truth = json.loads(traced(before, client, "filter", "before"))
    assert truth == {"child_status": 0}
    assert query(before, "SELECT count(*) FROM operation") == [(0,)]
    # Where the shim was there before the filter it works on: after that it makes no system call.
    truth = json.loads(traced(after, client, "filter", "after"))
    assert truth == {"child_status": 0}
    assert ranges(after, "storm") == 11
    assert query(
        after, "SELECT kind, count FROM trace_stat WHERE code = 'fork_without_memory'"
    ) == [("dropped", None)]


def test_a_limit_on_files_kills_nobody_and_is_told(tmp_path: Path) -> None:
    trace, words = tmp_path / "trace.duckdb", tmp_path / "words"
    limited = f"ulimit -f 1; exec {sys.executable} -c '{PYTHON_RANGES}' 10"
    with words.open("wb") as stderr:
        recorder = subprocess.Popen(
            [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-auto",
             "--progress", "always", "--", "bash", "-c", limited],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip

    def recorded_s() -> float:
        return max(map(float, re.findall(r"recording ([0-9.]+) s", words.read_text())), default=0)

    assert recorder.stdout is not None
    assert recorder.stdout.readline() == "ready\n"
    let_mark(recorder)
    # The recorder looks for such processes every five seconds, by its own clock.
    marked_s = recorded_s()
    until(lambda: recorded_s() > marked_s + 5.5, what="the recorder has looked at the process")
    recorder.communicate(timeout=60)
    assert recorder.returncode == 0, words.read_text()
    assert query(trace, "SELECT count(*) FROM operation") == [(0,)]
    assert operation_capture(trace)[-1] == (False, "shim_without_memory")


def test_a_target_that_may_write_nowhere(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    program = "import nvtx, os\nos.chdir('/proc')\nassert not os.access('.', os.W_OK)\n"
    program += "nvtx.push_range('poor')\nnvtx.pop_range()"
    # The right to read lets it find Python and the shim wherever they are.
    traced(
        trace, "setpriv", f"--reuid={NOBODY}", "--clear-groups", "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search", sys.executable, "-c", program,
    )  # fmt: skip
    assert ranges(trace, "poor") == 1


@pytest.mark.parametrize(
    "namespaces", ["--net", "--pid --fork --mount-proc", *in_matrix("--mount", "--ipc")]
)
def test_namespaces_of_its_own(tmp_path: Path, namespaces: str) -> None:
    trace = tmp_path / "trace.duckdb"
    program = (
        "import nvtx, sys\nfor _ in range(100):\n nvtx.push_range('apart')\n nvtx.pop_range()\n"
    )
    # It stays until it was found: in another network namespace it cannot announce itself.
    program += "import time\ntime.sleep(float(sys.argv[1]))"
    stay = "3" if namespaces == "--net" else "0.2"
    traced(trace, "unshare", *namespaces.split(), sys.executable, "-c", program, stay)
    assert ranges(trace, "apart") == 100


def test_another_tool_in_the_environment_stays(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    program = "import os; print(os.environ['NVTX_INJECTION64_PATH'])"
    done = rlscope(
        "-o", trace, "--", sys.executable, "-c", program,
        prefix=["env", "NVTX_INJECTION64_PATH=/opt/other/libtool.so"],
    )  # fmt: skip
    assert done.stdout.strip() == "/opt/other/libtool.so"
    assert "operations are not recorded: another tool listens to NVTX" in done.stderr
    assert "unset it" in done.stderr
    assert operation_capture(trace)[0][0] is False
    summary = rlscope("summarize", trace, "--all")
    assert "another tool listens to NVTX" in summary.stdout


def test_a_static_program_is_told_of(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    static = compiled(tmp_path / "static", "-static")
    done = rlscope("-o", trace, "--", static, "storm", "1", "10")
    assert done.returncode == 0, done.stderr
    assert "static is statically linked" in done.stderr
    assert operation_capture(trace) == [(False, "program_static")]


def ready_to_mark(
    trace: Path, count: str, stderr: IO[str] | int = subprocess.DEVNULL
) -> "subprocess.Popen[str]":
    """Return a recorder whose program waits for a line to mark so many ranges."""
    recorder = subprocess.Popen(
        [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-auto", "--",
         sys.executable, "-c", PYTHON_RANGES, count],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
    )  # fmt: skip
    assert recorder.stdout is not None
    assert recorder.stdout.readline() == "ready\n"
    return recorder


def let_mark(recorder: "subprocess.Popen[str]") -> None:
    """Let the program mark its ranges; return when it has."""
    assert recorder.stdin is not None
    assert recorder.stdout is not None
    recorder.stdin.write("\n")
    recorder.stdin.flush()
    assert recorder.stdout.readline() == "done\n"


def test_a_killed_recorder_loses_nothing_that_was_drained(
    tmp_path: Path,
) -> None:
    trace = tmp_path / "trace.duckdb"
    recorder = ready_to_mark(trace, "1000")
    let_mark(recorder)
    spool = tmp_path / "trace.duckdb.spool"
    done_ns = time.monotonic_ns()
    until(lambda: (spool / "shim.bin").stat().st_size > 64 * 1000, what="the ranges are spooled")
    until(lambda: drained_ns(spool) > done_ns, what="the thread states are spooled")
    recorder.kill()
    recorder.communicate()
    done = rlscope("recover", spool)
    assert done.returncode == 0, done.stderr
    assert ranges(trace, "ours") == 1000
    assert meta(trace)["recovered"] == "true"


def drained_ns(spool: Path) -> int:
    """Return when the ring of the OS kernel was last emptied: see SpoolProgress."""
    at = 16 + 8 * len(RECORD_KINDS) + 8
    return int.from_bytes((spool / "progress.bin").read_bytes()[at : at + 8], "little")


def test_a_second_recorder_takes_over(tmp_path: Path, record: Callable[..., Recorder]) -> None:
    """A program that was launched under a recorder, which stopped, is attached to again."""
    first, second = tmp_path / "first.duckdb", tmp_path / "second.duckdb"
    recorder = ready_to_mark(first, "500")
    (pid,) = children_of(recorder.pid)
    recorder.kill()
    recorder.wait()
    again = record(second, f"--pid={pid}").live()
    let_mark(recorder)
    recorder.communicate()
    assert again.wait() == 0
    assert ranges(second, "ours") == 500
    assert "operations are not recorded" not in again.words()


def test_operations_that_are_dropped_are_told_of_at_once(tmp_path: Path) -> None:
    trace, words = tmp_path / "trace.duckdb", tmp_path / "words"
    with words.open("w") as stderr:
        # More than a ring holds: 32,768.
        recorder = ready_to_mark(trace, "100000", stderr)
    # It cannot read meanwhile.
    os.kill(recorder.pid, signal.SIGSTOP)
    let_mark(recorder)
    assert "dropped" not in words.read_text()
    os.kill(recorder.pid, signal.SIGCONT)
    # While the program goes on: it waits for a line.
    until(lambda: "warning: operations are dropped" in words.read_text(), what="a warning")
    recorder.communicate("\n")
    assert recorder.returncode == 0
    assert ranges(trace, "ours") + lost(trace, "operation_ring_full") == 100_000


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_attaching_without_the_shim_says_so(
    tmp_path: Path, record: Callable[..., Recorder], program: Callable[..., Workload]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = program(PYTHON_RANGES, "10")
    assert target.readline() == "ready"
    recorder = record(trace, f"--pid={target.pid}").live()
    recorder.wait_to_say("operations are not recorded")
    assert recorder.stop() == 0
    assert operation_capture(trace)[0][0] is False
    assert "operation" in rlscope("summarize", trace, "--all").stdout
    os.kill(target.pid, signal.SIGTERM)
