"""Actors on all nodes of a Ray cluster that do a known amount of work.

usage: ray_actors.py ROUNDS

Each of four actors runs ROUNDS methods with ten NVTX ranges in each; 2 x ROUNDS tasks run beside,
and as many methods of an async actor, two at a time.
Prints its job and the actors' pids, waits until its input ends, and exits with 7.
"""

import asyncio
import os
import sys

import nvtx
import ray

rounds = int(sys.argv[1])


@ray.remote(num_cpus=0.2, scheduling_strategy="SPREAD")
class Player:
    def play(self) -> int:
        for _ in range(10):
            with nvtx.annotate("turn"):
                pass
        return os.getpid()


@ray.remote(num_cpus=0.1)
class Server:
    async def ask(self) -> None:
        await asyncio.sleep(0.02)


@ray.remote(num_cpus=0.1)
def judge(number: int) -> int:
    return number


ray.init(address=os.environ["RAY_ADDRESS"], logging_level="ERROR")
players = [Player.remote() for _ in range(4)]
server = Server.remote()
for number in range(rounds):
    with nvtx.annotate("round"):
        pids = ray.get([player.play.remote() for player in players])
        asked = [server.ask.remote(), server.ask.remote()]
        ray.get([judge.remote(number), judge.remote(-number), *asked])
# Workers tell the cluster once a second, and what they have not told when they end is lost.
# timeline() waits that long itself.
while sum(part["cat"] == "task::Server.ask" for part in ray.timeline()) < 2 * rounds:
    pass
words = [ray.get_runtime_context().get_job_id(), *map(str, sorted(pids))]
sys.stdout.write(" ".join(words) + "\n")
sys.stdout.flush()
sys.stdin.read()
sys.exit(7)
