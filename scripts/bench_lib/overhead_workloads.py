"""The training programs that corrected times are held to: fixed work, timers of their own."""

from __future__ import annotations

from dataclasses import dataclass

from bench_lib.recorder import REPOSITORY

_PROGRAMS = REPOSITORY / "tests" / "workloads"


@dataclass(frozen=True, slots=True)
class Workload:
    """One program: seeded, one PyTorch thread, 10 to 15 s of CPU time on a machine of today."""

    name: str
    program: str
    arguments: tuple[str, ...]
    steps: int
    """Steps of single environments in one run."""

    def command(self, python: str, recorded: str) -> list[str]:
        """Return the command line for one of SETS."""
        marks = ["env", "RL_TIMERS_RANGES=1"] if recorded == "marked" else []
        return [*marks, python, str(_PROGRAMS / f"{self.program}.py"), *self.arguments]


def sb3(name: str, algorithm: str, envs: int, steps: int, *more: str) -> Workload:
    """Return one of Stable-Baselines3."""
    arguments = (f"--algorithm={algorithm}", f"--envs={envs}", f"--steps={steps}", *more)
    return Workload(name, "rl_sb3", arguments, steps)


WORKLOADS = (
    # The shortest step of a common library: about 63 us on a quiet machine.
    sb3("sb3-a2c-16", "a2c", 16, 120_000),
    sb3("sb3-a2c", "a2c", 1, 10_000),
    sb3("sb3-ppo", "ppo", 4, 24_576),
    sb3("sb3-ppo-subproc", "ppo", 4, 20_480, "--vector=subproc"),
    sb3("sb3-dqn", "dqn", 1, 14_000),
    Workload("sac-halfcheetah", "rl_sac", ("--env=HalfCheetah-v5", "--steps=1000"), 1000),
    Workload(
        "ppo-halfcheetah", "rl_ppo",
        ("--env=HalfCheetah-v5", "--envs=4", "--updates=40"), 40 * 128 * 4,
    ),
    Workload(
        "dqn-pong", "rl_dqn",
        ("--env=ALE/Pong-v5", "--steps=900", "--start=250", "--batch=32"), 900,
    ),
    Workload("numpy-cartpole", "rl_numpy", ("--steps=400000",), 400_000),
)  # fmt: skip


# What is recorded -> the options of record. Shares are compared where the program marks what it
# times: phases that are found besides would be operations of their own.
SETS = {
    "default": (),
    "marked": ("--no-auto",),
    "all": ("--transitions", "all"),
}
