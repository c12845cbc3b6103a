"""Trains a balancing pole with PPO: environments in numpy on the CPU, the policy on a GPU.

It needs PyTorch and numpy alone. Prints, last, one JSON line with what it did.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from gpu import finish
from torch import nn

_ENVIRONMENTS, _STEPS, _EPOCHS, _MINIBATCHES = 8, 128, 4, 4
_GRAVITY, _FORCE, _POLE, _MASS, _TAU = 9.8, 10.0, 0.05, 1.1, 0.02


class CartPole:
    """Carts with poles on them, all stepped at once; the physics are those of the textbook."""

    def __init__(self, count: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.state = self._random.uniform(-0.05, 0.05, (count, 4)).astype(np.float32)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return observations, rewards and which of them ended; those begin anew."""
        x, v, angle, omega = self.state.T
        force = np.where(actions == 1, _FORCE, -_FORCE)
        sine, cosine = np.sin(angle), np.cos(angle)
        part = (force + _POLE * omega**2 * sine) / _MASS
        turn = (_GRAVITY * sine - cosine * part) / (0.5 * (4 / 3 - 0.1 * cosine**2 / _MASS))
        push = part - _POLE * turn * cosine / _MASS
        self.state = np.stack(
            [x + _TAU * v, v + _TAU * push, angle + _TAU * omega, omega + _TAU * turn], axis=1
        ).astype(np.float32)
        ended = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21)
        self.state[ended] = self._random.uniform(-0.05, 0.05, (int(ended.sum()), 4))
        return self.state, np.ones(len(self.state), np.float32), ended


class Agent(nn.Module):
    """Policy and value, by networks of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))

    def act(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return actions, their logarithmic probabilities, and values."""
        chances = torch.distributions.Categorical(logits=self.policy(observations))
        actions = chances.sample()
        return actions, chances.log_prob(actions), self.value(observations).squeeze(-1)


def marked(name: str, device: str) -> AbstractContextManager[None]:
    """Return what marks an operation; nothing where PyTorch cannot."""
    return torch.cuda.nvtx.range(name) if device != "cpu" else nullcontext()


def collect(agent: Agent, carts: CartPole, device: str) -> dict[str, torch.Tensor]:
    """Return what happened in so many steps of all environments."""
    kept: dict[str, list[torch.Tensor]] = {}
    for _ in range(_STEPS):
        observations = torch.as_tensor(carts.state, device=device)
        with marked("policy", device), torch.no_grad():
            actions, chances, values = agent.act(observations)
            chosen = actions.cpu().numpy()
        with marked("env.step", device):
            _, rewards, ended = carts.step(chosen)
        reported = [observations, actions, chances, values]
        reported += [torch.as_tensor(array, device=device) for array in (rewards, ended)]
        names = ("observations", "actions", "chances", "values", "rewards", "ended")
        for name, value in zip(names, reported, strict=True):
            kept.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in kept.items()}


def advantages(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the generalised advantage estimates."""
    values, found = batch["values"], torch.zeros_like(batch["values"])
    running = torch.zeros_like(values[0])
    for step in reversed(range(_STEPS - 1)):
        going = 1.0 - batch["ended"][step].float()
        error = batch["rewards"][step] + 0.99 * values[step + 1] * going - values[step]
        running = error + 0.99 * 0.95 * going * running
        found[step] = running
    return found


def update(agent: Agent, optimizer: torch.optim.Adam, batch: dict[str, torch.Tensor]) -> None:
    """Improve the agent by what happened."""
    gains = advantages(batch)
    flat = {name: values.flatten(0, 1) for name, values in batch.items()}
    returns, gains = (gains + batch["values"]).flatten(), gains.flatten()
    for _ in range(_EPOCHS):
        for part in torch.randperm(len(gains), device=gains.device).chunk(_MINIBATCHES):
            observations = flat["observations"][part]
            chances = torch.distributions.Categorical(logits=agent.policy(observations))
            ratio = (chances.log_prob(flat["actions"][part]) - flat["chances"][part]).exp()
            gain = (gains[part] - gains[part].mean()) / (gains[part].std() + 1e-8)
            loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = loss + (agent.value(observations).squeeze(-1) - returns[part]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    """Train for so many seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(1)
    agent = Agent().to(options.device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
    carts = CartPole(_ENVIRONMENTS, seed=1)
    updates, end_s = 0, time.monotonic() + options.seconds
    while time.monotonic() < end_s:
        with marked("iteration", options.device):
            with marked("rollout", options.device):
                batch = collect(agent, carts, options.device)
            with marked("update", options.device):
                update(agent, optimizer, batch)
        updates += 1
    finish(steps=updates * _STEPS * _ENVIRONMENTS, updates=updates, device=options.device)


if __name__ == "__main__":
    main()
