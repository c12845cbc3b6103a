"""Steps environments of Gymnasium and Stable-Baselines3 a known number of times.

Exact: `steps`, what the program itself counts: `num_timesteps` of a Stable-Baselines3 model, or the
environments times the calls of step(). `workers`: the processes that step environments for it.
"""

import argparse
import json
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv


def make() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def run_gymnasium(kind: str, envs: int, calls: int) -> int:
    if kind == "single":
        environment: Any = make()
    else:
        vector = SyncVectorEnv if kind == "sync" else AsyncVectorEnv
        environment = vector([make] * envs)
    environment.reset(seed=1)
    steps = 0
    for _ in range(calls):
        result = environment.step(environment.action_space.sample())
        steps += np.size(result[2])
        if kind == "single" and (result[2] or result[3]):
            environment.reset()
    environment.close()
    return steps


def run_split(envs: int, calls: int) -> int:
    """Step in two halves, as a program does that has something to do in between."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    environment = DummyVecEnv([make] * envs)
    environment.reset()
    for _ in range(calls):
        environment.step_async(np.zeros(envs, dtype=np.int64))
        environment.step_wait()
    environment.close()
    return envs * calls


def run_stable_baselines(kind: str, envs: int, calls: int) -> int:
    import torch
    from stable_baselines3 import A2C
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    torch.set_num_threads(1)
    vector = SubprocVecEnv if kind == "subproc" else DummyVecEnv
    environment = make_vec_env("CartPole-v1", envs, seed=1, vec_env_cls=vector)
    model = A2C("MlpPolicy", environment, device="cpu", seed=1)
    model.learn(envs * calls)
    environment.close()
    return model.num_timesteps


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    kinds = ("single", "sync", "async", "split", "dummy", "subproc")
    options.add_argument("kind", choices=kinds)
    options.add_argument("--envs", type=int, default=4)
    options.add_argument("--calls", type=int, default=100)
    args = options.parse_args()
    if args.kind in ("dummy", "subproc"):
        steps = run_stable_baselines(args.kind, args.envs, args.calls)
    elif args.kind == "split":
        steps = run_split(args.envs, args.calls)
    else:
        steps = run_gymnasium(args.kind, args.envs, args.calls)
    workers = args.envs if args.kind in ("async", "subproc") else 0
    sys.stdout.write(json.dumps({"steps": steps, "workers": workers}) + "\n")


if __name__ == "__main__":
    main()
