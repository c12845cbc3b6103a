"""Stable-Baselines3's SubprocVecEnv with one slow worker; the main process times its waits.

--workers environments, of which number --slow computes --slow-ms per step, the others 0.2 ms.

Truth, between start_ns and end_ns (CLOCK_MONOTONIC): `workers[i]` = pid, and waited_ns, how long
the main process was in the recv() of its answers; steps. The answers are taken in the order of the
workers: one that was ready before is not waited for.
"""

import os
import time
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from handshake import finish, parser
from stable_baselines3.common.vec_env import SubprocVecEnv
from warm_up import warm_up

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Reset = tuple[np.ndarray, dict[str, Any]]
Step = tuple[np.ndarray, float, bool, bool, dict[str, Any]]

arguments = parser(__doc__)
arguments.add_argument("--workers", type=int, default=4)
arguments.add_argument("--slow", type=int, default=3)
arguments.add_argument("--slow-ms", type=float, default=4.0)
arguments.add_argument("--steps", type=int, default=200)
options = arguments.parse_args()


class Busy(gymnasium.Env):
    """Computes for so long at each step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, cpu_ms: float) -> None:
        self.cpu_ns = cpu_ms * 1e6

    def reset(self, *, seed: int | None = None, options: object = None) -> "Reset":
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> "Step":
        end_ns = time.thread_time_ns() + self.cpu_ns
        while time.thread_time_ns() < end_ns:
            pass
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Timed:
    """The connection to a worker, whose recv() is timed."""

    def __init__(self, inner: "Connection") -> None:
        self.inner, self.waited_ns = inner, 0
        self.send, self.close = inner.send, inner.close

    def recv(self) -> object:
        start_ns = time.monotonic_ns()
        answer = self.inner.recv()
        self.waited_ns += time.monotonic_ns() - start_ns
        return answer


def main() -> None:
    cpu_ms = [options.slow_ms if i == options.slow else 0.2 for i in range(options.workers)]
    vector = SubprocVecEnv([lambda ms=ms: Busy(ms) for ms in cpu_ms], start_method="fork")
    vector.reset()
    actions = np.zeros(options.workers, int)
    warm_up(options, lambda: vector.step(actions))
    vector.remotes = remotes = [Timed(remote) for remote in vector.remotes]
    start_ns = time.monotonic_ns()
    for _ in range(options.steps):
        vector.step(actions)
    end_ns = time.monotonic_ns()
    workers = [
        {"pid": process.pid, "waited_ns": remote.waited_ns}
        for process, remote in zip(vector.processes, remotes, strict=True)
    ]
    finish(options, start_ns=start_ns, end_ns=end_ns, workers=workers, steps=options.steps)
    vector.close()


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
