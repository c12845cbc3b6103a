"""The first screen of programs as people run them: it fits, and each number is that of its view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import first_screen
from conftest import WORKLOADS
from phases_harness import RL_PYTHON
from recording import rlscope

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.root, pytest.mark.matrix]

# The verdict holds one of these; where several are true, the largest differs from run to run.
PROGRAMS = {
    "ppo": (["ppo_cartpole.py", "--seconds", "5"], ("updates the model", "environment", "CPU")),
    "sb3-ppo": (["rl_sb3.py"], ("updates the model",)),
    "sb3-a2c": (["rl_sb3.py", "--algorithm=a2c"], ("asks the policy", "updates the model")),
    "sb3-dqn": (["rl_sb3.py", "--algorithm=dqn"], ("updates the model", "asks the policy")),
    "sb3-subproc": (["rl_sb3.py", "--vector=subproc"], ("updates the model", "CPU", "sends")),
    "cleanrl-ppo": (["rl_ppo.py", "--updates=8"], ("updates the model", "asks the policy")),
    "async-vector": (["planted_gym.py", "async_slow", "60"], ("runs environments", "CPU")),
    "data-loader": (["planted_gym.py", "starved_loader", "1500"], ("leading process waits for",)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_screen_alone_says_what_limits_the_run(tmp_path: Path, name: str) -> None:
    (workload, *arguments), limits = PROGRAMS[name]
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, "--", RL_PYTHON, WORKLOADS / workload, *arguments)
    assert done.returncode == 0, done.stderr
    lines = first_screen.check(trace)
    verdict = lines[2]
    assert verdict in done.stderr, "a recording ends with the verdict"
    # Others that use the machine may be what limits the run of a test.
    machine = ("outside of the trace", "nobody is known to have")
    assert any(words in verdict for words in (*limits, *machine, "No single cause")), verdict
