"""The critical path of a job on several machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.fleet.job_path import Held, job_path
from rlscope_analysis.fleet.merge import Iteration, Merged, Task, Wait, merged
from rlscope_analysis.fleet.partial import Facts, partial_of
from rlscope_analysis.fleet.stragglers import align
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**6
LEADING = Facts("host", "boot", "1", "2", True, 1, 1, 0, 9, 2, "phases", None)
HELPING = Facts("other", "boot2", "1", "2", True, 1, 1, 0, 9, 1, "whole", None)
# What the clock of the other machine is behind.
BEHIND = 7000 * MS
CLOCKS = {"lead": lambda ts_ns: ts_ns, "help": lambda ts_ns: ts_ns + BEHIND}


def one(number: int, *waits: tuple[int, int], own: int = 60) -> Iteration:
    """Return an iteration of 100 ms, of which it waits 40 ms; waits: from, and how long, in ms."""
    start = number * 100
    return Iteration(
        number, start * MS, 100 * MS, 40 * MS,
        (("learner_bound", own * MS), ("network_wait", (100 - own) * MS)),
        tuple(Wait((start + at) * MS, length * MS, "network_wait") for at, length in waits),
    )  # fmt: skip


def task(start: int, length: int, name: str = "Runner.sample", **limits: int) -> Task:
    """Return a task of the other member; its times in ms, on the clock of the leading one."""
    return Task(
        start * MS - BEHIND, length * MS, name,
        tuple((code, time_ns * MS) for code, time_ns in limits.items()),
    )  # fmt: skip


def job(iterations: list[Iteration], *tasks: Task) -> Merged:
    return Merged(
        {},
        {"lead": LEADING, "help": HELPING},
        {"lead": tuple(iterations), "help": (Iteration(1, 0, 900 * MS, None),)},
        {"help": tuple(sorted(tasks)), "lead": (task(100, 900, "Own.method", worker_bound=900),)},
    )


def path_of(whole: Merged) -> tuple[Held, ...]:
    return job_path(whole, align(whole, CLOCKS), CLOCKS)


def test_it_goes_through_the_member_waited_for() -> None:
    """And takes as long as that one's iterations, to the nanosecond."""
    rows = {"a": [30, 30, 0, 30], "b": [0, 10, 30, 10]}
    whole = Merged(
        {},
        dict.fromkeys(rows, LEADING),
        {
            name: tuple(
                Iteration(
                    at, at * 100 * MS, 100 * MS, wait * MS,
                    (("collective_wait", wait * MS), (f"{name}_bound", (100 - wait) * MS)),
                )
                for at, wait in enumerate(waits)
            )
            for name, waits in rows.items()
        },
    )  # fmt: skip
    found = job_path(whole, align(whole))
    assert found == (
        Held("b", None, "b_bound", 3, 280 * MS),
        Held("a", None, "a_bound", 1, 100 * MS),
        # What even the slowest waits: the exchange itself.
        Held("b", None, "collective_wait", 2, 20 * MS),
    )
    assert sum(held.time_ns for held in found) == 4 * 100 * MS


def test_a_wait_is_what_the_task_did_that_ended_it() -> None:
    """What the wait lasts longer is on the way."""
    sample = task(120, 30, simulation_bound=20, cpu_wait=10)
    assert path_of(job([one(1, (10, 40)), one(2)], sample)) == (
        Held("lead", None, "learner_bound", 2, 120 * MS),
        Held("lead", None, "network_wait", 2, 50 * MS),
        Held("help", "Runner.sample", "simulation_bound", 1, 20 * MS),
        Held("help", "Runner.sample", "cpu_wait", 1, 10 * MS),
    )


def test_of_a_task_that_was_under_way_the_part_is_taken_that_was_waited_for() -> None:
    sample = task(50, 100, simulation_bound=75, inference_bound=25)
    assert path_of(job([one(1, (10, 40))], sample)) == (
        Held("lead", None, "learner_bound", 1, 60 * MS),
        Held("help", "Runner.sample", "simulation_bound", 1, 30 * MS),
        Held("help", "Runner.sample", "inference_bound", 1, 10 * MS),
    )


def test_of_several_tasks_the_last_to_end_counts() -> None:
    early, late, after = (
        task(110, 20, "early", worker_bound=20),
        task(115, 35, "late", worker_bound=35),
        task(140, 100, "after", worker_bound=100),
    )
    found = path_of(job([one(1, (10, 40))], early, late, after))
    assert {held.task: held.time_ns for held in found} == {None: 5 * MS, "late": 35 * MS}


def test_waits_that_follow_each_other_end_together() -> None:
    """A thread that looks after a timer in between still waits for the same."""
    sample = task(110, 40, worker_bound=40)
    waits = [(10, 20), (30, 10), (41, 9)]
    found = path_of(job([one(1, *waits)], sample))
    assert {held.code: held.time_ns for held in found} == {
        "learner_bound": 60 * MS, "network_wait": 1 * MS, "worker_bound": 39 * MS,
    }  # fmt: skip


def test_a_wait_that_was_interrupted_is_for_the_next_task_to_end() -> None:
    """For more than a moment: the waiting thread had no CPU."""
    sample = task(110, 40, worker_bound=40)
    found = path_of(job([one(1, (10, 20), (35, 15))], sample))
    assert {held.code: held.time_ns for held in found} == {
        "learner_bound": 60 * MS, "network_wait": 5 * MS, "worker_bound": 35 * MS,
    }  # fmt: skip


def test_a_task_that_outlasts_the_iteration_was_not_waited_for() -> None:
    beside = task(50, 400, worker_bound=400)
    assert path_of(job([one(1, (10, 40))], beside)) == (
        Held("lead", None, "learner_bound", 1, 60 * MS),
        Held("lead", None, "network_wait", 1, 40 * MS),
    )


def test_without_a_common_clock_a_wait_stays_one() -> None:
    whole = job([one(1, (10, 40))], task(120, 30, worker_bound=30))
    assert job_path(whole, align(whole)) == (
        Held("lead", None, "learner_bound", 1, 60 * MS),
        Held("lead", None, "network_wait", 1, 40 * MS),
    )


def test_it_adds_up_whatever_the_tasks_took() -> None:
    """Shares that are no whole nanoseconds stay with the wait."""
    tasks = [
        Task(
            at * 7_777_777 - BEHIND,
            3_333_333,
            "t",
            (("worker_bound", 1_111_112), ("cpu_wait", 2_222_221)),
        )
        for at in range(100)
    ]
    found = path_of(job([one(number, (11, 13), (29, 17)) for number in range(1, 8)], *tasks))
    assert sum(held.time_ns for held in found) == 7 * 100 * MS
    assert any(held.member == "help" for held in found)


def test_members_without_iterations_say_nothing_of_those_of_others(tmp_path: Path) -> None:
    found = {}
    for name in ("lead", "help"):
        builder = TraceBuilder(tmp_path / f"{name}.duckdb")
        builder.coverage("thread_state")
        process = builder.process(pid=5, name="python")
        thread = builder.thread(process, states=[run(10 * MS), sleep(30 * MS), run(10 * MS)])
        for at in range(3 if name == "lead" else 0):
            builder.operation(thread, at * 10 * MS, (at + 1) * 10 * MS, "iteration")
        with open_trace(builder.write()) as trace:
            found[name] = partial_of(trace, per="iteration" if name == "lead" else None)
    both, alone = merged(found.items()), merged([("help", found["help"])])
    assert both.time_of("limit") == 20 * MS
    assert alone.time_of("limit") == 50 * MS


def test_tasks_of_a_trace_add_up(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "a.duckdb")
    builder.coverage("thread_state")
    process = builder.process(pid=5, name="ray::Runner")
    states = [run(10 * MS), sleep(30 * MS), run(10 * MS)]
    thread = builder.thread(process, states=states)
    builder.operation(thread, 2 * MS, 47 * MS, "Runner.sample", source="ray")
    builder.operation(thread, 3 * MS, 8 * MS, "simulation", source="auto")
    with open_trace(builder.write()) as trace:
        (found,) = merged([("a", partial_of(trace))]).tasks["a"]
    assert (found.name, found.start_ns, found.time_ns) == ("Runner.sample", 2 * MS, 45 * MS)
    limits = dict(found.limits)
    assert limits["simulation_bound"] == 5 * MS
    assert sum(limits.values()) == 45 * MS
