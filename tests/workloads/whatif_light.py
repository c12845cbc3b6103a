"""The same as whatif_program.py without any library, so that it starts at once.

An iteration steps every environment STEPS times (`loop`), in this process or in workers behind
pipes, and learns (`learn`). All work is counted. Prints a JSON line with its seconds.
"""

import argparse
import json
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection

import nvtx

STEPS = 32


def work(rounds: int) -> int:
    state = 1
    for _ in range(rounds):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return state


def step(rounds: int) -> int:
    with nvtx.annotate("loop"):
        return work(rounds)


def serve(connection: Connection, rounds: int) -> None:
    while connection.recv():
        connection.send(step(rounds))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=4000, help="of the loop in a step")
    parser.add_argument("--learn", type=int, default=60_000, help="rounds of an update")
    asked = parser.parse_args()
    context = multiprocessing.get_context("fork")
    ends: list[Connection] = []
    for _ in range(asked.workers):
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, asked.rounds), daemon=True).start()
        ends.append(ours)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    for _ in range(asked.iterations):
        with nvtx.annotate("iteration"):
            for _ in range(STEPS):
                for end in ends:
                    end.send(True)
                for end in ends:
                    end.recv()
                if not ends:
                    step(asked.rounds)
            with nvtx.annotate("learn"):
                work(asked.learn)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    for end in ends:
        end.send(False)
    sys.stdout.write(json.dumps({"seconds": seconds, "cpu_seconds": cpu}) + "\n")


if __name__ == "__main__":
    main()
