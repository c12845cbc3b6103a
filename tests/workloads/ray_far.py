"""A driver whose rounds wait for an actor on another node: 20 ms of work here, then 60 ms there.

usage: ray_far.py ROUNDS

Prints how long the actor worked in all rounds but the first, in ns, by its own clock.
"""

import os
import sys
import time

import nvtx
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def work(milliseconds: int) -> int:
    begun = time.perf_counter_ns()
    while (passed := time.perf_counter_ns() - begun) < milliseconds * 1_000_000:
        pass
    return passed


@ray.remote(num_cpus=0.2)
class Far:
    def work(self) -> int:
        return work(60)


ray.init(address=os.environ["RAY_ADDRESS"], logging_level="ERROR")
here = ray.get_runtime_context().get_node_id()
(there,) = (node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != here)
far = Far.options(scheduling_strategy=NodeAffinitySchedulingStrategy(there, soft=False)).remote()
total = 0
for number in range(int(sys.argv[1])):
    with nvtx.annotate("round"):
        work(20)
        worked = ray.get(far.work.remote())
    total += worked if number else 0
sys.stdout.write(f"{total}\n")
