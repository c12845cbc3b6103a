"""DQN in one file in the manner of CleanRL, with timers; --env CartPole-v1 or ALE/Pong-v5.

Acting is epsilon-greedy: many steps have no forward pass at all, and those that have one have
gradients on. Exact: env_calls and optimizer_steps.
"""

import random

import gymnasium
import numpy as np
import torch
from rl_timers import Timers, parser
from torch import nn
from torch.nn import functional

DISCOUNT = 0.99


class ReplayMemory:
    """Derived from nothing, as many scripts have it."""

    def __init__(self, size: int) -> None:
        self.size, self.rows, self.position = size, [], 0

    def push(self, *row: object) -> None:
        if len(self.rows) < self.size:
            self.rows.append(row)
        else:
            self.rows[self.position] = row
        self.position = (self.position + 1) % self.size

    def sample(self, count: int) -> list[torch.Tensor]:
        columns = zip(*random.sample(self.rows, count), strict=True)
        return [torch.as_tensor(np.array(column)) for column in columns]


def network(env: gymnasium.Env) -> nn.Module:
    actions = int(env.action_space.n)
    if len(env.observation_space.shape) == 1:
        inputs = env.observation_space.shape[0]
        sizes = (nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
        return nn.Sequential(*sizes, nn.Linear(84, actions))
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
    )  # fmt: skip


def make(name: str) -> gymnasium.Env:
    if not name.startswith("ALE/"):
        return gymnasium.make(name)
    import ale_py

    gymnasium.register_envs(ale_py)
    env = gymnasium.make(name, frameskip=1)
    env = gymnasium.wrappers.AtariPreprocessing(env)
    return gymnasium.wrappers.FrameStackObservation(env, 4)


def batch_of(observation: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(np.asarray(observation)).float()


def main() -> None:
    options = parser(__doc__, steps=2500, start=500, train_every=4, batch=128, target_every=500)
    options.add_argument("--env", default="CartPole-v1")
    args = options.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    random.seed(args.seed)
    timers = Timers()
    env = make(args.env)
    q, target = network(env), network(env)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=2.5e-4)
    memory = ReplayMemory(10_000)

    timers.start()
    with timers("simulation"):
        obs, _ = env.reset(seed=args.seed)
    timers.counts["env_calls"] += 1
    for global_step in range(args.steps):
        epsilon = max(0.1, 1 - 1.5 * global_step / args.steps)
        if random.random() < epsilon:
            action = int(env.action_space.sample())
        else:
            with timers("inference"):
                action = int(torch.argmax(q(batch_of(obs).unsqueeze(0)), dim=1).item())
        with timers("simulation"):
            next_obs, reward, terminated, truncated, _ = env.step(action)
        timers.counts["env_calls"] += 1
        with timers("data"):
            memory.push(obs, next_obs, action, float(reward), float(terminated))
        obs = next_obs
        if terminated or truncated:
            with timers("simulation"):
                obs, _ = env.reset()
            timers.counts["env_calls"] += 1
        if global_step < args.start or global_step % args.train_every:
            continue
        with timers("data"):
            observed, following, acted, rewards, done = memory.sample(args.batch)
        with timers("backpropagation"):
            with torch.no_grad():
                best, _ = target(following.float()).max(dim=1)
                goal = rewards.float() + DISCOUNT * best * (1 - done.float())
            value = q(observed.float()).gather(1, acted.unsqueeze(1)).squeeze()
            loss = functional.mse_loss(goal, value)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            timers.counts["optimizer_steps"] += 1
            if global_step % args.target_every == 0:
                target.load_state_dict(q.state_dict())
    timers.finish()
    env.close()


if __name__ == "__main__":
    main()
