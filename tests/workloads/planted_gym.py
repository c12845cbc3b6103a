"""Training with Gymnasium and PyTorch with one thing planted; nothing is marked.

usage: planted_gym.py NAME ITERATIONS, NAME one of PROGRAMS

What is not planted takes a few milliseconds of an iteration. The last line is the truth, as JSON.
"""

from __future__ import annotations

import functools
import mmap
import os
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from planted_work import Truth, work
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 16


def nothing() -> None:
    pass


class Task(gymnasium.Env[Any, Any]):
    """An environment that takes as long as one likes."""

    def __init__(
        self,
        step_ms: float = 0.1,
        reset_ms: float = 0.1,
        values: int = 8,
        length: int = 200,
        nap_ms: float = 0,
    ) -> None:
        self.observation_space = spaces.Box(-1, 1, (values,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.step_ms, self.reset_ms, self.length, self.nap_ms = step_ms, reset_ms, length, nap_ms
        self.at = 0

    def observe(self) -> Any:
        return np.full(self.observation_space.shape, 0.1, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        work(self.reset_ms)
        self.at = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        work(self.step_ms)
        if self.nap_ms:
            time.sleep(self.nap_ms / 1000)
        self.at += 1
        return self.observe(), 1.0, self.at >= self.length, False, {}


def network(values: int = 8, width: int = 64) -> nn.Module:
    return nn.Sequential(
        nn.Linear(values, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
    )


class ReplayBuffer:
    """Keeps transitions, and draws from them as slowly as one likes."""

    def __init__(self, sample_ms: float) -> None:
        self.rows: list[Any] = []
        self.sample_ms = sample_ms

    def add(self, row: Any) -> None:
        self.rows.append(row)

    def sample(self, count: int) -> Any:
        work(self.sample_ms)
        return torch.as_tensor(np.stack(self.rows[-count:]))


def update(policy: nn.Module, optimizer: Any, batch: Any) -> None:
    loss = policy(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(
    iterations: int,
    environment: Any,
    *,
    policy: nn.Module | None = None,
    epochs: int = 2,
    batch_rows: int = 64,
    each_step: Callable[[], object] = nothing,
    each_iteration: Callable[[], object] = nothing,
) -> Truth:
    """Act for some steps, learn, and again: on-policy, in one process."""
    one = environment.num_envs if hasattr(environment, "num_envs") else None
    policy = policy or network()
    optimizer = torch.optim.Adam(policy.parameters())
    observation, _ = environment.reset()
    truth = Truth()
    for _ in range(iterations):
        for _ in range(STEPS):
            with torch.no_grad():
                seen = torch.as_tensor(observation)[..., :8]
                action = policy(seen).argmax(-1).numpy()
            with truth.planted():
                observation, _, done, _, _ = environment.step(action if one else int(action))
                if one is None and done:
                    observation, _ = environment.reset()
            each_step()
        for _ in range(epochs):
            update(policy, optimizer, torch.rand(batch_rows, 8))
        each_iteration()
    return truth


def vector(kind: str, *tasks: dict[str, Any], **options: Any) -> Any:
    made = [functools.partial(Task, **task) for task in tasks]
    if kind == "sync":
        return gymnasium.vector.SyncVectorEnv(made)
    return gymnasium.vector.AsyncVectorEnv(made, context="fork", **options)


def with_vector(kind: str, *tasks: dict[str, Any], **options: Any) -> Callable[[int], Truth]:
    def run(iterations: int) -> Truth:
        environment = vector(kind, *tasks, **options)
        truth = train(iterations, environment)
        environment.close()
        return truth

    return run


def logged(iterations: int) -> Truth:
    """Write each step to a log, down to the disk."""
    with tempfile.NamedTemporaryFile(dir=".") as log:

        def write() -> None:
            log.write(b"step\n")
            log.flush()
            os.fsync(log.fileno())

        return train(iterations, Task(), each_step=write)


def checkpointed(iterations: int) -> Truth:
    """Save the model in each iteration, down to the disk."""
    model = network(8, 1024)
    with tempfile.TemporaryDirectory(dir=".") as folder:

        def save() -> None:
            for part in range(4):
                with open(f"{folder}/{part}.pt", "wb") as file:  # noqa: PTH123 - as users write it
                    torch.save(model.state_dict(), file)
                    file.flush()
                    os.fsync(file.fileno())

        return train(iterations, Task(), each_iteration=save)


def beside_a_monitor(iterations: int) -> Truth:
    """Train while a thread of the program computes statistics in Python."""

    def monitor() -> None:
        while True:
            work(50)

    threading.Thread(target=monitor, daemon=True).start()
    return train(iterations, Task())


def off_policy(iterations: int, *, sample_ms: float, every: int = 4, epochs: int = 1) -> Truth:
    """Take a gradient step each few steps of the environment, as DQN and SAC do."""
    environment, policy, buffer = Task(), network(), ReplayBuffer(sample_ms)
    optimizer = torch.optim.Adam(policy.parameters())
    observation, _ = environment.reset()
    truth = Truth()
    for step in range(iterations * STEPS):
        with torch.no_grad():
            action = int(policy(torch.as_tensor(observation)).argmax())
        after, _, done, _, _ = environment.step(action)
        buffer.add(observation)
        observation = environment.reset()[0] if done else after
        # Nothing is learned while the buffer is nearly empty.
        if step >= 64 and step % every == 0:
            for _ in range(epochs):
                update(policy, optimizer, buffer.sample(32))
    return truth


def evaluating(iterations: int) -> Truth:
    """Play some episodes after every tenth update, slowly."""
    environment, policy = Task(step_ms=1), network()
    count = 0

    def evaluate() -> None:
        nonlocal count
        count += 1
        if count % 10:
            return
        observation, _ = environment.reset()
        for _ in range(100):
            with torch.no_grad():
                action = int(policy(torch.as_tensor(observation)).argmax())
            observation = environment.step(action)[0]

    return train(iterations, Task(), policy=policy, each_iteration=evaluate)


def too_many_threads(iterations: int) -> Truth:
    """Let PyTorch use eight threads on two CPUs."""
    torch.set_num_threads(8)
    return train(iterations, Task(), policy=network(8, 512), epochs=4, batch_rows=512)


def touching(iterations: int) -> Truth:
    """Use large new arrays after each step, each page of which the OS kernel has to clear."""

    def use() -> None:
        # Not of numpy's own: that asks for huge pages, which some virtual machines have cleared.
        with mmap.mmap(-1, 32_000_000) as memory:
            made = np.frombuffer(memory)
            made[::512] += 1
            del made

    return train(iterations, Task(), each_step=use)


def copying(iterations: int) -> Truth:
    """Copy large arrays that are there already after each step, in no phase."""
    source, target = np.ones(1_000_000), np.ones(1_000_000)
    return train(iterations, Task(), each_step=lambda: np.copyto(target, source))


def behaviour_cloning(iterations: int, *, item_ms: float, workers: int) -> Truth:
    """Learn from recorded data with a DataLoader, without an environment."""

    class Recorded(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return iterations * 8

        def __getitem__(self, at: int) -> Any:
            work(item_ms)
            return torch.rand(8)

    policy = network()
    optimizer = torch.optim.Adam(policy.parameters())
    loader = torch.utils.data.DataLoader(Recorded(), batch_size=8, num_workers=workers)
    truth = Truth()
    for batch in loader:
        update(policy, optimizer, batch)
    return truth


def in_threads(iterations: int) -> Truth:
    """Step four environments in Python in as many threads of one process."""
    from concurrent.futures import ThreadPoolExecutor

    tasks = [Task(step_ms=0.5) for _ in range(4)]
    policy = network()
    optimizer = torch.optim.Adam(policy.parameters())
    observations = np.stack([task.reset()[0] for task in tasks])
    truth = Truth()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(iterations):
            for _ in range(STEPS):
                with torch.no_grad():
                    actions = policy(torch.as_tensor(observations)).argmax(-1).tolist()
                stepped = list(
                    pool.map(lambda pair: pair[0].step(pair[1]), zip(tasks, actions, strict=True))
                )
                observations = np.stack([each[0] for each in stepped])
            for _ in range(2):
                update(policy, optimizer, torch.rand(64, 8))
    return truth


def plain(**task: Any) -> Callable[[int], Truth]:
    return lambda iterations: train(iterations, Task(**task))


def acting_with(width: int) -> Callable[[int], Truth]:
    """Act with a large policy, and learn with a small one."""

    def run(iterations: int) -> Truth:
        small, large = network(), network(8, width)

        class Policy(nn.Module):
            def forward(self, batch: Any) -> Any:
                return (small if torch.is_grad_enabled() else large)(batch)

            def parameters(self, recurse: bool = True) -> Any:
                return small.parameters(recurse)

        return train(iterations, Task(), policy=Policy())

    return run


PROGRAMS: dict[str, Callable[[int], Truth]] = {
    "slow_environment": plain(step_ms=2),
    "slow_reset": plain(reset_ms=10, length=5),
    "slow_sync_vector": with_vector("sync", *[{"step_ms": 0.5}] * 4),
    "frame_limit": plain(nap_ms=2),
    "async_straggler": with_vector("async", {"step_ms": 4}, *[{"step_ms": 0.3}] * 2),
    "async_slow": with_vector("async", *[{"step_ms": 2}] * 2),
    "async_messages": with_vector(
        "async", *[{"step_ms": 0.02, "values": 200_000}] * 2, shared_memory=False
    ),
    "heavy_update": lambda iterations: train(
        iterations, Task(), policy=network(8, 256), epochs=12, batch_rows=512
    ),
    "large_policy": acting_with(2048),
    "python_preprocessing": lambda iterations: train(
        iterations, Task(), each_step=lambda: work(1.5)
    ),
    "step_log": logged,
    "checkpoints": checkpointed,
    "monitor_thread": beside_a_monitor,
    "slow_replay": functools.partial(off_policy, sample_ms=8),
    "off_policy_updates": functools.partial(off_policy, sample_ms=0.05, every=1, epochs=4),
    "evaluation": evaluating,
    "torch_threads": too_many_threads,
    "new_arrays": touching,
    "copied_arrays": copying,
    "starved_loader": functools.partial(behaviour_cloning, item_ms=2, workers=1),
    "threads_of_environments": in_threads,
    # Balanced: an environment, a policy and an update that take about as long as each other.
    "balanced_plain": lambda iterations: train(
        iterations, Task(step_ms=0.3), policy=network(8, 256), epochs=4, batch_rows=64
    ),
    "balanced_sync": with_vector("sync", *[{"step_ms": 0.05}] * 4),
    "balanced_off_policy": functools.partial(off_policy, sample_ms=0.5),
}  # fmt: skip


def main() -> None:
    """Run the program of that name."""
    name, iterations = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    PROGRAMS[name](iterations).tell()


if __name__ == "__main__":
    main()
