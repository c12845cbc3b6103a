"""Reinforcement learning in windows: at each line on stdin works, then tells the CPU time per step.

The workload is the argument: a2c (Stable-Baselines3 on CartPole), halfcheetah, humanoid (MuJoCo,
with a small policy in numpy), mlp (a training step of a PyTorch network with one environment step).
A line says how many batches; a batch takes about 0.1 s. One process serves all windows, traced and
untraced.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[int], None]

SEED = 1
# About 0.1 s of CPU time each, on the machine of docs/cost.md.
STEPS = {"a2c": 1500, "halfcheetah": 2000, "humanoid": 400, "mlp": 400}


def a2c() -> Work:
    """Train in 16 environments: the shortest step of a common library."""
    from stable_baselines3 import A2C
    from stable_baselines3.common.env_util import make_vec_env

    environments = make_vec_env("CartPole-v1", 16, seed=SEED)
    model = A2C("MlpPolicy", environments, seed=SEED, device="cpu")
    return lambda steps: model.learn(steps, reset_num_timesteps=False) and None


def mujoco(name: str) -> Work:
    """Step an environment with a policy of one hidden layer."""
    environment = gymnasium.make(name).unwrapped
    random = np.random.default_rng(SEED)
    size, actions = environment.observation_space.shape[0], environment.action_space.shape[0]
    first, second = random.normal(size=(size, 64)) * 0.1, random.normal(size=(64, actions)) * 0.1
    low, high = environment.action_space.low, environment.action_space.high
    state, _ = environment.reset(seed=SEED)

    def work(steps: int) -> None:
        nonlocal state
        for _ in range(steps):
            action = np.clip(np.tanh(state @ first) @ second, low, high)
            state, _, over, _, _ = environment.step(action)
            if over:
                state, _ = environment.reset()

    return work


def mlp() -> Work:
    """Train a network a step per step of CartPole."""
    environment = gymnasium.make("CartPole-v1").unwrapped
    net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.Adam(net.parameters())
    state, _ = environment.reset(seed=SEED)

    def work(steps: int) -> None:
        nonlocal state
        for _ in range(steps):
            output = net(torch.as_tensor(state))
            optimizer.zero_grad()
            output.square().mean().backward()
            optimizer.step()
            state, _, over, _, _ = environment.step(int(output.argmax()))
            if over:
                state, _ = environment.reset()

    return work


def main() -> None:
    """Work at each line, until the input ends."""
    # MuJoCo leaves a log where it is.
    os.chdir(tempfile.gettempdir())
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    name = sys.argv[1]
    made = {"a2c": a2c, "mlp": mlp}
    environments = {"halfcheetah": "HalfCheetah-v5", "humanoid": "Humanoid-v5"}
    work = made[name]() if name in made else mujoco(environments[name])
    steps = STEPS[name]
    work(steps)
    say("ready")
    for line in sys.stdin:
        step_ns = []
        for _ in range(int(line)):
            begun_ns = time.process_time_ns()
            work(steps)
            step_ns.append((time.process_time_ns() - begun_ns) / steps)
        say(json.dumps({"step_ns": step_ns, "steps": steps}))


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


main()
