"""Reinforcement learning that writes down what its steps cost, while others do things to it.

The workload is the argument: a2c, a2c-subproc, ppo, dqn (Stable-Baselines3 on CartPole), sac (the
same on HalfCheetah), dqn-pong (on Atari), halfcheetah, humanoid (MuJoCo, with a small policy in
numpy), mlp (a training step of a PyTorch network with one environment step). A line on stdin says
for how many seconds to work; the answer is one JSON line: `chunks`, [start_ns, end_ns, cpu_ns] of
a fixed number of steps each (CLOCK_MONOTONIC; CPU time with that of the environment processes,
which wait at both ends), and `steps`, how many.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from stable_baselines3.common.base_class import BaseAlgorithm

    Work = Callable[[int], None]

SEED = 1
# About 6 to 25 ms of CPU time each, on the machine of docs/cost.md: whole rollouts of a2c (5 x 16
# or 4) and ppo (16 x 4), whole training steps of sac and dqn.
STEPS = {
    "a2c": 80, "a2c-subproc": 20, "ppo": 64, "dqn": 16, "sac": 1, "dqn-pong": 2,
    "halfcheetah": 120, "humanoid": 24, "mlp": 24,
}  # fmt: skip


def a2c(count: int, *, in_processes: bool = False) -> Work:
    """Train in so many environments; 16 in one process is the shortest step of a common library."""
    from stable_baselines3 import A2C
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    kind = SubprocVecEnv if in_processes else DummyVecEnv
    environments = make_vec_env("CartPole-v1", count, seed=SEED, vec_env_cls=kind)
    return learning(A2C("MlpPolicy", environments, seed=SEED, device="cpu"))


def ppo() -> Work:
    """Train in four environments, with short rollouts."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    environments = make_vec_env("CartPole-v1", 4, seed=SEED)
    sizes = {"n_steps": 16, "batch_size": 64, "n_epochs": 2}
    return learning(PPO("MlpPolicy", environments, seed=SEED, device="cpu", **sizes))


def dqn() -> Work:
    """Train once per four steps of the environment."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_vec_env

    sizes = {"learning_starts": 200, "batch_size": 64}
    environment = make_vec_env("CartPole-v1", 1, seed=SEED)
    model = DQN("MlpPolicy", environment, seed=SEED, device="cpu", **sizes)
    return learning(model.learn(2 * sizes["learning_starts"]))


def sac() -> Work:
    """Train once per step of the environment."""
    from stable_baselines3 import SAC

    sizes = {"learning_starts": 200, "buffer_size": 20_000}
    model = SAC("MlpPolicy", "HalfCheetah-v5", seed=SEED, device="cpu", **sizes)
    return learning(model.learn(2 * sizes["learning_starts"]))


def dqn_pong() -> Work:
    """Train once per two steps of the environment, each of four frames."""
    import ale_py
    from stable_baselines3 import DQN

    gymnasium.register_envs(ale_py)
    wrapped = gymnasium.wrappers.AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1))
    environment = gymnasium.wrappers.FrameStackObservation(wrapped, 4)
    sizes = {"learning_starts": 200, "buffer_size": 2_000, "train_freq": 2, "batch_size": 4}
    model = DQN("CnnPolicy", environment, seed=SEED, device="cpu", **sizes)
    return learning(model.learn(2 * sizes["learning_starts"]))


def learning(model: BaseAlgorithm) -> Work:
    """Return what goes on training a model of Stable-Baselines3."""
    return lambda steps: model.learn(steps, reset_num_timesteps=False) and None


def mujoco(name: str) -> Work:
    """Step an environment with a policy of one hidden layer.

    Each piece of work begins in the same state: what a step costs depends on what touches what, and
    pieces that differ by that would hide what is looked for.
    """
    environment = gymnasium.make(name).unwrapped
    random = np.random.default_rng(SEED)
    size, actions = environment.observation_space.shape[0], environment.action_space.shape[0]
    first, second = random.normal(size=(size, 64)) * 0.1, random.normal(size=(64, actions)) * 0.1
    low, high = environment.action_space.low, environment.action_space.high

    def work(steps: int) -> None:
        state, _ = environment.reset(seed=SEED)
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


MAKERS: dict[str, Callable[[], Work]] = {
    "a2c": lambda: a2c(16),
    "a2c-subproc": lambda: a2c(4, in_processes=True),
    "ppo": ppo,
    "dqn": dqn,
    "sac": sac,
    "dqn-pong": dqn_pong,
    "halfcheetah": lambda: mujoco("HalfCheetah-v5"),
    "humanoid": lambda: mujoco("Humanoid-v5"),
    "mlp": mlp,
}


def main() -> None:
    """Work at each line, until the input ends."""
    # MuJoCo leaves a log where it is.
    os.chdir(tempfile.gettempdir())
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    name = sys.argv[1]
    work, steps = MAKERS[name](), STEPS[name]
    accounts = [Path(f"/proc/{child.pid}/schedstat") for child in multiprocessing.active_children()]

    def used_ns() -> int:
        return time.process_time_ns() + sum(int(a.read_text().split()[0]) for a in accounts)

    work(steps)
    say("ready")
    for line in sys.stdin:
        end_ns = time.monotonic_ns() + int(float(line) * 1e9)
        chunks = []
        while (begun_ns := time.monotonic_ns()) < end_ns:
            before_ns = used_ns()
            work(steps)
            chunks.append((begun_ns, time.monotonic_ns(), used_ns() - before_ns))
        say(json.dumps({"chunks": chunks, "steps": steps}))
    # Environment processes do not end by themselves.
    for child in multiprocessing.active_children():
        child.terminate()


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
