"""The energy of an environment step, where the machine tells what its GPUs and CPUs use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import duckdb

# Of each GPU that the program could use: J since its driver was loaded.
_GPU_SQL = """
SELECT uuid, list(ts_ns ORDER BY ts_ns), list(value ORDER BY ts_ns) FROM counter
WHERE name = 'energy' AND uuid IN (SELECT uuid FROM gpu_device) GROUP BY uuid
"""
_PACKAGES_SQL = """
SELECT host, list(ts_ns ORDER BY ts_ns), list(value / 1e6 ORDER BY ts_ns) FROM os_counter
WHERE name = 'package_energy' GROUP BY host
"""
# Readings are a second apart: they may begin so much later, and end so much earlier.
_MISSING = 0.2


@dataclass(frozen=True, slots=True)
class Energy:
    """In joules; None: not measured."""

    gpus: float | None
    packages: float | None
    """Of all that the CPUs of the machine did, not of the program alone."""

    def per_step(self, steps: int, *, uses_gpu: bool) -> float | None:
        """Return the joules of a step; None where a part of them is not known."""
        parts = (self.gpus, self.packages) if uses_gpu else (self.packages,)
        return None if None in parts else sum(part for part in parts if part) / steps


def energy_of(connection: duckdb.DuckDBPyConnection, start_ns: int, end_ns: int) -> Energy:
    """Return what was used from one instant to another, all of it between readings."""
    return Energy(*(_used(connection, sql, start_ns, end_ns) for sql in (_GPU_SQL, _PACKAGES_SQL)))


def _used(
    connection: duckdb.DuckDBPyConnection, sql: str, start_ns: int, end_ns: int
) -> float | None:
    rows = connection.execute(sql).fetchall()
    if not rows:
        return None
    total = 0.0
    for _, times, values in rows:
        first, last = max(start_ns, times[0]), min(end_ns, times[-1])
        if last - first < (1 - _MISSING) * (end_ns - start_ns):
            return None
        begin, end = np.interp([first, last], times, values)
        # The rest at the same power.
        total += float(end - begin) * (end_ns - start_ns) / (last - first)
    return total
