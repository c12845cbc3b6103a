"""Waits for the GIL against a clock in the waiting threads, on every version of CPython.

The clock of the program runs from wanting the GIL to having it: that is the wait, and then the time
until a CPU was free for the thread that had been woken.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WORKLOADS, Workload
from native_programs import VERSIONS, build_library, python_of, system_python
from native_recording import events
from recording import Recorder, assert_conserved, assert_whole, query, until

pytestmark = [pytest.mark.root, pytest.mark.slow]

# How long a thread was in a state or a wait, inside the given spans.
INSIDE = """
WITH span AS (SELECT unnest($1::BIGINT[]) AS begin_ns, unnest($2::BIGINT[]) AS end_ns)
SELECT coalesce(sum(least(x.end_ns, s.end_ns) - greatest(x.start_ns, s.begin_ns)), 0)::BIGINT
FROM {table} AS x JOIN thread AS t ON t.thread_id = x.thread_id
JOIN span AS s ON x.start_ns < s.end_ns AND x.end_ns > s.begin_ns
WHERE t.tid = $3 AND x.{column} = $4
"""


def inside_ns(trace: Path, spans: list[list[int]], tid: int, table: str, value: str) -> int:
    """Return how long a thread was in a wait (`wait`) or a state (`thread_state`) within spans."""
    column = "kind" if table == "wait" else "state"
    sql = INSIDE.format(table=table, column=column)
    begins, ends = zip(*spans, strict=True) if spans else ((), ())
    ((found,),) = query(trace, sql, [list(begins), list(ends), tid, value])
    return int(found)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library("gil_holder", tmp_path_factory.mktemp("library"))


@pytest.fixture
def queue(
    tmp_path: Path, library: Path, record: Callable[..., Recorder]
) -> Callable[..., tuple[Path, dict[str, Any]]]:
    """Return `queue(python, "--waiters=3")`: the trace and the truth of gil_queue.py."""

    def run(python: str, *arguments: str) -> tuple[Path, dict[str, Any]]:
        trace = tmp_path / "trace.duckdb"
        program = str(WORKLOADS / "gil_queue.py")
        target = Workload([python, program, "--wait", f"--library={library}", *arguments])
        try:
            assert target.readline() == f"ready {target.pid}"
            recorder = record(trace, f"--pid={target.pid}").live()
            target.go()
            truth: dict[str, Any] = target.truth(deadline_s=120)
            assert recorder.wait() == 0, recorder.words()
        finally:
            target.close()
        assert_whole(recorder.words())
        assert_conserved(trace)
        return trace, truth

    return run


def check_waits(trace: Path, truth: dict[str, Any], least_ns: float) -> None:
    """Hold the waits of each waiter to its own clock; `least_ns`: the least of all true ones."""
    waiters = [thread for thread in truth["threads"] if thread["name"].startswith("waiter")]
    for thread in waiters:
        tid, spans = thread["tid"], thread["waits"]
        true_ns = sum(end - begin for begin, end in spans)
        assert true_ns >= least_ns, "the threads did not contend"
        waited_ns = inside_ns(trace, spans, tid, "wait", "gil")
        runnable_ns = inside_ns(trace, spans, tid, "thread_state", "runnable")
        assert waited_ns + runnable_ns == pytest.approx(true_ns, rel=0.05), thread["name"]
        # Not more either: what is called a wait for the GIL lies in one.
        window = [[thread["since_ns"], thread["until_ns"]]]
        assert inside_ns(trace, window, tid, "wait", "gil") <= 1.05 * thread["waited_ns"]
        for other in ("lock", "io", "pipe", "socket", "sleep", "poll", "process"):
            assert inside_ns(trace, spans, tid, "wait", other) == 0, other


@pytest.mark.parametrize("version", VERSIONS)
def test_waits_are_what_the_waiter_measured(
    version: str, queue: Callable[..., tuple[Path, dict[str, Any]]]
) -> None:
    trace, truth = queue(python_of(version))
    # 20 holds of 20 ms each: while one lasts the other thread does nothing but wait.
    check_waits(trace, truth, 0.8 * 400e6)


def test_three_waiters_on_the_systems_python(
    queue: Callable[..., tuple[Path, dict[str, Any]]],
) -> None:
    trace, truth = queue(system_python(), "--waiters=3")
    check_waits(trace, truth, 0.8 * 400e6)


def test_a_lock_is_no_wait_for_the_gil(
    queue: Callable[..., tuple[Path, dict[str, Any]]],
) -> None:
    trace, truth = queue(system_python(), "--lock")
    (waiter,) = (
        tid
        for (tid,) in query(trace, "SELECT tid FROM thread")
        if tid not in {thread["tid"] for thread in truth["threads"]} and tid != truth["pid"]
    )
    window = [[truth["start_ns"], truth["end_ns"]]]
    locked_ns = inside_ns(trace, window, waiter, "wait", "lock")
    # The program's clock holds the waits for a CPU too, before the lock and after it.
    queued_ns = inside_ns(trace, window, waiter, "thread_state", "runnable")
    assert 0.95 * truth["lock_ns"] - queued_ns <= locked_ns <= 1.05 * truth["lock_ns"]
    assert inside_ns(trace, window, waiter, "wait", "gil") <= 0.05 * truth["lock_ns"]


def test_nobody_waits_without_contention(
    queue: Callable[..., tuple[Path, dict[str, Any]]],
) -> None:
    trace, truth = queue(system_python(), "--waiters=0")
    (holder,) = truth["threads"]
    window = [[holder["since_ns"], holder["until_ns"]]]
    # The main thread may have to wait for a CPU while it has the GIL, before it joins the other.
    queued_ns = inside_ns(trace, window, truth["pid"], "thread_state", "runnable")
    waited_ns = inside_ns(trace, window, holder["tid"], "wait", "gil")
    assert waited_ns <= 0.01 * 400e6 + queued_ns
    # Measured, and found to be none: that is no empty answer.
    assert query(trace, "SELECT measured FROM coverage WHERE kind = 'wait'") == [(True,)]


def test_windows_without_the_gil(
    tmp_path: Path, library: Path, record: Callable[..., Recorder]
) -> None:
    """--gil full: the holder gives the GIL away for each pause, and so long."""
    trace = tmp_path / "trace.duckdb"
    program = str(WORKLOADS / "gil_queue.py")
    target = Workload([system_python(), program, "--wait", f"--library={library}"])
    try:
        assert target.readline() == f"ready {target.pid}"
        recorder = record(trace, f"--pid={target.pid}", "--gil=full").live()
        until(lambda: events(recorder.spool, "gil"), what="the interpreter is probed")
        target.go()
        truth: dict[str, Any] = target.truth(deadline_s=120)
        assert recorder.wait() == 0, recorder.words()
    finally:
        target.close()
    for thread in truth["threads"]:
        ((count,),) = query(
            trace,
            "SELECT count(*) FROM gil_release AS g JOIN thread AS t USING (thread_id)"
            " WHERE t.tid = ? AND g.start_ns BETWEEN ? AND ?",
            [thread["tid"], thread["since_ns"], thread["until_ns"]],
        )
        assert count == thread["wants"], thread["name"]


SHORT = """
import threading, time
end = time.monotonic() + 0.4
def count():
    while time.monotonic() < end: pass
threads = [threading.Thread(target=count) for _ in range(2)]
for one in threads: one.start()
for one in threads: one.join()
"""


def test_a_short_program_that_a_shell_becomes(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    """The shell is left alone for longer and longer, as nothing changes in it; then it execs."""
    trace, script = tmp_path / "trace.duckdb", tmp_path / "short.py"
    script.write_text(SHORT)
    shell = f"sleep 1.3; exec {sys.executable} {script}"
    recorder = record(trace, "--no-calibrate", "--", "sh", "-c", shell)
    assert recorder.wait() == 0, recorder.words()
    ((waits, locked),) = query(
        trace,
        "SELECT count(*) FILTER (kind = 'gil'), count(*) FILTER (kind = 'lock') FROM wait"
        " WHERE process_id = 1",
    )
    # Each has it for 5 ms. The threads are waited for by locks.
    assert waits >= 20
    assert locked < waits
