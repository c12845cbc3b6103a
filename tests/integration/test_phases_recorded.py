"""Phases of real programs under the recorder, with no line of them changed.

The whole way is held to timers inside the programs: hooks, shim, rings, trace, views. Simulation
within 3 points of the program's time, the others within 7, one range per call into the environment.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from conftest import WORKLOADS
from phases_harness import PHASES, RL_PYTHON
from recording import assert_conserved, query
from rl_programs import NAMES, check_shares, require

pytestmark = [pytest.mark.root, pytest.mark.slow]

IN_WINDOW = """
SELECT o.name, sum(least(o.end_ns, $2) - greatest(o.start_ns, $1))::BIGINT
FROM operation AS o JOIN thread AS t USING (thread_id)
WHERE o.source = 'auto' AND o.pid = $3 AND t.tid = $3 AND o.start_ns < $2 AND o.end_ns > $1
GROUP BY o.name
"""


def recorded(trace: Path, *command: str) -> str:
    """Trace a program that must succeed; return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--", RL_PYTHON, *command],
        # Some libraries leave logs where they are.
        cwd=trace.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "dropped: operations" not in done.stderr, done.stderr
    assert_conserved(trace)
    return done.stdout


# On-policy and off-policy, written out and by a library, with workers and without.
IN_SHORT = {"ppo-cartpole", "sb3-dqn"}
PROGRAMS = [
    name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.matrix) for name in NAMES
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_recorded_phases_are_what_the_timers_say(tmp_path: Path, name: str) -> None:
    program = require(name)
    trace = tmp_path / "trace.duckdb"
    truth = json.loads(recorded(trace, *program).splitlines()[-1])
    window = [truth["start_ns"], truth["end_ns"], truth["pid"]]
    check_shares(truth, Counter(dict(query(trace, IN_WINDOW, window))))
    assert query(
        trace,
        "SELECT count(*) FROM operation AS o JOIN thread AS t USING (thread_id)"
        " WHERE o.name = 'simulation' AND t.tid = $3 AND o.start_ns < $2 AND o.end_ns > $1",
        window,
    ) == [(truth["env_calls"],)]
    # Every operation is a phase, none lies in another, and their times sum to the thread's.
    assert query(trace, "SELECT DISTINCT source, depth FROM operation") == [("auto", 0)]
    assert query(
        trace,
        "SELECT sum(self_ns) - (SELECT sum(end_ns - start_ns) FROM thread AS t WHERE thread_id IN"
        " (SELECT thread_id FROM operation)) FROM operation_tree",
    ) == [(0,)]


def test_the_demo_shows_operations(tmp_path: Path) -> None:
    require("ppo-cartpole")
    trace = tmp_path / "trace.duckdb"
    program = [str(WORKLOADS / "ppo_cartpole.py"), "--seconds=3", "--workers=2"]
    done = json.loads(recorded(trace, *program).splitlines()[-1])
    main = "SELECT arg_max(process_id, running_ns) FROM thread_time"
    of_main = dict(
        query(
            trace,
            f"SELECT name, count(*) FROM operation WHERE process_id = ({main}) GROUP BY 1",
        )
    )
    # Its own vector environment: a reset, and a step for both workers.
    assert of_main["simulation"] == 1 + done["steps"] / 2
    # At the end it tells each of its workers to end: messages outside of any step.
    assert of_main["wait"] == 2
    assert set(of_main) == {*PHASES, "wait"}
    assert query(
        trace,
        f"SELECT DISTINCT name FROM operation WHERE process_id <> ({main})",
    ) == [("simulation",)]
