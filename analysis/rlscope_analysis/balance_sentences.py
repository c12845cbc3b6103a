"""What is said of the balance of CPUs and GPU: entries of note_sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Named

_LIMITS = {
    "cpu": "the CPUs allow no more steps (CPU-starved)",
    "thread": "one thread allows no more steps (serial-bound)",
    "gpu": "the GPU allows no more steps (GPU-starved)",
}
_SHORT_LIMITS = {"cpu": "CPUs", "thread": "one thread", "gpu": "GPU"}
_BAR = 50
_DEMANDS = {
    "cpu": "CPU, all threads",
    "thread": "busiest thread of the leading process",
    "gpu": "GPU",
    "run queue": "waiting for a CPU",
}


def _verdict(n: Named) -> str:
    text = (
        f"{n.steps_per_s:,.0f} environment steps/s with {n.cpus_used:.2f} of"
        f" {n.cpus:g} {'CPU' if n.cpus == 1 else 'CPUs'} used; at full use {_LIMITS[n.limit]}"
    )
    if n.balanced_cpus_per_gpu is not None:
        text += f"; balanced: {n.balanced_cpus_per_gpu:.1f} CPUs per GPU"
    if n.knee is not None:
        text += f"; from {n.knee:.1f} workers on more bring nothing"
    return text


def _bar(n: Named) -> str:
    drawn = "█" * round(_BAR * n.rate) if n.rate else ""
    if n.bound is not None:
        drawn = drawn.ljust(round(_BAR * n.bound), "·") + "|"
    return f"{printable(n.label)}  {drawn or 'not measured'}"


BALANCE: dict[str, str | Callable[[Any], str]] = {
    "balance_verdict": _verdict,
    "balance_demand": lambda n: _DEMANDS[n.of],
    "balance_idle_beside": "threads waited for a CPU while CPUs ran none of the trace: the bound by"
    " the CPUs is not reached, and no rate for other numbers of workers is shown",
    "balance_energy": lambda n: (
        "joules per step: "
        + (
            "n/a"
            if n.joules is None
            else f"{n.joules:,.3g} (the CPUs of the whole machine included)"
        )
    ),
    "sweep_verdict": lambda n: (
        f"most steps/s with {printable(n.parameter)}={printable(n.best)}:"
        f" {n.best_steps_per_s:,.0f}; there {_LIMITS[n.limit]}"
    ),
    "sweep_limit": lambda n: _SHORT_LIMITS[n.limit],
    "sweep_base": lambda n: (
        f"upper bounds by the number of worker processes, from the run with {printable(n.value)}"
    ),
    "sweep_no_bound": "no bound is shown: no run has worker processes and CPUs that were not idle"
    " beside threads that waited for them",
    "sweep_not_measured": "runs without numbers ended with an error, or tell of no environment"
    " step: see above",
    "sweep_bar": _bar,
}
