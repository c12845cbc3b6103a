"""A short training in which one thing can be changed: what `rlscope-trace compare` should find.

All work is counted, none is timed: two runs do the same. Prints a JSON line with what it did.
"""

import argparse
import json
import multiprocessing
import sys
import time
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

STEPS = 64
SIZE = 16


class Loop(gymnasium.Env[NDArray[np.float32], int]):
    """An environment whose step is a loop in Python."""

    def __init__(self, rounds: int, sleep_us: float) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 1, (SIZE,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._rounds, self._sleep_s = rounds, sleep_us / 1e6
        self._state = 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(SIZE, np.float32), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        state = self._state + action
        for _ in range(self._rounds):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        self._state = state
        if self._sleep_s:
            time.sleep(self._sleep_s)
        return np.full(SIZE, state / 0x7FFFFFFF, np.float32), 1.0, False, False, {}


def serve(connection: Connection, rounds: int, sleep_us: float) -> None:
    """Step one environment for the learner."""
    environment = Loop(rounds, sleep_us)
    connection.send(environment.reset()[0])
    while (action := connection.recv()) is not None:
        connection.send(environment.step(action)[0])


Step = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]


class Workers:
    """An environment per process."""

    def __init__(self, rounds: list[int], sleep_us: float) -> None:
        context = multiprocessing.get_context("fork")
        self._ends: list[Connection] = []
        self._processes = []
        for one in rounds:
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, one, sleep_us), daemon=True)
            process.start()
            self._ends.append(ours)
            self._processes.append(process)

    def reset(self) -> NDArray[np.float32]:
        return np.stack([end.recv() for end in self._ends])

    def step(self, actions: list[int]) -> Step:
        for end, action in zip(self._ends, actions, strict=True):
            end.send(action)
        seen = np.stack([end.recv() for end in self._ends])
        return seen, np.ones(len(seen), np.float32), np.zeros(len(seen), bool)

    def close(self) -> None:
        for end, process in zip(self._ends, self._processes, strict=True):
            end.send(None)
            process.join()


class Policy(nn.Module):
    """A chain of equal layers, so that its cost is known in parts."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(layers))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            observations = torch.tanh(layer(observations))
        return observations


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4000, help="of the loop in a step")
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--optimizer-steps", type=int, default=4)
    parser.add_argument("--sleep-us", type=float, default=0)
    parser.add_argument("--straggler", type=float, default=1, help="times the work, of one worker")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(asked.threads)
    rounds = [asked.rounds] * asked.workers
    if rounds:
        rounds[-1] = int(asked.rounds * asked.straggler)
    environments: Any
    if rounds:
        environments = Workers(rounds, asked.sleep_us)
    else:
        loop = partial(Loop, asked.rounds, asked.sleep_us)
        environments = gymnasium.vector.SyncVectorEnv([loop])
    policy = Policy(asked.layers)
    critic = nn.Sequential(nn.Linear(SIZE, 256), nn.Tanh(), nn.Linear(256, 256), nn.Linear(256, 1))
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()])
    width = max(1, asked.workers)
    environments.reset()
    observations = np.zeros((width, SIZE), np.float32)
    begun = time.perf_counter()
    for _ in range(asked.iterations):
        seen = []
        for _ in range(STEPS):
            with torch.no_grad():
                actions = policy(torch.as_tensor(observations)).sum(1)
            observations, *_ = environments.step([int(action > 0) for action in actions.tolist()])
            seen.append(torch.as_tensor(observations))
        batch = torch.cat(seen).repeat(512 // (STEPS * width) or 1, 1)
        for _ in range(asked.optimizer_steps):
            optimizer.zero_grad()
            loss = critic(batch).square().mean() + policy(batch).square().mean()
            loss.backward()
            optimizer.step()
    seconds = time.perf_counter() - begun
    environments.close()
    sys.stdout.write(json.dumps({"iterations": asked.iterations, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
