"""PPO on CartPole by RLlib on the Ray cluster of RAY_ADDRESS: two environment runners.

Each takes a CPU: on nodes with one CPU there is one on each.

usage: rllib_cartpole.py ITERATIONS
"""

import sys

import ray
from ray.rllib.algorithms.ppo import PPOConfig

ray.init(logging_level="ERROR")
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=2, num_cpus_per_env_runner=1)
    .training(train_batch_size_per_learner=1000, minibatch_size=128, num_epochs=3)
)
algorithm = config.build_algo()
for _ in range(int(sys.argv[1])):
    result = algorithm.train()
sys.stdout.write(f"{result['num_env_steps_sampled_lifetime']:.0f} environment steps\n")
algorithm.stop()
