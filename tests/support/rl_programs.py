"""The real programs whose phases are held to timers of their own; all in tests/workloads.

The timers belong to the truth, not to the phases: the programs run the same without them.
"""

import os
import subprocess
from collections import Counter
from functools import cache

import pytest

from phases_harness import PHASES, RL_PYTHON, WORKLOADS

# Points of a program's time by which a phase may be off.
POINTS = {"simulation": 3.0, "inference": 7.0, "backpropagation": 7.0, "data": 7.0}

_PROGRAMS = {
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
NAMES = tuple(_PROGRAMS)
_NEEDS = {"rl_sb3": "stable_baselines3"}
_EXTRA_NEEDS = {"ppo-halfcheetah": "mujoco, imageio", "dqn-pong": "ale_py, cv2"}


@cache
def _imports(modules: str) -> bool:
    """Return whether the Python that runs the programs has these modules."""
    done = subprocess.run([RL_PYTHON, "-c", f"import {modules}"], capture_output=True, check=False)
    return done.returncode == 0


def require(name: str) -> list[str]:
    """Return the arguments of Python that run a program; skip where a library is missing.

    With `rl` in RLSCOPE_REQUIRE that is a failure.
    """
    program, *arguments = _PROGRAMS[name]
    needs = ["torch, gymnasium", _NEEDS.get(program, ""), _EXTRA_NEEDS.get(name, "")]
    for modules in filter(None, needs):
        require_modules(modules)
    return [str(WORKLOADS / f"{program}.py"), *arguments]


def require_modules(modules: str) -> None:
    """Skip, or fail as above, where the Python that runs the programs lacks one of these."""
    if _imports(modules):
        return
    reason = f"not installed: {modules} (RLSCOPE_RL_PYTHON names a Python that has them)"
    if "rl" in os.environ.get("RLSCOPE_REQUIRE", "").split(","):
        pytest.fail(f"RLSCOPE_REQUIRE asks for rl: {reason}", pytrace=False)
    pytest.skip(reason)


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
