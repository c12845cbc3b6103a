"""What is said of many traces together: entries of note_sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.findings.catalog import BY_CODE
from rlscope_analysis.wording import count_of, printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Named

_WHY_ALIGNED = {
    "clock": "found at the same time on one clock",
    "number": "taken for the same by their number: the traces have no common clock",
}


def _size(n: Named) -> str:
    words = (
        f"{count_of(n.traces, 'trace')} of {count_of(n.hosts, 'host')}:"
        f" {n.processes:,} processes, {n.threads:,} threads,"
        f" {n.breakdown_total_ns / 1e9:,.1f} s of thread time"
    )
    return words + (f"; {count_of(n.left_out, 'trace')} left out" if n.left_out else "")


def _iterations(n: Named) -> str:
    words = f"{count_of(n.iterations, 'iteration')} in all"
    if n.without:
        words += f" ({count_of(n.without, 'trace')} without)"
    if n.p50_ns is not None:
        words += f", p50 {n.p50_ns / 1e6:,.1f} ms, p99 {n.p99_ns / 1e6:,.1f} ms"
    return f"{words}; run queue p99 {n.queue_ns / 1e6:,.2f} ms" if n.queue_ns is not None else words


def _aligned(n: Named) -> str:
    words = f"{count_of(n.aligned, 'iteration')} of all members, {_WHY_ALIGNED[n.how]}"
    if n.left_out:
        words += f"; {n.left_out:,} of the first member have no counterpart in another"
    return words


FLEET: dict[str, str | Callable[[Any], str]] = {
    "fleet_size": _size,
    "fleet_iterations": _iterations,
    "fleet_left_out": lambda n: f"{printable(n.member)} left out: {printable(n.why)}",
    "fleet_cut_off": lambda n: (
        f"{printable(n.member)}: its recording was cut off, what came after is missing"
    ),
    "fleet_limit": lambda n: BY_CODE[n.code].what,
    "fleet_quantiles": "p50 and p99 are from histograms: off by 4.4 % at most",
    "fleet_aligned": _aligned,
    "fleet_not_aligned": "stragglers are not known: iterations of these traces do not go together",
    "fleet_own": "own: without waiting for other members, as far as the trace tells of it",
}
