"""What a summary says of the overhead: how much it was, and what is wrong with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.reports.answer import cost_gap
from rlscope_analysis.result.note import Note, note

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
  (SELECT sum(time_ns) FROM thread_overlap_coded WHERE state = 'running')::DOUBLE
FROM by_event ORDER BY overhead_ns DESC NULLS LAST, event
"""
_DOUBT_SQL = """
SELECT DISTINCT event, quality, code, subject, detail, numbers FROM calibration
WHERE quality = 'doubtful' ORDER BY ALL
"""
_WITHOUT_COST_SQL = """
SELECT event, sum(hits)::BIGINT AS hits FROM probe_hits
WHERE part = 'outside'
  AND event NOT IN (SELECT event FROM calibration WHERE used AND mean_ns IS NOT NULL)
GROUP BY event ORDER BY event
"""
# CUPTI works inside these calls; nobody could count it with probes.
_BY_CUPTI_SQL = "SELECT count(*) FROM cuda_call_coded WHERE correlation_id IS NOT NULL"


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
    reason: Note | None = None
    """Why it was not measured."""


def overhead_of(trace: Trace) -> OverheadSummary:
    """Add up the overhead of the whole trace, or of the interval that is open."""
    rows = list(run_query(trace, _TOTAL_SQL).rows)
    cpu_ns = int(rows[0][5] or 0) if rows else 0
    if reason := cost_gap(trace):
        return OverheadSummary(cpu_ns, None, reason=reason)
    if unknown := [event for event, is_known, *_ in rows if not is_known]:
        return OverheadSummary(cpu_ns, None, reason=note("no_cost_of", events=sorted(unknown)))
    total_ns = sum(row[2] for row in rows)
    below_ns, above_ns = (sum(row[at] ** 2 for row in rows) ** 0.5 for at in (3, 4))
    return OverheadSummary(
        cpu_ns, round(total_ns), round(total_ns - below_ns), round(total_ns + above_ns),
        {row[0]: round(row[2]) for row in rows},
    )  # fmt: skip


def overhead_note(found: OverheadSummary) -> Note:
    """Return what there is to say of it."""
    if found.overhead_ns is None:
        return note("overhead_not_measured", reason=found.reason)
    return note("overhead", **asdict(found)) if found.cpu_ns else note("nothing_paid")


def cost_observations(trace: Trace) -> Iterable[Note]:
    """Yield what contradicts the costs: they are subtracted all the same, with this warning."""
    yield from (note("doubtful_cost", **row) for row in run_records(trace, _DOUBT_SQL))
    if cost_gap(trace) is None:
        costless = run_records(trace, _WITHOUT_COST_SQL)
        yield from (note("cost_not_measured", **row) for row in costless)
        ((calls,),) = run_query(trace, _BY_CUPTI_SQL).rows
        if calls:
            yield note("cost_of_cupti", calls=calls)
