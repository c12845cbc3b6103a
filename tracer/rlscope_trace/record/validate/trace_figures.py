"""What a trace says of its own overhead: the input of the comparison with untraced runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.errors import TracerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import duckdb

# The outermost process is the one that starts the program and waits for it: no part of it.
_CELLS = """
SELECT
  operation, bucket, p.pid = $1, sum(time_ns)::BIGINT, sum(overhead_ns)::DOUBLE,
  bool_or(overhead_ns IS NULL)
FROM breakdown_corrected AS b JOIN process AS p ON p.process_id = b.process_id
WHERE p.parent_process_id IS NOT NULL AND on_cpu
GROUP BY operation, bucket, p.pid = $1
ORDER BY sum(time_ns) DESC, operation, bucket, 3
"""
# The error of the cost of a kind of event is that of all its events; of two kinds, independent.
_ERRORS = """
WITH paid AS (
  SELECT
    h.event, sum(h.hits * (c.mean_ns - c.low_ns)) AS below_ns,
    sum(h.hits * (c.high_ns - c.mean_ns)) AS above_ns
  FROM probe_hits AS h
  JOIN process AS p ON p.process_id = h.process_id
  JOIN calibration AS c ON c.event = h.event AND c.part = h.part AND c.used
  WHERE p.parent_process_id IS NOT NULL
  GROUP BY h.event
)
SELECT
  coalesce(sqrt(sum(below_ns ** 2)), 0)::DOUBLE, coalesce(sqrt(sum(above_ns ** 2)), 0)::DOUBLE
FROM paid
"""
_WALL = """
SELECT coalesce(sum(exposed_ns), 0)::DOUBLE
FROM overhead_wall AS w JOIN process AS p ON p.process_id = w.process_id
WHERE p.pid = $1 AND p.parent_process_id IS NOT NULL
"""
_INSTANCES = (
    "SELECT name, sum(instances)::BIGINT FROM operation_tree WHERE instances > 0 GROUP BY name"
)
_LOSSES = "SELECT count(*), coalesce(sum(count), 0)::BIGINT FROM trace_stat"
_QUALITY = """
SELECT event, quality, code, subject, detail, numbers FROM calibration
WHERE quality <> 'ok' AND used AND event IN (FROM probe_hits SELECT event)
ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class BucketTime:
    """Running time of one operation in one bucket, of the main process or all others; ns."""

    operation: str
    bucket: str
    is_main: bool
    """In the first process of the program, whose timers it may have."""
    measured_ns: int
    overhead_ns: float


@dataclass(frozen=True, slots=True)
class TraceFigures:
    """One trace, without the process that started the program."""

    bucket_times: tuple[BucketTime, ...]
    below_ns: float
    """How far the 95 % interval of all overhead reaches below it."""
    above_ns: float
    wall_overhead_ns: float
    """Overhead on the leading thread of the program while no GPU worked: what wall time lost."""
    instances: Mapping[str, int]
    """How often each operation occurred."""
    lost: int
    """Records that the trace lacks; of kinds that cannot be counted, 1 each."""
    warnings: Mapping[str, str]
    """Kind of event that occurred -> why its cost is to be doubted."""

    @property
    def overhead_ns(self) -> float:
        """Return the CPU time that recording cost the program."""
        return sum(one.overhead_ns for one in self.bucket_times)

    @property
    def interval_ns(self) -> tuple[float, float]:
        """Return the 95 % interval of the overhead."""
        return self.overhead_ns - self.below_ns, self.overhead_ns + self.above_ns


def read_figures(
    connection: duckdb.DuckDBPyConnection, *, pid: int, words: Callable[..., str]
) -> TraceFigures:
    """Return what the trace of a run says.

    pid: the program's. words: what words the columns of a quality of the table calibration.

    Raises TracerError where it holds no overhead: then nothing can be corrected.
    """
    rows = connection.execute(_CELLS, [pid]).fetchall()
    if not rows or any(row[-1] for row in rows):
        raise TracerError(
            "the trace does not tell what recording cost: corrected times are not known",
            hint="rlscope-trace calibrate",
        )
    below_ns, above_ns = connection.execute(_ERRORS).fetchall()[0]
    ((wall_ns,),) = connection.execute(_WALL, [pid]).fetchall()
    kinds, lost = connection.execute(_LOSSES).fetchall()[0]
    return TraceFigures(
        bucket_times=tuple(BucketTime(*row[:-1]) for row in rows),
        below_ns=below_ns,
        above_ns=above_ns,
        wall_overhead_ns=wall_ns,
        instances=dict(connection.execute(_INSTANCES).fetchall()),
        lost=max(kinds, lost),
        warnings=_warnings(connection, words),
    )


def _warnings(connection: duckdb.DuckDBPyConnection, words: Callable[..., str]) -> dict[str, str]:
    """Return one sentence for each event whose cost is to be doubted, or uncertain."""
    found: dict[str, str] = {}
    for event, *quality in connection.execute(_QUALITY).fetchall():
        found.setdefault(event, words(*quality))
    return found
