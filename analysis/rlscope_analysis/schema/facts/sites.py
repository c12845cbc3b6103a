"""Why functions are not, or not to the end, probed: the codes of site.

A new one is one entry here, and where it is found. Parameters of the sentences: detail as in site,
and those of its numbers that the entry names, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

# Of site.state.
PROBED, DROPPED, NOT_PROBED = "probed", "dropped", "not_probed"


@dataclass(frozen=True, slots=True)
class SiteReason:
    """What a code of site means."""

    sentence: str
    numbers: tuple[str, ...] = ()


_COST = ("after_s", "calls", "mean_ns", "share", "all_share", "budget")

SITE_REASONS: dict[str, SiteReason] = {
    "too_expensive": SiteReason(
        "after {after_s} s: {calls} calls of {mean_ns} would cost {share} of the CPU time"
        " (budget {budget})",
        _COST,
    ),
    "too_expensive_together": SiteReason(
        "after {after_s} s: {calls} calls of {mean_ns} would cost {share} of the CPU time, all"
        " probes {all_share} (budget {budget})",
        _COST,
    ),
    "stack_switching": SiteReason(
        "pid {pid} loaded {detail}, and the OS kernel ends programs that switch stacks", ("pid",)
    ),
    "recorder_failed": SiteReason("the recorder failed: {detail}"),
    "refused": SiteReason("{detail}"),
    "too_many": SiteReason("more functions than this OS kernel can probe at once"),
}
