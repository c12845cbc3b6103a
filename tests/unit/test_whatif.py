"""`whatif`: what is predicted of traces whose answer is known by construction."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import rlscope_analysis
from page_traces import of_rounds
from recording import rlscope
from rlscope_analysis.errors import TraceError
from rlscope_analysis.renderers import text
from rlscope_analysis.whatif.answer import what_if
from rlscope_analysis.whatif.changes import Changes, Scaled
from rlscope_analysis.whatif.predict import Replayer
from rlscope_analysis.whatif.program import make_program
from rlscope_analysis.whatif.read import read
from trace_builder import TIMER, Interval, TraceBuilder, run, sleep, woken

US = 1_000
MS = 1_000_000
ROUNDS = 8


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return of_rounds(tmp_path / "one.duckdb", ROUNDS)


@pytest.fixture
def two_workers(tmp_path: Path) -> Path:
    """Make a leader that waits for two workers of 3 and 1 ms, each on a CPU of its own.

    A round: the leader runs 1 ms and wakes both, sleeps until the slow one wakes it.
    """
    builder = TraceBuilder(tmp_path / "workers.duckdb")
    lead, slow, fast = (builder.process(pid=pid, name="python") for pid in (7, 8, 9))
    leads, slows, fasts = [], [sleep(1 * MS - 2)], [sleep(1 * MS - 1)]
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start, start + 1 * MS, "learn")
        leads += [run(1 * MS, cpu=0), sleep(3 * MS - 1), woken(1, by=2)]
        slows += [woken(1, by=1), run(3 * MS, cpu=1), sleep(1 * MS - 1)]
        fasts += [woken(1, by=1), run(1 * MS, cpu=2), sleep(3 * MS - 1)]
        builder.operation(2, start + 1 * MS - 1, start + 4 * MS - 1, "simulate")
        builder.operation(3, start + 1 * MS, start + 2 * MS, "simulate")
    builder.thread(lead, states=[*leads, run(10)])
    builder.thread(slow, states=slows[:-1])
    builder.thread(fast, states=fasts[:-1])
    return builder.write()


def predicted(path: Path, changes: Changes) -> dict[str, Any]:
    with rlscope_analysis.open(path) as trace:
        return dict(what_if(trace, changes).facts)


def scaled(operation: str, factor: float) -> Changes:
    return Changes((Scaled(operation, factor),))


@pytest.mark.parametrize(
    ("changes", "ratio"),
    [
        (scaled("simulate", 0.5), 3.5 / 5),
        (scaled("simulate", 0), 2 / 5),
        (scaled("simulate", 4), 14 / 5),
        (scaled("learn", 0.5), 4.5 / 5),
        (Changes((Scaled("simulate", 0.5), Scaled("learn", 0))), 2.5 / 5),
        (Changes((Scaled("learn", 3, is_count=True),)), 7 / 5),
        (Changes(cpus=1), 1),
    ],
)
def test_one_process(one: Path, changes: Changes, ratio: float) -> None:
    found = predicted(one, changes)
    assert found["duration_ratio"] == pytest.approx(ratio, abs=1e-4)
    assert found["low"] < ratio < found["high"]
    assert found["fidelity"] == pytest.approx(0, abs=1e-5)


def uneven(path: Path, learns_ms: list[float]) -> Path:
    """Make rounds of 3 ms of `simulate`, and of `learn` so long as is said."""
    builder = TraceBuilder(path)
    process = builder.process(pid=7, name="python")
    at = 0
    for learns in learns_ms:
        end = at + 3 * MS + int(learns * MS)
        builder.operation(1, at, end, "update")
        builder.operation(1, at, at + 3 * MS, "simulate")
        builder.operation(1, at + 3 * MS, end, "learn")
        at = end
    builder.thread(process, states=[run(at), run(10)])
    return builder.write()


def test_some_iterations_answer_for_all(tmp_path: Path) -> None:
    """Those in a row that last like all of them, not the longer ones before and after."""
    learns_ms = [2.0, 5.0, 5.0, 5.0, 2.9, 3.1, 3.0, 2.8, 3.2, 1.0, 1.0, 1.0]
    path = uneven(tmp_path / "uneven.duckdb", learns_ms)
    with rlscope_analysis.open(path) as trace:
        every = what_if(trace, scaled("simulate", 0.5)).facts
        some = what_if(trace, scaled("simulate", 0.5), most=5).facts
        shown = text.render(what_if(trace, scaled("simulate", 0.5), most=5), limit=None)
    assert (every["iterations"], some["iterations"], some["of_iterations"]) == (11, 5, 11)
    # 3 of 6 ms are halved.
    assert some["duration_ratio"] == pytest.approx(0.75, abs=1e-3)
    assert some["duration_ratio"] == pytest.approx(every["duration_ratio"], rel=0.02)
    # All of them tell how much iterations differ, and that they became shorter.
    assert every["is_stationary"] is some["is_stationary"] is False
    assert "5 of 11 iterations, in a row, of 6.0 ms" in "".join(shown)


def test_two_operations_at_the_same_time(tmp_path: Path) -> None:
    """Rounds of 3 ms, 2 ms and 1 ms in turn: the 2 are hidden, where there is a CPU for them."""
    builder = TraceBuilder(tmp_path / "overlap.duckdb")
    process = builder.process(pid=7, name="python")
    for at in range(ROUNDS):
        start = at * 6 * MS
        builder.operation(1, start, start + 6 * MS, "update")
        builder.operation(1, start, start + 1 * MS, "simulate")
        builder.operation(1, start + 1 * MS, start + 3 * MS, "infer")
        builder.operation(1, start + 3 * MS, start + 5 * MS, "simulate")
    builder.thread(process, states=[run(ROUNDS * 6 * MS), run(10)])
    builder.meta["cpus_allowed"] = "0-1"
    path = builder.write()
    both = Changes(overlap=("simulate", "infer"))
    found = predicted(path, both)
    assert found["duration_ratio"] == pytest.approx(4 / 6, rel=1e-3)
    assert (found["grade"], found["reasons"]) == ("C", ["overlapped"])
    assert predicted(path, replace(both, cpus=1))["duration_ratio"] == pytest.approx(1, rel=1e-3)
    faster = replace(both, scaled=(Scaled("simulate", 0.5),))
    assert predicted(path, faster)["duration_ratio"] == pytest.approx(3 / 6, rel=1e-3)
    for pair, what in ((("update", "infer"), "lie in each other"), (("none", "infer"), "nothing")):
        with pytest.raises(TraceError, match=what):
            predicted(path, Changes(overlap=pair))


def test_threads_of_parallel_regions(tmp_path: Path) -> None:
    """A round of 10 ms: 4 alone; 6 with a helper, of which both work for 4 and spin for 2."""
    builder = TraceBuilder(tmp_path / "team.duckdb")
    process = builder.process(pid=7, name="python")
    for at in range(ROUNDS):
        builder.operation(1, at * 10 * MS, (at + 1) * 10 * MS, "update")
        for tick in range(20):
            ts_ns = (at * 20 + tick) * MS // 2 + 1
            builder.sample(1, ts_ns, "spin" if tick >= 16 else "backend")
            builder.sample(2, ts_ns, "backend" if 8 <= tick < 16 else "spin")
    for cpu in (0, 1):
        builder.thread(process, states=[run(ROUNDS * 10 * MS, cpu=cpu), run(10, cpu=cpu)])
    builder.meta["cpus_allowed"] = "0-3"
    with rlscope_analysis.open(builder.write()) as trace:
        replayer = Replayer(read(trace))
        # One thread does the work of both and never spins; 4 on 4 CPUs do half of it each.
        for threads, takes in ((1, 4 + 8), (2, 10), (4, 4 + 3), (64, 4 + 3)):
            found = replayer.predict(Changes(threads=threads))
            assert found.duration_ratio == pytest.approx(takes / 10, rel=1e-2)
            assert found.grade == "C"


def test_a_team_larger_than_the_machine(tmp_path: Path) -> None:
    """A round of 10 ms: 4 alone; 6 with two helpers on one CPU, a third of it in the OS kernel."""
    builder = TraceBuilder(tmp_path / "team.duckdb")
    process = builder.process(pid=7, name="python")
    for at in range(ROUNDS):
        builder.operation(1, at * 10 * MS, (at + 1) * 10 * MS, "update")
        for tick in range(20):
            ts_ns = (at * 20 + tick) * MS // 2 + 1
            builder.sample(1, ts_ns, "backend", in_kernel=tick >= 16)
            if tick >= 8:
                turn = (tick - 8) % 6
                layer = "spin" if turn == 4 else "backend"
                builder.sample(2 if tick < 14 else 3, ts_ns, layer, in_kernel=turn == 5)
    builder.thread(process, states=[run(ROUNDS * 10 * MS), run(10)])
    for before, after in ((4, 3), (7, 0)):
        states = [sleep(before * MS)]
        states += [run(3 * MS, cpu=1), sleep((before + after) * MS)] * ROUNDS
        builder.thread(process, states=states)
    builder.meta["cpus_allowed"] = "0-1"
    # One thread does what all three did outside of the kernel, without the spinning: 8 + 2 + 2 ms.
    assert predicted(builder.write(), Changes(threads=1))["duration_ratio"] == pytest.approx(
        12 / 10, rel=1e-2
    )


def test_without_spinning_there_is_no_team(one: Path) -> None:
    with pytest.raises(TraceError, match="seen to spin"):
        predicted(one, Changes(threads=1))


def test_grades(one: Path, two_workers: Path) -> None:
    assert predicted(one, scaled("simulate", 0.5))["grade"] == "A"
    assert predicted(two_workers, scaled("simulate", 0.5))["grade"] == "B"
    free = predicted(one, scaled("simulate", 0))
    assert (free["grade"], free["reasons"]) == ("C", ["removed"])


@pytest.mark.parametrize(
    ("changes", "ratio"),
    [
        # The slow worker alone is waited for: 1 + 3/2 ms.
        (scaled("simulate", 0.5), 2.5 / 4),
        (scaled("learn", 0.5), 3.5 / 4),
        # One CPU does all of it: 1 + 3 + 1 ms.
        (Changes(cpus=1), 5 / 4),
        (scaled("simulate", 2), 7 / 4),
    ],
)
def test_workers(two_workers: Path, changes: Changes, ratio: float) -> None:
    found = predicted(two_workers, changes)
    assert found["fidelity"] == pytest.approx(0, abs=1e-3)
    assert found["duration_ratio"] == pytest.approx(ratio, rel=0.02)


def listening(builder: TraceBuilder, thread_id: int, states: list[Interval], *kinds: str) -> None:
    """Say of each sleep of a thread what it waits for, in turn; else it is one of several files."""
    kind, at = cycle(kinds or ("poll",)), 0
    for state in states:
        if state.state == "sleeping":
            builder.wait(thread_id, at, at + state.length_ns, next(kind))
        at += state.length_ns


def tick(slept_ns: int, *, by: int = TIMER) -> list[Interval]:
    """Return the states of a thread that somebody wakes for something of little use."""
    return [sleep(slept_ns - 11 * US), woken(1 * US, by=by), run(10 * US, cpu=2)]


def through_a_helper(path: Path, whose: list[int], *kinds: str) -> Path:
    """Make a worker that runs 8 ms; a helper takes 1 ms to tell the leader, which has 1 ms to do.

    Meanwhile the helper wakes up by its own timer, or by that of a thread which has another.
    """
    builder = TraceBuilder(path)
    lead, worker, other = (builder.process(pid=pid, name="python") for pid in (7, 8, 9))
    leads, works = [], [sleep(1 * MS - 1)]
    helps: list[Interval] = []
    ticks: list[Interval] = []
    for at in range(ROUNDS):
        start = at * 10 * MS
        builder.operation(1, start, start + 10 * MS, "update")
        builder.operation(2, start + 1 * MS - 1, start + 9 * MS - 1, "simulate")
        leads += [run(1 * MS, cpu=0), sleep(9 * MS - 1), woken(1, by=3)]
        works += [woken(1, by=1), run(8 * MS - 1, cpu=1), sleep(2 * MS)]
        helps += [piece for by in whose for piece in tick(3 * MS, by=by)]
        helps += [sleep((9 - 3 * len(whose)) * MS - 2), woken(1, by=2), run(1 * MS + 1, cpu=2)]
        ticks += [*tick(3 * MS - 5 * US), *tick(3 * MS), *tick(3 * MS), sleep(1 * MS + 5 * US)]
    builder.thread(lead, states=[*leads, run(10)])
    builder.thread(worker, states=works)
    builder.thread(lead, states=[*helps, sleep(10)])
    builder.thread(other, states=ticks)
    listening(builder, 3, helps, *kinds)
    listening(builder, 4, ticks)
    return builder.write()


@pytest.mark.parametrize("whose", [[], [TIMER, TIMER], [4, 4], [TIMER, 4], [4, TIMER]])
def test_messages_are_not_held_up_by_timers(tmp_path: Path, whose: list[int]) -> None:
    """These are no part of a message, and come as late whenever that does."""
    path = through_a_helper(tmp_path / "helper.duckdb", whose)
    for changes, ratio in ((scaled("simulate", 0.5), 0.6), (scaled("simulate", 2), 1.8)):
        found = predicted(path, changes)
        assert found["fidelity"] == pytest.approx(0, abs=0.01)
        assert found["duration_ratio"] == pytest.approx(ratio, abs=0.02)


def test_who_sleeps_may_be_one_of_a_pool(tmp_path: Path) -> None:
    """It takes no message meanwhile: 3 + 2 ms and 1 to tell; but another one might."""
    whose = [TIMER, TIMER]
    path = through_a_helper(tmp_path / "pool.duckdb", whose, "sleep", "sleep", "poll")
    found = predicted(path, scaled("simulate", 0.25))
    assert found["duration_ratio"] == pytest.approx(0.7, abs=0.02)
    assert found["low"] < 0.4 < 0.7 < found["high"]


def test_a_timer_that_is_waited_for_holds_up(tmp_path: Path) -> None:
    """A helper looks 3 ms after it was told, and tells the leader what it found."""
    builder = TraceBuilder(tmp_path / "timer.duckdb")
    process = builder.process(pid=7, name="python")
    leads, helps = [], [sleep(1 * MS - 1)]
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start, start + 1 * MS, "learn")
        leads += [run(1 * MS, cpu=0), sleep(3 * MS - 1), woken(1, by=2)]
        helps += [woken(1, by=1), run(10 * US, cpu=2), *tick(3 * MS - 10 * US), sleep(1 * MS - 1)]
    builder.thread(process, states=[*leads, run(10)])
    builder.thread(process, states=helps)
    listening(builder, 2, helps)
    found = predicted(builder.write(), scaled("learn", 0))
    assert found["duration_ratio"] == pytest.approx(3 / 4, abs=0.01)


def test_who_works_by_a_timer_does_one_thing_after_the_other(tmp_path: Path) -> None:
    """A helper runs 2 of 4 ms after a timer, and only then takes what the leader has for it."""
    builder = TraceBuilder(tmp_path / "timer.duckdb")
    process = builder.process(pid=7, name="python")
    leads, helps = [], []
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start, start + 3 * MS, "learn")
        leads += [run(3 * MS + 1, cpu=0), sleep(1 * MS - 2), woken(1, by=2)]
        helps += [sleep(1 * MS - 1), woken(1, by=TIMER), run(2 * MS - 10, cpu=2)]
        helps += [sleep(9), woken(1, by=1), run(1 * MS, cpu=2)]
    builder.thread(process, states=[*leads, run(10)])
    builder.thread(process, states=helps)
    listening(builder, 2, helps)
    found = predicted(builder.write(), scaled("learn", 0))
    assert found["duration_ratio"] == pytest.approx(1, abs=0.02)


def test_without_workers_the_leader_steps_all_environments(tmp_path: Path) -> None:
    """A step of 2 ms costs 3 ms of messages, to send them and to wait: 5 ms become 3 to 5."""
    builder = TraceBuilder(tmp_path / "subproc.duckdb")
    lead, worker = (builder.process(pid=pid, name="python") for pid in (7, 8))
    leads, theirs = [], [sleep(2 * MS - 1)]
    for at in range(ROUNDS):
        start = at * 5 * MS
        builder.operation(1, start, start + 5 * MS, "update")
        builder.operation(1, start + 1 * MS, start + 5 * MS, "simulation")
        builder.operation(2, start + 2 * MS, start + 4 * MS, "simulation")
        leads += [run(2 * MS, cpu=0), sleep(3 * MS - 1), woken(1, by=2)]
        theirs += [woken(1, by=1), run(3 * MS, cpu=1), sleep(2 * MS - 1)]
    builder.thread(lead, states=[*leads, run(10)])
    builder.thread(worker, states=theirs[:-1])
    found = predicted(builder.write(), Changes(workers=0))
    assert found["grade"] == "C"
    # 1 ms of its own and 2 of simulation; with 1 ms to send, and 1 to pack the answer.
    assert found["low"] <= 3 / 5 <= found["duration_ratio"] <= 5 / 5 <= found["high"]
    assert found["low"] == pytest.approx(3 / 5, abs=0.1)
    assert found["high"] == pytest.approx(5 / 5, abs=0.1)


def test_who_has_no_workers_cannot_do_without(one: Path, two_workers: Path) -> None:
    for path in (one, two_workers):
        with pytest.raises(TraceError, match="cannot be answered"):
            predicted(path, Changes(workers=0))


def test_more_workers_are_a_lower_bound(two_workers: Path) -> None:
    """Six workers of 2 ms on average and 1 ms of the leader: 13 ms of work on 3 CPUs."""
    found = predicted(two_workers, Changes(workers=6))
    assert found["is_lower_bound"]
    assert found["grade"] == "C"
    assert found["high"] is None
    assert found["duration_ratio"] == pytest.approx(13 / 3 / 4, rel=0.03)


def test_threads_of_a_worker_run_at_the_same_time(tmp_path: Path) -> None:
    """A worker runs for 3 of 4 ms on each of two threads: iterations take no 6 ms."""
    builder = TraceBuilder(tmp_path / "threads.duckdb")
    builder.meta["cpus_allowed"] = "0-2"
    lead, worker = (builder.process(pid=pid, name="python") for pid in (7, 8))
    leads: list[Interval] = []
    for at in range(ROUNDS):
        builder.operation(1, at * 4 * MS, (at + 1) * 4 * MS, "update")
        leads += [run(1 * MS, cpu=0), sleep(3 * MS - 1), woken(1, by=2)]
    builder.thread(lead, states=[*leads, run(10)])
    for cpu in (1, 2):
        works = [woken(1, by=1), run(3 * MS, cpu=cpu), sleep(1 * MS - 1)] * ROUNDS
        builder.thread(worker, states=[sleep(1 * MS - 1), *works[:-1]])
    found = predicted(builder.write(), Changes(workers=1))
    assert found["duration_ratio"] == pytest.approx(3 / 4, rel=0.01)


def test_all_running_time_is_in_the_program(two_workers: Path) -> None:
    with rlscope_analysis.open(two_workers) as trace:
        recorded = read(trace)
        program = make_program(recorded)
    bursts = program.kind == 0
    spent = recorded.bursts["end_ns"] - recorded.bursts["start_ns"]
    assert program.length_ns[bursts].sum() == spent.sum()


def test_the_gil_is_refused(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "gil.duckdb")
    process = builder.process(pid=7, name="python")
    states: list[Interval] = []
    for at in range(4):
        states += [run(2 * MS), sleep(2 * MS - 10), woken(10, by=TIMER)]
        builder.operation(1, at * 4 * MS, (at + 1) * 4 * MS, "update")
        builder.wait(1, at * 4 * MS + 2 * MS, at * 4 * MS + 4 * MS - 10, "gil")
    builder.thread(process, states=[*states, run(10)])
    path = builder.write()
    with pytest.raises(TraceError, match="wait for the GIL for 50 %"):
        predicted(path, scaled("update", 0.5))
    # Of no change it can be told, for the same reason.
    done = rlscope("whatif", path)
    assert done.returncode == 1
    assert "wait for the GIL for 50 %" in done.stderr


def test_without_an_operation_or_states_it_is_refused(one: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no operation 'nothing'"):
        predicted(one, scaled("nothing", 0.5))
    builder = TraceBuilder(tmp_path / "empty.duckdb")
    with pytest.raises(TraceError, match="has no iteration"):
        predicted(builder.write(), scaled("simulate", 0.5))


def test_it_is_not_stationary(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "drift.duckdb")
    process = builder.process(pid=7, name="python")
    states, start = [], 0
    for at in range(9):
        length = (at + 1) * MS
        states.append(run(length))
        builder.operation(1, start, start + length, "update")
        start += length
    builder.thread(process, states=[*states, run(10)])
    found = predicted(builder.write(), scaled("update", 0.5))
    assert not found["is_stationary"]
    assert found["grade"] == "C"
    assert "not_stationary" in found["reasons"]


def test_what_would_help_most(one: Path) -> None:
    with rlscope_analysis.open(one) as trace:
        shown = text.render(what_if(trace, Changes()), limit=None)
    lines = [line for line in shown.splitlines() if "times as fast" in line]
    assert [line.split()[0] for line in lines] == ["update", "simulate", "learn"]


def test_an_operation_that_waits_for_others_is_theirs_to_change(two_workers: Path) -> None:
    """The leading thread of a round waits for 3 of 4 ms."""
    with rlscope_analysis.open(two_workers) as trace:
        found = what_if(trace, scaled("update", 0.5))
        other = what_if(trace, scaled("simulate", 0.5))
    assert found.facts["waits_for_others"] == {"update": pytest.approx(3 / 4, rel=0.01)}
    assert "update waits for other threads for 75 % of its time" in text.render(found, limit=None)
    assert other.facts["waits_for_others"] == {}


def test_the_command(one: Path) -> None:
    shown = rlscope("whatif", str(one), "--speedup", "simulate=inf", "--format", "json")
    found = json.loads(shown.stdout)
    assert found["duration_ratio"] == pytest.approx(0.4, abs=1e-4)
    assert {"low", "high", "grade", "fidelity"} <= found.keys()


@pytest.mark.parametrize("wrong", ["simulate", "=2", "simulate=0", "simulate=-1", "simulate=nan"])
def test_what_is_no_change(one: Path, wrong: str) -> None:
    shown = rlscope("whatif", str(one), "--speedup", wrong)
    assert shown.returncode == 2
    assert "OPERATION=NUMBER" in shown.stderr


def two_traces(tmp_path: Path, learn: int) -> Path:
    """Make rounds of 1 ms in `simulate` and so much in `learn`."""
    builder = TraceBuilder(tmp_path / f"learn{learn}.duckdb")
    process = builder.process(pid=7, name="python")
    length = 1 * MS + learn
    for at in range(ROUNDS):
        builder.operation(1, at * length, (at + 1) * length, "update")
        builder.operation(1, at * length, at * length + 1 * MS, "simulate")
        builder.operation(1, at * length + 1 * MS, (at + 1) * length, "learn")
    builder.thread(process, states=[run(ROUNDS * length), run(10)])
    return builder.write()


@pytest.mark.parametrize(("after", "is_held"), [(1 * MS, True), (3 * MS, False)])
def test_a_prediction_is_held_to_the_changed_program(
    tmp_path: Path, after: int, is_held: bool
) -> None:
    before, changed = two_traces(tmp_path, 2 * MS), two_traces(tmp_path, after)
    ledger = tmp_path / "ledger.jsonl"
    asked = ["--change", "learn=2", "--ledger", str(ledger), "--format", "json"]
    for _ in range(2):
        shown = rlscope("whatif", "--check", str(before), str(changed), *asked)
        assert shown.returncode == 0, shown.stderr
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert len(lines) == 2
    assert lines[0]["duration_ratio"] == pytest.approx(2 / 3, abs=1e-4)
    assert lines[0]["measured_ratio"] == pytest.approx((1 * MS + after) / (3 * MS), abs=1e-4)
    assert lines[0]["held"] is is_held


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "loop", "second name", "full"])
def test_a_ledger_that_is_no_file_of_its_own(tmp_path: Path, kind: str) -> None:
    before, changed = two_traces(tmp_path, 2 * MS), two_traces(tmp_path, 1 * MS)
    ledger, victim = tmp_path / "ledger.jsonl", tmp_path / "victim"
    victim.write_text("kept")
    if kind == "folder":
        ledger.mkdir()
    elif kind == "pipe":
        os.mkfifo(ledger)
    elif kind == "second name":
        ledger.hardlink_to(victim)
    elif kind == "full":
        ledger = Path("/dev/full")
    else:
        ledger.symlink_to({"link": victim, "loop": ledger}[kind])
    asked = ["--change", "learn=2", "--ledger", str(ledger)]
    shown = rlscope("whatif", "--check", str(before), str(changed), *asked)
    assert shown.returncode == 1
    assert shown.stderr.startswith(f"error: cannot add to {ledger}: ")
    assert "\nhint: " in shown.stderr
    assert victim.read_text() == "kept"


@pytest.mark.parametrize(
    "wrong",
    [["--check"], ["--ledger", "x"], ["--change", "cpus=none"], ["--change", "cpus=0"],
     ["--change", "cpus=000000001" + 5000 * "0"], ["--change", "workers=0000000019999"],
     ["--change", ""]],
)  # fmt: skip
def test_what_is_no_question(one: Path, wrong: list[str]) -> None:
    shown = rlscope("whatif", str(one), *wrong)
    assert shown.returncode == 2
    assert "hint:" in shown.stderr


def test_the_parts_of_a_change_in_one_text(one: Path) -> None:
    asked = ["--change", "simulate=2, count learn=3, cpus=1", "--format", "json"]
    found = json.loads(rlscope("whatif", str(one), *asked).stdout)
    assert found["duration_ratio"] == pytest.approx(5.5 / 5, abs=1e-4)
