"""`import kineto`: processes, threads, ranks, clocks, what was measured, and what was left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kineto_builder import (
    EPOCH_US,
    annotation,
    call,
    imported,
    kernel,
    losses,
    op,
    slice_,
    write_kineto,
    write_text,
)

if TYPE_CHECKING:
    from pathlib import Path

EPOCH_NS = EPOCH_US * 1000
BASE_NS = 1_727_743_122_000_000_000


def test_threads_and_processes_span_what_they_did(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 101,
         "args": {"name": "thread 101 (pt_autograd_0)"}},
        {"ph": "M", "name": "process_sort_index", "pid": 100, "tid": 0, "args": {"sort_index": 1}},
        op("a", 10, 20),
        call("cudaLaunchKernel", 30, 31, 1),
        op("b", 12, 25, tid=101),
        kernel("k", 40, 50, 1),
    ]  # fmt: skip
    with imported(write_kineto(tmp_path / "a.json", events, host_name="node7")) as con:
        assert con.execute(
            "SELECT thread_id, tid, name, start_ns - ?, end_ns - ? FROM thread",
            [EPOCH_NS, EPOCH_NS],
        ).fetchall() == [(1, 100, None, 10_000, 31_000), (2, 101, "pt_autograd_0", 12_000, 25_000)]
        assert con.execute(
            "SELECT process_id, host, pid, name, start_ns - ?, end_ns - ?, parent_process_id,"
            " exit_code FROM process",
            [EPOCH_NS, EPOCH_NS],
        ).fetchall() == [(1, "node7", 100, "python3", 10_000, 50_000, None, None)]
        assert losses(con) == {}


def test_odd_pids_and_tids(tmp_path: Path) -> None:
    events = [
        op("a", 0, 1, pid="Worker", tid="main"),
        op("b", 2, 3, pid=100, tid=140_737_353_000_000),
        op("c", 4, 5, pid=100, tid=-3),
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute(
            "SELECT pid, tid FROM thread JOIN process USING (process_id) ORDER BY thread_id"
        ).fetchall() == [(100, None), (100, None), (None, None)]


def test_ranks_with_one_pid_are_processes_on_one_clock(tmp_path: Path) -> None:
    rank_0 = write_kineto(
        tmp_path / "rank0.json", [op("a", 0, 10)], distributedInfo={"rank": 0, "world_size": 2}
    )
    events = [{**op("b", 0, 10), "ts": 7.5}, {**kernel("k", 0, 4), "ts": 8.25}]
    rank_1 = write_kineto(
        tmp_path / "rank1.json",
        events,
        baseTimeNanoseconds=EPOCH_NS + 1_000,
        distributedInfo={"rank": 1, "world_size": 2},
    )
    with imported(rank_0, rank_1) as con:
        query = "SELECT process_id, pid, start_ns - ? FROM process"
        assert con.execute(query, [EPOCH_NS]).fetchall() == [
            (1, 100, 0),
            (2, 100, 8_500),
        ]
        query = "SELECT process_id, start_ns - ? FROM gpu_activity"
        assert con.execute(query, [EPOCH_NS]).fetchall() == [(2, 9_250)]
        assert con.execute("SELECT ts_ns, realtime_ns FROM clock").fetchall() == [
            (EPOCH_NS, EPOCH_NS)
        ]
        meta = dict(con.execute("SELECT key, value FROM meta").fetchall())
        assert json.loads(meta["ranks"]) == [
            {"file": "rank0.json", "rank": 0, "world_size": 2, "process_ids": [1]},
            {"file": "rank1.json", "rank": 1, "world_size": 2, "process_ids": [2]},
        ]
        assert json.loads(meta["imported_from"]) == ["rank0.json", "rank1.json"]
        assert (meta["loader"], meta["ended_cleanly"]) == ("import", "true")
        assert (int(meta["start_ns"]), int(meta["end_ns"])) == (EPOCH_NS, EPOCH_NS + 18_500)


def test_two_bases_meet_on_the_earlier(tmp_path: Path) -> None:
    event = {**op("a", 0, 1), "ts": 5}
    later = write_kineto(tmp_path / "l.json", [event], baseTimeNanoseconds=BASE_NS + 2_000)
    earlier = write_kineto(tmp_path / "e.json", [event], baseTimeNanoseconds=BASE_NS)
    with imported(later, earlier) as con:
        assert con.execute("SELECT start_ns FROM process").fetchall() == [(7_000,), (5_000,)]
        assert con.execute("SELECT realtime_ns - ts_ns FROM clock").fetchall() == [(BASE_NS,)]


@pytest.mark.parametrize("files", [1, 2])
def test_files_without_a_clock_say_so(tmp_path: Path, files: int) -> None:
    paths = [
        write_kineto(tmp_path / f"{n}.json", [{**op("a", 0, 1), "ts": n}]) for n in range(files)
    ]
    with imported(*paths) as con:
        assert con.execute("SELECT * FROM clock").fetchall() == []
        assert losses(con) == {("unmatched", "kineto_clock_unknown"): files}


MEASURED = "SELECT kind, measured FROM coverage WHERE process_id IS NOT DISTINCT FROM ?"


def test_capture_tells_what_was_measured(tmp_path: Path) -> None:
    events = [annotation("step", 0, 9), call("cudaLaunchKernel", 1, 2, 1), kernel("k", 3, 4, 1)]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert dict(con.execute(MEASURED, [None]).fetchall()) == {
            "thread_state": False,
            "wait": False,
        }
        assert dict(con.execute(MEASURED, [1]).fetchall()) == {
            "operation": True, "native_call": True, "native_call:simulator": False,
            "cuda_call": True, "gpu_activity": True,
        }  # fmt: skip


def test_that_no_call_entered_a_simulator_is_not_known(tmp_path: Path) -> None:
    events = [annotation("step", 0, 9), op("a", 1, 3), call("cudaLaunchKernel", 4, 5, 1)]
    with imported(write_kineto(tmp_path / "a.json", events), views=True) as con:
        reported = con.execute(
            "SELECT DISTINCT layer, reason FROM _layer_gap ORDER BY ALL"
        ).fetchall()
    assert reported == [
        ("backend", None),
        ("cuda_api", None),
        ("simulator", "not_captured"),
    ]


def test_a_profile_of_the_cpu_measured_no_gpu(tmp_path: Path) -> None:
    # PyTorch lists the GPUs of the machine also when it was not to profile them.
    devices = [{"id": 0, "name": "H100", "totalGlobalMem": 1 << 36, "numSms": 132,
                "computeMajor": 9, "computeMinor": 0}]  # fmt: skip
    path = write_kineto(tmp_path / "a.json", [op("a", 0, 9)], deviceProperties=devices)
    with imported(path) as con:
        captured = dict(con.execute(MEASURED, [1]).fetchall())
        assert (captured["gpu_activity"], captured["cuda_call"]) == (False, False)
        assert con.execute(
            "SELECT DISTINCT code FROM coverage WHERE kind = 'gpu_activity'"
        ).fetchall()[0][0]
        assert con.execute(
            "SELECT host, device_id, name, uuid, memory_bytes, multiprocessors, compute_capability"
            " FROM gpu_device"
        ).fetchall() == [(None, 0, "H100", None, 1 << 36, 132, "9.0")]


def test_gpu_activity_alone_makes_a_process(tmp_path: Path) -> None:
    with imported(write_kineto(tmp_path / "a.json", [kernel("k", 3, 4, 1)])) as con:
        query = "SELECT process_id, pid, start_ns - ?, end_ns - ? FROM process"
        assert con.execute(query, [EPOCH_NS, EPOCH_NS]).fetchall() == [(1, None, 3_000, 4_000)]
        assert con.execute("SELECT count(*) FROM thread").fetchall() == [(0,)]


def test_events_without_a_place_are_counted(tmp_path: Path) -> None:
    events = [
        op("a", 0, 9),
        slice_("gpu_user_annotation", "step", 0, 5, pid=0, tid=7),
        slice_("overhead", "Runtime", 0, 5),
        slice_("overhead", "Buffer Flush", 5, 6),
        slice_("a category of tomorrow", "x", 0, 5),
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": EPOCH_US},
        {"ph": "f", "cat": "async", "name": "launch", "id": 1, "pid": 0, "tid": 7, "ts": EPOCH_US},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": EPOCH_US},
        {"ph": "C", "name": "memory", "pid": 1, "ts": EPOCH_US, "args": {"bytes": 1}},
        {"ph": "b", "cat": "async", "id": 1, "pid": 1, "ts": EPOCH_US},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "ts": EPOCH_US},
        {"ph": "Z", "cat": "what", "ts": EPOCH_US},
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert losses(con) == {
            ("skipped", "kineto_skipped gpu_user_annotation events"): 1,
            ("skipped", "kineto_skipped overhead events"): 2,
            ("skipped", "kineto_skipped a category of tomorrow events"): 1,
            ("skipped", "kineto_skipped fwdbwd flow events"): 1,
            ("skipped", "kineto_skipped_uncategorised counter events"): 1,
            ("skipped", "kineto_skipped async asynchronous events"): 1,
            ("skipped", "kineto_skipped cpu_instant_event instant events"): 1,
            ("skipped", "kineto_skipped what events of phase Z"): 1,
        }
        assert con.execute("SELECT count(*) FROM thread").fetchall() == [(1,)]


def test_begins_and_ends_are_paired_by_thread_and_time(tmp_path: Path) -> None:
    def half(phase: str, ts_us: int, tid: int = 1, **fields: object) -> dict[str, object]:
        return {
            "ph": phase,
            "cat": "cpu_op",
            "pid": 9,
            "tid": tid,
            "ts": EPOCH_US + ts_us,
            **fields,
        }

    events = [
        half("E", 8), half("B", 0, name="outer"), half("B", 2, name="inner"), half("E", 5),
        half("B", 1, tid=2, name="open"), half("E", 1, tid=3),
    ]  # fmt: skip
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute(
            "SELECT symbol, start_ns - ?, end_ns - ?, depth FROM native_call"
            " JOIN site USING (site_id) ORDER BY start_ns",
            [EPOCH_NS, EPOCH_NS],
        ).fetchall() == [("outer", 0, 8_000, 0), ("inner", 2_000, 5_000, 1)]
        assert losses(con) == {
            ("truncated", "kineto_never_ended"): 1,
            ("unmatched", "kineto_never_began"): 1,
        }


@pytest.mark.parametrize(
    "wrong",
    [
        {"ts": "soon"}, {"dur": None}, {"dur": -1}, {"pid": None}, {"ts": 1e300}, {"dur": 10**19},
        {"ph": ""}, {"ts": 2**62 // 1000 + 1}, {"ts": 2**61 // 1000, "dur": 2**61 // 1000 + 2},
    ],
)  # fmt: skip
def test_unreadable_events_are_counted(tmp_path: Path, wrong: dict[str, object]) -> None:
    events = [op("good", 0, 1), {**op("bad", 2, 3), **wrong}]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute("SELECT count(*) FROM native_call").fetchall() == [(1,)]
        source = "kineto_unreadable"
        assert losses(con) == {("dropped", source): 1}


def test_a_bare_array_is_a_trace(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.json", json.dumps([op("a", 0, 1), 7]))
    with imported(path) as con:
        assert con.execute("SELECT count(*) FROM native_call").fetchall() == [(1,)]
        assert losses(con) == {("dropped", "kineto_no_object"): 1}


def test_events_anywhere_in_the_object_and_in_any_key_order(tmp_path: Path) -> None:
    event = json.dumps({"args": {"nested": {"ts": 1, "deep": [{"ph": "X"}]}, "correlation": 5},
                        **dict(reversed(call("cudaMalloc", 3, 4, 5).items()))})  # fmt: skip
    rank = '"distributedInfo": {"rank": 3}'
    text = f'{{"x": {{"traceEvents": [1]}}, "traceEvents": [{event}], {rank}}}'
    with imported(write_text(tmp_path / "a.json", text)) as con:
        query = "SELECT kind, correlation_id, start_ns - ? FROM cuda_call"
        assert con.execute(query, [EPOCH_NS]).fetchall() == [("memory", 5, 3_000)]
        assert (
            json.loads(con.execute("SELECT value FROM meta WHERE key = 'ranks'").fetchall()[0][0])[
                0
            ]["rank"]
            == 3
        )
