"""A training with one thing planted, which tells how long its iterations took.

What the GPU does takes a known time: kernels that spin. PyTorch is loaded only where something of
it is used: for the network, and for marks.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gpu import CudaDriver, finish

BATCH_BYTES = 8 << 20
Mark = Callable[[str], AbstractContextManager[None]]


def marks() -> Mark:
    """Return what marks an operation."""
    import torch

    made: Mark = torch.cuda.nvtx.range
    return made


def unmarked(_name: str) -> AbstractContextManager[None]:
    """Mark nothing."""
    return nullcontext()


def simulate(work: float) -> None:
    """Do so much Python on the CPU."""
    total = 0
    for number in range(int(work)):
        total += number * number


def kernels(options: argparse.Namespace, _mark: Mark) -> Callable[[], None]:
    """Wait for large kernels at the end of each update."""
    driver = CudaDriver()

    def update() -> None:
        for _ in range(options.launches):
            driver.launch(None, options.spin_ns)
        driver.synchronize()

    return update


def launches(options: argparse.Namespace, mark: Mark) -> Callable[[], None]:
    """Launch small kernels, with some Python between them, or all of them as one graph."""
    driver = CudaDriver()
    stream = driver.stream()
    graph = driver.graph(stream, options.launches) if options.graph else None

    def update() -> None:
        with mark("step"):
            if graph is not None:
                driver.replay(graph, stream)
            else:
                for _ in range(options.launches):
                    driver.launch(stream)
                    simulate(options.between)
        driver.synchronize(stream)

    return update


def syncs(options: argparse.Namespace, _mark: Mark) -> Callable[[], None]:
    """Look at each result before the next step: the CPU and the GPU take turns."""
    driver = CudaDriver()

    def update() -> None:
        for _ in range(options.launches):
            driver.launch(None, options.spin_ns)
            driver.synchronize()
            simulate(options.between)

    return update


def copies(options: argparse.Namespace, _mark: Mark) -> Callable[[], None]:
    """Copy each batch to the GPU again, for small kernels."""
    driver = CudaDriver()
    host, there = ctypes.create_string_buffer(BATCH_BYTES), driver.allocate(BATCH_BYTES)
    size = ctypes.c_size_t(BATCH_BYTES)

    def update() -> None:
        for _ in range(options.launches):
            driver.call("cuMemcpyHtoDAsync", there, host, size, None)
            driver.launch(None, options.spin_ns)
        driver.synchronize()

    return update


def streams(options: argparse.Namespace, _mark: Mark) -> Callable[[], None]:
    """Work on two streams at once, of which one takes four times as long."""
    driver = CudaDriver()
    slow, fast = driver.stream(), driver.stream()

    def update() -> None:
        for _ in range(options.launches):
            driver.launch(slow, options.spin_ns)
            driver.launch(fast, options.spin_ns // 4)
        driver.synchronize(fast)
        driver.synchronize(slow)

    return update


def reward_model(pipe: Any, options: argparse.Namespace) -> None:  # noqa: ANN401 - a Connection
    """Answer each question after as many kernels."""
    driver = CudaDriver()
    while pipe.recv():
        for _ in range(options.launches):
            driver.launch(None, options.spin_ns)
        driver.synchronize()
        pipe.send(True)


def processes(options: argparse.Namespace, _mark: Mark) -> Callable[[], None]:
    """Ask a reward model of another process on the same GPU, which takes most of the time."""
    pipe, end = multiprocessing.Pipe()
    model = multiprocessing.Process(target=reward_model, args=(end, options), daemon=True)
    model.start()
    pipe.send(True)
    pipe.recv()
    driver = CudaDriver()

    def update() -> None:
        pipe.send(True)
        pipe.recv()
        driver.launch(None, options.spin_ns)
        driver.synchronize()

    return update


def network(options: argparse.Namespace, mark: Mark) -> Callable[[], None]:
    """Train a small network by PyTorch, eagerly or as one graph."""
    import torch
    from torch import nn

    made = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(),
                         nn.Linear(256, 8)).cuda()  # fmt: skip
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-4, capturable=True)
    batch = torch.randn(256, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        made(batch).square().mean().backward()
        optimizer.step()

    graph = captured(step) if options.graph else None

    def update() -> None:
        for _ in range(options.launches):
            with mark("step"):
                if graph is not None:
                    graph.replay()
                else:
                    step()
        torch.cuda.synchronize()

    return update


def captured(step: Callable[[], None]) -> Any:  # noqa: ANN401 - of PyTorch
    """Return a step as a graph: after some on a stream of their own, as PyTorch asks for."""
    import torch

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


PROGRAMS = {
    made.__name__: made for made in (kernels, launches, syncs, copies, streams, processes, network)
}


def main() -> None:
    """Run the program of that name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(PROGRAMS))
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--simulation", type=float, default=10_000, help="rounds of Python")
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--between", type=float, default=0, help="rounds of Python, too")
    parser.add_argument("--spin-ns", type=int, default=600_000)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--mark", action="store_true", help="mark iterations and phases")
    options = parser.parse_args()
    mark = marks() if options.mark else unmarked
    update = PROGRAMS[options.name](options, mark)
    took = []
    for _ in range(options.iterations):
        before_ns = time.monotonic_ns()
        with mark("iteration"):
            with mark("simulation"):
                simulate(options.simulation)
            with mark("backpropagation"):
                update()
        took.append(time.monotonic_ns() - before_ns)
    # The first one compiles and loads.
    finish(iteration_ns=statistics.median(took[1:]), mean_ns=statistics.fmean(took[1:]))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
