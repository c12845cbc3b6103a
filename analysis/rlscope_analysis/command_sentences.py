"""What the commands say of this machine and of runs made on it: a part of note_sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.sentences import quality_sentence
from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable


def _bias(n: Any) -> str:  # noqa: ANN401
    off = f"corrected CPU time is off by {n.bias:+.2f} %"
    if n.biased:
        return f"biased: {off}, more than {n.allowed:g} %"
    return f"ok: {off}, at most {n.allowed:g} % are allowed"


def _covered(n: Any) -> str:  # noqa: ANN401
    within = f"{n.covered} of {n.pairs}"
    return (
        f"untraced within the interval of the corrected: {within};"
        f" by the costs alone {n.by_costs} of {n.pairs}"
    )


COMMANDS: dict[str, str | Callable[[Any], str]] = {
    "hint": "hint: {remedy}",
    "tracing_works": "tracing works, by backend {backend}",
    "tracing_fails": lambda n: f"tracing does not work: {count_of(n.errors, 'error')} above",
    "cost_quality": lambda n: quality_sentence(*n.quality),
    "cost_units": "ns of CPU time per event; inside: part of what the event measures of itself",
    "cost_taken": "taken {taken} in {duration_s} s, load {load}",
    "validated": lambda n: (
        f"{count_of(n.pairs, 'pair')} of an untraced and a traced run of {n.command}"
    ),
    "validated_iteration": lambda n: (
        f"CPU time per {n.operation} ({n.count:,} in a run):"
        f" untraced {n.untraced_ns / 1e3:,.1f} us, traced {n.traced_ns / 1e3:,.1f} us,"
        f" corrected {n.corrected_ns / 1e3:,.1f} us"
    ),
    "validated_covered": _covered,
    "validated_bias": _bias,
    "no_timers": "whether these are right operation by operation cannot be known without timers in"
    " the program: see --timers",
    "doubt": "note: {words}",
}
