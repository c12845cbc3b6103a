"""What stands in an export beside the slices: golden traces of a screen each, and odd ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis.export.timeline import Timeline
from rlscope_analysis.trace import Trace
from timeline_reader import ReadTimeline, read_chrome, read_perfetto
from trace_builder import TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Callable

READERS: dict[str, Callable[[bytes], ReadTimeline]] = {
    "perfetto": read_perfetto,
    "chrome": read_chrome,
}
FORMATS = pytest.mark.parametrize("form", sorted(READERS))


def new_builder() -> TraceBuilder:
    return TraceBuilder(Path("in-memory"), with_views=False)


def filled(builder: TraceBuilder) -> Trace:
    connection = duckdb.connect()
    builder.fill(connection)
    return Trace(Path("in-memory"), connection, 1)


def export(builder: TraceBuilder, form: str) -> ReadTimeline:
    with filled(builder) as trace:
        return READERS[form](b"".join(Timeline(trace, form).pieces()))


def tracks(read: ReadTimeline) -> set[tuple[str, str]]:
    return {(piece.name, piece.track) for piece in read.slices if piece.category != "lifetime"}


@FORMATS
@pytest.mark.parametrize("correlation", [7, 2**32 - 1, 2**40, 2**62, -1])
def test_a_call_is_inside_its_operation_and_linked_to_its_kernel(
    form: str, correlation: int
) -> None:
    builder = new_builder()
    process = builder.process(pid=5, end_ns=100)
    thread = builder.thread(process, tid=5, states=[run(100)])
    builder.operation(thread, 10, 50, "step")
    builder.cuda_call(thread, 20, 25, correlation_id=correlation)
    builder.gpu_activity(process, 40, 60, correlation_id=correlation, name="gemm")
    # The same number in another process is another call.
    other = builder.process(pid=6, end_ns=100)
    builder.gpu_activity(other, 70, 80, correlation_id=correlation)
    read = export(builder, form)
    assert read.links == [(20, 40)]
    places = {piece.name: (piece.pid, piece.tid) for piece in read.slices}
    assert places["step"] == places["cudaLaunchKernel"] == (5, 5)


@FORMATS
def test_slices_that_start_together_need_no_other_line(form: str) -> None:
    """Also where the table has the shorter one first, as the order of waits and calls allows."""
    builder = new_builder()
    thread = builder.thread(builder.process(pid=5), tid=5, states=[run(100)])
    builder.cuda_call(thread, 10, 90, name="cuLong")
    builder.cuda_call(thread, 10, 20, name="cuShort")
    with filled(builder) as trace:
        trace.connection.execute(
            "CREATE TEMP TABLE kept AS FROM cuda_call_coded ORDER BY end_ns;"
            "DELETE FROM cuda_call_coded; INSERT INTO cuda_call_coded FROM kept"
        )
        data = b"".join(Timeline(trace, form).pieces())
    assert b"overlap" not in data


@FORMATS
def test_what_overlaps_gets_a_line_of_its_own(form: str) -> None:
    builder = new_builder()
    process = builder.process(pid=5)
    thread = builder.thread(process, tid=5, states=[run(100)])
    builder.operation(thread, 10, 50, "first")
    builder.operation(thread, 30, 70, "second")
    builder.gpu_activity(process, 10, 50)
    builder.gpu_activity(process, 30, 70)
    builder.gpu_activity(process, 40, 80)
    with filled(builder) as trace:
        data = b"".join(Timeline(trace, form).pieces())
    assert b"(overlap 2)" in data
    assert len(READERS[form](data).slices) == 5 + 2  # with a state and the lifetime of the thread


@FORMATS
def test_reused_and_unknown_numbers_stay_apart(form: str) -> None:
    builder = new_builder()
    for pid in (100, 100, None):
        process = builder.process(pid=pid, end_ns=10)
        for tid in (100, 7, None):
            builder.thread(process, tid=tid, states=[run(10)])
    read = export(builder, form)
    states = [piece for piece in read.slices if piece.category == "thread_state"]
    assert len({piece.pid for piece in states}) == 3
    assert len(read.processes) == 3
    owners = {(piece.pid, piece.track if form == "chrome" else piece.tid) for piece in states}
    assert len({piece.tid for piece in states}) == len(states) == 9
    assert any(pid == 100 for pid, _ in owners)


@FORMATS
def test_the_waker_is_named(form: str) -> None:
    builder = new_builder()
    process = builder.process(pid=5)
    builder.thread(process, tid=5, name="boss", states=[run(9)])
    builder.thread(process, tid=6, states=[run(1), sleep(5), woken(2, by=1), run(1)])
    read = export(builder, form)
    (woken_slice,) = [piece for piece in read.slices if piece.name == "runnable"]
    assert dict(woken_slice.arguments)["waker"] == "boss (thread_id 1)"
    assert dict(woken_slice.arguments)["waker_thread_id"] == 1


@FORMATS
def test_kinds_that_nobody_measured_have_no_track(form: str) -> None:
    builder = new_builder()
    builder.thread(builder.process(pid=5), tid=5, states=[run(10)])
    assert tracks(export(builder, form)) == {
        ("running", "state" if form == "perfetto" else "worker state")
    }


@FORMATS
def test_an_empty_trace_has_no_slices(form: str) -> None:
    read = export(new_builder(), form)
    assert (read.slices, read.processes, read.threads) == ([], {}, {})


@FORMATS
def test_facts_and_losses_travel_along(form: str) -> None:
    builder = new_builder()
    builder.meta["argv"] = 'python "train.py"'
    builder.loss(count=12)
    builder.device(0, name="H100")
    read = export(builder, form)
    reported = dict(read.facts)
    (meta,) = reported["meta"] if form == "chrome" else [reported["meta"]]
    (loss,) = reported["loss"] if form == "chrome" else [reported["loss"]]
    (device,) = reported["gpu_device"] if form == "chrome" else [reported["gpu_device"]]
    assert meta["argv"] == 'python "train.py"'
    assert (loss["code"], loss["count"]) == ("ring_full", 12)
    assert (loss["source"], loss["remedy"]) == ("ring cpu 0 cycle", "--ring-mib 64")
    assert device["name"] == "H100"


def test_wall_clock_time_is_known() -> None:
    builder = new_builder()
    builder.clock(ts_ns=1000, realtime_ns=1_700_000_000_000_001_000)
    assert export(builder, "perfetto").clocks == [{3: 1000, 1: 1_700_000_000_000_001_000, 6: 1000}]
    with filled(builder) as trace:
        document = json.loads(b"".join(Timeline(trace, "chrome").pieces()))
    assert document["baseTimeNanoseconds"] == 1_700_000_000_000_000_000


@FORMATS
def test_times_before_zero_are_shifted_and_that_is_said(form: str) -> None:
    builder = new_builder()
    thread = builder.thread(builder.process(pid=5), tid=5, states=[run(100)], start_ns=-60)
    builder.operation(thread, -50, -20, "early")
    read = export(builder, form)
    (early,) = [piece for piece in read.slices if piece.name == "early"]
    assert (early.start_ns, early.end_ns) == (10, 40)
    reported = dict(read.facts)["export"]
    assert (reported if form == "perfetto" else reported[0])["time_shift_ns"] == 60


@FORMATS
@pytest.mark.parametrize(
    "name", ["", 'a "b" \\c', "line\nfeed\x00\x1f", "名前🎉", "x" * 200_000], ids=range(5)
)
def test_odd_names_arrive_as_they_are(form: str, name: str) -> None:
    builder = new_builder()
    process = builder.process(pid=5, name=name, command=name)
    thread = builder.thread(process, tid=5, name=name, states=[])
    builder.operation(thread, 1, 2, name, domain=name, category=name)
    builder.gpu_activity(process, 1, 2, name=name)
    read = export(builder, form)
    assert [piece.name for piece in read.slices if piece.end_ns == 2] == [name, name]
    (operation,) = [piece for piece in read.slices if piece.end_ns == 2 and piece.tid == 5]
    assert dict(operation.arguments)["domain"] == name


@FORMATS
def test_rows_without_a_place_are_counted(form: str) -> None:
    builder = new_builder()
    thread = builder.thread(builder.process(pid=5), tid=5, states=[])
    builder.cuda_call(thread, 1, 2)
    with filled(builder) as trace:
        trace.connection.execute(
            "INSERT INTO cuda_call_coded SELECT * REPLACE (99 AS thread_id) FROM cuda_call_coded;"
            "INSERT INTO cuda_call_coded SELECT * REPLACE (0 AS end_ns) FROM cuda_call_coded"
        )
        timeline = Timeline(trace, form)
        read = READERS[form](b"".join(timeline.pieces()))
    assert [piece.name for piece in read.slices if piece.end_ns == 2] == ["cudaLaunchKernel"]
    assert (timeline.unplaced, timeline.unreadable) == (1, 2)
