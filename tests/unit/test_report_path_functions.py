"""The functions of the critical path: those that the limits are made of, and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recording import rlscope
from trace_builder import TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

OUTER, STEP = "<module> (train.py:1)", "step (env.py:3)"
ANSWER, IDLE = "answer (worker.py:7)", "spin (other.py:7)"


def rows_of(path: Path) -> list[dict[str, Any]]:
    shown = rlscope("summarize", path, "--view", "path-functions", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    rows: list[dict[str, Any]] = json.loads(shown.stdout)["rows"]
    return rows


def test_samples_off_the_path_and_of_the_first_iteration_are_not_counted(tmp_path: Path) -> None:
    """Three iterations of 100: 60 of a simulation, 40 while a worker answers; another one spins."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in ("thread_state", "operation", "cpu_sample"):
        builder.coverage(kind)
    main = builder.process(pid=1, name="main")
    worker = builder.process(pid=2, name="worker", parent=main)
    states, answers = [], []
    for start in range(0, 300, 100):
        states += [run(60), sleep(39), woken(1, by=2)]
        answers += [sleep(59), woken(1, by=1), run(40)]
        builder.operation(1, start, start + 100, "update")
        builder.operation(1, start, start + 60, "simulation")
        builder.wait(1, start + 60, start + 99, "pipe")
        builder.sample(1, start + 30, "python", frames=(OUTER, STEP))
        builder.sample(1, start + 40, "python", frames=(OUTER,))
        builder.sample(2, start + 80, "python", frames=(ANSWER,))
        builder.sample(2, start + 70, None)
        for at in (30, 80):
            builder.sample(3, start + at, "python", frames=(IDLE,))
    builder.thread(main, states=states)
    builder.thread(worker, states=answers)
    builder.thread(builder.process(pid=3, parent=main), states=[run(300)])
    rows = rows_of(builder.write())
    counted = {
        (row["code"], row["function"]): (row["self_samples"], row["total_samples"]) for row in rows
    }
    assert counted == {
        ("serial_simulation", OUTER): (2, 4),
        ("serial_simulation", STEP): (2, 2),
        ("worker_bound", ANSWER): (2, 2),
        ("worker_bound", None): (2, 2),
    }
    assert sum(row["self_share"] for row in rows if row["code"] == "serial_simulation") == 1
