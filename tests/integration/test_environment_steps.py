"""Environment steps of recorded programs are, exactly, what the programs count themselves."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import WORKLOADS, Workload, in_matrix
from late_ring import READER_AT, find_memfd
from phases_harness import RL_PYTHON
from recording import Recorder, query, until
from rl_programs import require_modules

pytestmark = pytest.mark.root

STEPPERS = (
    "SELECT process_id, steps, within_thread_id IS NULL, counted_steps FROM environment_step"
    " ORDER BY thread_id"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("dummy", "--envs=16"), ("subproc",),
        *in_matrix(("single",), ("async",), ("sync",), ("split",), ("subproc", "--envs=1")),
    ],
    ids=" ".join,
)  # fmt: skip
def test_steps_are_what_the_program_counts(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    require_modules("torch, gymnasium, stable_baselines3")
    trace = tmp_path / "trace.duckdb"
    command = [RL_PYTHON, str(WORKLOADS / "env_steps.py"), *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-calibrate", "--", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout.splitlines()[-1])
    (first, *workers) = query(trace, STEPPERS)
    assert first == (1, truth["steps"], True, truth["steps"])
    assert len(workers) == truth["workers"]
    assert all(reported[2:] == (False, 0) for reported in workers)
    steps = [reported[1] for reported in workers]
    if arguments[0] == "subproc":
        assert sum(steps) == truth["steps"]
    # Where an episode is over, a worker of Gymnasium resets in place of the next step.
    assert sum(steps) <= truth["steps"]
    assert query(
        trace,
        "SELECT count(*) FROM operation WHERE (environment_steps IS NULL) = (name = 'simulation')",
    ) == [(0,)]


LATE = """
import sys
import gymnasium
from gymnasium.vector import SyncVectorEnv
envs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3)
envs.reset(seed=1)
for _ in range(10): envs.step(envs.action_space.sample())
print("ready", flush=True)
sys.stdin.readline()
for _ in range(50): envs.step(envs.action_space.sample())
print("done", flush=True)
sys.stdin.readline()
"""


def is_read(pid: int) -> bool:
    """Return whether a recorder reads the rings of a process."""
    memory = find_memfd(pid)
    if memory is None:
        return False
    with memory.open("rb") as file:
        file.seek(READER_AT)
        return file.read(4) != bytes(4)


def test_an_attach_counts_the_steps_from_there_on(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    require_modules("gymnasium")
    made = program(LATE)
    assert made.readline() == "ready"
    trace = tmp_path / "trace.duckdb"
    recorder = record(trace, f"--pid={made.pid}", "--inject", "--no-calibrate").live()
    until(lambda: is_read(made.pid), what="the recorder reads what the program tells")
    made.go()
    assert made.readline() == "done"
    assert recorder.stop() == 0, recorder.words()
    assert query(trace, "SELECT steps, calls FROM environment_step") == [(150, 50)]
