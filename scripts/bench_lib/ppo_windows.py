"""The demo's training in windows: at each line on stdin trains, then tells the CPU time used.

The work of a window is fixed, its start-up is outside, and one process serves all windows, traced
and untraced: two processes that do the same differ by more than the cost that is to be measured.
"""

import json
import sys
import time
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "workloads"))

import ppo_cartpole as ppo
import torch

WORKERS = 4
SEED = 1


def main() -> None:
    """Train at each line, until the input ends."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    agent = ppo.Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=ppo.LEARNING_RATE, eps=1e-5)
    environments = ppo.SubprocVecEnv(workers=WORKERS, seed=SEED)
    observation = environments.reset()
    ppo.say("ready")
    try:
        for line in sys.stdin:
            collect_ns, learn_ns = [], []
            for _ in range(int(line)):
                start_ns = used_ns(environments)
                rollout, observation = ppo.collect(agent, environments, observation, deque())
                collected_ns = used_ns(environments)
                with torch.no_grad():
                    next_value = agent.value(torch.as_tensor(observation))
                ppo.learn(agent, optimizer, rollout, ppo.advantages_of(rollout, next_value))
                collect_ns.append(collected_ns - start_ns)
                learn_ns.append(used_ns(environments) - collected_ns)
            ppo.say(json.dumps({"collect_ns": collect_ns, "learn_ns": learn_ns}))
    finally:
        environments.close()


def used_ns(environments: ppo.SubprocVecEnv) -> int:
    """Return the CPU time of this process and its workers so far; exact while those wait."""
    workers = (f"/proc/{process.pid}/schedstat" for process in environments.processes)
    return time.process_time_ns() + sum(int(Path(w).read_text().split()[0]) for w in workers)


main()
