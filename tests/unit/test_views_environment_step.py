"""View environment_step: whose steps are those of a vector environment, and what the run took."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder

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
