"""The same work on the GPU each time, by PyTorch: with its profiler, or for others to look at."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from gpu import finish, wait_for_word


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--size", type=int, default=2048, help="of the matrices")
    parser.add_argument("--profile", type=Path, help="profile the steps into this file")
    parser.add_argument("--wait", action="store_true", help="for a line on stdin before the steps")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    torch.manual_seed(1)
    weights = torch.randn(options.size, options.size, device="cuda")
    values = torch.randn(options.size, options.size, device="cuda")
    for _ in range(20):
        step(weights, values)
    torch.cuda.synchronize()
    if options.wait:
        wait_for_word()
    start_ns = time.monotonic_ns()
    profiled = run(options, weights, values)
    finish(
        steps=options.steps, start_ns=start_ns, end_ns=time.monotonic_ns(), pid=os.getpid(),
        cupti=mapped("libcupti"), cuda=torch.version.cuda, torch=torch.__version__, **profiled,
    )  # fmt: skip


def step(weights: object, values: object) -> object:
    """Do a product, and a few kernels that are small."""
    product = weights @ values
    return (product.relu() + 1.0).sum().sqrt()


def run(options: argparse.Namespace, weights: object, values: object) -> dict[str, object]:
    """Do the steps; return the durations of kernels by name, ns, if they are profiled."""
    import torch

    if options.profile is None:
        steps(options.steps, weights, values)
        return {}
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        steps(options.steps, weights, values)
    profiler.export_chrome_trace(str(options.profile))
    events = json.loads(options.profile.read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    by_name: dict[str, list[float]] = {}
    for kernel in kernels:
        by_name.setdefault(kernel["name"], []).append(kernel["dur"] * 1000)
    return {"kernels": by_name}


def steps(count: int, weights: object, values: object) -> None:
    """Do so many steps and wait for the GPU."""
    import torch

    for _ in range(count):
        step(weights, values)
    torch.cuda.synchronize()


def mapped(name: str) -> list[str]:
    """Return the files of that name that are mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if f"/{name}" in line})


if __name__ == "__main__":
    main()
