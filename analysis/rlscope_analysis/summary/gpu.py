"""What a trace holds of GPUs, or why it holds nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.note import Note, note
from rlscope_analysis.window import SPAN_SQL

if TYPE_CHECKING:
    from collections.abc import Callable

    Fetch = Callable[[str], list[tuple[Any, ...]]]
    """Runs a query."""

_MEASURED_SQL = """
SELECT count(*) FROM _measured WHERE kind = 'gpu_activity' AND measured
"""
_COUNTS_SQL = """
SELECT kind, activities::BIGINT FROM gpu_time WHERE scope = 'kind'
"""
_BUSY_SQL = "SELECT busy_ns FROM gpu_time WHERE scope = 'trace'"
# Since when the GPU activity of all processes that were measured was; no row: always.
_LATE_SQL = """
SELECT max(l.from_ns)
FROM _late_gpu AS l
JOIN _measured AS m ON m.process_id = l.process_id AND m.kind = 'gpu_activity' AND m.measured
"""
_LATE_BUSY_SQL = """
WITH work AS (
  SELECT greatest(start_ns, {from_ns}) AS start_ns, end_ns FROM gpu_busy WHERE end_ns > {from_ns}
), seen AS (
  SELECT
    start_ns, end_ns,
    max(end_ns) OVER (
      ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before_ns
  FROM work
)
SELECT sum(greatest(end_ns - greatest(start_ns, coalesce(before_ns, start_ns)), 0))::BIGINT
FROM seen
"""
_DEVICES_SQL = """
WITH used AS (
  SELECT DISTINCT g.host, g.device_id FROM gpu_time AS g WHERE g.scope = 'device'
)
SELECT coalesce(min(d.name), 'GPU ' || coalesce(u.device_id::VARCHAR, '?'))
FROM used AS u
LEFT JOIN gpu_device AS d
  ON d.device_id = u.device_id AND (d.host IS NOT DISTINCT FROM u.host OR d.host IS NULL)
GROUP BY u.host, u.device_id
ORDER BY u.host, u.device_id
"""
_REFUSED_SQL = """
SELECT p.pid, p.name, c.facts
FROM _covered AS c JOIN process AS p ON p.process_id = c.process_id
JOIN _measured AS m ON m.process_id = c.process_id AND m.kind = c.kind
WHERE c.kind = 'gpu_activity' AND NOT m.measured
ORDER BY p.process_id
"""


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """What was recorded of GPUs."""

    processes: int
    """Processes whose GPU activity was measured; 0: nothing is known of any GPU."""
    kernels: int
    graphs: int
    """CUDA graphs that were recorded as one activity each."""
    copies: int
    """memcpy and memset."""
    devices: tuple[str, ...]
    """The GPUs that worked."""
    busy_ns: int
    """Time of span_ns during which any of them worked, for any process."""
    span_ns: int | None
    """How long the trace is, from late_ns on; None: not known, or nothing is left of it."""
    refused: tuple[Note, ...]
    """Of which processes the GPU activity could not be recorded, and why."""
    late_ns: int | None = None
    """How long after the start of the trace that of all the others was; None: from it on."""


def gpu_summary(fetch: Fetch) -> GpuSummary:
    """Read what a trace with its views holds of GPUs."""
    counts: dict[str, int] = dict(fetch(_COUNTS_SQL))
    busy = fetch(_BUSY_SQL)
    ((first_ns, last_ns),) = fetch(SPAN_SQL)
    ((from_ns,),) = fetch(_LATE_SQL)
    late_ns = from_ns - first_ns if None not in (from_ns, first_ns) and from_ns > first_ns else None
    span_ns = None if first_ns is None else last_ns - first_ns - (late_ns or 0)
    if late_ns is not None:
        busy = fetch(_LATE_BUSY_SQL.format(from_ns=from_ns))
    return GpuSummary(
        processes=fetch(_MEASURED_SQL)[0][0],
        kernels=counts.get("kernel", 0),
        graphs=counts.get("graph", 0),
        copies=counts.get("memcpy", 0) + counts.get("memset", 0),
        devices=tuple(name for (name,) in fetch(_DEVICES_SQL)),
        busy_ns=(busy[0][0] or 0) if busy else 0,
        span_ns=None if span_ns is None or span_ns <= 0 < (late_ns or 0) else span_ns,
        refused=tuple(
            note("gpu_refused", pid=pid, name=name, facts=facts, origin_ns=first_ns or 0)
            for pid, name, facts in fetch(_REFUSED_SQL)
        ),
        late_ns=late_ns,
    )


def gpu_note(found: GpuSummary) -> Note | None:
    """Return what was recorded of GPUs; None: nothing, which the notes of a summary explain."""
    return note("gpu_work", **asdict(found)) if found.processes else None
