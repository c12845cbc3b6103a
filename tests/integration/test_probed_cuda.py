"""CUDA calls of running programs, by probes: every call once, its time, and what is said of it."""

import re
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from native_harness import code_differs
from native_recording import events
from probed_cuda import (
    DRIVER,
    build_libraries,
    build_linked_in,
    build_program,
    expected,
    tell,
    work,
)
from recording import Recorder, assert_conserved, assert_whole, query, until
from said import said

pytestmark = pytest.mark.root

# Of each library: the functions that are worth a probe.
FUNCTIONS = len(DRIVER)
THREADS, CALLS, WAITS, WAIT_US = 3, 400, 4, 5_000
# Nothing may be dropped: the counts are the subject.
OPTIONS = ("--probe-budget=1000", "--sample-hz=0")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cuda")
    made = build_libraries(folder)
    linked_in = build_linked_in(folder, made["driver"])
    return {**made, "program": build_program(folder), "linked_in": linked_in}


def probed(recorder: Recorder, library: Path) -> None:
    """Wait until all functions of a library are probed."""
    until(
        lambda: sum(event["module"] == str(library) and event["state"] == "probed"
                    for event in events(recorder.spool, "site")) == FUNCTIONS,
        what=f"{library} is probed",
    )  # fmt: skip


def calls_of(trace: Path, tid: int) -> Counter[str]:
    """Return the CUDA calls of a thread by name."""
    rows = query(
        trace,
        "SELECT c.name, count(*) FROM cuda_call AS c JOIN thread AS t USING (thread_id)"
        " WHERE t.tid = ? GROUP BY 1",
        [tid],
    )
    return Counter(dict(rows))


def reason(trace: Path, kind: str, process: str = "IS NOT NULL") -> list[tuple[Any, ...]]:
    """Return whether a kind was measured, and the reason."""
    found = said(partial(query, trace), f"kind = '{kind}' AND process_id {process}")
    return [tuple(rest) for _, _, *rest in found]


@pytest.fixture(scope="module")
def recorded(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the trace of an attach, and how long each thread waited, by what was loaded then."""
    trace = tmp_path_factory.mktemp("recorded") / "trace.duckdb"
    program = Workload([str(built["program"])])
    recorder = None
    try:
        program.readline()
        tell(program, f"load {built['first']}")
        recorder = Recorder(trace, *OPTIONS, f"--pid={program.pid}").live()
        probed(recorder, built["first"])
        probed(recorder, built["driver"])
        waited = {"one": work(program, THREADS, CALLS, WAITS, WAIT_US)}
        # Another major, and another file of the same name, while it is recorded.
        tell(program, f"load {built['second']}")
        tell(program, f"load {built['third']}")
        probed(recorder, built["second"])
        probed(recorder, built["third"])
        waited["three"] = work(program, THREADS, CALLS, 1, 1000)
        tell(program, "unload")
        waited["two"] = work(program, THREADS, CALLS, 1, 1000)
        offsets = [event["file_offset"] for event in events(recorder.spool, "site")
                   if event["module"] == str(built["first"])]  # fmt: skip
        found = code_differs(program.pid, built["first"], offsets)
        assert recorder.stop() == 0
        assert_whole(recorder.words())
        left = code_differs(program.pid, built["first"], offsets)
        after = work(program, 1, 1, 1, 1)
        return {"trace": trace, "waited": waited, "probes": (found, left), "after": after}
    finally:
        program.close()
        if recorder is not None:
            recorder.close()


@pytest.mark.parametrize(("loaded", "runtimes"), [("one", 1), ("three", 3), ("two", 2)])
def test_every_call_of_every_thread_and_copy_is_there(
    recorded: dict[str, Any], loaded: str, runtimes: int
) -> None:
    waits = WAITS if loaded == "one" else 1
    threads = recorded["waited"][loaded]
    assert len(threads) == THREADS
    for tid in threads:
        assert calls_of(recorded["trace"], tid) == expected(CALLS, waits, runtimes=runtimes)


def test_calls_are_told_once_and_their_sites_count_the_same(recorded: dict[str, Any]) -> None:
    trace = recorded["trace"]
    assert query(trace, "SELECT count(*) FROM native_call") == [(0,)]
    ((calls, correlated),) = query(
        trace, "SELECT count(*), count(correlation_id) FROM cuda_call WHERE name IS NOT NULL"
    )
    assert correlated == 0
    assert query(trace, "SELECT count(*) FROM timeline WHERE track = 'cuda_call'") == [(calls,)]
    rows = query(trace, "SELECT symbol, sum(hits)::BIGINT FROM site GROUP BY 1")
    counted = query(trace, "SELECT name, count(*) FROM cuda_call GROUP BY 1")
    assert sorted(rows) == sorted(counted)
    assert_conserved(trace)


def test_calls_of_the_driver_lie_within_those_of_the_runtime(recorded: dict[str, Any]) -> None:
    rows = query(
        recorded["trace"],
        "SELECT count(*) FROM cuda_call AS d WHERE d.name LIKE 'cu%' AND d.name NOT LIKE 'cuda%'"
        " AND NOT EXISTS (FROM cuda_call AS r WHERE r.thread_id = d.thread_id"
        " AND r.name LIKE 'cuda%' AND r.kind = d.kind AND r.start_ns <= d.start_ns"
        " AND r.end_ns >= d.end_ns)",
    )
    assert rows == [(0,)]
    unsorted = query(
        recorded["trace"],
        "SELECT count(*) FROM (SELECT thread_id, start_ns, lag(thread_id) OVER () AS last,"
        " lag(start_ns) OVER () AS last_ns FROM cuda_call_coded)"
        " WHERE thread_id < last OR (thread_id = last AND start_ns < last_ns)",
    )
    assert unsorted == [(0,)]


def test_kinds_follow_from_names(recorded: dict[str, Any]) -> None:
    rows = query(recorded["trace"], "SELECT DISTINCT name, kind FROM cuda_call")
    kinds = dict(rows)
    assert {DRIVER[name]: kinds[name] for name in DRIVER} == {
        name: kinds[name] for name in DRIVER.values()
    }
    assert [kinds[name] for name in DRIVER] == [
        "launch", "memcpy", "memset", "sync", "memory", "memory", "graph", "launch",
    ]  # fmt: skip


def test_a_thread_that_waits_for_the_gpu_waits_as_long_as_it_says(recorded: dict[str, Any]) -> None:
    for tid, waited_ns in recorded["waited"]["one"].items():
        ((gpu_ns, other_ns),) = query(
            recorded["trace"],
            "SELECT coalesce(sum(time_ns) FILTER (bucket = 'gpu_wait'), 0)::BIGINT,"
            " coalesce(sum(time_ns) FILTER (bucket IN ('cuda_api', 'runnable')), 0)::BIGINT"
            " FROM breakdown AS b JOIN thread AS t USING (thread_id) WHERE t.tid = ?",
            [tid],
        )
        ((calls, shortest_ns, all_ns),) = query(
            recorded["trace"],
            "SELECT count(*), min(c.end_ns - c.start_ns), sum(c.end_ns - c.start_ns)::BIGINT"
            " FROM cuda_call AS c JOIN thread AS t USING (thread_id)"
            " WHERE t.tid = ? AND c.name = 'cuStreamSynchronize'",
            [tid],
        )
        assert calls == WAITS
        assert shortest_ns >= WAIT_US * 1000
        # What is not spent off the CPU in there is spent in the calls, or waiting for a CPU; and it
        # may be off the CPU where its clock does not run, as at the first hit of a probe.
        assert waited_ns <= gpu_ns + other_ns
        ((sync_ns,),) = query(
            recorded["trace"],
            "SELECT sum(c.end_ns - c.start_ns)::BIGINT FROM cuda_call AS c"
            " JOIN thread AS t USING (thread_id)"
            " WHERE t.tid = ? AND c.name = 'cudaStreamSynchronize'",
            [tid],
        )
        assert 0 < gpu_ns <= sync_ns
        assert waited_ns <= all_ns <= sync_ns


def test_what_is_measured_is_said(recorded: dict[str, Any]) -> None:
    ((measured, why),) = reason(recorded["trace"], "cuda_call")
    assert measured
    # It ran, with CUDA loaded, before it was attached to.
    assert re.sub(r"[\d.]+ s", "N s", why, count=1) == (
        "in part: only calls from N s after the start on;"
        " by probes on the functions of libcuda.so.1, libcudart-d0da41ae.so.11.0, libcudart.so.12:"
        " no GPU activity, no correlation"
    )
    assert reason(recorded["trace"], "native_call:cuda_api", "IS NULL") == [
        (False, "recorded of processes that use CUDA: cuda_call")
    ]
    assert [row[0] for row in reason(recorded["trace"], "gpu_activity", "IS NULL")] == [False]


def test_entries_are_counted_once_for_runtime_and_driver(recorded: dict[str, Any]) -> None:
    (tid,) = list(recorded["waited"]["one"])[:1]
    rows = query(
        recorded["trace"],
        "SELECT sum(count)::BIGINT FROM transition_coded AS c JOIN thread AS t USING (thread_id)"
        " WHERE t.tid = ? AND to_layer = 'cuda_api'",
        [tid],
    )
    runtime = sum(count for name, count in expected(CALLS, WAITS).items() if name in DRIVER)
    assert rows == [(runtime,)]


def test_no_probe_stays_in_the_program(recorded: dict[str, Any]) -> None:
    found, left = recorded["probes"]
    assert len(found) == FUNCTIONS
    assert left == []
    assert len(recorded["after"]) == 1


def test_a_program_with_the_runtime_linked_into_it_that_is_killed_keeps_its_calls(
    built: dict[str, Path], record: Callable[..., Recorder], tmp_path: Path
) -> None:
    # CUPTI is to tell of its calls, but never does: asked for, they are probed all the same.
    variables = [f"CUDA_INJECTION64_PATH={tmp_path / 'librlscope_shim.so'}", "RLSCOPE_SESSION=none"]
    program = Workload(["env", *variables, str(built["linked_in"])])
    try:
        program.readline()
        recorder = record(
            tmp_path / "trace.duckdb", *OPTIONS, "--cuda-calls=on", f"--pid={program.pid}"
        ).live()
        probed(recorder, built["driver"])
        probed(recorder, built["linked_in"])
        (tid,) = work(program, 1, CALLS, 1, 1000)
        # It waits in a call when it is killed.
        assert program.process.stdin is not None
        program.process.stdin.write(b"work 1 0 1 900000000\n")
        program.process.stdin.flush()
        until(lambda: len(list(Path(f"/proc/{program.pid}/task").iterdir())) == 2, what="it works")
        program.process.send_signal(signal.SIGKILL)
        assert recorder.wait() == 0
    finally:
        program.close()
    assert calls_of(recorder.output, tid) == expected(CALLS, 1)
    assert_conserved(recorder.output)
    ((measured, why),) = reason(recorder.output, "cuda_call")
    assert measured
    assert "; by probes on the functions of libcuda.so.1, linked_in: " in why
