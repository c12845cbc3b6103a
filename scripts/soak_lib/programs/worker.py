"""Works in rounds and checks every result: whoever records it must not change what it does.

A round is an operation (NVTX) with calls of native_cartpole in it, yields, a mark and a sleep; now
and then a thread or a child does the same. It ends after --rounds, or once the file --until is
there. Truth, as JSON in the file --truth: rounds; steps, as counted here; entered, as counted by
the module; wrong (results that differed); children and those of them that ended otherwise than
they were meant to. The file TRUTH.started holds its pid from the first round on.
"""

import argparse
import json
import os
import threading
import time
from pathlib import Path

import native_cartpole as cartpole
import nvtx

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--truth", type=Path, required=True)
parser.add_argument("--rounds", type=int, default=0)
parser.add_argument("--until", type=Path)
parser.add_argument("--threads", type=int, default=0, help="that work as long as the program does")
options = parser.parse_args()
STEPS = 20


def trajectory() -> "list[tuple[float, ...]]":
    cartpole.reset(3)
    return [cartpole.step(index % 3 == 0, 20) for index in range(STEPS)]


class Worker:
    """What one thread did."""

    def __init__(self) -> None:
        self.rounds = self.wrong = 0

    def round(self) -> None:
        with nvtx.annotate("round"):
            with nvtx.annotate("simulation"):
                self.wrong += trajectory() != expected
            for _ in range(20):
                os.sched_yield()
            nvtx.mark("done")
        time.sleep(0.002)
        self.rounds += 1

    def work(self) -> None:
        while not is_over.is_set():
            self.round()


def write(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text)
    unfinished.replace(path)


def in_thread(worker: Worker) -> threading.Thread:
    thread = threading.Thread(target=worker.round)
    thread.start()
    return thread


def in_child() -> bool:
    """Tell whether a child that works as well ended as it was meant to."""
    pid = os.fork()
    if pid == 0:
        child = Worker()
        child.round()
        os._exit(9 if child.wrong else 0)
    return os.waitpid(pid, 0)[1] == 0


def goes_on(rounds: int) -> bool:
    if options.rounds and rounds >= options.rounds:
        return False
    return options.until is None or not options.until.exists()


expected = trajectory()
before = cartpole.counts()["step"]
is_over = threading.Event()
children = failed = 0
workers = [Worker() for _ in range(options.threads)]
threads = [threading.Thread(target=worker.work) for worker in workers]
for thread in threads:
    thread.start()
main = Worker()
workers.append(main)
write(options.truth.with_name(options.truth.name + ".started"), str(os.getpid()))
while goes_on(main.rounds):
    main.round()
    if main.rounds % 10 == 0 and not threads:
        workers.append(Worker())
        in_thread(workers[-1]).join()
    # A process with other threads forks none: those would be missing in the child.
    if main.rounds % 25 == 0 and not threads:
        children += 1
        failed += not in_child()
is_over.set()
for thread in threads:
    thread.join()
rounds = sum(worker.rounds for worker in workers)
truth = {
    "rounds": rounds,
    "steps": rounds * STEPS,
    "entered": cartpole.counts()["step"] - before,
    "wrong": sum(worker.wrong for worker in workers),
    "children": children,
    "failed_children": failed,
}
write(options.truth, json.dumps(truth))
