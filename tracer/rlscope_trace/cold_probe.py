"""Steps an environment with a small network between its steps, and prints what a step costs.

A process of its own: `python -m rlscope_trace.cold_probe MODULE FACTORY [SIZE...]`; with sizes
FACTORY is called with each. In a loop that does nothing else a step would find all it needs in
the caches, and cost up to half of what it does in training.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_WARM_UP = 20
_BLOCKS, _LEAST_STEPS = 20, 5
_SECONDS = 1.0
_WIDTH, _LAYERS = 64, 3


def main() -> int:
    """Measure, and write one JSON object to what was the standard output."""
    # What the environment prints is none of the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    module, factory, *sizes = sys.argv[1:]
    sys.path.insert(0, str(os.getcwd()))  # noqa: PTH109 - as `python -m` has it
    found: list[dict[str, Any]] = []
    try:
        make = getattr(importlib.import_module(module), factory)
        network = _network()
        for made in [make(int(size)) for size in sizes] if sizes else [make()]:
            blocks = measured(_stepper(made), network)
            found.append({"step_ns": statistics.mean(blocks), "blocks_ns": blocks})
        result: dict[str, Any] = {"steps": found}
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises
        result = {"error": f"{type(error).__name__}: {error}"[:500]}
    os.write(answer, json.dumps(result).encode())
    return 0


def measured(step: Callable[[], object], network: Callable[[], object]) -> list[float]:
    """Return what a step takes in ns, means of blocks, for a second in all.

    CPU time; what launches work on a GPU takes until that is done, by the clock on the wall.
    """
    for _ in range(_WARM_UP):
        step()
        network()
    clock, step = _clock_of(step)
    reading_ns = min(-(clock() - clock()) for _ in range(200))
    blocks: list[float] = []
    until = time.monotonic() + _SECONDS
    while len(blocks) < 2 or time.monotonic() < until:
        spent, count = 0, 0
        block_end = time.monotonic() + _SECONDS / _BLOCKS
        while count < _LEAST_STEPS or time.monotonic() < block_end:
            network()
            begun = clock()
            step()
            spent += max(0, clock() - begun - reading_ns)
            count += 1
        blocks.append(spent / count)
    return blocks


def _clock_of(step: Callable[[], object]) -> tuple[Callable[[], int], Callable[[], object]]:
    """Return the clock for a step, and the step to time with it."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return time.process_time_ns, step

    def step_to_end() -> None:
        step()
        cuda.synchronize()

    cuda.synchronize()
    return time.perf_counter_ns, step_to_end


def _stepper(made: Any) -> Callable[[], object]:  # noqa: ANN401 - whatever the user makes
    """Return what steps an environment once, and resets it where an episode is over."""
    if not hasattr(made, "step"):
        if callable(made):
            return made  # type: ignore[no-any-return]
        raise TypeError("it returns neither an environment nor a function")
    made.reset()

    def step() -> None:
        result = made.step(actions[next_action()])
        # Vectors of environments reset themselves.
        if len(result) > 2 and isinstance(result[2], bool | int) and any(result[2:4]):
            made.reset()

    actions = [made.action_space.sample() for _ in range(64)]
    state = [0]

    def next_action() -> int:
        state[0] = (state[0] + 1) % len(actions)
        return state[0]

    return step


def _network() -> Callable[[], object]:
    """Return a small forward pass: of PyTorch where that is installed."""
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        layers: list[Any] = []
        for _ in range(_LAYERS):
            layers += [torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.Tanh()]
        net: Any = torch.nn.Sequential(*layers)
        seen, drawn = torch.zeros(8, _WIDTH), torch.distributions.Categorical

        def forward() -> object:
            with torch.no_grad():
                sampled: object = drawn(logits=net(seen)).sample()  # type: ignore[no-untyped-call]
            return sampled

        return forward
    import numpy as np

    weights = [np.full((_WIDTH, _WIDTH), 0.01) for _ in range(_LAYERS)]

    def multiply() -> object:
        state = np.ones((8, _WIDTH))
        for weight in weights:
            state = np.tanh(state @ weight)
        return state

    return multiply


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
