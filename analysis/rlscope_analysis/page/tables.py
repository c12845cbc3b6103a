"""All numbers: the views of a trace, each with the command that prints it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rlscope_analysis.errors import TraceError
from rlscope_analysis.explain.answer import explain
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.page import PageTable

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

# What a page shows, those of iterations first; others say the same from another side, or take long.
VIEWS = (
    "limits", "phases", "processes", "critical-path", "breakdown", "thread", "cpu", "blocked",
    "peer", "gil", "layer", "transitions", "operation-functions", "overhead", "gpu", "kernel",
    "launch", "latency", "gpu-idle", "idle", "utilization",
)  # fmt: skip
_OF_GPU = frozenset({"gpu", "kernel", "launch", "latency", "gpu-idle", "idle", "utilization"})


class Asked(NamedTuple):
    """What the page was asked for, as options of the commands on it."""

    window: tuple[str, ...]
    """The part of the trace."""
    of_iterations: tuple[str, ...]
    """The same, and what counts as an iteration."""


def reason_of(trace: Trace, error: TraceError) -> str:
    """Return why there is no answer; the page names its trace."""
    return str(error).removeprefix(f"{trace.path} ")


def of_trace(trace: Trace, asked: Asked, *, has_gpu: bool) -> tuple[PageTable, ...]:
    """Return the views that need no iteration; not those of GPUs that nobody used."""
    names = [name for name in VIEWS if not REPORTS[name].by_iteration]
    return tuple(
        _view(trace, name, asked.window) for name in names if has_gpu or name not in _OF_GPU
    )


def of_iterations(trace: Trace, asked: Asked) -> tuple[PageTable, ...]:
    """Return the views of iterations."""
    names = [name for name in VIEWS if REPORTS[name].by_iteration]
    return tuple(_view(trace, name, asked.of_iterations) for name in names)


def explained(trace: Trace, asked: Asked) -> tuple[PageTable, ...]:
    """Return what single iterations spent their time on."""
    return tuple(
        PageTable(
            "explain",
            f"--iteration {which}",
            explain(trace, which, keep=True).tables[0],
            asked=asked.of_iterations,
        )
        for which in ("slowest", "median")
    )


def _view(trace: Trace, name: str, asked: tuple[str, ...]) -> PageTable:
    """Return a view, or the reason why there is none."""
    made = partial(PageTable, "summarize", f"--view {name}", asked=asked)
    try:
        return made(answer(trace, REPORTS[name]).data)
    except TraceError as error:
        return made(None, reason_of(trace, error))
