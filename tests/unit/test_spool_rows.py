"""Cycles become rows: what each record tells, and that every nanosecond is told exactly once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_trace._ingest import SpoolScan, StateRows
from spool_builder import (
    BLOCKED,
    BY_DEVICE,
    BY_TIMER,
    DEAD,
    FOUND,
    INTERRUPT,
    OUTSIDE,
    RUNNABLE,
    SLEEPING,
    UNKNOWN,
    SpoolBuilder,
)

if TYPE_CHECKING:
    from pathlib import Path

RUNNING_ROW, RUNNABLE_ROW, SLEEPING_ROW, BLOCKED_ROW = range(4)

COLUMNS = ("thread_id", "start_ns", "end_ns", "state", "cpu", "waker_kind", "waker_thread_id")
# What stands in a record, by the code of waker_kind; a thread is its thread_id.
NOBODY_OR_WHO = (0, None, INTERRUPT, OUTSIDE, UNKNOWN, BY_TIMER, BY_DEVICE)

Row = tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class Told:
    """Rows (thread_id, start, end, state, cpu, waker), fates {id: (start, end, lost, ended)}."""

    rows: list[Row]
    fates: dict[int, tuple[int, int, int, bool]]
    findings: dict[str, int]


def waker_of(kind: int, thread_id: int) -> int:
    """Return what stood in the record."""
    reported = NOBODY_OR_WHO[kind]
    assert (reported is None) == (thread_id > 0)
    return thread_id if reported is None else reported


def decode(
    directory: Path,
    *,
    end_ns: int,
    order: list[int] | None = None,
    batch_rows: int = 1000,
    bucket_bytes: int = 1 << 20,
) -> Told:
    scan = SpoolScan(str(directory / "records.bin"), end_ns=end_ns)
    while scan.advance(100):
        pass
    ids = scan.threads()["thread_id"].tolist()
    slots = [ids.index(thread_id) for thread_id in (order or sorted(ids))]
    states = StateRows(
        scan,
        slots=slots,
        scratch_directory=str(directory),
        batch_rows=batch_rows,
        bucket_bytes=bucket_bytes,
    )
    while states.prepare(100):
        pass
    rows: list[Any] = []
    while (batch := states.next_batch()) is not None:
        rows += zip(*(batch[name].tolist() for name in COLUMNS), strict=True)
    assert len(rows) == states.row_count
    totals = states.totals()
    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=False):
        stored = [value for value in column if value or name != "waker_thread_id"]
        known = (sum(stored), min(stored), max(stored)) if stored else (None, None, None)
        assert totals[name] == (len(stored), *known)
    rows = [(*row[:5], waker_of(*row[5:])) for row in rows]
    fates = {
        fate[3]: (fate[0], fate[1], fate[2], bool(fate[4])) for fate in states.outcomes().tolist()
    }
    return Told(rows, fates, {name: count for name, (count, _) in states.findings().items()})


def build(*, start_ns: int = 100) -> SpoolBuilder:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=start_ns, tid=10)
    return spool


def test_a_cycle_becomes_its_states(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=150, off_state=RUNNABLE, waker=7, cpu=3)
    spool.cycle(1, off_ns=150, wake_ns=180, in_ns=185, out_ns=200, waker=INTERRUPT, cpu=0)
    spool.cycle(1, off_ns=200, wake_ns=220, in_ns=221, out_ns=230, off_state=BLOCKED, waker=OUTSIDE)
    spool.cycle(1, off_ns=230, wake_ns=240, in_ns=241, out_ns=242, waker=BY_TIMER, cpu=0)
    spool.cycle(1, off_ns=242, wake_ns=250, in_ns=251, out_ns=252, waker=BY_DEVICE, cpu=0)
    spool.close(1, off_ns=252)
    reported = decode(spool.write(tmp_path / "spool", end_ns=300), end_ns=300)
    assert reported.rows == [
        (1, 100, 110, RUNNABLE_ROW, -1, 7),
        (1, 110, 150, RUNNING_ROW, 3, 0),
        (1, 150, 180, SLEEPING_ROW, -1, 0),
        (1, 180, 185, RUNNABLE_ROW, -1, INTERRUPT),
        (1, 185, 200, RUNNING_ROW, 0, 0),
        (1, 200, 220, BLOCKED_ROW, -1, 0),
        (1, 220, 221, RUNNABLE_ROW, -1, OUTSIDE),
        (1, 221, 230, RUNNING_ROW, 0, 0),
        (1, 230, 240, SLEEPING_ROW, -1, 0),
        (1, 240, 241, RUNNABLE_ROW, -1, BY_TIMER),
        (1, 241, 242, RUNNING_ROW, 0, 0),
        (1, 242, 250, SLEEPING_ROW, -1, 0),
        (1, 250, 251, RUNNABLE_ROW, -1, BY_DEVICE),
        (1, 251, 252, RUNNING_ROW, 0, 0),
        (1, 252, 300, SLEEPING_ROW, -1, 0),
    ]
    assert reported.fates == {1: (100, 300, 0, False)}
    assert set(reported.findings.values()) == {0}


@pytest.mark.parametrize(
    ("wake_ns", "states"),
    [
        (95, [(RUNNABLE_ROW, 100, 120, 5)]),
        (100, [(RUNNABLE_ROW, 100, 120, 5)]),
        (120, [(SLEEPING_ROW, 100, 120, 0)]),
        (130, [(SLEEPING_ROW, 100, 120, 0)]),
        (0, [(SLEEPING_ROW, 100, 120, 0)]),
    ],
)
def test_a_wakeup_is_clamped_into_its_sleep(
    tmp_path: Path, wake_ns: int, states: list[tuple[int, int, int, int]]
) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, wake_ns=wake_ns, in_ns=120, out_ns=130, waker=5)
    reported = decode(spool.write(tmp_path / "spool", end_ns=130), end_ns=130)
    assert [(row[3], row[1], row[2], row[5]) for row in reported.rows[:-1]] == states
    assert reported.findings["unseen_wakeup"] == (1 if wake_ns == 0 else 0)


UNSEEN_SWITCH_IN = 1


def test_a_switch_in_that_was_not_seen_loses_its_cycle_and_says_so(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, in_ns=0, out_ns=150, cpu=1, flags=UNSEEN_SWITCH_IN)
    spool.cycle(1, off_ns=150, wake_ns=160, in_ns=160, out_ns=180, out_state=DEAD)
    reported = decode(spool.write(tmp_path / "spool", end_ns=200), end_ns=200)
    assert reported.rows == [(1, 150, 160, SLEEPING_ROW, -1, 0), (1, 160, 180, RUNNING_ROW, 0, 0)]
    assert reported.fates == {1: (100, 180, 50, True)}
    assert {name: count for name, count in reported.findings.items() if count} == {
        "unseen_switch_in": 1
    }


def test_a_switch_in_that_follows_from_the_runtime_is_counted_apart(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(
        1, off_ns=100, wake_ns=110, in_ns=120, out_ns=150, flags=UNSEEN_SWITCH_IN, out_state=DEAD
    )
    reported = decode(spool.write(tmp_path / "spool", end_ns=200), end_ns=200)
    assert [(row[3], row[2] - row[1]) for row in reported.rows] == [
        (SLEEPING_ROW, 10),
        (RUNNABLE_ROW, 10),
        (RUNNING_ROW, 30),
    ]
    assert {name: count for name, count in reported.findings.items() if count} == {
        "inferred_switch_in": 1
    }


def test_a_lost_cycle_leaves_a_hole_that_is_counted(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=120, off_state=RUNNABLE)
    spool.cycle(1, off_ns=150, wake_ns=155, in_ns=160, out_ns=170)
    spool.close(1, off_ns=180, in_ns=190, off_state=RUNNABLE)
    reported = decode(spool.write(tmp_path / "spool", end_ns=200), end_ns=200)
    assert reported.fates == {1: (100, 200, 30 + 10, False)}
    assert reported.findings["gap"] == 2


def test_a_record_that_reaches_back_is_cut(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=150, off_state=RUNNABLE)
    spool.cycle(1, off_ns=120, wake_ns=160, in_ns=170, out_ns=180)
    reported = decode(spool.write(tmp_path / "spool", end_ns=180), end_ns=180)
    assert [(row[1], row[2]) for row in reported.rows] == [
        (100, 110), (110, 150), (150, 160), (160, 170), (170, 180),
    ]  # fmt: skip
    assert reported.findings["overlap"] == 1


def test_everything_is_cut_at_the_end_of_the_trace(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, wake_ns=190, in_ns=210, out_ns=250, out_state=DEAD)
    spool.cycle(1, off_ns=250, in_ns=260, out_ns=270)
    reported = decode(spool.write(tmp_path / "spool", end_ns=200), end_ns=200)
    assert [row[1:4] for row in reported.rows] == [
        (100, 190, SLEEPING_ROW),
        (190, 200, RUNNABLE_ROW),
    ]
    assert reported.fates == {1: (100, 200, 0, False)}


def test_a_dead_thread_ends_where_it_died(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, in_ns=100, out_ns=150, off_state=RUNNABLE, out_state=DEAD)
    reported = decode(spool.write(tmp_path / "spool", end_ns=300), end_ns=300)
    assert reported.fates == {1: (100, 150, 0, True)}


def test_a_thread_whose_last_cycle_was_lost_ends_at_its_exit(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, in_ns=100, out_ns=150, off_state=RUNNABLE)
    spool.exit(1, ts_ns=180, status=0)
    reported = decode(spool.write(tmp_path / "spool", end_ns=300), end_ns=300)
    assert reported.fates == {1: (100, 180, 30, True)}


def test_a_thread_missing_from_the_closing_inventory_is_lost_to_the_end(tmp_path: Path) -> None:
    spool = build()
    spool.cycle(1, off_ns=100, in_ns=100, out_ns=150, off_state=RUNNABLE)
    reported = decode(spool.write(tmp_path / "spool", end_ns=300), end_ns=300)
    assert reported.fates == {1: (100, 300, 150, False)}
    assert reported.findings["unseen_end"] == 1


def test_after_a_kill_threads_end_at_the_last_known_instant(tmp_path: Path) -> None:
    spool = build()
    spool.thread(2, ts_ns=120, tid=11)
    spool.cycle(1, off_ns=100, in_ns=100, out_ns=150, off_state=RUNNABLE)
    reported = decode(spool.write(tmp_path / "spool", end_ns=0), end_ns=0)
    assert reported.fates == {1: (100, 150, 0, False), 2: (120, 120, 0, False)}
    assert reported.findings["truncated_thread"] == 2


def test_a_thread_without_its_first_record_starts_at_its_first_cycle(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.cycle(9, off_ns=100, wake_ns=105, in_ns=110, out_ns=150)
    reported = decode(spool.write(tmp_path / "spool", end_ns=150), end_ns=150)
    assert reported.fates == {9: (100, 150, 0, False)}


@dataclass(frozen=True)
class Cycle:
    off_ns: int
    wake_ns: int
    in_ns: int
    out_ns: int
    off_state: int
    out_state: int
    cpu: int
    waker: int

    @property
    def last_ns(self) -> int:
        return max(self.off_ns, self.in_ns, self.out_ns)

    def state_at(self, ns: int) -> tuple[int, int, int] | None:
        if ns >= self.in_ns:
            return (RUNNING_ROW, self.cpu, 0)
        if self.off_state == DEAD:
            return None
        woken = self.off_state == RUNNABLE or 0 < self.wake_ns <= ns
        if woken:
            return (RUNNABLE_ROW, -1, self.waker)
        return (SLEEPING_ROW if self.off_state == SLEEPING else BLOCKED_ROW, -1, 0)


@dataclass(frozen=True)
class Life:
    start_ns: int
    cycles: tuple[Cycle, ...]
    close: Cycle | None
    exit_ns: int

    def state_at(self, ns: int, end_ns: int) -> tuple[int, int, int] | None:
        """Brute force: who told of an instant first is right, what was passed over is lost."""
        records = self.cycles
        if self.close is not None and not self.dies(end_ns):
            last = end_ns or max(self.close.off_ns, self.close.wake_ns, self.close.in_ns)
            records += (replace(self.close, in_ns=self.close.in_ns or last, out_ns=last),)
        for record in records:
            if record.off_ns <= ns < record.last_ns:
                return record.state_at(ns)
            if ns < record.last_ns:
                return None
        return None

    def dies(self, end_ns: int) -> bool:
        limit_ns = end_ns or 10**9
        if not self.cycles:
            return False
        last = self.cycles[-1]
        return last.off_ns < limit_ns and last.out_state == DEAD and last.last_ns <= limit_ns

    def end_at(self, end_ns: int) -> int:
        last_ns = max([self.start_ns, *(cycle.last_ns for cycle in self.cycles)])
        last_ns = min(last_ns, end_ns or 10**9)
        if self.dies(end_ns):
            return last_ns
        if self.close is not None:
            known = max(self.close.off_ns, self.close.wake_ns, self.close.in_ns)
            return end_ns or max(last_ns, known)
        if 0 < self.exit_ns <= (end_ns or 10**9):
            return min(max(last_ns, self.exit_ns), end_ns or 10**9)
        return end_ns or last_ns


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Draw a true history, with some of its records lost or damaged."""
    step = st.integers(0, 12)
    start = at = draw(st.integers(1, 20))
    cycles = []
    for _ in range(draw(st.integers(0, 6))):
        off, slept = at, draw(step)
        woken = draw(st.sampled_from([off, off + slept, max(off - 2, 1), off + slept + 3, 0]))
        at = off + slept + draw(step)
        cycle = Cycle(
            off, woken, at, at + draw(step), draw(st.integers(0, 2)), draw(st.integers(0, 2)),
            draw(st.integers(0, 5)), draw(st.sampled_from([0, -1, -2, 4])),
        )  # fmt: skip
        at = cycle.out_ns
        fate = draw(st.integers(0, 9))
        if fate == 0:
            name = draw(st.sampled_from(["off_ns", "in_ns", "out_ns", "wake_ns"]))
            cycle = replace(cycle, **{name: draw(st.integers(0, 90))})
        elif fate == 1:
            cycle = replace(cycle, off_state=DEAD)
        if fate != 2:
            cycles.append(cycle)
    if cycles and draw(st.booleans()):
        cycles[-1] = replace(cycles[-1], out_state=DEAD)
    close = None
    if draw(st.booleans()):
        woken = draw(st.sampled_from([0, at + 2]))
        close = Cycle(at, woken, draw(st.sampled_from([0, at + 5])), 0, draw(st.integers(0, 2)), 0,
                      draw(st.integers(0, 5)), 4)  # fmt: skip
    return Life(start, tuple(cycles), close, draw(st.sampled_from([0, at, at + 3])))


def add_cycle(spool: SpoolBuilder, thread_id: int, c: Cycle) -> None:
    spool.cycle(
        thread_id, off_ns=c.off_ns, wake_ns=c.wake_ns, in_ns=c.in_ns, out_ns=c.out_ns,
        off_state=c.off_state, out_state=c.out_state, cpu=c.cpu, waker=c.waker,
    )  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    histories=st.lists(lives(), min_size=1, max_size=4),
    end_ns=st.sampled_from([0, 40, 95, 200]),
    batch_rows=st.integers(1, 9),
    bucket_bytes=st.sampled_from([1, 100, 200, 1 << 20]),
    data=st.data(),
)
def test_rows_are_what_a_brute_force_reading_says(
    tmp_path_factory: pytest.TempPathFactory,
    histories: list[Life],
    end_ns: int,
    batch_rows: int,
    bucket_bytes: int,
    data: st.DataObject,
) -> None:
    spool = SpoolBuilder()
    left = {}
    for thread_id, life in enumerate(histories, 1):
        spool.thread(thread_id, ts_ns=life.start_ns, tid=thread_id, entered=FOUND)
        if life.exit_ns:
            spool.exit(thread_id, ts_ns=life.exit_ns)
        if life.close is not None:
            c = life.close
            spool.close(thread_id, off_ns=c.off_ns, wake_ns=c.wake_ns, in_ns=c.in_ns,
                        off_state=c.off_state, cpu=c.cpu, waker=c.waker)  # fmt: skip
        left[thread_id] = list(life.cycles)
    while waiting := [thread_id for thread_id, cycles in left.items() if cycles]:
        thread_id = data.draw(st.sampled_from(waiting))
        add_cycle(spool, thread_id, left[thread_id].pop(0))
    order = data.draw(st.permutations(range(1, len(histories) + 1)))
    directory = spool.write(tmp_path_factory.mktemp("property") / "spool", end_ns=end_ns)
    reported = decode(
        directory, end_ns=end_ns, order=order, batch_rows=batch_rows, bucket_bytes=bucket_bytes
    )

    assert list(dict.fromkeys(row[0] for row in reported.rows)) == [
        thread_id for thread_id in order if any(row[0] == thread_id for row in reported.rows)
    ]
    for thread_id, life in enumerate(histories, 1):
        rows = [row for row in reported.rows if row[0] == thread_id]
        start, end, lost, _ = reported.fates[thread_id]
        assert (start, end) == (life.start_ns, life.end_at(end_ns))
        assert end - start == sum(row[2] - row[1] for row in rows) + lost
        at = start
        for row in rows:
            assert at <= row[1] < row[2]
            at = row[2]
        assert at <= end
        painted = {ns: row[3:] for row in rows for ns in range(row[1], row[2])}
        assert painted == {
            ns: state
            for ns in range(start, end)
            if (state := life.state_at(ns, end_ns)) is not None
        }
