"""NVTX ranges of Nsight Systems exports: names, domains, nesting, ranges without an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nsys_builder import CATEGORY, DOMAIN, MARK, PID, START_END, TID, NsysBuilder, imported

if TYPE_CHECKING:
    from pathlib import Path

PATHS = "SELECT start_ns, end_ns, name, depth FROM operation ORDER BY start_ns, depth"


@pytest.fixture
def builder(tmp_path: Path) -> NsysBuilder:
    return NsysBuilder(tmp_path / "report.sqlite")


def test_ranges_nest_by_their_times(builder: NsysBuilder) -> None:
    # nsys writes them in the order of their ends.
    builder.nvtx(20, 30, "rollout")
    builder.nvtx(40, 50, "rollout")
    builder.nvtx(45, 50, "reset")
    builder.nvtx(10, 60, "step")
    builder.nvtx(70, 80, "rollout")
    trace = imported(builder.write())
    assert trace.rows(PATHS) == [
        (10, 60, "step", 0),
        (20, 30, "rollout", 1),
        (40, 50, "rollout", 1),
        (45, 50, "reset", 2),
        (70, 80, "rollout", 0),
    ]
    assert trace.rows(
        "SELECT o.name, p.name, o.source FROM operation_path AS o"
        " LEFT JOIN operation_path AS p ON p.path_id = o.parent_path_id ORDER BY o.path_id"
    ) == [
        ("step", None, "nvtx"),
        ("rollout", "step", "nvtx"),
        ("reset", "rollout", "nvtx"),
        ("rollout", None, "nvtx"),
    ]
    assert trace.losses() == {}


def test_threads_do_not_nest_in_each_other(builder: NsysBuilder) -> None:
    builder.nvtx(10, 60, "step", tid=TID)
    builder.nvtx(20, 30, "step", tid=TID + 1)
    trace = imported(builder.write())
    assert trace.rows("SELECT thread_id, depth FROM operation ORDER BY 1") == [(1, 0), (2, 0)]


def test_crossing_ranges_are_kept_and_counted(builder: NsysBuilder) -> None:
    builder.nvtx(10, 30, "first")
    builder.nvtx(20, 40, "second")
    trace = imported(builder.write())
    assert trace.rows(PATHS) == [(10, 30, "first", 0), (20, 40, "second", 1)]
    (loss,) = trace.report.losses
    assert (loss.kind, loss.count, loss.first_ns) == ("unmatched", 1, 20)


def test_texts_are_own_or_registered(builder: NsysBuilder) -> None:
    builder.nvtx(10, 11, "own")
    builder.nvtx(20, 21, "registered", registered=True)
    builder.nvtx(30, 31, None)
    builder.nvtx(40, 41, "")
    builder.row(
        "NVTX_EVENTS", start=50, end=51, eventType=59, textId=999_999, globalTid=1 << 24, domainId=0
    )
    builder.nvtx(60, 61, "own")
    assert imported(builder.write()).rows("SELECT name FROM operation ORDER BY start_ns") == [
        ("own",), ("registered",), ("(unnamed)",), ("",), ("(unnamed)",), ("own",)
    ]  # fmt: skip


def test_domains_and_categories_are_those_of_the_process(builder: NsysBuilder) -> None:
    for pid, domain in ((PID, "NCCL"), (PID + 1, "PyTorch")):
        builder.nvtx(1, None, domain, kind=DOMAIN, domain=3, pid=pid)
        builder.nvtx(2, 3, "op", domain=3, pid=pid)
    builder.nvtx(1, None, "loader", kind=CATEGORY, domain=3, category=8, registered=True)
    builder.nvtx(4, 5, "op", domain=3, category=8)
    builder.nvtx(6, 7, "op", category=8)  # the same category id, of the default domain
    builder.nvtx(8, 9, "op", domain=4)
    builder.nvtx(10, 11, "lasting", kind=START_END, domain=3)
    trace = imported(builder.write())
    assert trace.rows("SELECT pid, start_ns, domain, category FROM operation ORDER BY 1, 2") == [
        (PID, 2, "NCCL", None),
        (PID, 4, "NCCL", "loader"),
        (PID, 6, None, "category 8"),
        (PID, 8, "domain 4", None),
        (PID + 1, 2, "PyTorch", None),
    ]
    assert trace.rows("SELECT start_ns, end_ns, name, domain FROM async_range") == [
        (10, 11, "lasting", "NCCL")
    ]
    assert trace.losses() == {}


class TestRangesWithoutAnEnd:
    def test_they_end_with_the_recording_and_are_counted(self, builder: NsysBuilder) -> None:
        builder.duration_ns = 1_000
        builder.call(900, 950)
        builder.nvtx(10, None, "training")
        builder.nvtx(20, 30, "step")
        builder.nvtx(40, None, "lasting", kind=START_END)
        trace = imported(builder.write())
        assert trace.rows(PATHS) == [(10, 1_000, "training", 0), (20, 30, "step", 1)]
        assert trace.rows("SELECT start_ns, end_ns FROM async_range") == [(40, 1_000)]
        assert trace.rows("SELECT start_ns, end_ns FROM thread") == [(10, 1_000)]
        assert trace.rows("SELECT start_ns, end_ns FROM process") == [(10, 1_000)]
        (loss,) = trace.report.losses
        assert (loss.kind, loss.count, loss.first_ns) == ("truncated", 2, 10)

    def test_they_end_with_the_last_event_where_the_end_is_not_told(
        self, builder: NsysBuilder
    ) -> None:
        builder.nvtx(10, None, "training")
        builder.kernel(100, 240)
        trace = imported(builder.write())
        assert trace.rows(PATHS) == [(10, 240, "training", 0)]

    def test_the_last_event_may_come_after_the_end_of_the_recording(
        self, builder: NsysBuilder
    ) -> None:
        builder.duration_ns = 50
        builder.nvtx(10, 20, "before")
        builder.nvtx(60, None, "after")
        assert imported(builder.write()).rows(PATHS) == [
            (10, 20, "before", 0),
            (60, 60, "after", 0),
        ]


def test_a_range_that_ends_before_its_start_is_left_out_and_counted(builder: NsysBuilder) -> None:
    builder.nvtx(10, 5, "broken")
    builder.nvtx(10, 20, "whole")
    trace = imported(builder.write())
    assert trace.rows(PATHS) == [(10, 20, "whole", 0)]
    assert list(trace.losses().values()) == [1]


def test_what_is_no_range_is_counted_but_names_are_not(builder: NsysBuilder) -> None:
    builder.nvtx(10, 20, "step")
    builder.nvtx(11, None, "checkpoint", kind=MARK)
    builder.nvtx(12, None, "checkpoint", kind=MARK)
    builder.nvtx(13, None, "half", kind=35)
    builder.nvtx(14, None, "main", kind=39)  # names a thread
    trace = imported(builder.write())
    assert trace.losses() == {
        ("skipped", "nsys_marks_skipped"): 2,
        ("skipped", "nsys_events_skipped 35"): 1,
    }


def test_names_in_any_language_and_with_any_byte(builder: NsysBuilder) -> None:
    names = ["训练 🚀", "a'b\"c", "tab\tline\n", "x" * 10_000]
    for start, name in enumerate(names):
        builder.nvtx(2 * start, 2 * start + 1, name, registered=start % 2 == 0)
    found = imported(builder.write()).rows("SELECT name FROM operation ORDER BY start_ns")
    assert [name for (name,) in found] == names
