"""Phases of real programs that nobody changed, held to timers inside those programs.

Simulation within 3 points of the program's time, inference and backpropagation within 7, and one
range per call into the environment. The timers belong to the truth, not to the phases: the programs
run the same without them.
"""

import importlib.util
import json
import subprocess
from collections import Counter
from functools import cache

import pytest

import phases_harness
from phases_harness import PHASES, RL_PYTHON, WORKLOADS, Harness, Range

POINTS = {"simulation": 3.0, "inference": 7.0, "backpropagation": 7.0, "data": 7.0}

PROGRAMS = {
    "ppo-cartpole": ("rl_ppo", "--updates=8"),
    "ppo-halfcheetah": ("rl_ppo", "--env=HalfCheetah-v5", "--envs=4", "--updates=4"),
    "sac-pendulum": ("rl_sac", "--steps=550"),
    "dqn-cartpole": ("rl_dqn",),
    "dqn-pong": ("rl_dqn", "--env=ALE/Pong-v5", "--steps=500", "--start=250", "--batch=32"),
    "sb3-ppo": ("rl_sb3", "--truth"),
    "sb3-ppo-subproc": ("rl_sb3", "--truth", "--vector=subproc"),
    "sb3-a2c": ("rl_sb3", "--truth", "--algorithm=a2c"),
    "sb3-a2c-subproc": ("rl_sb3", "--truth", "--algorithm=a2c", "--vector=subproc"),
    "sb3-dqn": ("rl_sb3", "--truth", "--algorithm=dqn"),
    "sb3-dqn-subproc": ("rl_sb3", "--truth", "--algorithm=dqn", "--vector=subproc"),
}
NEEDS = {
    "rl_ppo": ("torch", "gymnasium"),
    "rl_sac": ("torch", "gymnasium"),
    "rl_dqn": ("torch", "gymnasium"),
    "rl_sb3": ("torch", "gymnasium", "stable_baselines3"),
}
EXTRA_NEEDS = {"ppo-halfcheetah": ("mujoco", "imageio"), "dqn-pong": ("ale_py", "cv2")}


@cache
def has(module: str) -> bool:
    """Return whether the Python that runs the programs has a module."""
    if importlib.util.find_spec(module) is not None:
        return True
    found = subprocess.run([RL_PYTHON, "-c", f"import {module}"], capture_output=True)
    return found.returncode == 0


def skip_without(name: str) -> None:
    for module in (*NEEDS[PROGRAMS[name][0]], *EXTRA_NEEDS.get(name, ())):
        if not has(module):
            pytest.skip(f"{module} is not installed (RLSCOPE_RL_PYTHON names a Python that has it)")


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def check_shares(truth: dict[str, object], found_ns: Counter[str]) -> None:
    """Hold the time of each phase to the program's own timers; both as points of its whole time."""
    whole_ns = int(str(truth["end_ns"])) - int(str(truth["start_ns"]))
    timed_ns = truth["phase_ns"]
    assert isinstance(timed_ns, dict)
    shares = {
        phase: (100 * timed_ns.get(phase, 0) / whole_ns, 100 * found_ns[phase] / whole_ns)
        for phase in PHASES
    }
    wrong = {phase for phase, (true, found) in shares.items() if abs(found - true) > POINTS[phase]}
    assert not wrong, shares


def of_main_thread(ranges: list[Range], truth: dict[str, object]) -> list[Range]:
    """Return the ranges of the thread that made the truth, inside its time."""
    start_ns, end_ns = int(str(truth["start_ns"])), int(str(truth["end_ns"]))
    inside = [one for one in ranges if one.start_ns < end_ns and one.end_ns > start_ns]
    return [one for one in inside if one.pid == truth["pid"] and one.tid == truth["pid"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_phases_are_what_the_timers_say(harness: Harness, name: str) -> None:
    skip_without(name)
    program, *arguments = PROGRAMS[name]
    made = harness.run(WORKLOADS / f"{program}.py", *arguments, python=RL_PYTHON)
    truth = json.loads(made.stdout.splitlines()[-1])
    made.check_nesting()
    ranges = of_main_thread(made.ranges, truth)
    assert Counter(one.name for one in ranges)["simulation"] == truth["env_calls"]
    check_shares(truth, phases_harness.phase_ns(ranges, truth["start_ns"], truth["end_ns"]))


@pytest.mark.slow
def test_demo_has_phases_with_nothing_changed(harness: Harness) -> None:
    if not (has("torch") and has("gymnasium")):
        pytest.skip("torch and gymnasium are not installed")
    made = harness.run(
        WORKLOADS / "ppo_cartpole.py", "--seconds=3", "--workers=2", python=RL_PYTHON
    )
    done = json.loads(made.stdout.splitlines()[-1])
    made.check_nesting()
    by_process = {pid: made.counts(pid) for pid in {one.pid for one in made.ranges}}
    main = max(by_process, key=lambda pid: len(by_process[pid]))
    # Its own vector environment: a reset, and a step for both workers.
    assert by_process.pop(main)["simulation"] == 1 + done["steps"] / 2
    assert set(made.counts(main)) == set(PHASES)
    # The workers wait for actions, and that is none of the phases.
    assert len(by_process) == 2
    assert all(set(counts) == {"simulation"} for counts in by_process.values())
