"""Trains CartPole-v1 with PPO: the real reinforcement-learning program that demo and tests trace.

PyTorch on the CPU in the main process, one environment per worker process behind a pipe, as in
Stable-Baselines3's SubprocVecEnv. The algorithm is CleanRL's: GAE, clipped objective, several
epochs; how many, the minibatches of 64 and the learning rate are Stable-Baselines3's defaults.
Prints a line on its progress each second and, last, one JSON line with what it did.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Floats = NDArray[np.float32]

ROLLOUT_STEPS = 128
EPOCHS = 10
MINIBATCHES = 8
LEARNING_RATE = 3e-4
DISCOUNT = 0.99
GAE_LAMBDA = 0.95
CLIP = 0.2
ENTROPY_WEIGHT = 0.01
VALUE_WEIGHT = 0.5
MAX_GRADIENT_NORM = 0.5


def worker(connection: Connection, inherited: list[Connection], seed: int) -> None:
    """Step one environment for the main process until that closes the pipe."""
    # A Ctrl-C in the terminal reaches the whole group: the main process decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Pipe ends copied by fork would keep the other workers' pipes open after the main process died.
    for end in inherited:
        end.close()
    environment = gymnasium.make("CartPole-v1")
    observation, _ = environment.reset(seed=seed)
    connection.send(observation)
    episode_return = 0.0
    try:
        while (action := connection.recv()) is not None:
            observation, reward, terminated, truncated, _ = environment.step(action)
            episode_return += float(reward)
            finished: float | None = None
            if terminated or truncated:
                finished, episode_return = episode_return, 0.0
                observation, _ = environment.reset()
            connection.send((observation, reward, terminated or truncated, finished))
    except (EOFError, BrokenPipeError):
        pass
    finally:
        environment.close()


class SubprocVecEnv:
    """One environment per worker process, stepped together."""

    def __init__(self, *, workers: int, seed: int) -> None:
        context = multiprocessing.get_context("fork")
        self.connections: list[Connection] = []
        self.processes: list[Any] = []
        for index in range(workers):
            ours, theirs = context.Pipe()
            self.connections.append(ours)
            process = context.Process(
                target=worker,
                args=(theirs, list(self.connections), seed + index),
                name=f"env-{index}",
                daemon=True,
            )
            process.start()
            theirs.close()
            self.processes.append(process)

    def reset(self) -> Floats:
        """Return each environment's first observation."""
        return np.stack([connection.recv() for connection in self.connections])

    def step(self, actions: list[int]) -> tuple[Floats, Floats, Floats, list[float]]:
        """Return observations, rewards, done flags and the returns of the episodes that ended."""
        for connection, action in zip(self.connections, actions, strict=True):
            connection.send(action)
        answers = [connection.recv() for connection in self.connections]
        observations, rewards, dones, finished = zip(*answers, strict=True)
        return (
            np.stack(observations),
            np.asarray(rewards, dtype=np.float32),
            np.asarray(dones, dtype=np.float32),
            [value for value in finished if value is not None],
        )

    def close(self) -> None:
        """End the workers, by force where one does not answer within five seconds."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.send(None)
            connection.close()
        wait([process.sentinel for process in self.processes], timeout=5)
        for process in self.processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()


class Agent(nn.Module):
    """Two small networks: the policy and the value of an observation."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(
            nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
        )
        self.critic = nn.Sequential(
            nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )
        # A first policy near uniform explores; with the default scale some seeds never start.
        nn.init.orthogonal_(self.policy[-1].weight, 0.01)

    def distribution(self, observations: torch.Tensor) -> torch.distributions.Categorical:
        """Return the probability of each action."""
        return torch.distributions.Categorical(
            logits=self.policy(observations), validate_args=False
        )

    def value(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the expected discounted return."""
        return self.critic(observations).squeeze(-1)


@dataclass(slots=True)
class Rollout:
    """What one collection phase saw, [step, environment]."""

    observations: torch.Tensor
    actions: torch.Tensor
    log_probabilities: torch.Tensor
    rewards: torch.Tensor
    dones: torch.Tensor
    values: torch.Tensor


def collect(
    agent: Agent, environments: SubprocVecEnv, observation: Floats, returns: deque[float]
) -> tuple[Rollout, Floats]:
    """Play ROLLOUT_STEPS steps in each environment with the present policy."""
    count = len(environments.connections)
    shape = (ROLLOUT_STEPS, count)
    rollout = Rollout(torch.zeros(*shape, 4), *(torch.zeros(shape) for _ in range(5)))
    for step in range(ROLLOUT_STEPS):
        rollout.observations[step] = torch.as_tensor(observation)
        with torch.no_grad():
            distribution = agent.distribution(rollout.observations[step])
            action = distribution.sample()
            rollout.values[step] = agent.value(rollout.observations[step])
            rollout.log_probabilities[step] = distribution.log_prob(action)
        rollout.actions[step] = action
        observation, rewards, dones, finished = environments.step(action.tolist())
        rollout.rewards[step] = torch.as_tensor(rewards)
        rollout.dones[step] = torch.as_tensor(dones)
        returns.extend(finished)
    return rollout, observation


def advantages_of(rollout: Rollout, next_value: torch.Tensor) -> torch.Tensor:
    """Generalised advantage estimation, backwards over the rollout."""
    advantages = torch.zeros_like(rollout.rewards)
    running = torch.zeros_like(next_value)
    for step in reversed(range(ROLLOUT_STEPS)):
        alive = 1.0 - rollout.dones[step]
        error = rollout.rewards[step] + DISCOUNT * next_value * alive - rollout.values[step]
        running = error + DISCOUNT * GAE_LAMBDA * alive * running
        advantages[step] = running
        next_value = rollout.values[step]
    return advantages


def learn(
    agent: Agent, optimizer: torch.optim.Optimizer, rollout: Rollout, advantages: torch.Tensor
) -> None:
    """Improve policy and value by EPOCHS passes over the rollout."""
    observations = rollout.observations.flatten(0, 1)
    actions = rollout.actions.flatten()
    old_log_probabilities = rollout.log_probabilities.flatten()
    targets = (advantages + rollout.values).flatten()
    advantages = advantages.flatten()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(actions)).chunk(MINIBATCHES):
            distribution = agent.distribution(observations[batch])
            ratio = (distribution.log_prob(actions[batch]) - old_log_probabilities[batch]).exp()
            advantage = advantages[batch]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
            value_loss = (agent.value(observations[batch]) - targets[batch]).square().mean() / 2
            loss = (
                policy_loss
                + VALUE_WEIGHT * value_loss
                - ENTROPY_WEIGHT * distribution.entropy().mean()
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()


def train(environments: SubprocVecEnv, *, seconds: float, stop: list[int]) -> dict[str, float]:
    """Train for `seconds`, or until a signal number stands in `stop`."""
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE, eps=1e-5)
    returns: deque[float] = deque(maxlen=40)
    observation = environments.reset()
    start = time.perf_counter()
    steps = updates = 0
    next_line = 0.0
    while (elapsed := time.perf_counter() - start) < seconds and not stop:
        # The rate falls with the time used, or the policy keeps stumbling after it has learned.
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * max(0.05, 1 - elapsed / seconds)
        rollout, observation = collect(agent, environments, observation, returns)
        with torch.no_grad():
            next_value = agent.value(torch.as_tensor(observation))
        learn(agent, optimizer, rollout, advantages_of(rollout, next_value))
        updates += 1
        steps += rollout.rewards.numel()
        elapsed = time.perf_counter() - start
        # Some ten updates a second: one line for each would bury everything else.
        if elapsed >= next_line or updates == 1:
            next_line = elapsed + 1
            say(
                f"update {updates:4d}  steps {steps:7d}  return {mean(returns):6.1f}  "
                f"{steps / elapsed:6.0f} steps/s"
            )
    return {
        "steps": steps,
        "updates": updates,
        "seconds": round(time.perf_counter() - start, 3),
        "final_return": round(mean(returns), 1),
    }


def mean(values: deque[float]) -> float:
    """Return the mean, NaN while no episode has ended."""
    return sum(values) / len(values) if values else float("nan")


def say(line: str) -> None:
    """Print one line at once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Train, then say what was done; a signal that stopped it makes the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stop.append(received))
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    environments = SubprocVecEnv(workers=options.workers, seed=options.seed)
    try:
        result = train(environments, seconds=options.seconds, stop=stop)
    finally:
        environments.close()
    used = os.times()
    result["cpu_seconds"] = round(
        used.user + used.system + used.children_user + used.children_system, 2
    )
    say(json.dumps(result))
    return 128 + stop[0] if stop else 0


if __name__ == "__main__":
    sys.exit(main())
