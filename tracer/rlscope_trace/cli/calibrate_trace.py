"""Costs for a trace without: its target still ran when it was saved, or the measurement failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis import overhead_costs
from rlscope_analysis.trace import open_trace
from rlscope_trace.errors import TracerError
from rlscope_trace.store.calibration import costs_of_recording, insert_costs
from rlscope_trace.store.database_file import configuration, reason_of

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.calibrate.cache import Calibration

_FACTS = "SELECT key, value FROM meta"
_HAS_COSTS = "SELECT count(*) FROM calibration WHERE mean_ns IS NOT NULL AND method = 'micro'"
# In any other trace the costs would be those of another machine, or of another recorder.
_KEY = "calibration_key"


def check_trace(path: Path, key: dict[str, str]) -> dict[str, object]:
    """Return the facts of a trace that lacks costs and was recorded here.

    key: of this machine. Raises TraceError where it cannot be read, TracerError where it is none.
    """
    with open_trace(path, derives=False) as trace:
        facts = dict(trace.sql(_FACTS).fetchall())
        ((costs,),) = trace.sql(_HAS_COSTS).fetchall()
    if costs:
        raise TracerError(
            f"{path} has its costs already", hint=f"rlscope-trace summarize {path} --view corrected"
        )
    told = {name: _read(value) for name, value in facts.items()}
    if told.get(_KEY) != key:
        raise TracerError(
            f"{path} was not recorded on this machine, with this OS kernel and this version: what"
            " recording costs here does not hold there",
            hint="rlscope-trace calibrate where it was recorded",
        )
    return told


def add_costs(path: Path, facts: dict[str, object], known: Calibration) -> None:
    """Write the costs into a trace that check_trace() took: all of them, or none.

    Raises TracerError where the file cannot be written.
    """
    try:
        with duckdb.connect(str(path), config=configuration(path)) as con:
            con.begin()
            con.execute("DELETE FROM calibration_measured")
            insert_costs(con, costs_of_recording(known.costs, facts))
            con.execute("DELETE FROM calibration_estimate")
            overhead_costs.store(con)
            con.commit()
    except (duckdb.Error, OSError) as error:
        raise TracerError(
            f"cannot write {path}: {reason_of(error)}", hint="is it open in another program?"
        ) from error


def _read(value: str) -> object:
    """Return a fact as the recorder noted it: texts stand as they are."""
    try:
        return json.loads(value)
    except ValueError:
        return value
