"""Time whose operations were dropped is (lost), and all other time is as if nothing had been."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finalising import finalise
from rlscope_analysis.derive import complete
from rlscope_trace.spool.directory import open_spool
from shim_builder import THREAD_OPEN, ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN, FINISH = 100, 1000
GAPS = "SELECT start_ns, end_ns FROM operation_gap ORDER BY start_ns"


@pytest.fixture
def shim() -> ShimBuilder:
    """Return the shim of process 10 with its first thread."""
    made = ShimBuilder()
    made.source(pid=10)
    made.thread(tid=10, ts_ns=BEGIN)
    return made


def saved(
    folder: Path,
    shim: ShimBuilder,
    fill: Callable[[duckdb.DuckDBPyConnection], None] = complete,
) -> duckdb.DuckDBPyConnection:
    """Return the trace of a process with one thread, which ran from BEGIN to FINISH."""
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=BEGIN, tid=10, tgid=10)
    spool.cycle(1, off_ns=BEGIN, wake_ns=BEGIN, in_ns=BEGIN + 10, out_ns=FINISH - 50)
    spool.close(1, off_ns=FINISH - 50)
    spool.write(folder / "spool", end_ns=FINISH, session={"host": "box"})
    shim.write(folder / "spool")
    output = folder / "trace.duckdb"
    finalise(open_spool(folder / "spool"), output, overwrite=True, derive=fill)
    return duckdb.connect(str(output), read_only=True)


def test_what_was_dropped_is_lost_inside_what_was_open(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("step", 150, 180, depth=1)
    shim.gap(200, 400)
    # It began while ranges were dropped, which were before it, or inside.
    shim.range("update", 350, 450, depth=1)
    shim.range("train", 120, 600)
    with saved(tmp_path, shim) as trace:
        assert trace.sql(GAPS).fetchall() == [(200, 350), (350, 400)]
        assert trace.sql("SELECT name, count(*) FROM operation GROUP BY 1 ORDER BY 1").fetchall() \
            == [("step", 1), ("train", 1), ("update", 1)]  # fmt: skip
        spent = "SELECT operation, sum(time_ns) FROM breakdown GROUP BY 1 ORDER BY 1"
        assert trace.sql(spent).fetchall() == [
            ("(lost)", 200), ("(unannotated)", 420), ("step", 30), ("train", 200), ("update", 50),
        ]  # fmt: skip
        tree = (
            "SELECT path, instances, self_ns FROM operation_tree WHERE name = '(lost)' ORDER BY 1"
        )
        assert trace.sql(tree).fetchall() == [
            (["train", "(lost)"], None, 150), (["train", "update", "(lost)"], None, 50),
        ]  # fmt: skip


def test_what_lies_inside_a_dropped_range_is_known(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("inner", 210, 220, depth=1)
    shim.range("inner", 300, 340, depth=1)
    shim.gap(200, 400)
    with saved(tmp_path, shim) as trace:
        assert trace.sql(GAPS).fetchall() == [(200, 210), (220, 300), (340, 400)]


def test_what_was_never_told_is_in_the_counters(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("step", 150, 180)
    shim.counters(dropped=5, gap=(500, 600, 10))
    # By then there was room again, to tell of this and of what came next.
    shim.gap(500, 700)
    shim.range("step", 710, 720)
    shim.counters(dropped=9, gap=(900, 5000, 10))
    shim.thread(tid=11, ts_ns=950)
    with saved(tmp_path, shim) as trace:
        assert trace.sql(GAPS).fetchall() == [(500, 700), (900, FINISH)]


def test_a_thread_of_which_everything_was_dropped(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.flush()
    shim.counters(dropped=7, gap=(0, 800, 10))
    with saved(tmp_path, shim) as trace:
        assert trace.sql(GAPS).fetchall() == [(BEGIN, 800)]
        assert trace.sql("SELECT count(*) FROM operation").fetchall() == [(0,)]


def test_a_thread_that_was_never_introduced(tmp_path: Path) -> None:
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.thread(tid=11, ts_ns=BEGIN)
    shim.flush()
    shim.counters(dropped=7, gap=(200, 300, 12), former=(150, 400, 10))
    with saved(tmp_path, shim) as trace:
        assert trace.sql(GAPS).fetchall() == [(150, 400)]


PROGRAMS = st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.booleans()), max_size=40)


@settings(max_examples=15, deadline=None)
@given(PROGRAMS)
def test_nothing_that_was_lost_is_taken_for_something_else(
    steps: list[tuple[bool, int, bool]],
) -> None:
    """Each step opens a range or closes one, later; has_room: whether its record is kept."""
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.thread(tid=10, ts_ns=BEGIN)
    now, opened = BEGIN + 1, list[tuple[str, int]]()
    truth: dict[int, str] = {}
    gap: tuple[int, int] | None = None

    def close(kind: int | None, *, has_room: bool) -> None:
        nonlocal gap
        name, start_ns = opened.pop()
        if has_room:
            if gap:
                shim.gap(*gap)
                gap = None
            flags = 0 if opened else 1
            if kind is None:
                shim.range(name, start_ns, now, flags=flags, depth=len(opened))
            else:
                shim.event(kind, name, start_ns, now, depth=len(opened))
        else:
            gap = (min(gap[0], start_ns) if gap else start_ns, now)

    for number, (is_push, length, has_room) in enumerate(steps):
        if is_push:
            opened.append((f"range {number}", now))
        elif opened:
            close(None, has_room=has_room)
        truth |= dict.fromkeys(range(now, now + length), opened[-1][0] if opened else "")
        now += length
    while opened:
        close(THREAD_OPEN, has_room=True)
    shim.flush()
    shim.counters(gap=(*gap, 10) if gap else (0, 0, 0))
    with (
        tempfile.TemporaryDirectory() as folder,
        saved(Path(folder), shim, lambda _: None) as trace,
    ):
        assert trace.sql("SELECT code FROM trace_stat WHERE code = 'operation_not_nested'") \
            .fetchall() == []  # fmt: skip
        found = dict.fromkeys(truth, "")
        for start_ns, end_ns, name in trace.sql(
            "SELECT o.start_ns, o.end_ns, p.name FROM operation_coded AS o"
            " JOIN operation_path AS p USING (path_id) ORDER BY p.depth"
        ).fetchall():
            found |= dict.fromkeys(range(start_ns, end_ns), name)
    has_dropped = any(not has_room for _, _, has_room in steps)
    for at_ns, name in truth.items():
        assert found[at_ns] == name or (found[at_ns] == "(lost)" and has_dropped), at_ns
