"""Records of the shims become operations: whose, nested, cut at what was recorded, and counted."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finalising import finalise
from rlscope_trace._ingest import ShimRangeReader, ShimScan
from rlscope_trace.spool.directory import open_spool
from shim_builder import END as ASYNC_END
from shim_builder import MARK, START, STRING, THREAD_OPEN, ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport

# What the kernel recorded of each thread below.
BEGIN, FINISH = 100, 1000
PER_RANGE = "SELECT thread_id, start_ns, end_ns, name, depth FROM operation"


def kernel_half(folder: Path, *, tids: tuple[int, ...] = (10,), **session: object) -> Path:
    """Write the spool of threads of process 10, ids from 1, which lived from BEGIN to FINISH."""
    spool = SpoolBuilder()
    for thread_id, tid in enumerate(tids, 1):
        spool.thread(thread_id, ts_ns=BEGIN, tid=tid, tgid=10)
        spool.cycle(thread_id, off_ns=BEGIN, wake_ns=BEGIN, in_ns=BEGIN + 10, out_ns=FINISH - 50)
        spool.close(thread_id, off_ns=FINISH - 50)
    spool.write(folder, end_ns=FINISH, session={"host": "box", **session})
    return folder


def saved(folder: Path, shim: ShimBuilder) -> tuple[Path, TraceReport]:
    shim.write(folder)
    output = folder.with_name("trace.duckdb")
    report = finalise(
        open_spool(folder), output, overwrite=True,
    )  # fmt: skip
    return output, report


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(query).fetchall()


def losses(path: Path) -> dict[str, tuple[object, ...]]:
    found = rows(path, "SELECT code, kind, count FROM trace_stat")
    return {str(source): tuple(rest) for source, *rest in found}


@pytest.fixture
def shim() -> ShimBuilder:
    """Return the shim of process 10 with its first thread."""
    made = ShimBuilder()
    made.source(pid=10)
    made.thread(tid=10, ts_ns=BEGIN)
    return made


def test_ranges_are_nested_by_their_times(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("inner", 210, 220, depth=1)
    shim.range("inner", 230, 240, depth=1)
    shim.range("outer", 200, 300)
    shim.range("inner", 310, 320)
    path, report = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, PER_RANGE) == [
        (1, 200, 300, "outer", 0),
        (1, 210, 220, "inner", 1),
        (1, 230, 240, "inner", 1),
        (1, 310, 320, "inner", 0),
    ]
    assert rows(path, "SELECT path_id, parent_path_id, name FROM operation_path") == [
        (1, None, "outer"),
        (2, 1, "inner"),
        (3, None, "inner"),
    ]
    assert report.rows["operation_coded"] == 4
    assert losses(path) == {}


def test_paths_are_one_over_all_threads(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("step", 200, 210)
    shim.flush()
    shim.slot = 1
    shim.thread(tid=11, ts_ns=BEGIN)
    shim.range("step", 205, 215)
    path, _ = saved(kernel_half(tmp_path / "spool", tids=(10, 11)), shim)
    assert rows(path, "SELECT thread_id, path_id FROM operation ORDER BY 1") == [(1, 1), (2, 1)]


def test_a_slot_passes_from_thread_to_thread(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("first", 200, 210)
    shim.thread(tid=11, ts_ns=300)
    shim.range("second", 310, 320)
    path, _ = saved(kernel_half(tmp_path / "spool", tids=(10, 11)), shim)
    assert rows(path, PER_RANGE) == [(1, 200, 210, "first", 0), (2, 310, 320, "second", 0)]


def test_ranges_are_cut_at_what_was_recorded(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("long before", 10, 90)
    shim.range("since before", 0, 300)
    shim.range("over the end", 900, 2000)
    shim.range("after the end", 1100, 1200)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, PER_RANGE) == [
        (1, BEGIN, 300, "since before", 0),
        (1, 900, FINISH, "over the end", 0),
    ]
    assert losses(path) == {
        "operation_began_before": ("truncated", 1),
        "operation_open_at_end": (
            "truncated",
            1,
        ),
    }


def test_what_is_open_at_the_end_is_cut_there(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("done", 200, 210)
    shim.event(THREAD_OPEN, "left by a thread", 220, 230)
    shim.open(("open", 300), ("inside", 400), ts_ns=FINISH + 5)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, f"{PER_RANGE} WHERE start_ns > 210") == [
        (1, 220, 230, "left by a thread", 0),
        (1, 300, FINISH, "open", 0),
        (1, 400, FINISH, "inside", 1),
    ]
    assert sum(int(str(row[1])) for row in losses(path).values()) == 3


def test_a_range_written_and_still_on_the_stack_is_one(tmp_path: Path, shim: ShimBuilder) -> None:
    # Killed between the record of the end and the stack.
    shim.range("ended", 200, 210)
    shim.open(("ended", 200), ts_ns=FINISH)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, PER_RANGE) == [(1, 200, 210, "ended", 0)]


def test_parts_end_where_nothing_is_open(
    tmp_path: Path, shim: ShimBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two ranges make a part, or as many as it takes until none is open.
    monkeypatch.setattr("rlscope_trace.ingest.store.operations.BATCH_ROWS", 2)
    shim.range("simulation", 202, 299, domain="rlscope")
    shim.range("env", 200, 300, flags=1)
    for start in range(310, 400, 10):
        shim.range("inner", start, start + 5, depth=1)
    shim.range("outer", 305, 400, flags=1)
    shim.range("simulation", 502, 599, domain="rlscope")
    shim.range("env", 500, 600, flags=1)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    inner = [(1, start, start + 5, "inner", 1) for start in range(310, 400, 10)]
    assert rows(path, PER_RANGE) == [
        (1, 200, 300, "env", 0), (1, 305, 400, "outer", 0), *inner, (1, 500, 600, "env", 0),
    ]  # fmt: skip
    reader = ShimRangeReader(ShimScan(str(write_again(tmp_path, shim))), 0)
    sizes = []
    while (part := reader.next(2)) is not None:
        sizes.append(len(part["key"]))
    assert sizes == [2, 10, 2]


def write_again(tmp_path: Path, shim: ShimBuilder) -> Path:
    """Return shim.bin once more: the spool is gone."""
    shim.write(tmp_path)
    return tmp_path / "shim.bin"


def test_phases_are_auto_and_give_way(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("simulation", 202, 299, domain="rlscope")
    shim.range("env", 200, 300)
    shim.range("inference", 299, 400, domain="rlscope")
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT start_ns, end_ns, name, source FROM operation") == [
        (200, 300, "env", "nvtx"),
        (300, 400, "inference", "auto"),
    ]


def test_attributes_are_kept(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.category(5, "physics", domain="sim")
    shim.range("step", 200, 210, domain="sim", category=5, color=0xFF112233)
    shim.range("step", 220, 230, domain="sim", category=6, payload_type=2, payload=2**64 - 7)
    shim.range("step", 240, 250, payload_type=1, payload=2**64 - 1)
    shim.event(MARK, "instant", 260, 0)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT name, domain, category, color FROM operation_path") == [
        ("step", "sim", "physics", 0xFF112233),
        ("step", "sim", "6", None),
        ("step", None, None, None),
    ]
    assert rows(path, "SELECT start_ns, integer_value FROM operation_payload") == [
        (220, -7),
        (240, 2**64 - 1),
    ]
    assert rows(path, "SELECT thread_id, ts_ns, name FROM mark") == [(1, 260, "instant")]


STEPS = "SELECT start_ns, end_ns, name, environment_steps FROM operation ORDER BY ALL"


def test_phases_tell_their_environment_steps(tmp_path: Path, shim: ShimBuilder) -> None:
    for start_ns, name, steps in ((200, "simulation", {"payload": 16}), (220, "inference", {})):
        reported = {"payload_type": int(name == "simulation"), **steps}
        shim.range(name, start_ns, start_ns + 10, domain="rlscope", **reported)
    # Nobody ends it.
    shim.range("simulation", 900, 2000, domain="rlscope", payload_type=1)
    # Programs can write what they like, and payloads of their own are none.
    shim.range("simulation", 300, 310, domain="rlscope", payload_type=1, payload=2**64 - 1)
    shim.range("simulation", 320, 330, domain="rlscope", payload_type=3, payload=5)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, STEPS) == [
        (200, 210, "simulation", 16), (220, 230, "inference", None), (300, 310, "simulation", None),
        (320, 330, "simulation", None), (900, FINISH, "simulation", 0),
    ]  # fmt: skip
    assert rows(path, "FROM operation_payload") == []


def test_a_range_in_place_of_a_phase_has_its_steps(tmp_path: Path, shim: ShimBuilder) -> None:
    for at in (200, 300):
        shim.range(
            "simulation", at + 1, at + 9, depth=1, domain="rlscope", payload_type=1, payload=4
        )
        shim.range("env.step", at, at + 10, payload_type=1, payload=7)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, STEPS) == [(200, 210, "env.step", 4), (300, 310, "env.step", 4)]
    assert rows(path, "SELECT integer_value FROM operation_payload") == [(7,), (7,)]


def test_time_of_lost_ranges_has_no_steps(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("simulation", 200, 210, domain="rlscope", payload_type=1, payload=4)
    shim.gap(220, 230)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT start_ns, environment_steps FROM operation_coded") == [
        (200, 4), (220, None),
    ]  # fmt: skip


def test_start_and_end_are_joined_whoever_is_read_first(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.event(ASYNC_END, "", 0, 250, id=2)
    shim.event(START, "one", 200, 0, id=1)
    shim.event(ASYNC_END, "", 0, 300, id=1)
    shim.event(START, "two", 220, 0, id=2)
    shim.event(START, "never ended", 400, 0, id=3)
    shim.event(ASYNC_END, "", 0, 500, id=4)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT process_id, start_ns, end_ns, name FROM async_range") == [
        (1, 200, 300, "one"),
        (1, 220, 250, "two"),
        (1, 400, FINISH, "never ended"),
    ]
    assert {kind for kind, _ in losses(path).values()} == {"unmatched", "truncated"}


def test_names_that_were_lost_are_told(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.reported.add("step")
    shim.range("step", 200, 210)
    shim.range("", 220, 230)
    shim.counters(names=1, dropped=7, pops=2, deep=3)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT name FROM operation_path") == [("(name lost)",), ("(unnamed)",)]
    counts = set(losses(path).values())
    assert counts == {("dropped", 1), ("dropped", 7), ("unmatched", 2), ("dropped", 3)}


def test_other_namespaces_and_unknown_threads(tmp_path: Path) -> None:
    shim = ShimBuilder()
    shim.source(pid=10, inner_pid=1)
    shim.block(5, (1).to_bytes(4, "little") + (10).to_bytes(4, "little"))
    shim.thread(tid=1, ts_ns=BEGIN)
    shim.range("ours", 200, 210)
    shim.flush()
    shim.slot = 1
    shim.thread(tid=7, ts_ns=BEGIN)
    shim.range("nobody's", 200, 210)
    shim.ts_ns = 500
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, PER_RANGE) == [(1, 200, 210, "ours", 0)]
    assert losses(path) == {"operation_without_thread": ("unmatched", 1)}


@pytest.mark.parametrize(("at_ns", "counted"), [(FINISH - 100, 2), (FINISH, 0)])
def test_what_an_unknown_thread_marks_after_the_end_is_no_loss(
    tmp_path: Path, shim: ShimBuilder, at_ns: int, counted: int
) -> None:
    shim.source(pid=77)
    shim.thread(tid=77, ts_ns=at_ns)
    shim.range("of a thread that nobody saw", at_ns, at_ns + 10)
    shim.event(MARK, "likewise", at_ns + 5, 0)
    shim.ts_ns = at_ns + 20
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    found = losses(path).get("operation_without_thread", ("", 0))
    assert found[-1] == counted


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"measured": True, "fact": {"code": "nvtx_ranges"}}, [(None, True, "nvtx_ranges")]),
        (
            {"measured": False, "fact": {"code": "not_launched"}},
            [(None, False, "not_launched"), (1, True, None)],
        ),
    ],
)
def test_what_was_measured_is_told(
    tmp_path: Path, shim: ShimBuilder, reported: dict[str, object], expected: list[object]
) -> None:
    shim.range("step", 200, 210)
    path, _ = saved(kernel_half(tmp_path / "spool", operations=reported), shim)
    assert (
        rows(path, "SELECT process_id, measured, code FROM coverage WHERE kind = 'operation'")
        == expected
    )


def example() -> bytes:
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.thread(tid=10, ts_ns=BEGIN)
    shim.category(5, "physics", domain="sim")
    shim.range("a long name that needs more than the forty-eight bytes of one cell", 200, 210)
    shim.range("step", 220, 230, domain="sim", category=5)
    shim.event(START, "one", 200, 0, id=1)
    shim.event(ASYNC_END, "", 0, 300, id=1)
    shim.counters(dropped=1)
    shim.open(("open", 300), ts_ns=FINISH)
    return shim.data()


EXAMPLE = example()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    damage=st.lists(st.tuples(st.integers(16, len(EXAMPLE) - 1), st.integers(0, 255)), max_size=8),
    length=st.integers(0, len(EXAMPLE)),
)
def test_no_damage_is_more_than_a_loss(
    tmp_path: Path, damage: list[tuple[int, int]], length: int
) -> None:
    data = bytearray(EXAMPLE)
    for place, value in damage:
        data[place] = value
    path = tmp_path / "shim.bin"
    path.write_bytes(data[:length])
    scan = ShimScan(str(path))
    incarnations = scan.incarnations()
    for index in range(len(incarnations)):
        reader = ShimRangeReader(scan, index)
        while (columns := reader.next(1)) is not None:
            assert len(columns.pop("gap_start_ns")) == len(columns.pop("gap_end_ns"))
            assert len({len(column) for column in columns.values()}) == 1
            assert (columns["key"] < len(scan.names())).all()
    assert all(0 <= row["incarnation"] < len(incarnations) for row in scan.marks())
    assert all(count >= 0 for count in scan.losses().values())


def test_a_file_cut_short_keeps_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "shim.bin"
    path.write_bytes(EXAMPLE)
    whole = ShimScan(str(path))
    assert whole.losses()["bytes_left"] == 0
    path.write_bytes(EXAMPLE[:-1])
    cut = ShimScan(str(path))
    assert cut.records == whole.records
    assert cut.losses()["bytes_left"] > 0


def test_a_category_that_is_renamed_keeps_its_ranges(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.category(5, "first")
    shim.range("before", 200, 210, category=5)
    shim.category(5, "second")
    shim.range("after", 300, 310, category=5)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT name, category FROM operation ORDER BY start_ns") == [
        ("before", "first"),
        ("after", "first"),
    ]


def test_a_range_ends_where_its_program_is_replaced(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("before", 150, 160)
    shim.open(("since before", 0), ("kept no end", 200), ts_ns=FINISH)
    spool = tmp_path / "spool"
    made = SpoolBuilder()
    made.thread(1, ts_ns=BEGIN, tid=10, tgid=10)
    made.cycle(1, off_ns=BEGIN, wake_ns=BEGIN, in_ns=BEGIN + 10, out_ns=FINISH - 50)
    made.exec(1, ts_ns=400, tid=10)
    made.close(1, off_ns=FINISH - 50)
    made.write(spool, end_ns=FINISH, session={"host": "box"})
    path, _ = saved(spool, shim)
    assert rows(path, PER_RANGE) == [
        (1, BEGIN, 400, "since before", 0),
        (1, 150, 160, "before", 1),
        (1, 200, 400, "kept no end", 1),
    ]


def test_losses_that_cannot_be_are_damage(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("step", 200, 210)
    shim.counters(dropped=2**64 - 1, names=3, pops=2**63)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT count(*) FROM operation") == [(1,)]
    assert losses(path) == {
        "operation_names_dropped": ("dropped", 3),
        "operations_damaged": ("dropped", 2),
    }


def test_a_shim_that_was_loaded_late_and_cannot_work_is_not_measured(tmp_path: Path) -> None:
    facts = [{"code": "late_open_ranges"}, {"code": "late_busy_objects", "count": 2}]
    late = [{"pid": 10, "measured": True, "fact": fact} for fact in facts]
    empty = ShimBuilder()
    for more, measured in ({}, True), ({"shim_refused_pids": [10]}, False), (
        {"shim_taken_pids": [10]}, False,
    ):  # fmt: skip
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        path, _ = saved(kernel_half(folder, operations_late=late, **more), empty)
        found = rows(
            path,
            "SELECT measured, code, count FROM coverage"
            " WHERE kind = 'operation' AND process_id = 1",
        )
        lacks = {(True, "late_open_ranges", None), (True, "late_busy_objects", 2)}
        assert {row[0] for row in found} == {measured}
        assert set(found) == lacks if measured else lacks.isdisjoint(found)


def test_ranges_behind_a_text_that_is_cut_off_are_read(tmp_path: Path, shim: ShimBuilder) -> None:
    """A text that says it goes on beyond its block ends where it begins, in every pass."""
    shim.range("step", 120, 130)
    shim.cell(struct.pack("<HHIQ48x", STRING, 1000, 0, 77))
    shim.range("step", 140, 150)
    shim.range("step", 160, 170)
    trace, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(trace, PER_RANGE + " ORDER BY start_ns") == [
        (1, start, start + 10, "step", 0) for start in (120, 140, 160)
    ]
    assert losses(trace) == {"operations_damaged": ("dropped", 1)}
