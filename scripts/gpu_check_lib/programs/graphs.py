"""Replays a graph of kernels and tells how long a replay takes."""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from gpu import CudaDriver, CudaError, finish


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--replays", type=int, default=100, help="in one batch")
    parser.add_argument("--batches", type=int, default=10)
    options = parser.parse_args()
    try:
        driver = CudaDriver()
        stream = driver.stream()
        graph = driver.graph(stream, options.nodes)
        times = []
        for _ in range(options.batches):
            before_ns = time.monotonic_ns()
            for _ in range(options.replays):
                driver.replay(graph, stream)
            driver.synchronize(stream)
            times.append((time.monotonic_ns() - before_ns) / options.replays)
    except CudaError as error:
        sys.exit(str(error))
    finish(
        replays=options.replays * options.batches,
        nodes=options.nodes,
        replay_ns=statistics.median(times),
        replay_all_ns=times,
    )


if __name__ == "__main__":
    main()
