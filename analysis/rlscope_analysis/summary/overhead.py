"""What a summary says of the overhead: one line, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query
from rlscope_analysis.reports.answer import cost_gap
from rlscope_analysis.sentences import quality_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.trace import Trace

# As the report of this name, which has the same numbers by kind of event.
_TOTAL_SQL = """
WITH by_event AS (
  SELECT
    event, bool_and(overhead_ns IS NOT NULL) AS is_known, sum(hits) AS hits,
    sum(overhead_ns) AS overhead_ns, sum(below_ns) AS below_ns, sum(above_ns) AS above_ns
  FROM _overhead_part GROUP BY event
)
SELECT
  event, is_known, overhead_ns, below_ns, above_ns,
  (SELECT sum(time_ns) FROM thread_overlap_coded WHERE state = 0)::DOUBLE
FROM by_event ORDER BY overhead_ns DESC NULLS LAST, event
"""
_DOUBT_SQL = """
SELECT DISTINCT event, quality, code, subject, detail, numbers FROM calibration
WHERE quality = 'doubtful' ORDER BY ALL
"""
_WITHOUT_COST_SQL = """
SELECT event, sum(hits)::BIGINT FROM probe_hits
WHERE part = 'outside'
  AND event NOT IN (SELECT event FROM calibration WHERE used AND mean_ns IS NOT NULL)
GROUP BY event ORDER BY event
"""
# CUPTI works inside these calls; nobody could count it with probes.
_BY_CUPTI_SQL = "SELECT count(*) FROM cuda_call_coded WHERE correlation_id IS NOT NULL"
# In words, for people; kinds that differ in their price only are one.
_WORDS = {
    "switch": "switches", "wakeup": "wakeups", "call": "calls", "call_dear": "calls",
    "sample": "samples", "range": "ranges", "range_python": "ranges", "range_auto": "phases",
    "gil_release": "GIL releases",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OverheadSummary:
    """What recording cost the target, as a part of its CPU time; ns of CPU time."""

    cpu_ns: int
    """Time on a CPU of all threads, as measured."""
    overhead_ns: int | None
    """None: not measured."""
    low_ns: int | None = None
    """With high_ns: the interval that holds it with 95 % confidence."""
    high_ns: int | None = None
    by_event: dict[str, int] | None = None
    """The parts, by kind of event; None: not measured."""
    reason: str | None = None
    """Why it was not measured."""


def overhead_of(trace: Trace) -> OverheadSummary:
    """Add up the overhead of the whole trace, or of the stretch of time that is open."""
    rows = list(run_query(trace, _TOTAL_SQL).rows)
    cpu_ns = int(rows[0][5] or 0) if rows else 0
    if reason := cost_gap(trace):
        return OverheadSummary(cpu_ns, None, reason=reason)
    if unknown := [event for event, is_known, *_ in rows if not is_known]:
        return OverheadSummary(cpu_ns, None, reason=f"no cost of {', '.join(sorted(unknown))}")
    total_ns = sum(row[2] for row in rows)
    below_ns, above_ns = (sum(row[at] ** 2 for row in rows) ** 0.5 for at in (3, 4))
    return OverheadSummary(
        cpu_ns, round(total_ns), round(total_ns - below_ns), round(total_ns + above_ns),
        {row[0]: round(row[2]) for row in rows},
    )  # fmt: skip


def overhead_line(found: OverheadSummary) -> str:
    """Say it in one sentence."""
    if found.overhead_ns is None or found.low_ns is None or found.high_ns is None:
        return f"not measured: {found.reason}"
    if not found.cpu_ns:
        return "nothing ran that could have paid for recording"
    low, mean, high = (
        f"{value / found.cpu_ns * 100:.1f}"
        for value in (found.low_ns, found.overhead_ns, found.high_ns)
    )
    parts: dict[str, int] = {}
    for event, overhead_ns in (found.by_event or {}).items():
        parts[_WORDS.get(event, event)] = parts.get(_WORDS.get(event, event), 0) + overhead_ns
    listed = ", ".join(
        f"{word} {overhead_ns / found.cpu_ns * 100:.1f}"
        for word, overhead_ns in sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    )
    return (
        f"recording cost the target about {mean} % of its CPU time ({low} .. {high}), subtracted"
        f" in --view corrected; by: {listed}"
    )


def cost_findings(trace: Trace) -> Iterable[str]:
    """Yield what contradicts the costs: they are subtracted all the same, with this warning."""
    for event, *quality in run_query(trace, _DOUBT_SQL).rows:
        yield f"the overhead of {event} is {quality_sentence(*quality)}; see --view overhead"
    if cost_gap(trace) is None:
        for event, hits in run_query(trace, _WITHOUT_COST_SQL).rows:
            yield (
                f"nobody measured what {event} costs, which happened {hits:,} times: where it fell"
                " nothing can be corrected; see --view overhead"
            )
        ((calls,),) = run_query(trace, _BY_CUPTI_SQL).rows
        if calls:
            yield (
                f"what CUPTI costs is in no overhead: it told of {calls:,} calls of the CUDA API;"
                " rlscope-trace calibrate measures the cost of one where there is a GPU"
            )
