"""The Python functions of the leading thread in the iterations but the first, by its samples."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query
from rlscope_analysis.result.page import Frame, Functions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.trace import Trace

# Narrower frames cannot be seen.
_LEAST_SHARE = 0.002
_MOST_DEPTH = 48
_MOST_FUNCTIONS = 12
# As training_phase names them; a thread that is sampled runs.
_STACKS_SQL = """
WITH sampled AS (
  SELECT s.stack_id, o.path_id
  FROM (
    SELECT c.thread_id, c.ts_ns, c.stack_id
    FROM cpu_sample_coded AS c JOIN _training_span AS w ON c.thread_id = w.thread_id
    WHERE c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
  ) AS s
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = s.thread_id AND o.ts_ns <= s.ts_ns
), counted AS (
  SELECT coalesce(path_id, 0) AS path_id, stack_id, count(*) AS n FROM sampled GROUP BY ALL
)
SELECT
  coalesce(p.label, '(no phase)') AS phase,
  k.frames, sum(c.n)::BIGINT AS n
FROM counted AS c
LEFT JOIN _phase AS p ON p.path_id = c.path_id
LEFT JOIN stack AS k ON k.stack_id = c.stack_id
GROUP BY ALL ORDER BY n DESC, phase, frames
"""

_Stack = tuple[list[str], int]


def functions(trace: Trace) -> Functions | None:
    """Return the functions; None: no sample fell into the iterations."""
    by_phase: dict[str, list[_Stack]] = defaultdict(list)
    innermost: dict[tuple[str, str | None], int] = defaultdict(int)
    for phase, frames, count in run_query(trace, _STACKS_SQL).rows:
        by_phase[phase].append((frames or [], count))
        innermost[phase, frames[-1] if frames else None] += count
    total = sum(innermost.values())
    if not total:
        return None
    least = total * _LEAST_SHARE
    phases = [_frame(phase, stacks, 0, least) for phase, stacks in by_phase.items()]
    ranked = sorted(innermost.items(), key=lambda entry: (-entry[1], str(entry[0])))
    shown = ranked[:_MOST_FUNCTIONS]
    return Functions(
        total,
        tuple(sorted(phases, key=lambda frame: -frame.samples)),
        tuple(
            {"phase": phase, "function": name, "samples": count} for (phase, name), count in shown
        ),
        total - sum(count for _, count in shown),
    )


def _frame(name: str | None, stacks: Iterable[_Stack], depth: int, least: float) -> Frame:
    """Return a frame of all stacks that lead through it; their frames from `depth` on are inside.

    What is narrower than `least` samples is in the frame around it.
    """
    below: dict[str, list[_Stack]] = defaultdict(list)
    samples = 0
    for frames, count in stacks:
        samples += count
        if depth < min(len(frames), _MOST_DEPTH):
            below[frames[depth]].append((frames, count))
    wide = {
        called: inside
        for called, inside in below.items()
        if sum(count for _, count in inside) >= least
    }
    children = [_frame(called, inside, depth + 1, least) for called, inside in wide.items()]
    return Frame(name, samples, tuple(sorted(children, key=lambda frame: -frame.samples)))
