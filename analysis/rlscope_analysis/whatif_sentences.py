"""What is said of predictions: entries of note_sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.wording import count_of, longer_words, printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Named

_REASONS = {
    "cpus_changed": "where threads then run is a guess",
    "poor_fidelity": "the replay without a change is off by more than 3 %",
    "runnable_while_idle": "threads waited for a CPU while theirs ran none of the trace",
    "not_stationary": "iterations became longer or shorter",
    "no_iterations": "no iterations were found: start and end count, too",
    "removed": "what costs nothing is no upper bound",
    "uneven": "iterations differ much",
    "probed": "the replacement was measured alone, with a small network between its steps",
    "vectorised": "a simulator of all environments was measured alone, at a few sizes",
    "several_processes": "several processes",
    "fair_fidelity": "the replay without a change is off by more than 1 %",
    "contended": "threads waited for a CPU",
    "graph_assumed": "what launching a graph costs is assumed",
    "no_states": "no thread states: threads count as running all the time",
    "threads_scaled": "how well work is shared is a guess",
    "overlapped": "whether they can overlap is assumed",
    "one_process": "what a step costs without messages is a guess: up to what it costs now",
    "bound": "a lower bound: it takes no less",
}
_NOT_MODELLED = {
    "caches": "caches (less of one thing may make another faster)",
    "overhead": "what recording costs (it counts as the program's)",
    "messages": "messages that nobody slept for",
    "placement": "on which CPU the OS kernel puts a thread",
}


def _change(n: Named) -> str:
    parts = []
    for one in n.changes.scaled:
        name = printable(one.operation)
        if one.is_count:
            parts.append(f"{name} {one.factor:g} times as often")
        elif one.factor == 0:
            parts.append(f"{name} costs nothing")
        elif one.factor <= 1:
            parts.append(f"{name} {1 / one.factor:g} times as fast")
        else:
            parts.append(f"{name} takes {one.factor:g} times as long")
    parts += [
        f"{printable(one.operation)} replaced by {printable(one.by)} ({one.mean_ns / 1e3:,.1f} us)"
        for one in n.changes.replaced
    ]
    parts += [_vectorised(one) for one in n.changes.vectorised]
    kernels = n.changes.kernels
    if kernels is not None:
        parts.append(
            "kernels cost nothing" if not kernels else f"kernels {1 / kernels:g} times as fast"
        )
    if n.changes.threads is not None:
        parts.append(count_of(n.changes.threads, "thread"))
    if n.changes.overlap is not None:
        parts.append(" and ".join(map(printable, n.changes.overlap)) + " at the same time")
    parts += [f"{printable(name)} as one CUDA graph" for name in n.changes.graphs]
    if n.changes.cpus is not None:
        parts.append(count_of(n.changes.cpus, "CPU"))
    if n.changes.workers is not None:
        none = "all environments in the leading process"
        parts.append(count_of(n.changes.workers, "worker") if n.changes.workers else none)
    return ", ".join(parts)


def _vectorised(n: Named) -> str:
    steps = f", {n.fused} steps in one call" if n.fused > 1 else ""
    return (
        f"{printable(n.operation)} by {printable(n.by)} with {count_of(n.envs, 'environment')}"
        f"{steps} ({n.step_ns / 1e3:,.1f} us a step: {n.alpha_ns / 1e3:,.1f} and"
        f" {n.beta_ns / 1e3:,.3f} for each environment, off by {100 * n.off:.0f} % at most)"
    )


def _replayed(n: Named) -> str:
    what = count_of(n.iterations, "iteration")
    if n.is_whole:
        what = "the life of the leading thread"
    elif n.iterations < n.of_iterations:
        what = f"{n.iterations} of {count_of(n.of_iterations, 'iteration')}, in a row,"
    return (
        f"{what} of {n.mean_ns / 1e6:,.1f} ms; without a change the replay takes"
        f" {longer_words(n.fidelity)}"
    )


WHATIF: dict[str, str | Callable[[Any], str]] = {
    "whatif_change": _change,
    "whatif_reasons": lambda n: "; ".join(_REASONS[code] for code in n.codes),
    "whatif_replayed": _replayed,
    "whatif_waits": lambda n: (
        f"{printable(n.operation)} waits for other threads for {100 * n.share:.0f} % of its time,"
        " which no change of it shortens: summarize TRACE --view critical-path tells what they do"
    ),
    "whatif_not_modelled": lambda n: (
        "not modelled: " + ", ".join(_NOT_MODELLED[code] for code in n.codes)
    ),
}
