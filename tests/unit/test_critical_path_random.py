"""The critical path of random traces tiles every iteration, and says what the states say."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import Phase, given, settings

import rlscope_analysis
from random_traces import traces
from rlscope_analysis.errors import TraceError

if TYPE_CHECKING:
    from trace_builder import TraceBuilder

# Each piece begins where the one before ended, from the first instant to the last.
GAPS = """
WITH piece AS (
  SELECT
    i.iteration_id, i.start_ns AS first_ns, i.end_ns AS last_ns, c.start_ns, c.end_ns,
    lag(c.end_ns, 1, i.start_ns) OVER w AS before_ns,
    row_number() OVER w = count(*) OVER (PARTITION BY i.iteration_id) AS is_last
  FROM iteration AS i LEFT JOIN critical_path AS c USING (iteration_id)
  WINDOW w AS (PARTITION BY i.iteration_id ORDER BY c.start_ns)
)
FROM piece
WHERE start_ns IS DISTINCT FROM before_ns OR end_ns <= start_ns OR is_last AND end_ns <> last_ns
"""
# What a thread does on the path is what its state says, and who had its CPU ran there meanwhile.
CONTRADICTIONS = """
SELECT c.cause, s.state FROM critical_path AS c
JOIN thread_state AS s
  ON s.thread_id = c.thread_id AND s.start_ns <= c.start_ns AND s.end_ns >= c.end_ns
WHERE CASE c.cause
  WHEN 'running' THEN s.state <> 'running'
  WHEN 'cpu_taken' THEN s.state <> 'runnable'
  WHEN 'cpu_wait' THEN s.state <> 'runnable'
  WHEN 'cpu_taken_by_other' THEN s.state <> 'runnable'
  WHEN 'cgroup_quota' THEN s.state <> 'runnable'
  WHEN 'gil' THEN FALSE WHEN 'sync' THEN FALSE WHEN 'not_measured' THEN FALSE WHEN 'lost' THEN FALSE
  ELSE s.state NOT IN ('sleeping', 'blocked')
END
UNION ALL
SELECT 'taken by', b.state FROM critical_path AS c
LEFT JOIN thread_state AS b
  ON b.thread_id = c.by_thread_id AND b.start_ns <= c.start_ns AND b.end_ns >= c.end_ns
  AND b.state = 'running'
WHERE c.cause = 'cpu_taken' AND b.state IS NULL
UNION ALL
-- One stay can end where the next of the same program begins: it had the CPU at each instant.
SELECT 'taken by a program', c.by_program FROM critical_path AS c
WHERE (c.cause = 'cpu_taken_by_other') <> (c.by_program IS NOT NULL)
  OR c.by_program IS NOT NULL AND NOT EXISTS (
    FROM other_run AS o JOIN other_program AS p USING (program_id)
    WHERE o.start_ns <= c.start_ns AND o.end_ns > c.start_ns AND p.pid = c.by_program_pid
  )
"""


@given(traces())
@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_it_tiles_every_iteration(builder: TraceBuilder) -> None:
    with tempfile.TemporaryDirectory() as folder:
        builder.path = Path(folder) / "trace.duckdb"
        builder.with_views = True
        try:
            trace = rlscope_analysis.open(builder.write())
        except TraceError as error:
            # What no writer writes is refused before anything is asked.
            assert "not a trace" in str(error)  # noqa: PT017
            return
        with trace:
            for per in ("a", None):
                try:
                    trace.critical_path(per=per)
                except TraceError as error:
                    assert str(error) == "no operation is called 'a'"  # noqa: PT017
                    continue
                assert trace.sql(GAPS).fetchall() == []
                assert trace.sql(CONTRADICTIONS).fetchall() == []
