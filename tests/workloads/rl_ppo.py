"""PPO in one file in the manner of CleanRL, with timers; --env CartPole-v1 or HalfCheetah-v5.

Exact: env_calls (step and reset of the vector environment) and optimizer_steps. The timers are what
the author of the script would mean by the phases: acting without what is stored in between, GAE as
data, and updates with everything in them.
"""

import gymnasium
import numpy as np
import torch
from rl_timers import Timers, parser
from torch import nn

DISCOUNT, GAE_LAMBDA, CLIP, VALUE_WEIGHT, MAX_NORM = 0.99, 0.95, 0.2, 0.5, 0.5


def layer(inputs: int, outputs: int, scale: float = 2**0.5) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, scale)
    nn.init.constant_(made.bias, 0.0)
    return made


class Agent(nn.Module):
    def __init__(self, envs: gymnasium.vector.VectorEnv) -> None:
        super().__init__()
        space = envs.single_action_space
        self.is_discrete = isinstance(space, gymnasium.spaces.Discrete)
        outputs = int(space.n) if self.is_discrete else int(np.prod(space.shape))
        inputs = int(np.prod(envs.single_observation_space.shape))
        self.critic = self.network(inputs, 1, 1.0)
        self.actor = self.network(inputs, outputs, 0.01)
        self.actor_logstd = nn.Parameter(torch.zeros(1, outputs))

    def network(self, inputs: int, outputs: int, scale: float) -> nn.Sequential:
        return nn.Sequential(
            layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, scale)
        )

    def get_value(self, x: torch.Tensor) -> torch.Tensor:
        return self.critic(x)

    def get_action_and_value(
        self, x: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, ...]:
        output = self.actor(x)
        if self.is_discrete:
            distribution = torch.distributions.Categorical(logits=output)
        else:
            spread = self.actor_logstd.expand_as(output).exp()
            normal = torch.distributions.Normal(output, spread)
            distribution = torch.distributions.Independent(normal, 1)
        if action is None:
            action = distribution.sample()
        return action, distribution.log_prob(action), distribution.entropy(), self.critic(x)


def main() -> None:  # noqa: PLR0915 - one file, one function: so do such scripts look
    options = parser(__doc__, envs=8, steps=128, updates=10, epochs=4, minibatches=4)
    options.add_argument("--env", default="CartPole-v1")
    args = options.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    timers = Timers()
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(args.env)] * args.envs)
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)

    shape = (args.steps, args.envs)
    obs = torch.zeros(shape + envs.single_observation_space.shape)
    actions = torch.zeros(shape + envs.single_action_space.shape)
    logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))

    timers.start()
    with timers("simulation"):
        next_obs, _ = envs.reset(seed=args.seed)
    timers.counts["env_calls"] += 1
    next_obs, next_done = torch.Tensor(next_obs), torch.zeros(args.envs)
    for _ in range(args.updates):
        for step in range(args.steps):
            obs[step], dones[step] = next_obs, next_done
            with timers("inference"):
                with torch.no_grad():
                    action, logprob, _, value = agent.get_action_and_value(next_obs)
                    values[step] = value.flatten()
                actions[step], logprobs[step] = action, logprob
                chosen = action.cpu().numpy()
            with timers("simulation"):
                next_obs, reward, terminated, truncated, _ = envs.step(chosen)
            timers.counts["env_calls"] += 1
            rewards[step] = torch.tensor(reward).view(-1)
            next_obs = torch.Tensor(next_obs)
            next_done = torch.Tensor(np.logical_or(terminated, truncated))

        with torch.no_grad():
            with timers("inference"):
                next_value = agent.get_value(next_obs).reshape(1, -1)
            with timers("data"):
                advantages = torch.zeros_like(rewards)
                last = 0
                for t in reversed(range(args.steps)):
                    following = next_value if t == args.steps - 1 else values[t + 1]
                    alive = 1.0 - (next_done if t == args.steps - 1 else dones[t + 1])
                    delta = rewards[t] + DISCOUNT * following * alive - values[t]
                    advantages[t] = last = delta + DISCOUNT * GAE_LAMBDA * alive * last
                returns = advantages + values

        with timers("backpropagation"):
            batch_obs = obs.reshape((-1, *envs.single_observation_space.shape))
            batch_actions = actions.reshape((-1, *envs.single_action_space.shape))
            flat = [x.reshape(-1) for x in (logprobs, advantages, returns)]
            batch_logprobs, batch_advantages, batch_returns = flat
            indices = np.arange(args.steps * args.envs)
            size = len(indices) // args.minibatches
            for _ in range(args.epochs):
                np.random.shuffle(indices)
                for start in range(0, len(indices), size):
                    part = indices[start : start + size]
                    _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                        batch_obs[part], batch_actions[part]
                    )
                    ratio = (newlogprob - batch_logprobs[part]).exp()
                    advantage = batch_advantages[part]
                    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                    clipped = torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
                    policy_loss = torch.max(-advantage * ratio, -advantage * clipped).mean()
                    value_loss = 0.5 * ((newvalue.view(-1) - batch_returns[part]) ** 2).mean()
                    loss = policy_loss - 0.01 * entropy.mean() + VALUE_WEIGHT * value_loss
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(agent.parameters(), MAX_NORM)
                    optimizer.step()
                    timers.counts["optimizer_steps"] += 1
    timers.finish()
    envs.close()


if __name__ == "__main__":
    main()
