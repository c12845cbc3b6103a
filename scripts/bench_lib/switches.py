"""What recording adds to a program that only switches, and what the correction leaves of it.

Untraced and traced runs in turn, on one CPU. The CPU time of the middle one of 100 batches is
compared: the rest of a run is start-up, and what else the machine did.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench_lib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_lib.recorder import Bench

BIAS_BUDGET_PERCENT = 3
_OVERHEAD_SQL = """
SELECT sum(overhead_ns)::BIGINT AS middle, sum(overhead_low_ns)::BIGINT AS low,
  sum(overhead_high_ns)::BIGINT AS high
FROM breakdown_corrected
"""


def measure(bench: Bench) -> Iterator[Figure]:
    """Yield the figures of all pairs."""
    bench.calibrate()
    command = [*bench.pinned(), bench.python, str(Path(__file__).with_name("two_pipes.py"))]
    added, left, held = [], [], []
    for number in range(bench.runs):
        pair: dict[str, str] = {}
        trace = bench.trace("switches")
        for which in ("untraced", "traced")[:: 1 if number % 2 else -1]:
            if which == "traced":
                pair[which], _ = bench.record(trace, command)
            else:
                reported = subprocess.run(command, check=True, capture_output=True, text=True)
                pair[which] = reported.stdout
        before_ns, after_ns = (_batch_ns(pair[which]) for which in ("untraced", "traced"))
        (overhead,) = bench.query(trace, _OVERHEAD_SQL)
        batches = len(json.loads(pair["traced"]))
        added.append(100 * (after_ns / before_ns - 1))
        left.append(100 * ((after_ns - overhead["middle"] / batches) / before_ns - 1))
        low_ns, high_ns = (after_ns - overhead[end] / batches for end in ("high", "low"))
        held.append(100.0 if low_ns <= before_ns <= high_ns else 0.0)
    yield Figure("two pipes, inflation", "% of its CPU", tuple(added))
    yield Figure(
        "two pipes, corrected", "% of its CPU", tuple(left), BIAS_BUDGET_PERCENT, either_way=True,
        note=f"untraced within the interval of the costs in {statistics.mean(held):.0f} % of pairs",
    )  # fmt: skip


def _batch_ns(printed: str) -> float:
    return statistics.median(json.loads(printed))
