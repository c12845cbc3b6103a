"""SAC in one file in the manner of CleanRL, with timers; --env Pendulum-v1 or HalfCheetah-v5.

The actor acts with gradients on, the target runs without: whether gradients are on says nothing.
Exact: env_calls and optimizer_steps.
"""

import gymnasium
import numpy as np
import torch
from rl_timers import Timers, parser
from torch import nn
from torch.nn import functional

DISCOUNT, TAU = 0.99, 0.005


class ReplayBuffer:
    """Derived from nothing, as many scripts have it."""

    def __init__(self, size: int, inputs: int, outputs: int) -> None:
        self.rows = np.zeros((size, 2 * inputs + outputs + 2), dtype=np.float32)
        self.splits = np.cumsum([inputs, inputs, outputs, 1])
        self.count = 0

    def add(self, *parts: np.ndarray) -> None:
        self.rows[self.count % len(self.rows)] = np.concatenate([np.ravel(part) for part in parts])
        self.count += 1

    def sample(self, size: int) -> list[torch.Tensor]:
        rows = self.rows[np.random.randint(0, min(self.count, len(self.rows)), size)]
        return [torch.as_tensor(part) for part in np.split(rows, self.splits, axis=1)]


class QNetwork(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(inputs + outputs, 256), nn.Linear(256, 256)
        self.fc3 = nn.Linear(256, 1)

    def forward(self, x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(functional.relu(self.fc2(x)))


class Actor(nn.Module):
    def __init__(self, inputs: int, outputs: int, scale: float) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(inputs, 256), nn.Linear(256, 256)
        self.mean, self.logstd = nn.Linear(256, outputs), nn.Linear(256, outputs)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = functional.relu(self.fc2(functional.relu(self.fc1(x))))
        return self.mean(x), -5 + 3.5 * (torch.tanh(self.logstd(x)) + 1)

    def get_action(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, logstd = self(x)
        normal = torch.distributions.Normal(mean, logstd.exp())
        sample = normal.rsample()
        squashed = torch.tanh(sample)
        logprob = normal.log_prob(sample) - torch.log(self.scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.scale, logprob.sum(1, keepdim=True)


def main() -> None:  # noqa: PLR0915 - one file, one function: so do such scripts look
    options = parser(__doc__, steps=900, start=300, batch=256)
    options.add_argument("--env", default="Pendulum-v1")
    args = options.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    np.random.seed(args.seed)
    timers = Timers()
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(args.env)])
    inputs = int(np.prod(envs.single_observation_space.shape))
    outputs = int(np.prod(envs.single_action_space.shape))
    actor = Actor(inputs, outputs, float(envs.single_action_space.high[0]))
    qs = [QNetwork(inputs, outputs) for _ in range(4)]
    for q, target in zip(qs[:2], qs[2:], strict=True):
        target.load_state_dict(q.state_dict())
    q_parameters = [*qs[0].parameters(), *qs[1].parameters()]
    q_optimizer = torch.optim.Adam(q_parameters, lr=1e-3)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
    rb = ReplayBuffer(100_000, inputs, outputs)

    timers.start()
    with timers("simulation"):
        obs, _ = envs.reset(seed=args.seed)
    timers.counts["env_calls"] += 1
    for global_step in range(args.steps):
        if global_step < args.start:
            actions = envs.action_space.sample()
        else:
            with timers("inference"):
                actions, _ = actor.get_action(torch.Tensor(obs))
                actions = actions.detach().cpu().numpy()
        with timers("simulation"):
            next_obs, rewards, terminations, _, _ = envs.step(actions)
        timers.counts["env_calls"] += 1
        with timers("data"):
            rb.add(obs, next_obs, actions, rewards, terminations)
        obs = next_obs
        if global_step < args.start:
            continue
        with timers("data"):
            observed, following, acted, reward, done = rb.sample(args.batch)
        with timers("backpropagation"):
            alpha = log_alpha.exp().item()
            with torch.no_grad():
                next_actions, next_logprob = actor.get_action(following)
                targets = [target(following, next_actions) for target in qs[2:]]
                target = reward + (1 - done) * DISCOUNT * (
                    torch.min(*targets) - alpha * next_logprob
                )
            q_loss = sum(functional.mse_loss(q(observed, acted), target) for q in qs[:2])
            q_optimizer.zero_grad()
            q_loss.backward()
            q_optimizer.step()
            new_actions, logprob = actor.get_action(observed)
            value = torch.min(*(q(observed, new_actions) for q in qs[:2]))
            actor_loss = (alpha * logprob - value).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            with torch.no_grad():
                _, logprob = actor.get_action(observed)
            alpha_loss = (-log_alpha.exp() * (logprob - outputs)).mean()
            alpha_optimizer.zero_grad()
            alpha_loss.backward()
            alpha_optimizer.step()
            for q, slow in zip(qs[:2], qs[2:], strict=True):
                for new, old in zip(q.parameters(), slow.parameters(), strict=True):
                    old.data.copy_(TAU * new.data + (1 - TAU) * old.data)
            timers.counts["optimizer_steps"] += 3
    timers.finish()
    envs.close()


if __name__ == "__main__":
    main()
