"""CUDA graphs: what is recorded of them at each level, and what that costs a replay."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.listening import listen

if TYPE_CHECKING:
    from gpu_check_lib.context import Context
    from gpu_check_lib.records import Records

_ROUNDS = 3
_WAYS = {
    "alone": {"CUPTI": "off"},
    "graph": {"CUPTI": "on", "CUDA_GRAPHS": "graph"},
    "node": {"CUPTI": "on", "CUDA_GRAPHS": "node"},
}


def run(context: Context) -> None:
    """Replay under each level, in turn."""
    times: dict[str, list[float]] = {way: [] for way in _WAYS}
    for number in range(_ROUNDS):
        for way in list(_WAYS)[:: 1 if number % 2 else -1]:
            reported, found = _replay(context, way, number)
            times[way].append(reported["replay_ns"])
            if number == 0:
                _check(context, way, reported, found)
    medians = {way: statistics.median(values) for way, values in times.items()}
    context.tell(
        "what a replay of 100 kernels takes",
        ", ".join(f"{way} {ns / 1000:.1f} us" for way, ns in medians.items()),
        replay_ns=times,
    )


def _replay(context: Context, way: str, number: int) -> tuple[dict[str, Any], Records]:
    listener = listen(context, f"{way}-{number}")
    settings = dict(_WAYS[way])
    if number == 0 and way != "alone":
        dump = context.home / "fixtures" / f"graphs-{way}"
        dump.mkdir()
        settings["CUPTI_DUMP"] = str(dump)
    reported = context.run(
        context.program("graphs", "--batches", 5), listener.environment(**settings)
    )
    return reported, listener.records()


def _check(context: Context, way: str, reported: dict[str, Any], found: Records) -> None:
    graphs, kernels = len(found.of(records.GRAPH)), len(found.of(records.KERNEL))
    wanted = {
        "alone": (0, 0),
        "graph": (reported["replays"], 0),
        "node": (0, reported["replays"] * reported["nodes"]),
    }[way]
    context.check(
        f"level {way}: as many records as replays make",
        (graphs, kernels) == wanted,
        f"{graphs} graphs and {kernels} kernels, expected {wanted[0]} and {wanted[1]}",
    )
    lost = found.dropped + sum(found.lost.values())
    context.check(f"level {way}: nothing lost", lost == 0, f"{lost}")
