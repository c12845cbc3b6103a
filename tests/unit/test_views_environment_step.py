"""View environment_step: whose steps are those of a vector environment, and what the run took."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

import rlscope_analysis
from rlscope_analysis.trace import open_trace
from trace_builder import TIMER, UNKNOWN, TraceBuilder, run, sleep, woken

COUNTED = "SELECT thread_id, steps, within_thread_id, counted_steps FROM environment_step"
FINISH = 1_000_000


def build(
    tmp_path: Path, parents: tuple[int | None, ...], threads: tuple[int, ...]
) -> TraceBuilder:
    """Return a trace of processes, given by their parents, and threads, by their processes."""
    made = TraceBuilder(tmp_path / "trace.duckdb")
    for parent in parents:
        made.process(parent=parent, end_ns=FINISH)
    for process_id in threads:
        made.thread(process_id, states=[], end_ns=FINISH)
    return made


def simulate(made: TraceBuilder, thread_id: int, start_ns: int, end_ns: int, steps: int) -> None:
    made.operation(
        thread_id, start_ns, end_ns, "simulation", domain="rlscope", source="auto", steps=steps
    )


def counted(made: TraceBuilder, **window: str) -> list[tuple[Any, ...]]:
    path = made.path if made.path.exists() else made.write()
    with open_trace(path, **window) as trace:
        return trace.connection.execute(COUNTED).fetchall()


def vector(made: TraceBuilder, *workers: int, calls: int = 20, gap_ns: int = 0) -> None:
    """Let thread 1 step a vector of environments; gap_ns: between the halves of a step."""
    simulate(made, 1, 0, 50, 0)
    for start_ns in range(100, 100 + 100 * calls, 100):
        if gap_ns:
            simulate(made, 1, start_ns, start_ns + 10, 0)
            simulate(made, 1, start_ns + 10 + gap_ns, start_ns + 80, len(workers))
        else:
            simulate(made, 1, start_ns, start_ns + 80, len(workers))
        for worker in workers:
            simulate(made, worker, start_ns + 12, start_ns + 20 + worker, 1)


@pytest.mark.parametrize("gap_ns", [0, 30])
def test_steps_of_workers_are_those_of_their_vector(tmp_path: Path, gap_ns: int) -> None:
    # Process 2 is a server that forks the others.
    made = build(tmp_path, (None, 1, 2, 2), (1, 2, 3, 4))
    vector(made, 3, 4, gap_ns=gap_ns)
    assert counted(made) == [(1, 40, None, 40), (3, 20, 1, 0), (4, 20, 1, 0)]


def test_threads_can_be_workers(tmp_path: Path) -> None:
    made = build(tmp_path, (None,), (1, 1, 1))
    vector(made, 2, 3)
    assert counted(made) == [(1, 40, None, 40), (2, 20, 1, 0), (3, 20, 1, 0)]


def test_processes_that_step_for_themselves_add_up(tmp_path: Path) -> None:
    # A driver that evaluates now and then, and two actors, one of whom it outlasts.
    made = build(tmp_path, (None, 1, 1), (1, 2, 3))
    for start_ns in range(0, 4000, 100):
        simulate(made, 1, start_ns, start_ns + 50, 1)
        simulate(made, 2, start_ns + 25, start_ns + 75, 1)
    for start_ns in range(0, 1000, 100):
        simulate(made, 3, start_ns + 60, start_ns + 90, 1)
    assert counted(made) == [(1, 40, None, 40), (2, 40, None, 40), (3, 10, None, 10)]


def test_a_process_beside_works_for_nobody(tmp_path: Path) -> None:
    made = build(tmp_path, (None, None), (1, 2))
    vector(made, 2)
    assert counted(made) == [(1, 20, None, 20), (2, 20, None, 20)]


def test_windows_that_follow_each_other_add_up(tmp_path: Path) -> None:
    made = build(tmp_path, (None, 1), (1, 2))
    vector(made, 2)
    # Within the step that begins at 1,000.
    first, rest = counted(made, end="1050ns"), counted(made, start="1050ns")
    assert [row[1] + other[1] for row, other in zip(first, rest, strict=True)] == [20, 20]
    assert [row[3] for row in (*first, *rest)] == [9, 0, 11, 0]


def test_a_trace_without_phases_has_no_steps(tmp_path: Path) -> None:
    made = build(tmp_path, (None,), (1,))
    made.operation(1, 0, 10, "step")
    assert counted(made) == []
    # As someone reads it who has only DuckDB.
    with duckdb.connect(str(made.path), read_only=True) as connection:
        assert connection.execute("SELECT environment_steps FROM operation").fetchall() == [(None,)]


EVALUATOR = "SELECT counted_steps, evaluation_steps FROM environment_step ORDER BY thread_id"
EVALUATE = ("<module> (train.py:9)", "evaluate (train.py:3)", "Env.step (env.py:5)")
ACT = ("<module> (train.py:9)", "act (train.py:3)", "Env.step (env.py:5)")
TRAINING, EVALUATION = (20, 0), (0, 20)


def beside_a_learner(
    tmp_path: Path,
    *,
    name: str | None = None,
    title: str | None = None,
    frames: tuple[str, ...] = (),
    wakes: int = TIMER,
    why: str = "pipe",
    learns: bool = False,
    is_learner_seen: bool = True,
) -> TraceBuilder:
    """Return a trace of a learner that steps by itself, and of a child that steps, too.

    wakes: who wakes the learner once, from a wait of this kind.
    """
    made = TraceBuilder(tmp_path / "trace.duckdb")
    made.process(end_ns=FINISH)
    made.process(parent=1, end_ns=FINISH, python_name=name, title=title)
    made.thread(1, states=[sleep(500), woken(500, by=wakes), run(FINISH - 1000)])
    made.thread(2, states=[run(FINISH, cpu=1)])
    made.wait(1, 0, 500, why)
    for start_ns in range(1000, 3000, 100):
        simulate(made, 1, start_ns, start_ns + 40, 1)
        simulate(made, 2, start_ns + 30, start_ns + 60, 1)
        for thread_id, is_there in ((1, is_learner_seen), (2, learns)):
            if is_there:
                times = (start_ns + 70, start_ns + 90)
                made.operation(
                    thread_id, *times, "backpropagation", domain="rlscope", source="auto"
                )
        if frames:
            made.sample(2, start_ns + 40, "simulator", frames=frames)
    return made


def of_the_child(made: TraceBuilder) -> tuple[int, int]:
    path = made.path if made.path.exists() else made.write()
    with open_trace(path) as trace:
        learner, child = trace.connection.execute(EVALUATOR).fetchall()
    assert learner == TRAINING
    return child


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        ({"name": "evaluator"}, EVALUATION), ({"name": "Eval-2"}, EVALUATION),
        ({"title": "ray::EvalWorker.run"}, EVALUATION),
        ({"title": "/usr/bin/python3 tools/evaluate.py --runs 2"}, EVALUATION),
        ({"frames": EVALUATE}, EVALUATION),
        ({"name": "Process-2"}, TRAINING), ({"name": "medieval"}, TRAINING), ({}, TRAINING),
        ({"title": "python train.py --eval-every 10"}, TRAINING), ({"frames": ACT}, TRAINING),
    ],
)  # fmt: skip
def test_a_process_that_is_called_so_evaluates(
    tmp_path: Path, called: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert of_the_child(beside_a_learner(tmp_path, **called)) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # Its end is nothing that is learned from.
        ({"wakes": 2, "why": "process"}, EVALUATION),
        ({"wakes": 2, "why": "pipe"}, TRAINING),
        ({"wakes": 2, "why": "lock"}, TRAINING),
        ({"learns": True}, TRAINING),
        ({"is_learner_seen": False}, TRAINING),
        # It was not recorded who wakes whom.
        ({"wakes": UNKNOWN}, TRAINING),
    ],
)
def test_what_something_comes_of_is_no_evaluation(
    tmp_path: Path, known: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert of_the_child(beside_a_learner(tmp_path, name="evaluator", **known)) == expected


def test_a_message_that_its_reader_did_not_wait_for_counts(tmp_path: Path) -> None:
    made = beside_a_learner(tmp_path, name="evaluator")
    made.early_message(1, sent_ns=2000, read_ns=2500, sender=2)
    assert of_the_child(made) == TRAINING


def test_steps_of_such_a_process_are_evaluations_of_iterations(tmp_path: Path) -> None:
    path = beside_a_learner(tmp_path, name="evaluator").write()
    with rlscope_analysis.open(path) as trace:
        trace.critical_path()
        sums = "SELECT sum(environment_steps), sum(evaluation_steps) FROM iteration"
        assert trace.sql(sums).fetchall() == [(20, 20)]
