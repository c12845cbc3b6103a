"""PPO on CartPole by RLlib: two environment runners, which time what they call.

usage: rllib_timed.py ITERATIONS FOLDER

FOLDER/PID of each runner: from when to when it sampled (ns of CLOCK_MONOTONIC), the time of
`simulation` and `inference` in it, and the steps of its environments.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

folder = Path(sys.argv[2]).resolve()


class Timed(SingleAgentEnvRunner):
    """A runner with timers."""

    def make_env(self) -> None:
        """Time the environments as soon as they are there."""
        super().make_env()
        self.truth = {"start": 0, "end": 0, "simulation": 0, "inference": 0, "steps": 0}
        kind = type(self.env)

        def step(*args: object, **kwargs: object) -> object:
            self.truth["steps"] += self.num_envs
            return self.timed("simulation", kind.step, self.env, *args, **kwargs)

        def reset(*args: object, **kwargs: object) -> object:
            return self.timed("simulation", kind.reset, self.env, *args, **kwargs)

        self.env.step, self.env.reset = step, reset

    def timed(
        self, phase: str, function: Callable[..., object], *args: object, **kwargs: object
    ) -> object:
        """Call a function and add its time to that of a phase."""
        start = time.monotonic_ns()
        result = function(*args, **kwargs)
        self.truth[phase] += time.monotonic_ns() - start
        return result

    def sample(self, **kwargs: object) -> object:
        """Sample, and write down what there is so far."""
        if not self.truth["start"]:
            self.truth["start"] = time.monotonic_ns()
            forward = self.module.forward_exploration
            self.module.forward_exploration = lambda *args, **kwargs: self.timed(
                "inference", forward, *args, **kwargs
            )
        result = super().sample(**kwargs)
        self.truth["end"] = time.monotonic_ns()
        (folder / str(os.getpid())).write_text(json.dumps(self.truth))
        return result


ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR")
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=2, num_envs_per_env_runner=2, env_runner_cls=Timed)
    .training(train_batch_size_per_learner=1000, minibatch_size=128, num_epochs=1)
)
algorithm = config.build_algo()
for _ in range(int(sys.argv[1])):
    algorithm.train()
algorithm.stop()
