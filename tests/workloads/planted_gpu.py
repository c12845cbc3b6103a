"""Training on a GPU with one thing planted; tests/fakes has a GPU of simulated time for it.

usage: planted_gpu.py NAME ITERATIONS, NAME one of PROGRAMS

Marks each iteration and its phases as NVTX ranges, and calls the driver as PyTorch would. The last
line is the truth, as JSON: planted_ns is the time of those kernels
and copies that an iteration waits for, as the fake GPU is told it.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from typing import TYPE_CHECKING, Any

import nvtx
from planted_work import Truth, work

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20


class Gpu:
    """The driver, with a context on the first GPU."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), b"image")
        self.module = module
        self.kernels: dict[str, ctypes.c_void_p] = {}

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self.driver, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: {result}")

    def stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), 0)
        return made

    def kernel(self, us: int) -> ctypes.c_void_p:
        name = f"gemm_{us}us"
        if name not in self.kernels:
            made = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(made), self.module, name.encode())
            self.kernels[name] = made
        return self.kernels[name]

    def launch(self, us: int, stream: Any = None) -> None:
        self.call("cuLaunchKernel", self.kernel(us), 1, 1, 1, 1, 1, 1, 0, stream, None, None)

    def synchronize(self, stream: Any = None) -> None:
        self.call("cuStreamSynchronize", stream)


def loop(iterations: int, update: Callable[[], int]) -> Truth:
    """Act on the CPU, then update; that returns the GPU time it waits for, in ns."""
    truth = Truth()
    for _ in range(iterations):
        with nvtx.annotate("iteration"):
            with nvtx.annotate("simulation"):
                work(0.5)
            with nvtx.annotate("backpropagation"):
                truth.planted_ns += update()
    return truth


def kernels(iterations: int) -> Truth:
    """Wait for large kernels at the end of each update."""
    gpu = Gpu()

    def update() -> int:
        for _ in range(10):
            gpu.launch(600)
        gpu.synchronize()
        return 6_000_000

    return loop(iterations, update)


def launches(iterations: int) -> Truth:
    """Launch many small kernels, each done before the next."""
    gpu = Gpu()

    def update() -> int:
        for _ in range(200):
            gpu.launch(2)
            sum(range(300))
        gpu.synchronize()
        return 0

    return loop(iterations, update)


def syncs(iterations: int) -> Truth:
    """Look at each result before the next step: the CPU and the GPU take turns."""
    gpu = Gpu()

    def update() -> int:
        for _ in range(20):
            gpu.launch(150)
            gpu.synchronize()
            work(0.15)
        return 20 * 150_000

    return loop(iterations, update)


def copies(iterations: int) -> Truth:
    """Copy each batch to the GPU again, for small kernels."""
    gpu = Gpu()
    batch, there = ctypes.create_string_buffer(8 * MIB), ctypes.c_void_p()
    gpu.call("cuMemAlloc_v2", ctypes.byref(there), ctypes.c_size_t(8 * MIB))

    def update() -> int:
        for _ in range(8):
            gpu.call("cuMemcpyHtoDAsync_v2", there, batch, ctypes.c_size_t(8 * MIB), None)
            gpu.launch(20)
        gpu.synchronize()
        return 8 * (1000 + 8 * MIB // 4 + 20_000)

    return loop(iterations, update)


def streams(iterations: int) -> Truth:
    """Work on two streams at once, of which one takes four times as long."""
    gpu = Gpu()
    slow, fast = gpu.stream(), gpu.stream()

    def update() -> int:
        for _ in range(4):
            gpu.launch(1000, slow)
            gpu.launch(250, fast)
        gpu.synchronize(fast)
        gpu.synchronize(slow)
        return 4_000_000

    return loop(iterations, update)


def rewards(pipe: Any) -> None:
    gpu = Gpu()
    while pipe.recv() is not None:
        for _ in range(5):
            gpu.launch(1000)
        gpu.synchronize()
        pipe.send(0)


def processes(iterations: int) -> Truth:
    """Ask a reward model of another process on the same GPU, which takes most of the time."""
    pipe, end = multiprocessing.Pipe()
    model = multiprocessing.Process(target=rewards, args=(end,), daemon=True)
    model.start()
    gpu = Gpu()
    pipe.send(0)
    pipe.recv()

    def update() -> int:
        pipe.send(0)
        pipe.recv()
        gpu.launch(500)
        gpu.synchronize()
        return 5_500_000

    truth = loop(iterations, update)
    pipe.send(None)
    model.join()
    return truth


def eager(iterations: int) -> Truth:
    """Launch small kernels with ten times as much Python code between them."""
    gpu = Gpu()

    def update() -> int:
        for _ in range(8):
            work(0.2)
            gpu.launch(20)
        gpu.synchronize()
        return 20_000

    return loop(iterations, update)


PROGRAMS: dict[str, Callable[[int], Truth]] = {
    "kernels": kernels,
    "launches": launches,
    "syncs": syncs,
    "copies": copies,
    "streams": streams,
    "processes": processes,
    "eager": eager,
}


def main() -> None:
    """Run the program of that name."""
    name, iterations = sys.argv[1], int(sys.argv[2])
    PROGRAMS[name](iterations).tell()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
