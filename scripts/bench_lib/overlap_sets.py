"""How fast the overlap of sets is computed, and in how much memory.

As a program it does one of the measurements and prints the result as JSON: each needs a process of
its own, pinned or not, whose peak memory is that of nothing else.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bench_lib.figure import Figure
    from bench_lib.recorder import Bench

    Columns = tuple[NDArray[np.int64], NDArray[np.int64]]

INTERVALS = 8_000_000
FEW_CATEGORIES = (1, 4, 8, 12)
DISTINCT_CATEGORIES = 48
DISTINCT_INTERVALS = 1_200_000
_STREAMED = (4_000_000, 40_000_000)
_CHUNK = 65_536
ONE_CORE_BUDGET = 50
"""M intervals/s: half of what a quiet core reaches with few categories."""
TWO_CORES_BUDGET = 1.7
DISTINCT_BUDGET_S = 5
DISTINCT_BUDGET_MB = 2_000
STREAM_BUDGET_MB = 10


def measure(bench: Bench) -> list[Figure]:
    """Return rates by number of categories, the worst case, and memory by length."""
    from bench_lib.figure import Figure

    figures = []
    for categories in FEW_CATEGORIES:
        rates = _reported(bench, bench.pinned(), "sweep", categories, bench.runs)["rates"]
        budget = ONE_CORE_BUDGET if categories == FEW_CATEGORIES[1] else None
        name = f"sets: {categories} categories, one core"
        note = f"{INTERVALS:,} intervals, by CPU time"
        figures.append(Figure(name, "M intervals/s", tuple(rates), budget, True, note))
    ratios = _reported(bench, [], "scaling", FEW_CATEGORIES[2], bench.runs)["ratios"]
    figures.append(
        Figure("sets: two threads", "times one", tuple(ratios), TWO_CORES_BUDGET, True, "wall time")
    )
    distinct = [_reported(bench, bench.pinned(), "distinct") for _ in range(min(3, bench.runs))]
    name = f"sets: {DISTINCT_CATEGORIES} categories"
    note = f"{distinct[0]['rows']:,} sets of {DISTINCT_INTERVALS:,} intervals, as a DataFrame"
    cpu_s = tuple(one["cpu_s"] for one in distinct)
    memory = tuple(one["peak_mb"] for one in distinct)
    streamed = [_reported(bench, bench.pinned(), "stream", count)["peak_mb"] for count in _STREAMED]
    return [
        *figures,
        Figure(name, "s of CPU", cpu_s, DISTINCT_BUDGET_S, note=note),
        Figure(f"{name}: memory", "MB", memory, DISTINCT_BUDGET_MB, note="Python and input too"),
        Figure(
            "sets: memory for ten times as long",
            "MB more",
            (streamed[1] - streamed[0],),
            STREAM_BUDGET_MB,
            note=f"streams of {_STREAMED[0]:,} and {_STREAMED[1]:,} intervals",
        ),
    ]


def _reported(bench: Bench, prefix: list[str], *arguments: object) -> Any:  # noqa: ANN401 - JSON
    command = [*prefix, bench.python, __file__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _category(rng: np.random.Generator, count: int) -> Columns:
    """Return intervals of random lengths with random gaps."""
    times = np.cumsum(rng.integers(1, 2_000, 2 * count))
    return times[::2].copy(), times[1::2].copy()


def _categories(categories: int, intervals: int) -> list[Columns]:
    rng = np.random.default_rng(categories)
    return [_category(rng, intervals // categories) for _ in range(categories)]


def _sweep(categories: int, runs: int) -> dict[str, Any]:
    from rlscope_analysis import _sweep as engine

    columns = _categories(categories, INTERVALS)
    engine.overlap_arrays(columns)
    rates = []
    for _ in range(runs):
        before_ns = time.process_time_ns()
        engine.overlap_arrays(columns)
        rates.append(INTERVALS / (time.process_time_ns() - before_ns) * 1e3)
    return {"rates": rates}


def _scaling(categories: int, runs: int) -> dict[str, Any]:
    """Compare one thread with two, in turn."""
    from rlscope_analysis import _sweep as engine

    columns = _categories(categories, INTERVALS)

    def wall_ns(jobs: int) -> int:
        before_ns = time.monotonic_ns()
        engine.overlap_arrays(columns, jobs=jobs)
        return time.monotonic_ns() - before_ns

    wall_ns(2)
    return {"ratios": [wall_ns(1) / wall_ns(2) for _ in range(runs)]}


def _distinct() -> dict[str, Any]:
    """Give every combination of many independent categories a row."""
    from rlscope_analysis import overlap

    columns = _categories(DISTINCT_CATEGORIES, DISTINCT_INTERVALS)
    names = np.array([f"category {at}" for at in range(DISTINCT_CATEGORIES)], dtype=object)
    intervals = {
        "category": np.repeat(names, [start.size for start, _ in columns]),
        "start_ns": np.concatenate([start for start, _ in columns]),
        "end_ns": np.concatenate([end for _, end in columns]),
    }
    before_ns = time.process_time_ns()
    rows = len(overlap(intervals, jobs=1))
    cpu_s = (time.process_time_ns() - before_ns) / 1e9
    return {"rows": rows, "cpu_s": cpu_s, "peak_mb": _peak_mb()}


def _stream(intervals: int) -> dict[str, Any]:
    from rlscope_analysis import _sweep as engine

    def chunks(seed: int) -> Iterator[Columns]:
        rng = np.random.default_rng(seed)
        offset = 0
        for _ in range(intervals // FEW_CATEGORIES[1] // _CHUNK):
            start, end = _category(rng, _CHUNK)
            yield start + offset, end + offset
            offset += int(end[-1])

    found = engine.overlap_streams([chunks(seed) for seed in range(FEW_CATEGORIES[1])])
    return {"rows": len(found), "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    """Do what the arguments say."""
    what = {"sweep": _sweep, "scaling": _scaling, "distinct": _distinct, "stream": _stream}
    name, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(what[name](*map(int, arguments))))


if __name__ == "__main__":
    main()
