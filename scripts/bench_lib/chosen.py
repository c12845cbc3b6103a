"""Which workloads are measured, and what of each is recorded: names on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_lib.figure import BenchError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def chosen(
    only: frozenset[str], workloads: Sequence[str], sets: Collection[str], plain: Collection[str]
) -> list[tuple[str, str]]:
    """Return the workloads and sets with these names, WORKLOAD or WORKLOAD:SET; none: all.

    plain: the sets that the name of a workload alone stands for.
    """
    known = {*workloads, *(f"{name}:{recorded}" for name in workloads for recorded in sets)}
    if only - known:
        raise BenchError(
            f"no workload {', '.join(sorted(only - known))}",
            hint=f"one of: {', '.join(workloads)}; with :{', :'.join(sets)}",
        )
    names = only or frozenset(workloads)
    return [
        (name, recorded)
        for name in workloads
        for recorded in sets
        if f"{name}:{recorded}" in names or (name in names and recorded in plain)
    ]
