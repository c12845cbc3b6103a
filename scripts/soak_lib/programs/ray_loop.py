"""Four actors on all nodes of a Ray cluster that work for ever; who is lost is made anew."""

from __future__ import annotations

import os
import sys
import time

import ray


@ray.remote(num_cpus=0.2, scheduling_strategy="SPREAD", max_restarts=0)
class Player:
    """Does something, and says so."""

    def play(self, number: int) -> int:
        """Take 5 ms."""
        time.sleep(0.005)
        return number


ray.init(address=os.environ["RAY_ADDRESS"], logging_level="ERROR")
players = [Player.remote() for _ in range(4)]
ray.get([player.play.remote(0) for player in players])
sys.stdout.write(f"{ray.get_runtime_context().get_job_id()}\n")
sys.stdout.flush()
number = 0


def play(place: int) -> None:
    """Let one of them work."""
    try:
        assert ray.get(players[place].play.remote(number), timeout=60) == number
    except ray.exceptions.RayError:
        players[place] = Player.remote()


while True:
    number += 1
    for place in range(len(players)):
        play(place)
