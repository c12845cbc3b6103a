"""What a trace says of its own overhead: the input of the comparison with untraced runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.errors import TracerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

# The outermost process is the one that starts the program and waits for it: no part of it.
_CELLS = """
SELECT
  operation, bucket, p.pid = $1, sum(time_ns)::BIGINT,
  sum(overhead_ns)::DOUBLE, sum(overhead_low_ns)::DOUBLE, sum(overhead_high_ns)::DOUBLE,
  coalesce(sum(overhead_ns) FILTER (
    WHERE t.tid = $1 AND gpu_busy IS NOT TRUE), 0)::DOUBLE,
  bool_or(overhead_ns IS NULL)
FROM breakdown_corrected AS b
JOIN process AS p ON p.process_id = b.process_id
JOIN thread AS t ON t.thread_id = b.thread_id
WHERE p.parent_process_id IS NOT NULL AND bucket IN (
  'python', 'simulator', 'backend', 'cuda_api', 'spin', 'other', 'running')
GROUP BY operation, bucket, p.pid = $1
ORDER BY sum(time_ns) DESC, operation, bucket, 3
"""
_INSTANCES = (
    "SELECT name, sum(instances)::BIGINT FROM operation_tree WHERE instances > 0 GROUP BY name"
)
_LOSSES = "SELECT count(*), coalesce(sum(count), 0)::BIGINT FROM trace_stat"
_QUALITY = """
SELECT DISTINCT event || ': ' || quality FROM calibration
WHERE quality IS NOT NULL AND quality <> 'ok' AND used ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """Running time of one operation in one bucket, of the main process or all others; ns."""

    operation: str
    bucket: str
    is_main: bool
    """In the first process of the program, whose timers it may have."""
    measured_ns: int
    overhead_ns: float
    low_ns: float
    """With `high_ns`: the 95 % interval of the overhead."""
    high_ns: float


@dataclass(frozen=True, slots=True)
class TraceFigures:
    """One trace, without the process that started the program."""

    cells: tuple[Cell, ...]
    wall_overhead_ns: float
    """Overhead on the first thread of the program while no GPU worked: what wall time lost."""
    instances: Mapping[str, int]
    """How often each operation occurred."""
    lost: int
    """Records that the trace lacks; of kinds that cannot be counted, 1 each."""
    warnings: tuple[str, ...]
    """What its calibration is to be doubted for."""

    @property
    def overhead_ns(self) -> float:
        """Return the CPU time that recording cost the program."""
        return sum(cell.overhead_ns for cell in self.cells)

    @property
    def interval_ns(self) -> tuple[float, float]:
        """Return the 95 % interval of the overhead: costs err alike wherever they are paid."""
        return sum(cell.low_ns for cell in self.cells), sum(cell.high_ns for cell in self.cells)


def read_figures(connection: duckdb.DuckDBPyConnection, *, pid: int) -> TraceFigures:
    """Return what the trace of a run says; pid: the program's.

    Raises TracerError where it holds no overhead: then nothing can be corrected.
    """
    rows = connection.execute(_CELLS, [pid]).fetchall()
    if not rows or any(row[-1] for row in rows):
        raise TracerError(
            "the trace does not tell what recording cost: corrected times are not known",
            hint="rlscope-trace calibrate",
        )
    kinds, lost = connection.execute(_LOSSES).fetchall()[0]
    return TraceFigures(
        cells=tuple(Cell(*row[:7]) for row in rows),
        wall_overhead_ns=sum(row[7] for row in rows),
        instances=dict(connection.execute(_INSTANCES).fetchall()),
        lost=max(kinds, lost),
        warnings=tuple(text for (text,) in connection.execute(_QUALITY).fetchall()),
    )
