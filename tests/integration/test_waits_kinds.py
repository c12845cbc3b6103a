"""What threads wait for: known kinds, counts and times; and which worker a main process awaits."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WORKLOADS, Workload
from native_recording import Launch, python_program
from recording import Recorder, assert_conserved, assert_whole, query
from rl_programs import require_modules

pytestmark = pytest.mark.root

TIMES = 20
# What the program calls it -> wait.kind. A poll of one pipe waits for that pipe.
KINDS = {
    "sleep": ("sleep",),
    "pipe": ("pipe",),
    "socketpair": ("socket",),
    "tcp": ("socket",),
    "poll": ("poll", "pipe"),
    # Whoever let go of it may still have the GIL.
    "lock": ("lock", "gil"),
    "mutex": ("lock", "gil"),
    "child": ("process",),
    "disk": ("io",),
}
# Each call of the program with what the thread did during it, by kind of wait.
SPANS = """
WITH span AS (
  SELECT unnest($1::BIGINT[]) AS begin_ns, unnest($2::BIGINT[]) AS end_ns
)
SELECT s.begin_ns, s.end_ns, w.kind, count(*)::BIGINT,
  sum(least(w.end_ns, s.end_ns) - greatest(w.start_ns, s.begin_ns))::BIGINT
FROM span AS s JOIN wait AS w ON w.start_ns < s.end_ns AND w.end_ns > s.begin_ns
JOIN thread AS t ON t.thread_id = w.thread_id
WHERE t.tid = $3 GROUP BY ALL
"""
OFF_CPU = """
WITH span AS (
  SELECT unnest($1::BIGINT[]) AS begin_ns, unnest($2::BIGINT[]) AS end_ns
)
SELECT coalesce(sum(least(x.end_ns, s.end_ns) - greatest(x.start_ns, s.begin_ns)), 0)::BIGINT
FROM span AS s JOIN thread_state AS x ON x.start_ns < s.end_ns AND x.end_ns > s.begin_ns
JOIN thread AS t ON t.thread_id = x.thread_id
WHERE t.tid = $3 AND x.state IN ('sleeping', 'blocked')
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the truth of wait_kinds.py, and the trace of it."""
    folder = tmp_path_factory.mktemp("waits")
    trace = folder / "trace.duckdb"
    command = [sys.executable, str(WORKLOADS / "wait_kinds.py"), "--wait"]
    target = Workload([*command, f"--times={TIMES}", f"--directory={folder}"])
    recorder = None
    try:
        assert target.readline() == f"ready {target.pid}"
        recorder = Recorder(trace, f"--pid={target.pid}").live()
        target.go()
        truth: dict[str, Any] = target.truth(deadline_s=120)
        assert recorder.wait() == 0, recorder.words()
    finally:
        target.close()
        if recorder is not None:
            recorder.close()
    assert_whole(recorder.words())
    assert_conserved(trace)
    return {"trace": trace, **truth}


def spans_of(recorded: dict[str, Any], kind: str) -> list[list[int]]:
    spans: list[list[int]] = recorded["kinds"][kind]["waits"]
    assert len(spans) == TIMES
    return spans


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "disk"])
def test_each_wait_is_of_its_kind(recorded: dict[str, Any], kind: str) -> None:
    begins, ends = zip(*spans_of(recorded, kind), strict=True)
    given = [list(begins), list(ends), recorded["pid"]]
    rows = query(recorded["trace"], SPANS, given)
    assert {row[2] for row in rows} <= set(KINDS[kind])
    # One wait per call; a call without any found its answer there already, one with two was
    # woken in between: the delay of 5 ms makes both rare.
    single = sum(row[2] != "gil" and row[3] == 1 for row in rows)
    assert TIMES - 4 <= single <= TIMES
    # And all that the thread slept is explained, to the nanosecond.
    assert query(recorded["trace"], OFF_CPU, given) == [(sum(row[4] for row in rows),)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "disk"])
def test_the_waits_take_as_long_as_the_calls(recorded: dict[str, Any], kind: str) -> None:
    spans = spans_of(recorded, kind)
    true_ns = sum(end - begin for begin, end in spans)
    begins, ends = zip(*spans, strict=True)
    given = [list(begins), list(ends), recorded["pid"]]
    waited_ns = sum(row[4] for row in query(recorded["trace"], SPANS, given))
    on_way = OFF_CPU.replace("'sleeping', 'blocked'", "'running', 'runnable'")
    ((running_ns,),) = query(recorded["trace"], on_way, given)
    assert waited_ns + running_ns == pytest.approx(true_ns, rel=0.01)
    assert waited_ns >= 0.5 * true_ns


@pytest.mark.parametrize("kind", ["lock", "mutex"])
def test_a_mutex_of_the_c_library_is_told_from_what_may_be_a_signal(
    recorded: dict[str, Any], kind: str
) -> None:
    begins, ends = zip(*spans_of(recorded, kind), strict=True)
    found = query(
        recorded["trace"],
        "SELECT w.is_mutex, count(DISTINCT w.lock_address) FROM wait AS w"
        " JOIN thread AS t ON t.thread_id = w.thread_id"
        " JOIN (SELECT unnest($1::BIGINT[]) AS begin_ns, unnest($2::BIGINT[]) AS end_ns) AS s"
        "   ON w.start_ns < s.end_ns AND w.end_ns > s.begin_ns"
        " WHERE t.tid = $3 AND w.kind = 'lock' GROUP BY ALL",
        [list(begins), list(ends), recorded["pid"]],
    )
    if kind == "mutex":
        # It is one and the same.
        assert found == [(True, 1)]
    else:
        assert [row[0] for row in found] == [False]


def test_waits_for_a_disk(recorded: dict[str, Any]) -> None:
    """How often fsync waits is the OS kernel's affair, and a disk in memory makes it never wait."""
    begins, ends = zip(*spans_of(recorded, "disk"), strict=True)
    given = [list(begins), list(ends), recorded["pid"]]
    ((off_cpu_ns,),) = query(recorded["trace"], OFF_CPU, given)
    if off_cpu_ns == 0:
        pytest.skip("this file system does not wait for a disk")
    rows = query(recorded["trace"], SPANS, given)
    by_kind: dict[str, int] = {}
    for row in rows:
        by_kind[row[2]] = by_kind.get(row[2], 0) + row[4]
    assert by_kind.get("io", 0) >= 0.95 * off_cpu_ns, by_kind


# Which process ended the waits of a thread for a pipe or a socket.
ENDED_BY = """
SELECT waker_process.pid, count(*), sum(w.end_ns - w.start_ns)::BIGINT
FROM wait AS w JOIN thread AS t ON t.thread_id = w.thread_id
JOIN thread_state AS s ON s.thread_id = w.thread_id AND s.start_ns = w.end_ns
LEFT JOIN thread AS waker ON waker.thread_id = s.waker_thread_id
LEFT JOIN process AS waker_process ON waker_process.process_id = waker.process_id
WHERE t.tid = $1 AND w.kind IN ('pipe', 'socket') AND w.start_ns BETWEEN $2 AND $3
GROUP BY 1
"""


@pytest.mark.parametrize("kind", ["pipe", "socketpair"])
def test_the_peer_is_the_child_that_answers(recorded: dict[str, Any], kind: str) -> None:
    window = recorded["kinds"][kind]
    rows = query(
        recorded["trace"], ENDED_BY, [recorded["pid"], window["start_ns"], window["end_ns"]]
    )
    assert {row[0] for row in rows} == {recorded["responder"]}
    assert sum(row[1] for row in rows) >= TIMES - 4


@pytest.mark.slow
def test_a_main_process_waits_for_its_slow_worker(tmp_path: Path, launch: Launch) -> None:
    require_modules("stable_baselines3")
    trace = tmp_path / "trace.duckdb"
    program = launch(trace, python_program("subproc_waits", "--wait")).ready()
    truth = program.finished()
    rows = query(trace, ENDED_BY, [truth["pid"], truth["start_ns"], truth["end_ns"]])
    by_pid = {pid: waited_ns for pid, _, waited_ns in rows}
    workers = truth["workers"]
    assert set(by_pid) <= {worker["pid"] for worker in workers}
    whole_ns = truth["end_ns"] - truth["start_ns"]
    for worker in workers:
        # The clock of the program also counts the time to a free CPU, and reading the answer.
        off_ns = worker["waited_ns"] - by_pid.get(worker["pid"], 0)
        assert -0.01 * whole_ns <= off_ns, worker
    # It was slow by more than all the others together, so most of the waiting was for it.
    assert max(by_pid, key=lambda pid: by_pid[pid]) == workers[3]["pid"]


def test_what_was_not_measured_is_said(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    """Without BTF there are no reasons: no wait, and a row that says why."""
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=5", wait=True)
    recorder = record(trace, f"--pid={target.pid}", "--capture=tracefs").live()
    target.go()
    assert recorder.wait() == 0
    assert query(trace, "SELECT count(*) FROM wait") == [(0,)]
    rows = query(trace, "SELECT kind, measured FROM coverage WHERE code IS NOT NULL")
    assert ("wait", False) in rows
    assert ("native_call", False) in rows or ("native_call:simulator", False) in rows
    assert ("cpu_sample", False) in rows
