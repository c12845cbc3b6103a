"""A policy for CartPole by random search, in numpy alone: no ML library, little beside the steps.

Exact: env_calls (step and reset) and updates.
"""

import gymnasium
import numpy as np
from rl_timers import Timers, parser

SPREAD = 0.3


def main() -> None:
    args = parser(__doc__, steps=20000).parse_args()
    random = np.random.default_rng(args.seed)
    env = gymnasium.make("CartPole-v1").unwrapped
    timers = Timers()
    best, best_reward = np.zeros(4), 0.0
    candidate, reward = best, 0.0

    timers.start()
    with timers("simulation"):
        obs, _ = env.reset(seed=args.seed)
    timers.counts["env_calls"] += 1
    for step in range(args.steps):
        with timers("inference"):
            action = int(candidate @ obs > 0)
        with timers("simulation"):
            obs, gained, is_over, _, _ = env.step(action)
        timers.counts["env_calls"] += 1
        reward += float(gained)
        # The same number of steps in each run, whatever it learns.
        if not is_over and step % 500 != 499:
            continue
        with timers("update"):
            if reward >= best_reward:
                best, best_reward = candidate, reward
            candidate = best + random.normal(scale=SPREAD, size=4)
            reward = 0.0
        timers.counts["updates"] += 1
        with timers("simulation"):
            obs, _ = env.reset()
        timers.counts["env_calls"] += 1
    timers.finish()
    env.close()


if __name__ == "__main__":
    main()
