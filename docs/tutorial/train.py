"""A small policy gradient on CartPole: slow as it is, and faster with each option.

usage: train.py [--updates N] [--threads 1] [--log-each episode]
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

STEPS, ENVIRONMENTS, EPOCHS = 128, 8, 4


class Logged(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Writes a line and waits until it is on the disk, after each step or each episode."""

    def __init__(self, path: Path, each: str) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.file, self.each, self.total = path.open("w"), each, 0.0

    def step(self, action: np.int64) -> tuple[Any, ...]:
        """Take a step, and log what the episode gave so far."""
        result = self.env.step(action)
        _, reward, terminated, truncated, _ = result
        self.total += float(reward)
        ended = terminated or truncated
        if ended or self.each == "step":
            self.file.write(f"{time.time()} {self.total}\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        if ended:
            self.total = 0.0
        return result


class Policy(nn.Module):
    """What to do, and what it is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.action, self.value = nn.Linear(256, 2), nn.Linear(256, 1)

    def forward(self, observations: Tensor) -> tuple[Categorical, Tensor]:
        """Return the distribution of actions, and the value."""
        hidden = self.body(observations)
        return Categorical(logits=self.action(hidden)), self.value(hidden).squeeze(-1)


def learn(policy: Policy, optimizer: torch.optim.Optimizer, rows: list[list[Tensor]]) -> None:
    """Update the policy by what all steps gave."""
    observations, actions, rewards, ends = (
        torch.stack(column) for column in zip(*rows, strict=True)
    )
    returns, following = torch.zeros_like(rewards), torch.zeros(ENVIRONMENTS)
    for at in reversed(range(STEPS)):
        following = returns[at] = rewards[at] + 0.99 * following * (1 - ends[at])
    for _ in range(EPOCHS):
        chosen, values = policy(observations)
        gain = returns - values
        loss = -(chosen.log_prob(actions) * gain.detach()).mean() + gain.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train(updates: int, each: str) -> float:
    """Return environment steps per second."""
    environments = gymnasium.vector.SyncVectorEnv(
        [lambda at=at: Logged(Path(f"rewards-{at}.log"), each) for at in range(ENVIRONMENTS)]
    )
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    observation, _ = environments.reset(seed=0)
    start = time.monotonic()
    for _ in range(updates):
        rows = []
        for _ in range(STEPS):
            seen = torch.as_tensor(observation)
            with torch.no_grad():
                action = policy(seen)[0].sample()
            observation, reward, terminated, truncated, _ = environments.step(action.numpy())
            ends = torch.as_tensor(terminated | truncated).float()
            rows.append([seen, action, torch.as_tensor(reward).float(), ends])
        learn(policy, optimizer, rows)
    return updates * STEPS * ENVIRONMENTS / (time.monotonic() - start)


def main() -> None:
    """Train as the options say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--log-each", choices=["step", "episode"], default="step")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    speed = train(options.updates, options.log_each)
    sys.stdout.write(f"{speed:,.0f} environment steps/s\n")


if __name__ == "__main__":
    main()
