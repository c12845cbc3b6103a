"""Phases and steps that top shows are those of the trace of the same time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import WORKLOADS
from phases_harness import RL_PYTHON
from recording import query
from rl_programs import require_modules

pytestmark = [pytest.mark.root, pytest.mark.matrix]

PHASES = """
SELECT o.name,
  sum(least(o.end_ns, $2) - greatest(o.start_ns, $1))::BIGINT
FROM operation AS o JOIN thread AS t ON t.thread_id = o.thread_id
WHERE o.start_ns < $2 AND o.end_ns > $1 AND t.tid = $3 GROUP BY o.name
"""
STEPS = """
SELECT coalesce(sum(o.environment_steps), 0)::BIGINT
FROM operation AS o JOIN thread AS t ON t.thread_id = o.thread_id
WHERE o.end_ns > $1 AND o.end_ns <= $2 AND t.tid = $3
"""
POINTS = 0.04


def test_phases_are_those_of_the_trace(tmp_path: Path) -> None:
    require_modules("torch, gymnasium")
    trace = tmp_path / "trace.duckdb"
    program = [RL_PYTHON, str(WORKLOADS / "ppo_cartpole.py"), "--seconds", "15"]
    done = subprocess.run(
        [
            sys.executable, "-m", "rlscope_trace", "top", "--format", "json", "--keep",
            "-o", str(trace), "--", *program,
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    # While it trains: neither its start nor its end.
    training = [view for view in shown if view["steps_per_s"]][2:-2]
    assert len(training) >= 5
    for view in training:
        learner = view["processes"][0]
        assert learner["role"] == "learner"
        window = [view["start_ns"], view["end_ns"], learner["tid"]]
        whole = window[1] - window[0]
        truth = {name: ns / whole for name, ns in query(trace, PHASES, window)}
        reported = {phase["name"]: phase["share"] for phase in view["phases"]}
        for name in ("simulation", "inference", "backpropagation"):
            assert reported.get(name, 0) == pytest.approx(truth.get(name, 0), abs=POINTS), name
        ((steps,),) = query(trace, STEPS, window)
        # A step that ends while it is read counts here or there.
        assert view["steps_per_s"] * whole / 1e9 == pytest.approx(steps, abs=8)
