"""All numbers: the views of a trace, each with the command that prints it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rlscope_analysis.errors import TraceError
from rlscope_analysis.explain.answer import explain
from rlscope_analysis.query import run_query
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.page import PageTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.trace import Trace

# What a page shows; others say the same from another side, or take long.
_OF_LIMITS = ("limits", "critical-path")
_OF_TRAINING = ("phases", "processes")
_OF_TRACE = (
    "breakdown", "thread", "cpu", "blocked", "peer", "gil", "layer", "transitions",
    "operation-functions", "overhead", "gpu", "kernel", "launch", "latency", "gpu-idle", "idle",
    "utilization",
)  # fmt: skip
VIEWS = ("limits", *_OF_TRAINING, "critical-path", *_OF_TRACE)
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
    return tuple(
        _view(trace, name, asked.window) for name in _OF_TRACE if has_gpu or name not in _OF_GPU
    )


def of_limits(trace: Trace, asked: Asked) -> tuple[PageTable, ...]:
    """Return the views of what limits the iterations, and what single ones spent their time on."""
    views = (_view(trace, name, asked.of_iterations) for name in _OF_LIMITS)
    ((count,),) = run_query(trace, "SELECT count(*) FROM iteration").rows
    # Of a single one the critical path tells the same.
    single = ("slowest", "median") if count > 1 else ()
    return (*views, *(_explained(trace, which, asked) for which in single))


def of_training(trace: Trace, asked: Asked) -> tuple[PageTable, ...]:
    """Return the views of the training."""
    return tuple(_view(trace, name, asked.of_iterations) for name in _OF_TRAINING)


def in_order(found: Iterable[PageTable]) -> tuple[PageTable, ...]:
    """Return the views as a page has them: single iterations come last."""
    places = {f"--view {name}": place for place, name in enumerate(VIEWS)}
    return tuple(sorted(found, key=lambda table: places.get(table.options, len(places))))


def _explained(trace: Trace, which: str, asked: Asked) -> PageTable:
    parts, *_ = explain(trace, which, keep=True).tables
    return PageTable("explain", f"--iteration {which}", parts, asked=asked.of_iterations)


def _view(trace: Trace, name: str, asked: tuple[str, ...]) -> PageTable:
    """Return a view, or the reason why there is none."""
    made = partial(PageTable, "summarize", f"--view {name}", asked=asked)
    try:
        return made(answer(trace, REPORTS[name]).data)
    except TraceError as error:
        return made(None, reason_of(trace, error))
