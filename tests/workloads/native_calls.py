"""Calls native functions exactly so often, within operations (NVTX ranges) of known names.

| operation | calls, for N = --times |
|---|---|
| rollout | N step, N // 10 reset |
| nested | N // 10 drive, each of which has Python call observe 5 times |
| failing | N fail, each raises |
| leaving | N leave, each of which enters left, which never returns; then N observe |
| throwing | N each of catch_own, translate, through_python (with fail inside): C++ exceptions |
| thread | N step in each of 3 threads at once |
| fork | N step in each of 3 forked children at once |
| blunt | N blunt, where no instruction is cheap to probe, and N observe |
| idle | none |

--repeat times each. --late imports the modules only at the first line on stdin. They are warmed up
until the next line. Truth: start_ns, end_ns; `operations[NAME]` = instances and calls, exact;
`entered`: what the modules counted themselves from the beginning on, by process; children: pids.
"""

import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import nvtx
from handshake import finish, parser, say
from warm_up import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

arguments = parser(__doc__)
arguments.add_argument("--times", type=int, default=200)
arguments.add_argument("--repeat", type=int, default=3)
arguments.add_argument("--only", default="")
arguments.add_argument("--late", action="store_true")
options = arguments.parse_args()
N = options.times
if options.late:
    say(f"started {os.getpid()}")
    sys.stdin.readline()

import native_cartpole as cartpole  # noqa: E402 - as --late says
import native_throw  # noqa: E402

reported: dict[str, dict[str, Any]] = {}
children: list[dict[str, Any]] = []


def ignoring(function: "Callable[..., object]", *given: object) -> None:
    try:
        function(*given)
    except (ValueError, RuntimeError):
        return
    raise SystemExit(f"{function} did not raise")


def rollout() -> None:
    for index in range(N):
        cartpole.step(index & 1, 50)
        if index % 10 == 0:
            cartpole.reset(index)


def look() -> bool:
    return bool(cartpole.observe()[2] > 0)


def nested() -> None:
    for _ in range(N // 10):
        cartpole.drive(look, 5)


def failing() -> None:
    for _ in range(N):
        ignoring(cartpole.fail)


def leaving() -> None:
    for _ in range(N):
        cartpole.leave()
    for _ in range(N):
        cartpole.observe()


def throwing() -> None:
    for _ in range(N):
        if native_throw.catch_own() != 1:
            raise SystemExit("an exception was not unwound")
        ignoring(native_throw.translate)
        ignoring(native_throw.through_python, cartpole.fail)


def steps(name: str) -> None:
    with nvtx.annotate(name):
        for index in range(N):
            cartpole.step(index & 1, 50)


def in_threads() -> None:
    threads = [threading.Thread(target=steps, args=("thread",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_forks() -> None:
    pids = []
    for _ in range(3):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            before = cartpole.counts()
            steps("fork")
            after = cartpole.counts()
            done = {name: after[name] - before[name] for name in after}
            os.write(writing, json.dumps(done).encode())
            os._exit(0)
        os.close(writing)
        pids.append((pid, reading))
    for pid, reading in pids:
        with os.fdopen(reading) as from_child:
            children.append({"pid": pid, "entered": json.loads(from_child.read())})
        os.waitpid(pid, 0)


def blunt() -> None:
    for _ in range(N):
        cartpole.blunt()
        cartpole.observe()


def idle() -> None:
    sum(range(1000))


CALLS: "dict[str, tuple[Callable[[], None], dict[str, int]]]" = {
    "rollout": (rollout, {"step": N, "reset": (N + 9) // 10}),
    "nested": (nested, {"drive": N // 10, "observe": N // 10 * 5}),
    "failing": (failing, {"fail": N}),
    "leaving": (leaving, {"leave": N, "left": N, "observe": N}),
    "throwing": (
        throwing,
        {"catch_own": N, "translate": N, "through_python": N, "fail": N},
    ),
    "blunt": (blunt, {"blunt": N, "observe": N}),
    "idle": (idle, {}),
    # These two mark their ranges where they work.
    "thread": (in_threads, {"step": N}),
    "fork": (in_forks, {"step": N}),
}
INSTANCES = {"thread": 3, "fork": 3}


def touch_all() -> None:
    """Call everything once, so that nothing is new when the truth begins."""
    cartpole.reset(1)
    cartpole.step(1, 50)
    cartpole.drive(look, 1)
    ignoring(cartpole.fail)
    cartpole.leave()
    native_throw.catch_own()
    ignoring(native_throw.translate)
    ignoring(native_throw.through_python, cartpole.fail)
    time.sleep(0.001)


chosen = options.only.split(",") if options.only else [*CALLS]
warm_up(options, touch_all)
before = {**cartpole.counts(), **native_throw.counts()}
start_ns = time.monotonic_ns()
for _ in range(options.repeat):
    for name in chosen:
        work, calls = CALLS[name]
        if name in INSTANCES:
            work()
        else:
            with nvtx.annotate(name):
                work()
        entry = reported.setdefault(name, {"instances": 0, "calls": calls})
        entry["instances"] += INSTANCES.get(name, 1)
end_ns = time.monotonic_ns()
after = {**cartpole.counts(), **native_throw.counts()}
for entry in reported.values():
    entry["calls"] = {f: n * entry["instances"] for f, n in entry["calls"].items()}
finish(
    options,
    start_ns=start_ns,
    end_ns=end_ns,
    operations=reported,
    entered={name: after[name] - before[name] for name in after},
    children=children,
)
