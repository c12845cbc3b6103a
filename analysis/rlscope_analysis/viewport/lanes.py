"""The lanes of a whole trace: its threads by process, then the streams of its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import TraceError
from rlscope_analysis.overview.answer import overview, role_note, verdict
from rlscope_analysis.overview.not_measured import loss_records, not_measured_notes
from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.result.note import note
from rlscope_analysis.result.timeline import Lane, Whole
from rlscope_analysis.window import SPAN_SQL

if TYPE_CHECKING:
    from rlscope_analysis.result.note import Note
    from rlscope_analysis.trace import Trace

# Operations inside operations, calls inside calls: so many rows of a lane.
MOST_DEPTH, MOST_CALLS = 6, 2
_MOST_ITERATIONS = 20_000
_THREADS_SQL = f"""
WITH deep AS (
  SELECT o.thread_id, least(max(p.depth) + 1, {MOST_DEPTH}) AS operations
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id GROUP BY ALL
), called AS (
  SELECT thread_id, least(max(depth) + 1, {MOST_CALLS}) AS calls FROM native_call_coded GROUP BY ALL
), launched AS (
  SELECT thread_id, true AS launches FROM cuda_call_coded GROUP BY ALL
)
SELECT
  t.thread_id, t.process_id, t.tid, coalesce(t.python_name, t.name) AS thread, p.pid,
  coalesce(l.thread_id = t.thread_id, false) AS speaks,
  coalesce(d.operations, 0)::INTEGER AS operations, coalesce(c.calls, 0)::INTEGER AS calls,
  coalesce(u.launches, false)::INTEGER AS launches
FROM thread AS t
LEFT JOIN process AS p ON p.process_id = t.process_id
LEFT JOIN _leading_thread AS l ON l.process_id = t.process_id
LEFT JOIN deep AS d ON d.thread_id = t.thread_id
LEFT JOIN called AS c ON c.thread_id = t.thread_id
LEFT JOIN launched AS u ON u.thread_id = t.thread_id
ORDER BY t.process_id, NOT speaks, t.thread_id
"""  # noqa: S608 - numbers of our own
_STATES_SQL = "SELECT DISTINCT state::VARCHAR FROM thread_state_coded ORDER BY ALL"
# Below 0, so that none is a thread.
_STREAMS_SQL = """
CREATE OR REPLACE TEMP TABLE _view_stream AS
SELECT -row_number() OVER (ORDER BY device_id, stream_id) AS lane, device_id, stream_id
FROM gpu_activity_coded WHERE kind <> 'sync' GROUP BY device_id, stream_id
"""


def read_whole(trace: Trace) -> Whole:
    """Read it. TraceError where the trace has neither a process nor a thread."""
    ((start_ns, end_ns),) = run_query(trace, SPAN_SQL).rows
    if start_ns is None or end_ns <= start_ns:
        raise TraceError(f"{trace.path} holds no time: there is nothing to view")
    reported = overview(trace)
    roles = {row["process_id"]: role_note(row) for row in reported.processes}
    iterations, has_path = _iterations(trace)
    return Whole(
        reported.trace,
        start_ns,
        end_ns,
        verdict(reported) if reported.pace else note("no_verdict", reason=reported.reason),
        (*_threads(trace, roles, start=reported.lead), *_streams(trace)),
        _pairs(trace, "SELECT path_id, name FROM operation_path ORDER BY path_id"),
        _pairs(trace, "SELECT site_id, symbol, layer::VARCHAR FROM site ORDER BY site_id"),
        _pairs(
            trace,
            "SELECT string_id, value FROM string WHERE string_id IN"
            " (SELECT name_id FROM gpu_activity_coded UNION SELECT name_id FROM cuda_call_coded)",
        ),
        tuple(state for (state,) in run_query(trace, _STATES_SQL).rows),
        iterations,
        has_path,
        loss_records(reported),
        tuple(not_measured_notes(trace, reported)),
    )


def _pairs(trace: Trace, query: str) -> tuple[Any, ...]:
    return tuple(run_query(trace, query).rows)


def _iterations(trace: Trace) -> tuple[tuple[tuple[int, int], ...], bool]:
    try:
        trace.provide("FROM critical_path")
        query = "SELECT start_ns, end_ns FROM iteration WHERE source <> 'whole' ORDER BY start_ns"
        return _pairs(trace, f"{query} LIMIT {_MOST_ITERATIONS}"), True
    except TraceError:
        return (), False


def _threads(
    trace: Trace, roles: dict[int, Note], *, start: dict[str, Any] | None
) -> tuple[Lane, ...]:
    """Return the threads, those of the leading process first."""
    first = start["process_id"] if start else None
    rows = sorted(run_records(trace, _THREADS_SQL), key=lambda row: row["process_id"] != first)
    return tuple(
        Lane(
            row["thread_id"],
            note(
                "lane", role=roles.get(row["process_id"]), pid=row["pid"], tid=row["tid"],
                thread=row["thread"], speaks=row["speaks"],
            ),
            row["operations"], row["calls"], row["launches"],
        )
        for row in rows
    )  # fmt: skip


def _streams(trace: Trace) -> tuple[Lane, ...]:
    trace.connection.execute(_STREAMS_SQL)
    rows = run_query(trace, "SELECT * FROM _view_stream ORDER BY lane DESC").rows
    return tuple(
        Lane(lane, note("gpu_lane", device=device, stream=stream)) for lane, device, stream in rows
    )
