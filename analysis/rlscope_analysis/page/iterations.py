"""Every iteration by what the leading thread did in it; whole ones together where they are many."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.result.page import IterationBar, IterationBars
from rlscope_analysis.schema.enums import word_of
from rlscope_analysis.sweep.segments import make_segment_table, selection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.trace import Trace

# More bars would be narrower than a pixel or two.
MOST_BARS = 600
# Colours for more cannot be distinguished.
_MOST_PHASES = 7
_OTHERS = "(others)"
_INTERVALS_SQL = """
SELECT thread_id::INTEGER, start_ns::BIGINT, end_ns::BIGINT FROM iteration ORDER BY start_ns
"""
# As training_phase names them.
_PARTS_SQL = f"""
WITH named AS (
  SELECT path_id, label AS name FROM _phase
)
SELECT
  i.iteration_id,
  coalesce(
    n.name,
    CASE WHEN {word_of("THREAD_STATE", "s.state")} IN ('sleeping', 'blocked')
    THEN '(waiting)' ELSE '(no phase)' END
  ) AS phase,
  sum(s.end_ns - s.start_ns)::BIGINT AS time_ns
FROM _page_lead AS s
ASOF JOIN iteration AS i ON i.start_ns <= s.start_ns
LEFT JOIN named AS n ON n.path_id = s.path_id
GROUP BY ALL
"""  # noqa: S608 - words of our own
_ITERATIONS_SQL = """
SELECT iteration_id, start_ns, end_ns, end_ns - start_ns AS duration_ns, environment_steps
FROM iteration ORDER BY start_ns
"""


def iteration_bars(trace: Trace, marks: Iterable[tuple[str, dict[str, Any]]]) -> IterationBars:
    """Return the iterations of a trace that has any; marks: those with a close-up."""
    rows = list(run_records(trace, _ITERATIONS_SQL))
    parts = _parts(trace)
    totals: dict[str, int] = defaultdict(int)
    for of_iteration in parts.values():
        for phase, time_ns in of_iteration.items():
            totals[phase] += time_ns
    ranked = sorted(totals, key=lambda phase: (-totals[phase], phase))
    kept = ranked if len(ranked) <= _MOST_PHASES else ranked[: _MOST_PHASES - 1]
    phases = (*kept, *([_OTHERS] if len(kept) < len(ranked) else []))
    per_bar = -(-len(rows) // MOST_BARS)
    origin_ns = rows[0]["start_ns"]
    bars = [
        _bar(rows[at : at + per_bar], parts, phases, origin_ns)
        for at in range(0, len(rows), per_bar)
    ]
    return IterationBars(len(rows), per_bar, phases, tuple(bars), tuple(marks))


def _parts(trace: Trace) -> dict[int, dict[str, int]]:
    make_segment_table(trace, "_page_lead", selection(trace, _INTERVALS_SQL))
    parts: dict[int, dict[str, int]] = defaultdict(dict)
    for iteration_id, phase, time_ns in run_query(trace, _PARTS_SQL).rows:
        parts[iteration_id][phase] = time_ns
    trace.connection.execute("DROP TABLE _page_lead")
    return parts


def _bar(
    rows: list[dict[str, Any]],
    parts: dict[int, dict[str, int]],
    phases: tuple[str, ...],
    origin_ns: int,
) -> IterationBar:
    sums = dict.fromkeys(phases, 0)
    for row in rows:
        for phase, time_ns in parts[row["iteration_id"]].items():
            sums[phase if phase in sums else _OTHERS] += time_ns
    return IterationBar(
        rows[0]["iteration_id"],
        rows[-1]["iteration_id"],
        rows[0]["start_ns"] - origin_ns,
        rows[-1]["end_ns"] - origin_ns,
        sum(row["duration_ns"] for row in rows) / len(rows),
        tuple(time_ns / len(rows) for time_ns in sums.values()),
    )
