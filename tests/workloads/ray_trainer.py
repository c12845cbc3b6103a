"""A driver as those of verl and SkyRL: the timers of these libraries around calls of stub actors.

usage: ray_trainer.py verl|skyrl ROUNDS FOLDER

Two actors each generate and train in every round, one of them 100 ms longer: the first where it
generates, the second where it trains. FOLDER/times.json: the actors' pids, and for each phase the
driver's time in the calls of each round (ns), and in how many rounds each actor came last.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import ray

library, rounds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
WORK_MS, DELAY_MS = 10, 100
# The phase in which an actor is slow, by its number; what the trainers call it.
SLOW = {"rollout": 0, "backpropagation": 1}
CALLED = {
    "verl": {"rollout": "gen", "logprob": "old_log_prob", "backpropagation": "update_actor"},
    "skyrl": {
        "rollout": "generate", "logprob": "fwd_logprobs_values_reward",
        "backpropagation": "train_critic_and_policy",
    },
}[library]  # fmt: skip


@ray.remote(num_cpus=0)
class Worker:
    """Stands for a group's worker: no model, as much work as it is told."""

    def __init__(self, number: int) -> None:
        """Be the one of this number."""
        self._number = number

    def pid(self) -> int:
        """Return its process."""
        return os.getpid()

    def work(self, phase: str) -> int:
        """Compute, and if it is the slow one sleep; return when it was done."""
        end = time.thread_time() + WORK_MS / 1000
        while time.thread_time() < end:
            pass
        if SLOW.get(phase) == self._number:
            time.sleep(DELAY_MS / 1000)
        return time.monotonic_ns()


ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
workers = [Worker.remote(number) for number in range(2)]
pids = ray.get([worker.pid.remote() for worker in workers])
spent: dict[str, list[int]] = {phase: [] for phase in CALLED}
last: dict[str, list[int]] = {phase: [0, 0] for phase in CALLED}


def note(phase: str, start_ns: int, done: list[int]) -> None:
    """Write down how long the driver was in a call, and who was done last."""
    spent[phase].append(time.monotonic_ns() - start_ns)
    last[phase][done.index(max(done))] += 1


def of_verl(times: dict[str, float]) -> None:
    """Run a round as `RayPPOTrainer.fit` does."""
    from verl.utils.profiler import marked_timer

    with marked_timer("step", times):
        for phase, name in CALLED.items():
            with marked_timer(name, times, color="red"):
                start = time.monotonic_ns()
                done = ray.get([worker.work.remote(phase) for worker in workers])
                note(phase, start, done)


async def of_skyrl(times: dict[str, float]) -> None:
    """Run a round as SkyRL's trainer does: it generates in a loop of asyncio."""
    from skyrl.train.utils.utils import Timer

    async def answer(call: "ray.ObjectRef[int]") -> int:
        return await call

    with Timer("step", times):
        for phase, name in CALLED.items():
            with Timer(name, times):
                start = time.monotonic_ns()
                calls = [worker.work.remote(phase) for worker in workers]
                if phase == "rollout":
                    done = await asyncio.gather(*map(answer, calls))
                else:
                    done = ray.get(calls)
                note(phase, start, done)


async def all_of_skyrl(times: dict[str, float]) -> None:
    """Run all rounds in one loop."""
    for _ in range(rounds):
        await of_skyrl(times)


timings: dict[str, float] = {}
if library == "skyrl":
    asyncio.run(all_of_skyrl(timings))
else:
    for _ in range(rounds):
        of_verl(timings)
assert {"step", *CALLED.values()} <= set(timings)
(folder / "times.json").write_text(json.dumps({"pids": pids, "spent": spent, "last": last}))
ray.shutdown()
