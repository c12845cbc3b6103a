"""All numbers: the views of a trace, each with the command that prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def page_tables(
    trace: Trace, window: tuple[str, ...], per: str | None, *, has_gpu: bool, has_iterations: bool
) -> Iterator[PageTable]:
    """Yield the views; of those without an answer the reason, but of GPUs that nobody used.

    window, per: what was asked for, for the commands.
    """
    of_iterations = (*window, "--per", per) if per else window
    for name in VIEWS:
        report, options = REPORTS[name], f"--view {name}"
        if (name in _OF_GPU and not has_gpu) or (report.by_iteration and not has_iterations):
            continue
        asked = of_iterations if report.by_iteration else window
        try:
            yield PageTable("summarize", options, answer(trace, report).data, asked=asked)
        except TraceError as error:
            reason = str(error).removeprefix(f"{trace.path} ")
            yield PageTable("summarize", options, None, reason, asked=asked)
    if has_iterations:
        for which in ("slowest", "median"):
            parts, *_ = explain(trace, which, keep=True).tables
            yield PageTable("explain", f"--iteration {which}", parts, asked=of_iterations)
