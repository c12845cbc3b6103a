"""Two ranks whose gradients are averaged over gloo: who waits for whom, held to timers inside."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from phases_harness import RL_PYTHON
from recording import COMMAND, rlscope
from rl_programs import require_modules
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.root, pytest.mark.matrix, pytest.mark.slow]

UPDATES = 40
ROUNDS = 20
# To start Ray takes a while.
TIMEOUT_S = 300
# Has the packages of the frameworks: as in test_phases_frameworks.py.
LLM_PYTHON = os.environ.get("RLSCOPE_LLM_PYTHON", RL_PYTHON)
TIMERS = {"verl": "verl.utils.profiler", "skyrl": "skyrl.train.utils.utils"}
# Of a thread's clock, which counts in ticks of the scheduler, and of what lies around backward.
CLOCK = 0.03


def test_a_rank_waits_for_the_gradients_of_the_slower_one(tmp_path: Path) -> None:
    require_modules("torch")
    trace = tmp_path / "run.duckdb"
    program = (RL_PYTHON, WORKLOADS / "ddp.py", tmp_path, f"--updates={UPDATES}")
    rlscope("-o", trace, "--", *program)
    fast, slow = (json.loads((tmp_path / str(rank)).read_text()) for rank in (0, 1))
    with rlscope_analysis.open(trace) as opened:
        rows = list(answer(opened, REPORTS["bubbles"]).data.records())
    learning = {row["pid"]: row for row in rows if row["phase"] == "backpropagation"}
    waiting = learning[fast["pid"]]
    for row in learning.values():
        parts = ("running_ns", "runnable_ns", "waits_ns", "idle_ns", "lost_ns")
        assert sum(row[name] for name in parts) == row["time_ns"]
    # Without a CPU it waited for one, or for gradients; the program cannot tell which.
    asleep_ns = waiting["waits_ns"] + waiting["idle_ns"]
    room_ns = CLOCK * waiting["time_ns"]
    assert asleep_ns <= fast["waited"] * UPDATES / (UPDATES - 1) + room_ns
    assert asleep_ns >= fast["waited"] - waiting["runnable_ns"] - room_ns
    # The other computes for 30 ms in each update that this one does not.
    assert waiting["waits_ns"] >= 0.9 * asleep_ns
    assert waiting["waits_for_pid"] == slow["pid"]
    assert waiting["waits_ns"] > 2 * learning[slow["pid"]]["waits_ns"]


def record_ray(
    monkeypatch: pytest.MonkeyPatch, folder: Path, modules: str, program: str, *words: object
) -> Path:
    """Return the trace of a program that starts Ray and needs these modules."""
    needs = [LLM_PYTHON, "-c", f"import ray, {modules}"]
    if subprocess.run(needs, capture_output=True, check=False).returncode:
        pytest.skip(f"not installed: {modules} (RLSCOPE_LLM_PYTHON names a Python that has it)")
    # Ray asks for no token of whoever is on this machine.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    trace = folder / "run.duckdb"
    command = [*COMMAND, "-o", trace, "--", LLM_PYTHON, WORKLOADS / program, *words, folder]
    done = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return trace


@pytest.mark.parametrize("library", TIMERS)
def test_the_actor_that_is_late_is_named_last(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timers of the library itself, around calls of actors, of which one is slow."""
    trace = record_ray(monkeypatch, tmp_path, TIMERS[library], "ray_trainer.py", library, ROUNDS)
    truth = json.loads((tmp_path / "times.json").read_text())
    with rlscope_analysis.open(trace) as opened:
        rows = list(answer(opened, REPORTS["bubbles"]).data.records())
    for phase, slow in (("rollout", 0), ("backpropagation", 1)):
        # Also on a machine where the other one may wait for a CPU as long.
        assert truth["last"][phase][slow] > 0.7 * ROUNDS
        of_phase = {row["pid"]: row for row in rows if row["phase"] == phase}
        last = {pid: row["times_last"] for pid, row in of_phase.items()}
        # Where the driver was kept from its CPU the answer was there before it asked.
        assert last[truth["pids"][slow]] > 0.6 * (ROUNDS - 1)
        assert sum(last.values()) - last[truth["pids"][slow]] < 0.4 * (ROUNDS - 1)
        # Without the first, and with what the timer itself takes.
        (driver,) = (row for row in of_phase.values() if row["role"] == "learner")
        assert sum(truth["spent"][phase][1:]) <= driver["time_ns"] <= sum(truth["spent"][phase])


PHASES_OF = """
SELECT name, sum(least(end_ns, {end}) - greatest(start_ns, {start})), sum(environment_steps)
FROM operation
WHERE source = 'auto' AND start_ns < {end} AND end_ns > {start} AND pid = {pid} GROUP BY ALL
"""


def test_runners_of_rllib_are_held_to_their_timers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = record_ray(monkeypatch, tmp_path, "ray.rllib.algorithms.ppo", "rllib_timed.py", 4)
    truths = {int(path.name): json.loads(path.read_text()) for path in tmp_path.glob("[0-9]*")}
    assert len(truths) == 2
    with rlscope_analysis.open(trace) as opened:
        for pid, truth in truths.items():
            found = opened.sql(PHASES_OF.format(pid=pid, **truth)).fetchall()
            ns = {name: int(time_ns) for name, time_ns, _ in found}
            whole_ns = truth["end"] - truth["start"]
            for phase, points in (("simulation", 0.03), ("inference", 0.07)):
                assert abs(ns[phase] - truth[phase]) <= points * whole_ns, (phase, found, truth)
            (steps,) = (steps for name, _, steps in found if name == "simulation")
            assert steps == truth["steps"]
        named = "FROM operation SELECT name, framework_name WHERE framework_name IS NOT NULL"
        names = set(opened.sql(named).fetchall())
    assert {
        ("backpropagation", "learner_update_timer"), ("rollout", "env_runner_sampling_timer"),
        ("weight_sync", "synch_weights"),
    } <= names  # fmt: skip
