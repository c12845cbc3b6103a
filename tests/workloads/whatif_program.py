"""Trainings in which one cost can be changed: what `rlscope-trace whatif` is held against.

The work of the simulator lies in a range of its own, `loop`, so that a change of it is exactly the
change that is asked about. All work is counted, none is timed. Prints a JSON line with the seconds
that the training took after a first part of it,
and those on a CPU of this process.
"""

import argparse
import json
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import nvtx
import torch
from numpy.typing import NDArray
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

SIZE = 8
LENGTH = 200


class Loop(gymnasium.Env[NDArray[np.float32], int]):
    """An environment whose step is a loop in Python, or a sleep."""

    def __init__(self, rounds: int, sleep_us: float) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (SIZE,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._rounds, self._sleep_s = rounds, sleep_us / 1e6
        self._steps = 0
        self._random = np.random.default_rng(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.zeros(SIZE, np.float32), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        state = int(action)
        with nvtx.annotate("loop"):
            for _ in range(self._rounds):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            if self._sleep_s:
                time.sleep(self._sleep_s)
        self._steps += 1
        seen = self._random.uniform(-1, 1, SIZE).astype(np.float32)
        return seen, state / 0x7FFFFFFF, False, self._steps >= LENGTH, {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", choices=("ppo", "a2c", "dqn"), default="ppo")
    parser.add_argument("--vector", choices=("dummy", "subproc"), default="dummy")
    parser.add_argument("--environments", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--sleep-us", type=float, default=0)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1280)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    made = [lambda: Loop(asked.rounds, asked.sleep_us)] * asked.environments
    vector: Any = SubprocVecEnv(made, "fork") if asked.vector == "subproc" else DummyVecEnv(made)
    options: dict[str, Any] = {"seed": 1, "device": "cpu"}
    model: Any
    if asked.algorithm == "ppo":
        options.update(n_steps=64, batch_size=64, n_epochs=asked.epochs)
        model = PPO("MlpPolicy", vector, **options)
    elif asked.algorithm == "a2c":
        model = A2C("MlpPolicy", vector, n_steps=16, **options)
    else:
        options.update(learning_starts=100, train_freq=4, gradient_steps=asked.epochs)
        model = DQN("MlpPolicy", vector, **options)
    model.learn(asked.steps // 4)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    model.learn(asked.steps, reset_num_timesteps=False)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    vector.close()
    sys.stdout.write(json.dumps({"seconds": seconds, "cpu_seconds": cpu}) + "\n")


if __name__ == "__main__":
    main()
