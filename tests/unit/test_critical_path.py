"""The critical path, cause by cause: traces in which it is known what held an iteration up."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb
import pytest

import rlscope_analysis
from rlscope_analysis.errors import TraceError
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from trace_builder import (
    DEVICE,
    INTERRUPT,
    OUTSIDE,
    TIMER,
    UNKNOWN,
    Interval,
    TraceBuilder,
    blocked,
    lost,
    preempted,
    run,
    sleep,
    woken,
)

if TYPE_CHECKING:
    from pathlib import Path

SUMS = """
SELECT thread_id, operation, cause, by_thread_id, sum(duration_ns)::BIGINT
FROM critical_path GROUP BY ALL ORDER BY min(start_ns)
"""


@pytest.fixture
def builder(tmp_path: Path) -> TraceBuilder:
    return TraceBuilder(tmp_path / "trace.duckdb")


def ask(
    builder: TraceBuilder, query: str, *, per: str | None = None, **window: str
) -> list[tuple[Any, ...]]:
    path = builder.path if builder.path.exists() else builder.write()
    with rlscope_analysis.open(path, **window) as trace:
        trace.critical_path(per=per)
        tiled = """
            SELECT i.iteration_id FROM iteration AS i LEFT JOIN critical_path AS c
              ON c.iteration_id = i.iteration_id
            GROUP BY i.iteration_id, i.start_ns, i.end_ns
            HAVING min(c.start_ns) <> i.start_ns OR max(c.end_ns) <> i.end_ns
              OR sum(c.duration_ns) <> i.end_ns - i.start_ns
        """
        assert trace.sql(tiled).fetchall() == []
        return trace.sql(query).fetchall()


def test_who_answers_last_held_the_iteration_up(builder: TraceBuilder) -> None:
    """A learner asks two workers, and goes on when the slower one has answered."""
    main, fast, slow = (builder.process(pid=number) for number in (1, 2, 3))
    learner = builder.thread(main, states=[run(10), sleep(52), woken(3, by=3), run(15)])
    builder.thread(fast, states=[sleep(10), woken(1, by=1), run(20, cpu=1), sleep(49)])
    builder.thread(slow, states=[sleep(10), woken(2, by=1), run(50, cpu=2), sleep(18)])
    builder.wait(learner, 10, 62, "pipe")
    builder.operation(learner, 0, 80, "iteration")
    builder.operation(3, 20, 60, "step")
    assert ask(builder, SUMS) == [
        (learner, "iteration", "running", None, 25),
        (3, "(unannotated)", "cpu_wait", None, 2),
        (3, "(unannotated)", "running", None, 10),
        (3, "step", "running", None, 40),
        (learner, "iteration", "cpu_wait", None, 3),
    ]
    waited = "SELECT wait, waiter_thread_id, sum(duration_ns)::BIGINT FROM critical_path"
    assert ask(builder, f"{waited} WHERE thread_id = 3 GROUP BY ALL") == [("pipe", learner, 52)]


def test_what_was_done_before_anybody_waited_is_on_nobodys_account(builder: TraceBuilder) -> None:
    """The producer had begun long before the consumer waited for it."""
    process = builder.process(pid=1)
    consumer = builder.thread(process, states=[run(30), sleep(10), woken(1, by=2), run(4)])
    builder.thread(process, states=[run(45, cpu=1)])
    builder.wait(consumer, 30, 40, "lock")
    builder.operation(consumer, 0, 45, "iteration")
    columns = "thread_id, cause, wait, waiter_thread_id, start_ns, end_ns"
    assert ask(builder, f"SELECT {columns} FROM critical_path ORDER BY start_ns") == [
        (2, "running", None, None, 0, 30),
        (2, "running", "lock", consumer, 30, 40),
        (consumer, "cpu_wait", None, None, 40, 41),
        (consumer, "running", None, None, 41, 45),
    ]


def test_a_wait_for_a_cpu_names_who_had_it(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[run(10), preempted(20), run(10)])
    other = builder.thread(process, states=[preempted(12), run(13), sleep(15)])
    builder.operation(thread, 0, 40, "iteration")
    assert ask(builder, SUMS) == [
        (thread, "iteration", "running", None, 20),
        (thread, "iteration", "cpu_wait", None, 7),
        (thread, "iteration", "cpu_taken", other, 13),
    ]


def test_a_wait_for_a_cpu_names_programs_outside_the_trace(builder: TraceBuilder) -> None:
    """Before a traced thread had it: two of them, with a gap in which nobody is known to."""
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[run(10), preempted(50), run(10)])
    builder.thread(process, states=[preempted(48), run(12), sleep(10)])
    builder.other_run(0, 8, 20, pid=77, name="make")
    builder.other_run(0, 25, 48, pid=78, name="cc1")
    # It is the CPU of another thread, and this one had nothing to wait for.
    builder.other_run(1, 10, 60, pid=79, name="ld")
    builder.other_run(0, 62, 65, pid=80, name="as")
    builder.operation(thread, 0, 70, "iteration")
    columns = "cause, by_thread_id, by_program, by_program_pid, start_ns, end_ns"
    assert ask(builder, f"SELECT {columns} FROM critical_path ORDER BY start_ns") == [
        ("running", None, None, None, 0, 10),
        ("cpu_taken_by_other", None, "make", 77, 10, 20),
        ("cpu_wait", None, None, None, 20, 25),
        ("cpu_taken_by_other", None, "cc1", 78, 25, 48),
        ("cpu_taken", 2, None, None, 48, 60),
        ("running", None, None, None, 60, 70),
    ]
    assert ask(builder, "SELECT sum(end_ns - start_ns)::BIGINT FROM other_run", end="30ns") == [
        (12 + 5 + 20,)
    ]


def test_who_waits_for_the_cpu_quota_waits_for_nobody(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[run(10), preempted(20), run(10), preempted(5), run(5)])
    other = builder.thread(process, states=[preempted(12), run(8), preempted(20), run(5), sleep(5)])
    builder.other_run(0, 20, 30, pid=77, name="make")
    builder.quota(thread, 10)
    builder.operation(thread, 0, 50, "iteration")
    columns = "cause, by_thread_id, by_program, start_ns, end_ns"
    assert ask(builder, f"SELECT {columns} FROM critical_path ORDER BY start_ns") == [
        ("running", None, None, 0, 10),
        ("cgroup_quota", None, None, 10, 30),
        ("running", None, None, 30, 40),
        # The next wait is another one.
        ("cpu_taken", other, None, 40, 45),
        ("running", None, None, 45, 50),
    ]


@pytest.mark.parametrize(
    ("wait", "by", "cause"),
    [
        ("sleep", INTERRUPT, "timer"),
        ("lock", INTERRUPT, "timer"),
        ("poll", INTERRUPT, "interrupt"),
        (None, INTERRUPT, "interrupt"),
        ("socket", INTERRUPT, "network"),
        ("poll", TIMER, "timer"),
        ("socket", TIMER, "timer"),
        (None, TIMER, "timer"),
        ("poll", DEVICE, "device"),
        ("socket", DEVICE, "network"),
        ("io", DEVICE, "disk"),
        ("gil", TIMER, "gil"),
        ("lock", DEVICE, "lock"),
        ("io", INTERRUPT, "disk"),
        ("gpu", INTERRUPT, "gpu_wait"),
        ("pipe", OUTSIDE, "outside"),
        ("lock", UNKNOWN, "lock"),
        ("pipe", UNKNOWN, "waiting"),
        ("gil", INTERRUPT, "gil"),
    ],
)
def test_a_sleep_that_no_thread_ended_is_named_by_its_reason(
    builder: TraceBuilder, wait: str | None, by: int, cause: str
) -> None:
    thread = builder.thread(
        builder.process(pid=1), states=[run(10), sleep(20), woken(1, by=by), run(9)]
    )
    if wait:
        builder.wait(thread, 10, 30, wait)
    builder.operation(thread, 0, 40, "iteration")
    assert ask(builder, SUMS) == [
        (thread, "iteration", "running", None, 19),
        (thread, "iteration", cause, None, 20),
        (thread, "iteration", "cpu_wait", None, 1),
    ]


def test_what_is_blocked_or_lost_is_told(builder: TraceBuilder) -> None:
    states = [run(10), blocked(5), woken(0, by=INTERRUPT), run(3), lost(7), run(10)]
    thread = builder.thread(builder.process(pid=1), states=states)
    builder.operation(thread, 0, 35, "iteration")
    assert [(row[2], row[4]) for row in ask(builder, SUMS)] == [
        ("running", 23), ("blocked", 5), ("lost", 7),
    ]  # fmt: skip


def test_who_has_the_gil_is_found_without_a_wakeup(builder: TraceBuilder) -> None:
    """A wait for the GIL goes on in slices that a timer ends; the last one the holder ends.

    Before the wait the path is on the waiter again: what the holder did then, it did not need.
    """
    process = builder.process(pid=1)
    slices = [sleep(5_000_000), woken(0, by=INTERRUPT), run(2_000)]
    waiter = builder.thread(
        process,
        states=[run(1_000_000), *slices, sleep(3_000_000), woken(0, by=2), run(1_000_000)],
    )
    holder = builder.thread(process, states=[run(10_002_000, cpu=1)])
    builder.wait(waiter, 1_000_000, 6_000_000, "gil")
    builder.wait(waiter, 6_002_000, 9_002_000, "gil")
    builder.operation(waiter, 0, 10_002_000, "iteration")
    assert ask(builder, SUMS) == [
        (waiter, "iteration", "running", None, 2_000_000),
        (holder, "(unannotated)", "gil", None, 8_002_000),
    ]


def test_what_the_gil_is_waited_for_with_is_found_behind_it(builder: TraceBuilder) -> None:
    """A lock is had for 50; who gets it waits for the GIL then, which the holder has meanwhile."""
    process = builder.process(pid=1)
    waiter = builder.thread(
        process,
        states=[
            run(20), sleep(48), woken(2, by=2), run(5), sleep(10), woken(1, by=2), run(14),
        ],
    )  # fmt: skip
    holder = builder.thread(process, states=[run(100, cpu=1)])
    builder.wait(waiter, 20, 68, "lock")
    builder.wait(waiter, 75, 85, "gil")
    builder.operation(waiter, 0, 100, "iteration")
    waited = "SELECT thread_id, wait, sum(duration_ns)::BIGINT FROM critical_path GROUP BY ALL"
    reported = {(thread, wait): time for thread, wait, time in ask(builder, waited)}
    assert reported[holder, "lock"] == 48
    assert reported[holder, "gil"] == 10


@pytest.mark.parametrize(
    ("call_ends_ns", "before"),
    [
        (70, [(1, "running", None, 0, 50), (2, "running", "lock", 50, 60)]),
        (None, [(2, "timer", None, 0, 39), (2, "cpu_wait", None, 39, 40),
                (2, "running", None, 40, 50), (2, "running", "lock", 50, 60)]),
    ],
    ids=["in a call of the driver", "in none"],
)  # fmt: skip
def test_who_had_a_lock_of_the_driver_is_not_followed_to_what_it_did_before(
    builder: TraceBuilder, call_ends_ns: int | None, before: list[tuple[object, ...]]
) -> None:
    """A thread that sleeps by a timer between two short turns has the lock by chance."""
    process = builder.process(pid=1)
    main = builder.thread(process, states=[run(50), sleep(10), woken(1, by=2), run(39)])
    builder.thread(process, states=[sleep(39), woken(1, by=TIMER), run(20, cpu=1), sleep(40)])
    builder.wait(main, 50, 60, "lock")
    if call_ends_ns is not None:
        # The driver's call, inside one of the runtime: that one is over when the wait begins.
        builder.cuda_call(main, 30, call_ends_ns)
        builder.cuda_call(main, 31, 33)
    builder.operation(main, 0, 100, "iteration")
    found = """
        SELECT thread_id, cause, wait, min(start_ns), max(end_ns)
        FROM critical_path WHERE end_ns <= 60 GROUP BY thread_id, cause, wait ORDER BY 4
    """
    assert ask(builder, found) == before


class TestFromOutside:
    """A thread that polls reads what comes from another machine, and wakes who waits for it."""

    def paths(
        self, builder: TraceBuilder, *readers: list[Interval], waits: str = "poll", pid: int = 1
    ) -> list[tuple[Any, ...]]:
        """Return what held up the leading thread, which works for 20, and sleeps until 89."""
        main = builder.process(pid=1)
        process = main if pid == 1 else builder.process(pid=pid)
        lead = builder.thread(main, states=[run(20), sleep(69), woken(1, by=2), run(10)])
        for states in readers:
            thread = builder.thread(process, states=states)
            ends = list(itertools.accumulate(state.length_ns for state in states))
            for state, end in zip(states[:-1], ends, strict=False):
                if state.state == "sleeping":
                    builder.wait(thread, end - state.length_ns, end, waits)
        builder.wait(lead, 20, 89, "lock")
        builder.operation(lead, 0, 100, "iteration")
        columns = "thread_id, cause, waiter_thread_id, start_ns, end_ns"
        return ask(builder, f"SELECT {columns} FROM critical_path ORDER BY start_ns")

    def test_what_the_leading_thread_did_before_it_waited_is_its_own(
        self, builder: TraceBuilder
    ) -> None:
        """The reader has waited all the time; had it come earlier, that had helped from 20 on."""
        reader = [sleep(87), woken(1, by=DEVICE), run(2), sleep(10)]
        assert self.paths(builder, reader) == [
            (1, "running", None, 0, 20),
            (2, "device", 1, 20, 87),
            (2, "cpu_wait", 1, 87, 88),
            (2, "running", 1, 88, 89),
            (1, "cpu_taken", None, 89, 90),
            (1, "running", None, 90, 100),
        ]

    def test_a_timeout_in_between_is_part_of_the_wait(self, builder: TraceBuilder) -> None:
        reader = [sleep(60), woken(1, by=TIMER), run(1), sleep(25), woken(1, by=DEVICE), run(2)]
        assert self.paths(builder, [*reader, sleep(10)])[:4] == [
            (1, "running", None, 0, 20),
            (2, "device", 1, 20, 60),
            (2, "cpu_wait", 1, 60, 61),
            (2, "running", 1, 61, 62),
        ]

    def test_who_passes_it_on_may_look_after_a_timer_as_well(self, builder: TraceBuilder) -> None:
        """Meanwhile the leading thread waits, since before."""
        first = [sleep(70), woken(1, by=TIMER), run(1), sleep(15), woken(1, by=3), run(2)]
        second = [sleep(85), woken(1, by=DEVICE), run(2), sleep(12)]
        assert self.paths(builder, [*first, sleep(10)], second)[:5] == [
            (1, "running", None, 0, 20),
            (2, "device", 1, 20, 70),
            (2, "cpu_wait", 1, 70, 71),
            (2, "running", 1, 71, 72),
            (3, "device", 2, 72, 85),
        ]

    def test_a_second_short_wait_does_not_hide_what_was_waited_for(
        self, builder: TraceBuilder
    ) -> None:
        """The path leaves the leading thread's own account, and the timeout is still none."""
        main = builder.process(pid=1)
        states = [run(20), sleep(64), woken(1, by=2), run(2), sleep(1), woken(1, by=2), run(11)]
        lead = builder.thread(main, states=states)
        reader = [sleep(19), woken(1, by=1), run(1), sleep(49), woken(1, by=TIMER), run(1)]
        reader += [sleep(10), woken(1, by=DEVICE), run(6), sleep(11)]
        thread = builder.thread(main, states=reader)
        for start, end in ((0, 19), (21, 70), (72, 82)):
            builder.wait(thread, start, end, "poll")
        builder.operation(lead, 0, 100, "iteration")
        causes = "SELECT cause, sum(duration_ns)::BIGINT FROM critical_path GROUP BY cause"
        found = dict(ask(builder, causes))
        assert found["device"] == 59
        assert "timer" not in found

    def test_a_timeout_that_ends_the_wait_is_one(self, builder: TraceBuilder) -> None:
        """What is not from outside began when it began."""
        reader = [sleep(87), woken(1, by=TIMER), run(2), sleep(10)]
        assert self.paths(builder, reader)[:2] == [
            (2, "timer", None, 0, 20), (2, "timer", 1, 20, 87),
        ]  # fmt: skip

    @pytest.mark.parametrize(("waits", "pid"), [("socket", 1), ("poll", 2)])
    def test_who_asked_by_itself_has_waited_since_then(
        self, builder: TraceBuilder, waits: str, pid: int
    ) -> None:
        """What the leading thread did meanwhile did not matter."""
        reader = [sleep(87), woken(1, by=DEVICE), run(2), sleep(10)]
        cause = {"socket": "network", "poll": "device"}[waits]
        assert self.paths(builder, reader, waits=waits, pid=pid)[:2] == [
            (2, cause, None, 0, 20), (2, cause, 1, 20, 87),
        ]  # fmt: skip

    def test_who_began_to_wait_last_needed_nothing_before(self, builder: TraceBuilder) -> None:
        """Two threads pass it on, one of which waits for the other all the time."""
        first = [sleep(87), woken(1, by=3), run(2), sleep(10)]
        second = [sleep(85), woken(1, by=DEVICE), run(2), sleep(12)]
        assert self.paths(builder, first, second) == [
            (1, "running", None, 0, 20),
            (3, "device", 2, 20, 85),
            (3, "cpu_wait", 2, 85, 86),
            (3, "running", 2, 86, 87),
            (2, "cpu_taken", 1, 87, 88),
            (2, "running", 1, 88, 89),
            (1, "cpu_taken", None, 89, 90),
            (1, "running", None, 90, 100),
        ]

    def test_threads_may_take_turns_to_wait(self, builder: TraceBuilder) -> None:
        """As those of gRPC do: the timeout of one ends, and it wakes the next, which waits on."""
        first = [sleep(70), woken(1, by=3), run(1), sleep(15), woken(1, by=DEVICE), run(2)]
        second = [sleep(68), woken(1, by=TIMER), run(2), sleep(29)]
        assert self.paths(builder, [*first, sleep(10)], second)[:3] == [
            (1, "running", None, 0, 20),
            (3, "device", 2, 20, 68),
            (3, "cpu_wait", 2, 68, 69),
        ]


class TestMessagesThatNobodySleptFor:
    """A worker answers and loses its CPU; the next request comes before it has one again."""

    @pytest.fixture
    def taken_turns(self, builder: TraceBuilder) -> TraceBuilder:
        """Return a trace in which the learner sends at 50, after work of its own from 20 on."""
        main, worker = builder.process(pid=1), builder.process(pid=2)
        learner = builder.thread(main, states=[run(60), sleep(38), woken(2, by=2), run(10)])
        builder.thread(worker, states=[run(25, cpu=1), preempted(45), run(35, cpu=1), sleep(5)])
        builder.wait(learner, 60, 98, "socket")
        builder.operation(learner, 10, 110, "iteration")
        return builder

    def test_the_path_goes_to_the_sender(self, taken_turns: TraceBuilder) -> None:
        taken_turns.early_message(2, sender=1, sent_ns=50, read_ns=72)
        columns = "thread_id, cause, wait, waiter_thread_id, start_ns, end_ns"
        assert ask(taken_turns, f"SELECT {columns} FROM critical_path ORDER BY start_ns") == [
            (1, "running", None, None, 10, 27),
            # Had it had a CPU, it would have slept from here on.
            (1, "running", "socket", 2, 27, 50),
            (2, "cpu_wait", None, None, 50, 60),
            (2, "cpu_wait", "socket", 1, 60, 70),
            (2, "running", "socket", 1, 70, 98),
            (1, "cpu_wait", None, None, 98, 100),
            (1, "running", None, None, 100, 110),
        ]

    @pytest.mark.parametrize(
        ("sent_ns", "read_ns"),
        [
            # It was busy for so long that it would not have slept by then.
            (50, 96),
            # Read after its answer: not what the learner waited for.
            (50, 99),
            # Sent before it lost its CPU: it had something else to do.
            (24, 72),
        ],
    )
    def test_what_it_had_to_do_anyway_stays_on_the_path(
        self, taken_turns: TraceBuilder, sent_ns: int, read_ns: int
    ) -> None:
        taken_turns.early_message(2, sender=1, sent_ns=sent_ns, read_ns=read_ns)
        assert [(row[0], row[2], row[4]) for row in ask(taken_turns, SUMS)] == [
            (2, "running", 43), (2, "cpu_wait", 45), (1, "cpu_wait", 2), (1, "running", 10),
        ]  # fmt: skip

    def test_of_two_the_one_that_came_last_counts(self, builder: TraceBuilder) -> None:
        """A learner wakes by one answer, and the other is there before it has a CPU."""
        main = builder.process(pid=1)
        builder.thread(main, states=[run(10), sleep(20), woken(40, by=2), run(30)])
        for end_ns in (30, 60):
            worker = builder.process(pid=end_ns)
            builder.thread(worker, states=[run(end_ns, cpu=1), sleep(100 - end_ns)])
        builder.wait(1, 10, 30, "socket")
        builder.early_message(1, sender=3, sent_ns=60, read_ns=75)
        builder.operation(1, 0, 100, "iteration")
        assert [(row[0], row[2], row[4]) for row in ask(builder, SUMS)] == [
            (3, "running", 60), (1, "cpu_wait", 10), (1, "running", 30),
        ]  # fmt: skip


class TestMessagesAskedForInALoop:
    """A learner wakes a worker at 20, and asks for its answer again and again until 80."""

    @pytest.fixture
    def asking(self, builder: TraceBuilder) -> TraceBuilder:
        learner = builder.thread(builder.process(pid=1), states=[run(100)])
        worker = builder.thread(
            builder.process(pid=2), states=[sleep(20), woken(2, by=1), run(63, cpu=1), sleep(15)]
        )
        builder.wait(worker, 0, 20, "socket")
        builder.operation(learner, 0, 100, "iteration")
        return builder

    def test_the_path_goes_to_the_sender_and_back(self, asking: TraceBuilder) -> None:
        asking.early_message(1, sender=2, sent_ns=80, read_ns=81)
        columns = "thread_id, cause, wait, waiter_thread_id, start_ns, end_ns"
        assert ask(asking, f"SELECT {columns} FROM critical_path ORDER BY start_ns") == [
            (1, "running", "socket", 2, 0, 20),
            (2, "cpu_wait", "socket", 1, 20, 22),
            (2, "running", "socket", 1, 22, 80),
            (1, "running", None, None, 80, 100),
        ]

    def test_each_of_two_senders_is_followed_to_where_it_began(self, asking: TraceBuilder) -> None:
        asking.early_message(1, sender=2, sent_ns=80, read_ns=81)
        builder = asking
        builder.thread(builder.process(pid=3), states=[sleep(81), woken(1, by=1), run(18, cpu=1)])
        builder.early_message(1, sender=3, sent_ns=90, read_ns=91)
        rows = ask(builder, "SELECT DISTINCT thread_id FROM critical_path ORDER BY ALL")
        assert rows == [(1,), (2,), (3,)]

    @pytest.mark.parametrize(
        ("sender", "sent_ns"),
        [
            # It slept then; it is not in the trace; it is the reader itself.
            (2, 10), (2, 90), (7, 80), (1, 80),
        ],
    )  # fmt: skip
    def test_a_sender_that_cannot_have_sent_it_is_not_followed(
        self, asking: TraceBuilder, sender: int, sent_ns: int
    ) -> None:
        asking.early_message(1, sender=sender, sent_ns=sent_ns, read_ns=sent_ns + 1)
        assert [(row[0], row[2], row[4]) for row in ask(asking, SUMS)] == [(1, "running", 100)]


def test_two_that_woke_each_other_are_not_followed_for_ever(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[sleep(10), woken(1, by=2), run(9)])
    builder.thread(process, states=[sleep(10), woken(1, by=1), run(9, cpu=1)])
    builder.operation(thread, 0, 20, "iteration")
    assert [(row[0], row[2], row[4]) for row in ask(builder, SUMS)] == [
        (thread, "waiting", 10), (thread, "cpu_wait", 1), (thread, "running", 9),
    ]  # fmt: skip


def test_a_wakeup_that_came_before_the_sleep_was_not_waited_for(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[run(10), woken(2, by=2), run(8)])
    builder.thread(process, states=[run(20, cpu=1)])
    builder.operation(thread, 0, 20, "iteration")
    assert [(row[0], row[2], row[4]) for row in ask(builder, SUMS)] == [
        (thread, "running", 18), (thread, "cpu_wait", 2),
    ]  # fmt: skip


def test_the_leading_thread_runs_also_while_others_wait_for_its_gil(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    lead = builder.thread(process, states=[run(30), sleep(20), woken(1, by=2), run(9)])
    other = builder.thread(
        process, states=[run(5, cpu=1), sleep(24), woken(1, by=1), run(25, cpu=1), sleep(5)]
    )
    builder.wait(lead, 30, 50, "gil")
    builder.wait(other, 5, 29, "gil")
    builder.operation(lead, 0, 60, "iteration")
    assert [(row[0], row[2], row[4]) for row in ask(builder, SUMS)] == [
        (lead, "running", 39), (other, "gil", 20), (lead, "gil", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("given", [True, False], ids=["it was given it", "a timer ended the slice"])
def test_who_is_given_the_gil_does_not_wait_on(builder: TraceBuilder, given: bool) -> None:
    """It ran for 50 between two waits: asking for it again, or with the GIL."""
    process = builder.process(pid=1)
    end = woken(1, by=2) if given else woken(1, by=TIMER)
    lead = builder.thread(
        process, states=[run(30), sleep(20), end, run(50), sleep(20), woken(1, by=2), run(8)]
    )
    builder.thread(process, states=[run(130, cpu=1)])
    builder.wait(lead, 30, 50, "gil")
    builder.wait(lead, 101, 121, "gil")
    builder.operation(lead, 0, 130, "iteration")
    times = dict(ask(builder, "SELECT cause, sum(duration_ns) FROM critical_path GROUP BY ALL"))
    assert times == ({"running": 88, "gil": 42} if given else {"running": 38, "gil": 92})


class TestLocks:
    """A learner waits from 30 to 50 for a worker that computed from 22 on, and slept before."""

    @pytest.fixture
    def locked(self, builder: TraceBuilder) -> TraceBuilder:
        learner = builder.process(pid=1)
        builder.thread(learner, states=[run(30), sleep(20), woken(2, by=2), run(48)])
        states = [run(12, cpu=1), sleep(10), woken(1, by=TIMER), run(77, cpu=1)]
        builder.thread(builder.process(pid=2), states=states)
        builder.wait(2, 12, 22, "sleep")
        builder.operation(1, 0, 100, "iteration")
        return builder

    SIGNAL: ClassVar = {
        (1, "running"): 48, (1, "cpu_wait"): 2, (2, "running"): 39, (2, "timer"): 10,
        (2, "cpu_wait"): 1,
    }  # fmt: skip
    HELD: ClassVar = {(1, "running"): 78, (1, "cpu_wait"): 2, (2, "running"): 20}

    @staticmethod
    def sums(builder: TraceBuilder) -> dict[tuple[int, str], int]:
        columns = "thread_id, cause, sum(duration_ns)"
        rows = ask(builder, f"SELECT {columns} FROM critical_path GROUP BY thread_id, cause")
        return {(thread, cause): time for thread, cause, time in rows}

    def test_a_signal_takes_as_long_as_who_gives_it_works(self, locked: TraceBuilder) -> None:
        locked.wait(1, 30, 50, "lock", lock=0x7000, is_mutex=False)
        assert self.sums(locked) == self.SIGNAL

    def test_what_the_holder_did_before_was_not_waited_for(self, locked: TraceBuilder) -> None:
        locked.wait(1, 30, 50, "lock", lock=0x7000, is_mutex=True)
        assert self.sums(locked) == self.HELD

    def test_who_wakes_and_waits_for_the_same_has_it_at_times(self, locked: TraceBuilder) -> None:
        locked.wait(1, 30, 50, "lock", lock=0x7000, is_mutex=False)
        locked.thread(2, states=[sleep(5), woken(1, by=1), run(94, cpu=2)])
        locked.wait(3, 0, 5, "lock", lock=0x7000, is_mutex=False)
        assert self.sums(locked) == self.HELD

    def test_a_lock_of_python_is_one(self, locked: TraceBuilder) -> None:
        locked.wait(1, 30, 50, "lock", lock=0x7000, is_mutex=False)
        path = locked.write()
        with duckdb.connect(path) as connection:
            connection.execute("INSERT INTO python_lock VALUES (28672)")
        assert self.sums(locked) == self.HELD

    @pytest.mark.parametrize(
        ("learns", "says", "of_python", "is_held"),
        [
            (True, False, True, True), (True, True, True, False), (True, False, False, False),
            (False, False, True, False),
        ],
        ids=["a lock", "a condition", "a thread of a library", "no phases"],
    )  # fmt: skip
    def test_of_a_thread_of_its_own_it_is_a_lock_where_nothing_says_what_is_waited_for(
        self, builder: TraceBuilder, *, learns: bool, says: bool, of_python: bool, is_held: bool
    ) -> None:
        process = builder.process(pid=1)
        builder.thread(process, states=[run(30), sleep(20), woken(2, by=2), run(48)])
        states = [run(12, cpu=1), sleep(10), woken(1, by=TIMER), run(77, cpu=1)]
        builder.thread(process, states=states)
        builder.wait(2, 12, 22, "sleep")
        builder.wait(1, 30, 50, "lock", lock=0x7000, is_mutex=False)
        builder.operation(1, 0, 100, "iteration")
        if learns:
            builder.operation(1, 60, 100, "backpropagation", source="auto")
        if says:
            builder.operation(1, 29, 52, "wait", source="auto")
        path = builder.write()
        if of_python:
            with duckdb.connect(path) as connection:
                connection.execute("UPDATE thread SET python_name = 'archiver' WHERE thread_id = 2")
        assert self.sums(builder) == (self.HELD if is_held else self.SIGNAL)

    def test_a_holder_that_waits_for_a_message_waits_for_its_sender(
        self, builder: TraceBuilder
    ) -> None:
        """Two workers of a pool share the reading end: who has it sleeps until something comes."""
        builder.thread(builder.process(pid=1), states=[run(30), sleep(20), woken(2, by=2), run(48)])
        builder.thread(builder.process(pid=2), states=[sleep(45), woken(1, by=3), run(54, cpu=1)])
        builder.thread(builder.process(pid=3), states=[run(100, cpu=2)])
        builder.wait(1, 30, 50, "lock", lock=0x7000, is_mutex=True)
        builder.wait(2, 0, 45, "pipe")
        builder.operation(1, 0, 100, "iteration")
        assert self.sums(builder) == {
            (1, "running"): 48, (1, "cpu_wait"): 2, (2, "running"): 4, (2, "cpu_wait"): 1,
            (3, "running"): 45,
        }  # fmt: skip


def test_a_thread_begins_with_what_created_it(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    main = builder.thread(process, states=[run(10), sleep(30), woken(1, by=2), run(9)])
    child = builder.thread(process, states=[woken(2, by=main), run(34, cpu=1)], start_ns=4)
    builder.wait(main, 10, 40, "process")
    builder.operation(main, 0, 50, "iteration")
    assert ask(builder, SUMS) == [
        (main, "iteration", "running", None, 13),
        (child, "(unannotated)", "cpu_wait", None, 2),
        (child, "(unannotated)", "running", None, 34),
        (main, "iteration", "cpu_wait", None, 1),
    ]


@pytest.mark.parametrize(("asleep", "is_told"), [(2, True), (400, False)])
def test_a_thread_that_spins_until_it_is_told_to_end_was_not_waited_for(
    builder: TraceBuilder, asleep: int, *, is_told: bool
) -> None:
    """As a pool of BLAS at the end of a program; one that works on while it is waited for was."""
    process = builder.process(pid=1)
    states = [run(1000), sleep(asleep), woken(1, by=2), run(9)]
    main = builder.thread(process, states=states)
    pool = builder.thread(process, states=[run(1001 + asleep, cpu=1)])
    builder.operation(main, 0, 1010 + asleep, "iteration")
    found = {row[0]: row[4] for row in ask(builder, SUMS) if row[2] == "running"}
    assert found == (
        {main: 1009, pool: asleep} if is_told else {main: 9, pool: 1000 + asleep}
    )  # fmt: skip


class TestOnTheGpu:
    @pytest.fixture
    def calls(self, builder: TraceBuilder) -> TraceBuilder:
        """Return a trace with a launch from 10 to 12, and a wait from 20 to 65 for its stream."""
        process = builder.process(pid=1)
        builder.coverage("gpu_activity")
        builder.coverage("thread_state")
        thread = builder.thread(process, states=[run(80)])
        builder.operation(thread, 0, 80, "iteration")
        builder.operation(thread, 8, 15, "forward")
        builder.cuda_call(thread, 10, 12, kind="launch", name="cudaLaunchKernel", correlation_id=1)
        builder.cuda_call(
            thread, 20, 65, kind="sync", name="cudaStreamSynchronize", correlation_id=3
        )
        return builder

    def test_a_kernel_is_waited_for(self, calls: TraceBuilder) -> None:
        calls.gpu_activity(1, 18, 60, kind="kernel", stream_id=7, correlation_id=1)
        columns = "thread_id, stream_id, operation, cause, sum(duration_ns)::BIGINT"
        sums = f"SELECT {columns} FROM critical_path GROUP BY ALL ORDER BY min(start_ns)"
        assert ask(calls, sums) == [
            (1, None, "iteration", "running", 23),
            (1, None, "forward", "running", 4),
            (None, 7, "forward", "launch_latency", 6),
            (None, 7, "forward", "gpu", 42),
            (1, None, "iteration", "sync", 5),
        ]

    def test_what_was_on_the_stream_before_held_it_up(self, calls: TraceBuilder) -> None:
        calls.cuda_call(1, 2, 3, kind="launch", name="cudaLaunchKernel", correlation_id=2)
        calls.gpu_activity(1, 5, 30, kind="kernel", stream_id=7, correlation_id=2)
        calls.gpu_activity(1, 33, 60, kind="kernel", stream_id=7, correlation_id=1)
        columns = "operation, cause, start_ns, end_ns"
        on_gpu = f"SELECT {columns} FROM critical_path WHERE thread_id IS NULL ORDER BY start_ns"
        assert ask(calls, on_gpu) == [
            ("iteration", "launch_latency", 3, 5),
            ("iteration", "gpu", 5, 30),
            ("forward", "gpu_queue", 30, 33),
            ("forward", "gpu", 33, 60),
        ]

    def test_an_event_of_another_stream_held_it_up(self, calls: TraceBuilder) -> None:
        """Its own stream was free: it waited for a copy on another one."""
        calls.cuda_call(1, 2, 3, kind="memcpy", name="cudaMemcpyAsync", correlation_id=2)
        calls.cuda_call(1, 4, 5, kind="other", name="cudaEventRecord", correlation_id=4)
        calls.cuda_call(1, 6, 7, kind="other", name="cudaStreamWaitEvent", correlation_id=5)
        calls.event_wait(1, 5, stream_id=7, event_stream_id=20, event_correlation_id=4)
        calls.gpu_activity(1, 5, 30, kind="memcpy", stream_id=20, correlation_id=2)
        calls.gpu_activity(1, 33, 60, kind="kernel", stream_id=7, correlation_id=1)
        columns = "stream_id, gpu_kind, cause, start_ns, end_ns"
        on_gpu = f"SELECT {columns} FROM critical_path WHERE thread_id IS NULL ORDER BY start_ns"
        assert ask(calls, on_gpu) == [
            (20, "memcpy", "launch_latency", 3, 5),
            (20, "memcpy", "gpu", 5, 30),
            (7, "kernel", "gpu_queue", 30, 33),
            (7, "kernel", "gpu", 33, 60),
        ]

    def test_the_gpu_is_on_it_where_the_thread_had_lost_its_cpu(
        self, builder: TraceBuilder
    ) -> None:
        """It spins in a call from 6 to 50, and has no CPU when the kernel ends."""
        process = builder.process(pid=1)
        builder.coverage("gpu_activity")
        builder.coverage("thread_state")
        thread = builder.thread(process, states=[run(20), preempted(20), run(20)])
        builder.operation(thread, 0, 60, "iteration")
        builder.cuda_call(thread, 1, 3, kind="launch", name="cudaLaunchKernel", correlation_id=1)
        builder.cuda_call(thread, 6, 50, kind="sync", name="cudaDeviceSynchronize")
        builder.gpu_activity(process, 5, 30, kind="kernel", stream_id=7, correlation_id=1)
        assert [(row[0], row[2], row[4]) for row in ask(builder, SUMS)] == [
            (thread, "running", 23), (None, "launch_latency", 2), (None, "gpu", 25),
            (thread, "cpu_wait", 10),
        ]  # fmt: skip

    def test_a_second_activity_of_one_launch_hides_nothing(self, calls: TraceBuilder) -> None:
        calls.gpu_activity(1, 18, 50, kind="kernel", stream_id=7, correlation_id=1)
        calls.gpu_activity(1, 18, 60, kind="kernel", stream_id=7, correlation_id=1)
        causes = "SELECT cause, sum(duration_ns)::BIGINT FROM critical_path WHERE thread_id IS NULL"
        assert dict(ask(calls, f"{causes} GROUP BY ALL")) == {"launch_latency": 6, "gpu": 42}

    def test_work_that_nobody_waits_for_is_not_on_it(self, calls: TraceBuilder) -> None:
        calls.gpu_activity(1, 18, 75, kind="kernel", stream_id=7, correlation_id=1)
        assert {row[0] for row in ask(calls, "SELECT cause FROM critical_path")} == {"running"}


class TestIterations:
    ROWS = "SELECT thread_id, start_ns, end_ns, source, name, is_first FROM iteration ORDER BY 2"

    def test_phases_tell_them(self, builder: TraceBuilder) -> None:
        """From the end of an update to that of the next; what follows the last is in none."""
        process, other = builder.process(pid=1), builder.process(pid=2)
        worker = builder.thread(other, states=[run(200, cpu=1)])
        builder.operation(worker, 0, 200, "simulation", source="auto")
        learner = builder.thread(process, states=[run(200)])
        phases = ["simulation", "inference", "data", "backpropagation", "backpropagation"] * 2
        for at, name in enumerate([*phases, "simulation"]):
            builder.operation(learner, at * 10 + 5, at * 10 + 14, name, source="auto")
        assert ask(builder, self.ROWS) == [
            (learner, 5, 54, "phases", None, True), (learner, 54, 104, "phases", None, False),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "phases",
        [
            pytest.param(
                "simulation backpropagation inference backpropagation", id="it steps environments"
            ),
            pytest.param(
                "inference wait backpropagation inference backpropagation", id="others step them"
            ),
            pytest.param("inference backpropagation backpropagation", id="nothing else acts"),
        ],
    )
    @pytest.mark.parametrize("looks", [0, 1])
    def test_two_optimizers_in_one_update(
        self, builder: TraceBuilder, phases: str, looks: int
    ) -> None:
        """A forward pass lies between their steps; looks: it once reset an environment."""
        thread = builder.thread(builder.process(pid=1), states=[run(1000)])
        rounds = ["simulation"] * looks + phases.split() * 20
        ends = [0] * looks
        for at, name in enumerate(rounds):
            builder.operation(thread, at * 10, at * 10 + 9, name, source="auto")
            ends.append(at * 10 + 9)
        length = len(phases.split())
        expected = [ends[-1] - 10 * length * back for back in range(20)]
        assert [row[2] for row in ask(builder, self.ROWS)] == expected[::-1]

    def test_a_range_by_name_does(self, builder: TraceBuilder) -> None:
        thread = builder.thread(builder.process(pid=1), states=[run(100)])
        for start in (0, 30, 60):
            builder.operation(thread, start, start + 20, "my.loop (a+b)")
        found = [(thread, at, at + 20, "range", "my.loop (a+b)", at == 0) for at in (0, 30, 60)]
        assert ask(builder, self.ROWS, per="my.loop (a+b)") == found
        assert ask(builder, self.ROWS) == [(thread, 0, 100, "whole", None, True)]
        with pytest.raises(TraceError, match="no operation is called 'other'"):
            ask(builder, self.ROWS, per="other")

    @pytest.mark.parametrize(("own", "leads"), [(30, 1), (3, 2)])
    def test_who_asks_leads_the_one_that_works_for_it(
        self, builder: TraceBuilder, own: int, leads: int
    ) -> None:
        """A loader runs for 100; who started it for 30, or, as a shell, for 3."""
        main = builder.process(pid=1, end_ns=200)
        loader = builder.process(pid=2, parent=main, end_ns=200)
        builder.thread(main, states=[run(own), sleep(200 - own)])
        builder.thread(loader, start_ns=10, states=[run(100, cpu=1), sleep(90)])
        assert [row[0] for row in ask(builder, self.ROWS)] == [leads]

    @pytest.mark.parametrize(("begins", "leads"), [(30, 2), (48, 1)])
    def test_a_thread_of_half_a_run_is_not_the_whole(
        self, builder: TraceBuilder, begins: int, leads: int
    ) -> None:
        """Most of the work is that of a thread that begins later; the main thread waits for it."""
        process = builder.process(pid=1, end_ns=100)
        builder.thread(process, states=[run(25), sleep(74), woken(1, by=2)])
        builder.thread(process, start_ns=begins, states=[run(99 - begins, cpu=1)], tid=2)
        ((thread_id, start_ns, end_ns, *_),) = ask(builder, self.ROWS)
        assert (thread_id, start_ns) == (leads, begins if leads == 2 else 0)
        assert end_ns >= 99

    def test_the_nearest_that_asks_leads(self, builder: TraceBuilder) -> None:
        """A launcher ran for 15, the trainer for 20, its loader for 100."""
        for process_id, parent, ran in ((1, None, 15), (2, 1, 20), (3, 2, 100)):
            process = builder.process(pid=process_id, parent=parent, end_ns=200)
            builder.thread(process, states=[run(ran), sleep(200 - ran)])
        assert [row[0] for row in ask(builder, self.ROWS)] == [2]

    @pytest.mark.parametrize(
        ("wait", "works", "leads"),
        [("poll", (100, 80), 1), ("process", (100, 80), 2), ("poll", (100, 40), 2)],
    )
    def test_who_waits_for_messages_of_several_that_work_leads_them(
        self, builder: TraceBuilder, wait: str, works: tuple[int, int], leads: int
    ) -> None:
        """A shell waits for its children to end, and of two one may be a helper."""
        main = builder.process(pid=1, end_ns=200)
        builder.thread(main, states=[run(3), sleep(190), woken(1, by=2), run(6)])
        builder.wait(1, 3, 193, wait)
        for at, work in enumerate(works):
            child = builder.process(pid=2 + at, parent=main, end_ns=200)
            builder.thread(child, states=[run(work, cpu=1 + at), sleep(200 - work)])
        assert [row[0] for row in ask(builder, self.ROWS)] == [leads]

    def test_a_damaged_trace_with_a_circle_of_parents_has_an_answer(
        self, builder: TraceBuilder
    ) -> None:
        for process_id, parent in ((1, 2), (2, 1)):
            process = builder.process(pid=process_id, parent=parent, end_ns=200)
            builder.thread(process, states=[run(100 + process_id), sleep(99 - process_id)])
        assert [row[3] for row in ask(builder, self.ROWS)] == ["whole"]

    def test_ranges_of_profilers_that_are_numbered_are_one(self, builder: TraceBuilder) -> None:
        thread = builder.thread(builder.process(pid=1), states=[run(100)])
        for number in range(3):
            builder.operation(thread, number * 30, number * 30 + 20, f"ProfilerStep#{number}")
        assert ask(builder, self.ROWS) == [
            (thread, at, at + 20, "range", "ProfilerStep", at == 0) for at in (0, 30, 60)
        ]

    def test_a_range_in_one_of_the_same_name_is_none_of_its_own(
        self, builder: TraceBuilder
    ) -> None:
        """Wherever they lie: inside something else, or not."""
        thread = builder.thread(builder.process(pid=1), states=[run(100)])
        builder.operation(thread, 0, 5, "update")
        builder.operation(thread, 5, 100, "train")
        for start in (10, 40, 70):
            builder.operation(thread, start, start + 20, "update")
            builder.operation(thread, start + 5, start + 10, "update")
        found = [row[1:3] for row in ask(builder, self.ROWS)]
        assert found == [(0, 5), (10, 30), (40, 60), (70, 90)]

    def test_one_name_on_one_thread_counts(self, builder: TraceBuilder) -> None:
        """Not the one epoch around all, nor the many short steps of a worker."""
        leader = builder.thread(builder.process(pid=1), states=[run(100)])
        worker = builder.thread(builder.process(pid=2), states=[run(100, cpu=1)])
        builder.operation(leader, 0, 100, "epoch")
        for start in (10, 40, 70):
            builder.operation(leader, start, start + 20, "iteration")
        for start in range(0, 100, 10):
            builder.operation(worker, start, start + 2, "step")
        found = ask(builder, self.ROWS)
        assert [row[:3] for row in found] == [(leader, at, at + 20) for at in (10, 40, 70)]
        assert {row[4] for row in found} == {"iteration"}

    def test_a_learner_that_never_acts_learns_update_by_update(self, builder: TraceBuilder) -> None:
        learner = builder.thread(builder.process(pid=1), states=[run(100)])
        actor = builder.thread(builder.process(pid=2), states=[run(100, cpu=1)])
        builder.operation(actor, 0, 100, "simulation", source="auto")
        for start in (10, 40, 70):
            builder.operation(learner, start, start + 20, "backpropagation", source="auto")
        assert [row[:4] for row in ask(builder, self.ROWS)] == [
            (learner, 10, 30, "phases"), (learner, 30, 60, "phases"), (learner, 60, 90, "phases"),
        ]  # fmt: skip

    @pytest.mark.parametrize("by", ["wait", "message"])
    @pytest.mark.parametrize("has_slow_first", [False, True])
    def test_what_is_learned_from_the_same_input_is_one_update(
        self, builder: TraceBuilder, by: str, has_slow_first: bool
    ) -> None:
        """A learner that is fed: once it is known to wait, all between two waits is one piece."""
        learner, worker = builder.process(pid=1), builder.process(pid=2)
        at, pieces, states = 0, [], []
        for update in range(6):
            for _ in range(4):
                length = 500 if has_slow_first and not pieces else 10
                pieces.append((at, at + length, update))
                states.append(run(length + 5))
                at += length + 5
            builder.operation(1, at, at + 4, "wait", source="auto") if by == "wait" else None
            states += [sleep(4), woken(1, by=2)]
            at += 5
        builder.thread(learner, states=states)
        builder.thread(worker, states=[run(at, cpu=1)])
        updates = [[one for one in pieces if one[2] == update] for update in range(6)]
        if by == "wait":
            updates[1:] = [[(of[0][0], of[-1][1], of[0][2])] for of in updates[1:]]
        for start, end, _ in itertools.chain(*updates):
            builder.operation(1, start, end, "backpropagation", source="auto")
        ends = [of[-1][1] for of in updates]
        assert [row[2] for row in ask(builder, self.ROWS)] == ends

    @pytest.mark.parametrize(
        ("pause", "sizes", "is_fed"),
        [
            (80, [4] * 12, True), (6, [4] * 12, False), (80, [4] * 9, False),
            (80, [100] * 12, False), (80, [3, 5] * 6, False), (80, [4] * 12 + [2], True),
        ],
        ids=["", "short", "few", "checkpoints", "irregular", "cut"],
    )  # fmt: skip
    def test_where_nothing_tells_of_input_pauses_of_two_kinds_do(
        self, builder: TraceBuilder, pause: int, sizes: list[int], *, is_fed: bool
    ) -> None:
        """A learner that asks in a loop for what lies in shared memory."""
        learner = builder.process(pid=1)
        at, ends, updates = 0, [], []
        for pieces in sizes:
            for _ in range(pieces):
                builder.operation(1, at, at + 10, "backpropagation", source="auto")
                at += 11
                ends.append(at - 1)
            updates.append(at - 1)
            at += pause
        builder.thread(learner, states=[run(at)])
        assert [row[2] for row in ask(builder, self.ROWS)] == (updates if is_fed else ends)

    def test_input_that_was_not_waited_for_begins_an_update_after_the_longest_pause(
        self, builder: TraceBuilder
    ) -> None:
        """Of sockets of TCP nothing tells that there is something to read already."""
        learner, worker = builder.process(pid=1), builder.process(pid=2)
        at, ends, states = 0, [], []
        for update in range(40):
            for _ in range(4):
                builder.operation(1, at, at + 10, "backpropagation", source="auto")
                states.append(run(11))
                at += 11
            ends.append(at - 1)
            is_waited_for = update % 4 != 1 and update not in (20, 22)
            states += [sleep(4), woken(1, by=2)] if is_waited_for else [run(5)]
            at += 5
        builder.thread(learner, states=states)
        builder.thread(worker, states=[run(at, cpu=1)])
        assert [row[2] for row in ask(builder, self.ROWS)] == ends

    @pytest.mark.parametrize("acts", [True, False], ids=["it acts", "it only learns"])
    def test_the_first_forward_pass_of_who_acts_by_waiting_is_no_update(
        self, builder: TraceBuilder, *, acts: bool
    ) -> None:
        """Its recorder does not know yet what comes of one."""
        thread = builder.thread(builder.process(pid=1), states=[run(200)])
        phases = ["wait", "backpropagation", "wait"]
        phases += ["inference" if acts else "data", "wait", "backpropagation"] * 3
        for at, name in enumerate(phases):
            builder.operation(thread, at * 10, at * 10 + 9, name, source="auto")
        ends = [59, 89, 119] if acts else [19, 59, 89, 119]
        assert [row[1:3] for row in ask(builder, self.ROWS)] == list(
            zip([10, *ends[:-1]], ends, strict=True)
        )

    @pytest.mark.parametrize("case", ["commands", "each time", "once", "a log thread"])
    def test_other_messages_do_not_end_an_update(self, builder: TraceBuilder, case: str) -> None:
        learner, other = builder.process(pid=1), builder.process(pid=2)
        states, at = [], 0
        for update in range(24):
            builder.operation(1, at, at + 10, "backpropagation", source="auto")
            comes = {"each time": True, "once": update == 11}.get(case, update % 6 == 5)
            waker = 2
            if case == "commands" and comes:
                command = builder.process(pid=100 + update, start_ns=at + 11)
                waker = 3 + update // 6
                builder.thread(command, start_ns=at + 11, states=[run(9, cpu=2)])
            if case == "a log thread" and comes:
                builder.operation(1, at + 12, at + 14, "wait", source="auto")
            sleeps = comes and case != "a log thread"
            states += [run(12), sleep(4), woken(1, by=waker), run(3)] if sleeps else [run(20)]
            at += 20
        builder.thread(learner, states=states)
        if case != "commands":
            builder.thread(other, states=[run(at, cpu=1)])
        assert len(ask(builder, self.ROWS)) == 24

    def test_a_phase_can_be_named(self, builder: TraceBuilder) -> None:
        thread = builder.thread(builder.process(pid=1), states=[run(100)])
        builder.operation(thread, 10, 30, "simulation", source="auto")
        assert [row[1:4] for row in ask(builder, self.ROWS, per="simulation")] == [
            (10, 30, "range")
        ]

    def test_the_process_that_ran_longest_leads_where_nothing_else_tells(
        self, builder: TraceBuilder
    ) -> None:
        process, other = builder.process(pid=1), builder.process(pid=2)
        for cpu in (0, 1):
            builder.thread(process, states=[run(60, cpu=cpu), sleep(60)])
        builder.thread(other, states=[run(100, cpu=2), sleep(20)])
        assert ask(builder, "SELECT process_id FROM iteration") == [(process,)]

    def test_a_trace_without_threads_has_none(self, builder: TraceBuilder) -> None:
        builder.process(pid=1)
        assert ask(builder, self.ROWS) == ask(builder, "FROM critical_path") == []

    def test_a_window_has_its_own(self, builder: TraceBuilder) -> None:
        thread = builder.thread(builder.process(pid=1), states=[run(100)])
        for start in (0, 30, 60):
            builder.operation(thread, start, start + 20, "update")
        found = ask(builder, self.ROWS, start="10ns", end="75ns")
        # Those that it cuts are none, as long as there are others.
        assert [(*row[1:3], row[5]) for row in found] == [(30, 50, False)]
        found = ask(builder, self.ROWS, start="10ns", end="45ns")
        assert [row[1:3] for row in found] == [(10, 20), (30, 45)]


def test_what_failed_is_not_taken_for_an_empty_answer(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[run(10), sleep(5), run(5)])
    builder.operation(thread, 0, 20, "iteration")
    path = builder.write()
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE thread_state_coded SET end_ns = 7 WHERE state = 'sleeping'")
    with rlscope_analysis.open(path) as trace:
        # A name in a text is no reason to work it out.
        assert trace.sql("SELECT name FROM operation_path WHERE name = 'iteration'").fetchall()
        for _ in range(2):
            with pytest.raises(TraceError, match="thread_state_coded are not in order"):
                trace.sql("FROM critical_path")


class TestLimits:
    @staticmethod
    def limits(builder: TraceBuilder) -> list[dict[str, Any]]:
        with rlscope_analysis.open(builder.write()) as trace:
            return list(answer(trace, REPORTS["limits"]).data.records())

    def test_every_instant_is_under_one_heading(self, builder: TraceBuilder) -> None:
        """Three rounds: a worker answers after 60, 60 and 80, and the learner learns for 30."""
        main, other = builder.process(pid=1), builder.process(pid=2)
        states, answers, start = [], [], 0
        for works in (60, 60, 80):
            states += [run(10), sleep(works), woken(2, by=2), run(30)]
            answers += [sleep(10), woken(5, by=1), run(works - 5, cpu=1), sleep(32)]
            builder.wait(1, start + 10, start + 10 + works, "pipe")
            builder.operation(1, start, start + 12 + works, "simulation", source="auto")
            end = start + 42 + works
            builder.operation(1, start + 12 + works, end, "backpropagation", source="auto")
            builder.operation(2, start + 20, start + 50, "simulation", source="auto")
            start = end
        builder.thread(main, states=states)
        builder.thread(other, states=answers)
        found = {row["code"]: row for row in self.limits(builder)}
        # Of the last two: the first is left out.
        assert {code: row["time_ns"] for code, row in found.items()} == {
            "simulation_bound": 60,
            "learner_bound": 60,
            "message_overhead": 2 * 10 + 2 * 5 + 20 + 40,
            "cpu_wait": 14,
        }
        assert sum(row["share"] for row in found.values()) == pytest.approx(1)
        # 60 of 102 + 122 ns: shares of 30/102 and 30/122.
        error = math.sqrt(((30 - 60 / 224 * 102) ** 2 + (30 - 60 / 224 * 122) ** 2) * 2) / 224
        low, high = found["learner_bound"]["low_share"], found["learner_bound"]["high_share"]
        # Two of them: Student's t with one degree of freedom; no share is less than 0.
        assert (low, high) == pytest.approx((0, 60 / 224 + 12.706 * error))

    def test_others_and_the_quota_have_headings_of_their_own(self, builder: TraceBuilder) -> None:
        states = [run(10), preempted(20), run(10), preempted(40), run(20)]
        thread = builder.thread(builder.process(pid=1), states=states)
        builder.other_run(0, 12, 30, pid=77, name="make")
        builder.quota(thread, 40)
        rows = self.limits(builder)
        assert {row["code"]: row["time_ns"] for row in rows} == {
            "other_code": 40, "cgroup_throttled": 40, "cpu_taken_by_others": 18, "cpu_wait": 2,
        }  # fmt: skip
        with rlscope_analysis.open(builder.path) as trace:
            path = list(answer(trace, REPORTS["critical-path"]).data.records())
        had_by = {row["cause"]: (row["cpu_had_by"], row["by_pid"]) for row in path}
        assert had_by["cpu_taken_by_other"] == ("make", 77)

    def test_a_process_that_simulates_beside_it_is_no_worker(self, builder: TraceBuilder) -> None:
        """Two learners, each with an environment of its own."""
        for number in (1, 2):
            thread = builder.thread(builder.process(pid=number), states=[run(100, cpu=number)])
            for start in (0, 30, 60):
                builder.operation(thread, start, start + 20, "simulation", source="auto")
                builder.operation(thread, start + 20, start + 30, "backpropagation", source="auto")
        found = {row["code"]: row["time_ns"] for row in self.limits(builder)}
        assert found == {"serial_simulation": 40, "learner_bound": 20}

    def test_one_iteration_has_no_interval(self, builder: TraceBuilder) -> None:
        builder.thread(builder.process(pid=1), states=[run(10)])
        (row,) = self.limits(builder)
        assert (row["code"], row["share"]) == ("other_code", 1.0)
        assert row["low_share"] is None is row["high_share"]


def test_a_query_that_mentions_it_finds_it(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(pid=1), states=[run(10)])
    with rlscope_analysis.open(builder.write()) as trace:
        assert trace.sql("SELECT thread_id FROM Critical_Path").fetchall() == [(thread,)]
        assert trace.relation("iteration").fetchall()[0][2] == thread
        described = trace.sql("SELECT 1 AS iteration").fetchall()
        assert described == [(1,)]


def test_many_waits_are_read_in_their_order(builder: TraceBuilder) -> None:
    """Of so many DuckDB reads several parts at once: what is joined comes in any order."""
    thread = builder.thread(builder.process(pid=1), states=[sleep(4_000_000), run(100)])
    path = builder.write()
    with duckdb.connect(path) as connection:
        connection.execute(
            "INSERT INTO wait_coded SELECT $1, 2 * i, 2 * i + 1, 'lock', NULL, NULL"
            " FROM range(1_500_000) AS r(i)",
            [thread],
        )
    assert ask(builder, "SELECT count(*) > 0 FROM critical_path") == [(True,)]
