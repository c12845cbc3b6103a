"""What one switch with its wakeup costs: a traced program, and one that has nothing to do with it.

Two processes pass a byte to and fro on one CPU. Untraced, traced and as a bystander in turn, each
round in another order, so that a machine that gets slower does not favour one of them.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bench_lib.figure import BenchError, Figure
from bench_lib.recorder import Peer

if TYPE_CHECKING:
    from bench_lib.recorder import Bench

_ROUND_TRIPS = 200_000
TRACED_BUDGET_NS = 650
BYSTANDER_BUDGET_NS = 200


def measure(bench: Bench) -> list[Figure]:
    """Return what is added per pair of switch and wakeup."""
    ways = {"untraced": _untraced, "traced": _traced, "bystander": _bystander}
    pair_ns: dict[str, list[float]] = {way: [] for way in ways}
    for run in range(bench.runs):
        shift = run % len(ways)
        order = [*ways][shift:] + [*ways][:shift]
        for way in order if run % 2 == 0 else reversed(order):
            pair_ns[way].append(ways[way](bench))
    plain = pair_ns["untraced"]

    def added(way: str, budget: float) -> Figure:
        values = [with_us - without for with_us, without in zip(pair_ns[way], plain, strict=True)]
        return Figure(f"added, {way}", "ns per pair", tuple(values), budget)

    return [
        Figure("untraced switch and wakeup", "ns per pair", tuple(plain)),
        added("traced", TRACED_BUDGET_NS),
        added("bystander", BYSTANDER_BUDGET_NS),
    ]


def _command(bench: Bench) -> list[str]:
    return [bench.helper("switch_pairs"), str(_ROUND_TRIPS), str(bench.cpu)]


def _untraced(bench: Bench) -> float:
    reported = subprocess.run(_command(bench), check=True, capture_output=True, text=True)
    return float(reported.stdout)


def _traced(bench: Bench) -> float:
    printed, ended = bench.record(bench.trace("cost"), _command(bench))
    # Two switches make a round trip: fewer records, and it was not traced.
    if ended.count("records") < 2 * _ROUND_TRIPS:
        raise BenchError(f"switches are missing: {ended.said.strip()}", hint="rlscope-trace doctor")
    return float(printed)


def _bystander(bench: Bench) -> float:
    idle = Peer.start(["sh", "-c", "echo ready; read -r line"])
    recorder = bench.attach(idle.process.pid, bench.trace("bystander"))
    try:
        return _untraced(bench)
    finally:
        recorder.stop()
        idle.close()
