"""What is said of the balance of CPUs and GPU: entries of note_sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Named

_LIMITS = {
    "cpu": "the CPUs allow no more steps (CPU-starved)",
    "thread": "one thread allows no more steps (serial-bound)",
    "gpu": "the GPU allows no more steps (GPU-starved)",
}
_DEMANDS = {
    "cpu": "CPU, all threads",
    "thread": "busiest thread of the leading process",
    "gpu": "GPU",
    "run queue": "waiting for a CPU",
}


def _verdict(n: Named) -> str:
    text = (
        f"{n.steps_per_s:,.0f} environment steps/s with {n.cpus_used:.2f} of"
        f" {count_of(n.cpus, 'CPU')} used; at full use {_LIMITS[n.limit]}"
    )
    if n.balanced_cpus_per_gpu is not None:
        text += f"; balanced: {n.balanced_cpus_per_gpu:.1f} CPUs per GPU"
    if n.knee is not None:
        text += f"; from {n.knee:.1f} workers on more bring nothing"
    return text


BALANCE: dict[str, str | Callable[[Any], str]] = {
    "balance_verdict": _verdict,
    "balance_demand": lambda n: _DEMANDS[n.of],
    "balance_idle_beside": "threads waited for a CPU while CPUs ran none of the trace: the bound by"
    " the CPUs is not reached, and no rate for other numbers of workers is shown",
    "balance_energy": "joules per step: n/a",
}
