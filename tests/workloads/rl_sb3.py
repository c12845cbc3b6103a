"""Stable-Baselines3 as its documentation shows it.

--algorithm ppo, a2c or dqn; --vector dummy or subproc. With --truth, or where RLSCOPE_TIMERS is
set, its methods are wrapped in timers first; without it nothing is touched.

Exact (with --truth): env_calls, the step and reset calls of the vector environment.
"""

import os
from typing import Any

import stable_baselines3
import torch
from rl_timers import Timers, parser
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

ALGORITHMS = {"ppo": "PPO", "a2c": "A2C", "dqn": "DQN"}


def settings(algorithm: str) -> dict[str, Any]:
    if algorithm == "ppo":
        return {"n_steps": 128, "n_epochs": 4}
    if algorithm == "dqn":
        return {"learning_starts": 500, "batch_size": 64, "exploration_fraction": 0.3}
    return {}


def time_methods(model: BaseAlgorithm, timers: Timers) -> None:
    """Time what the phases mean in this library."""
    environments = type(model.env)
    timers.wrap(environments, "step", "simulation", "env_calls")
    timers.wrap(environments, "reset", "simulation", "env_calls")
    if hasattr(model, "rollout_buffer"):
        timers.wrap(model.policy, "forward", "inference")
        timers.wrap(model.policy, "predict_values", "inference")
        timers.wrap(RolloutBuffer, "compute_returns_and_advantage", "data")
        timers.wrap(RolloutBuffer, "_get_samples", "data")
        timers.wrap(RolloutBuffer, "add", "data")
    else:
        timers.wrap(model, "_sample_action", "inference")
        timers.wrap(ReplayBuffer, "add", "data")
        timers.wrap(ReplayBuffer, "sample", "data")
    timers.wrap(model, "train", "backpropagation", "trainings")


def main() -> None:
    options = parser(__doc__, envs=4, steps=4096)
    options.add_argument("--algorithm", choices=ALGORITHMS, default="ppo")
    options.add_argument("--vector", choices=("dummy", "subproc"), default="dummy")
    options.add_argument("--truth", action="store_true")
    args = options.parse_args()
    torch.set_num_threads(1)
    timers = Timers()
    kind = DummyVecEnv if args.vector == "dummy" else SubprocVecEnv
    environments = make_vec_env("CartPole-v1", args.envs, seed=args.seed, vec_env_cls=kind)
    model = getattr(stable_baselines3, ALGORITHMS[args.algorithm])(
        "MlpPolicy", environments, seed=args.seed, device="cpu", **settings(args.algorithm)
    )
    if args.truth or "RLSCOPE_TIMERS" in os.environ:
        time_methods(model, timers)
    timers.start()
    model.learn(args.steps)
    timers.finish()
    environments.close()


if __name__ == "__main__":
    main()
