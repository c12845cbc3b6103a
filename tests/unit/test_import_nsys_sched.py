"""Thread states from the context switches of Nsight Systems exports: told whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nsys_builder import PID, TID, NsysBuilder, imported

if TYPE_CHECKING:
    from pathlib import Path

    from nsys_builder import Imported

UNKNOWN, RUNNING, INTERRUPTIBLE, UNINTERRUPTIBLE, STOPPED, TERMINATED = range(6)
STATES = "SELECT start_ns, end_ns, state, cpu, waker_kind FROM thread_state ORDER BY start_ns"
IN, OUT = True, False


@pytest.fixture
def builder(tmp_path: Path) -> NsysBuilder:
    return NsysBuilder(tmp_path / "report.sqlite")


def add(builder: NsysBuilder, *switches: tuple[int, bool, int | None, int], pid: int = PID) -> None:
    for start, into, state, cpu in switches:
        builder.switch(start, into=into, state=state, cpu=cpu, pid=pid, tid=pid + 1)


def state_measured(trace: Imported) -> list[tuple[int, bool]]:
    return trace.rows(
        "SELECT pid, measured FROM coverage JOIN process USING (process_id)"
        " WHERE kind = 'thread_state' ORDER BY pid"
    )


def test_states_tile_the_time_between_switches(builder: NsysBuilder) -> None:
    add(
        builder,
        (100, IN, None, 3), (110, OUT, INTERRUPTIBLE, 3),
        (150, IN, None, 1), (170, OUT, RUNNING, 1),
        (175, IN, None, 1), (180, OUT, UNINTERRUPTIBLE, 1),
        (200, IN, None, 2), (210, OUT, STOPPED, 2),
        (220, IN, None, 0), (221, OUT, UNKNOWN, 0),
    )  # fmt: skip
    trace = imported(builder.write())
    assert trace.rows(STATES) == [
        (100, 110, "running", 3, None),
        (110, 150, "sleeping", None, None),
        (150, 170, "running", 1, None),
        (170, 175, "runnable", None, None),
        (175, 180, "running", 1, None),
        (180, 200, "blocked", None, None),
        (200, 210, "running", 2, None),
        (210, 220, "sleeping", None, None),
        (220, 221, "running", 0, None),
    ]
    assert trace.rows("SELECT start_ns, end_ns, lost_ns FROM thread") == [(100, 221, 0)]
    assert state_measured(trace) == [(PID, True)]
    assert trace.losses() == {}


def test_the_limit_of_these_states_is_told(builder: NsysBuilder) -> None:
    add(builder, (100, IN, None, 0), (110, OUT, INTERRUPTIBLE, 0))
    (reason,) = imported(builder.write()).rows(
        "SELECT code FROM coverage WHERE kind = 'thread_state'"
    )
    assert reason == ("nsys_switches",)


def test_a_process_that_does_not_tell_why_it_waits_is_not_measured(builder: NsysBuilder) -> None:
    add(builder, (100, IN, None, 0), (110, OUT, INTERRUPTIBLE, 0), (120, IN, None, 0))
    add(
        builder,
        (100, IN, None, 1), (110, OUT, UNKNOWN, 1), (120, IN, None, 1), (130, OUT, UNKNOWN, 1),
        pid=PID + 10,
    )  # fmt: skip
    builder.call(105, 108, pid=PID + 10, tid=PID + 11)
    trace = imported(builder.write())
    assert trace.rows("SELECT DISTINCT tid FROM thread_state JOIN thread USING (thread_id)") == [
        (PID + 1,)
    ]
    assert state_measured(trace) == [(PID, True), (PID + 10, False)]
    assert trace.losses() == {("skipped", "nsys_states_unreported SCHED_EVENTS"): 4}
    assert trace.rows(f"SELECT lost_ns FROM thread WHERE tid = {PID + 11}") == [(None,)]


def test_an_export_without_thread_states(tmp_path: Path) -> None:
    builder = NsysBuilder(tmp_path / "report.sqlite", schema="2020")
    add(builder, (100, IN, None, 0), (110, OUT, None, 0), (120, IN, None, 0))
    builder.call(101, 102)
    trace = imported(builder.write())
    assert trace.rows("SELECT count(*) FROM thread_state") == [(0,)]
    assert state_measured(trace) == [(PID, False)]
    (count,) = trace.losses().values()
    assert count == 3


def test_a_missing_switch_leaves_a_gap(builder: NsysBuilder) -> None:
    add(
        builder,
        (100, IN, None, 0), (110, IN, None, 0),  # no switch out
        (120, OUT, INTERRUPTIBLE, 0), (130, OUT, INTERRUPTIBLE, 0),  # no switch in
        (140, IN, None, 0), (150, OUT, RUNNING, 1),  # out of a CPU that it was not on
        (160, IN, None, 1), (170, OUT, TERMINATED, 1),
        (190, IN, None, 1), (195, OUT, RUNNING, 1),  # another life of the number
    )  # fmt: skip
    builder.call(90, 95, tid=PID + 1)
    trace = imported(builder.write())
    assert trace.rows(STATES) == [
        (110, 120, "running", 0, None),
        (130, 140, "sleeping", None, None),
        (150, 160, "runnable", None, None),
        (160, 170, "running", 1, None),
        (190, 195, "running", 1, None),
    ]
    known_ns = 10 + 10 + 10 + 10 + 5
    assert trace.rows("SELECT start_ns, end_ns, lost_ns FROM thread") == [
        (90, 195, 195 - 90 - known_ns)
    ]
    (count,) = trace.losses().values()
    assert count == 3


def test_switches_come_in_any_order_and_idle_threads_are_none(builder: NsysBuilder) -> None:
    add(builder, (120, IN, None, 0), (100, IN, None, 0), (110, OUT, RUNNING, 0))
    builder.switch(100, into=True, pid=0, tid=0)
    builder.switch(105, into=False, state=RUNNING, pid=0, tid=0)
    trace = imported(builder.write())
    assert trace.rows(STATES) == [
        (100, 110, "running", 0, None),
        (110, 120, "runnable", None, None),
    ]
    assert trace.rows("SELECT tid FROM thread") == [(TID,)]
    assert trace.losses() == {}


def test_the_export_may_number_states_its_own_way(builder: NsysBuilder) -> None:
    builder.row("ENUM_SAMPLING_THREAD_STATE", id=9, name="Uninterruptible", label="D")
    add(builder, (100, IN, None, 0), (110, OUT, 9, 0), (120, IN, None, 0))
    assert imported(builder.write()).rows("SELECT state FROM thread_state ORDER BY start_ns") == [
        ("running",),
        ("blocked",),
    ]


def test_a_thread_without_switches_in_a_measured_process_is_lost(builder: NsysBuilder) -> None:
    add(builder, (100, IN, None, 0), (110, OUT, RUNNING, 0))
    builder.call(100, 140, tid=77)
    trace = imported(builder.write())
    assert trace.rows("SELECT tid, lost_ns FROM thread ORDER BY tid") == [(77, 40), (PID + 1, 0)]
