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
    from collections.abc import Iterator

    from rlscope_analysis.trace import Trace

# What a page shows; the others say the same from another side, or take long.
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


def page_tables(
    trace: Trace, asked: Asked, *, has_gpu: bool, has_iterations: bool
) -> Iterator[PageTable]:
    """Yield the views; of those without an answer the reason, but of GPUs that nobody used."""
    for name in VIEWS:
        report, options = REPORTS[name], f"--view {name}"
        if (name in _OF_GPU and not has_gpu) or (report.by_iteration and not has_iterations):
            continue
        more = asked.of_iterations if report.by_iteration else asked.window
        made = partial(PageTable, "summarize", options, asked=more)
        try:
            yield made(answer(trace, report).data)
        except TraceError as error:
            yield made(None, reason_of(trace, error))
    if has_iterations:
        for which in ("slowest", "median"):
            parts, *_ = explain(trace, which, keep=True).tables
            yield PageTable("explain", f"--iteration {which}", parts, asked=asked.of_iterations)
