"""How long the command takes until its probes are live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench_lib.figure import Figure

if TYPE_CHECKING:
    from bench_lib.recorder import Bench

BUDGET_S = 0.5


def measure(bench: Bench) -> list[Figure]:
    """Return the time from the exec of the recorder to live probes, and the part of attaching."""
    until_live: list[float] = []
    attaching: list[float] = []
    for _ in range(bench.runs):
        output = bench.trace("latency")
        exec_ns = time.monotonic_ns()
        bench.record(output, ["true"])
        rows = bench.query(
            output, "SELECT key, value FROM meta WHERE key IN ('started_ns', 'live_ns')"
        )
        facts = {row["key"]: int(row["value"]) for row in rows}
        until_live.append((facts["live_ns"] - exec_ns) / 1e9)
        attaching.append((facts["live_ns"] - facts["started_ns"]) / 1e9)
    return [
        Figure("command to live probes", "s", tuple(until_live), BUDGET_S),
        Figure("of it attaching", "s", tuple(attaching)),
    ]
