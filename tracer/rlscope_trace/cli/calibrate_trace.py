"""Costs for a trace without: its target still ran when it was saved, or the measurement failed."""

from __future__ import annotations

import fcntl
import json
import math
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.overhead import estimate as overhead_costs
from rlscope_analysis.own_name import copy_file
from rlscope_analysis.trace import open_trace
from rlscope_analysis.trace_file import connect, own_configuration
from rlscope_analysis.wording import printable
from rlscope_trace.errors import TracerError, reason_of
from rlscope_trace.ingest.writer.database_file import (
    DATABASE_NAME,
    configuration,
    is_interrupt,
)
from rlscope_trace.ingest.writer.row_inserts import insert_rows
from rlscope_trace.outputs.place import open_place
from rlscope_trace.outputs.trusted import closing
from rlscope_trace.privileges import open_regular
from rlscope_trace.procfs import is_running
from rlscope_trace.record.calibrate.cache import boot_id
from rlscope_trace.spool.costs import costs_of_recording, rows_of
from rlscope_trace.spool.directory import process_start_time
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_analysis.trace import Trace
    from rlscope_trace.record.calibrate.cache import Calibration

# Code that DuckDB runs where the file is written to; a trace of ours has none.
_CODE = """
SELECT 'macro ' || function_name FROM duckdb_functions()
WHERE database_name = 'copied' AND NOT internal
UNION ALL SELECT 'constraint ' || constraint_text FROM duckdb_constraints()
WHERE database_name = 'copied'
UNION ALL SELECT 'index ' || index_name FROM duckdb_indexes() WHERE database_name = 'copied'
UNION ALL SELECT 'default ' || column_default FROM duckdb_columns()
WHERE database_name = 'copied' AND NOT internal AND column_default IS NOT NULL
LIMIT 1
"""
_FACTS = "SELECT key, value FROM meta"
# Other events may have costs where those of the capture are not known.
_HAS_COSTS = """
SELECT count(*) FROM calibration
WHERE mean_ns IS NOT NULL AND method = 'micro' AND event = 'switch'
"""
# In any other trace the costs would be those of another machine, or of another recorder.
_KEY = "calibration_key"
_BOOT = "boot_id"
# When each was last seen, by the clock of /proc: time since boot, suspend included.
_NOT_ENDED = """
SELECT DISTINCT p.pid, p.end_ns + coalesce(
  (SELECT boottime_ns - ts_ns FROM clock ORDER BY ts_ns DESC LIMIT 1), 0
)
FROM process AS p JOIN thread AS t USING (process_id)
WHERE NOT t.ended AND p.pid IS NOT NULL ORDER BY ALL
"""


def check_trace(path: Path, key: dict[str, str]) -> dict[str, object]:
    """Return the facts of a trace that lacks costs and was recorded here.

    key: of this machine. Raises TraceError where it cannot be read, TracerError where it is none,
    cannot be written, or a process of it still runs.
    """
    with damage_reported(path), open_trace(path, derives=False) as trace:
        facts = dict(trace.sql(_FACTS).fetchall())
        ((costs,),) = trace.sql(_HAS_COSTS).fetchall()
        running = _running(trace) if facts.get(_BOOT) == boot_id() else []
    if costs:
        raise TracerError(
            f"{path} has its costs already",
            hint=shell_line(["rlscope-trace", "summarize", str(path), "--view", "corrected"]),
        )
    reported = {name: _read(value) for name, value in facts.items()}
    if reported.get(_KEY) != key:
        raise TracerError(
            f"{path} was not recorded on this machine, with this OS kernel and this version: what"
            " recording costs here does not hold there",
            hint="rlscope-trace calibrate where it was recorded",
        )
    if running:
        raise TracerError(
            f"pid {running[0]} of {path} still runs: what recording costs is not measured beside"
            " it",
            hint=f"{shell_line(['rlscope-trace', 'calibrate', str(path)])}, when it has ended",
        )
    _require_writable(path)
    return reported


def add_costs(path: Path, facts: dict[str, object], known: Calibration) -> None:
    """Write the costs into a trace that check_trace() took: all of them, or none.

    They go into a copy, which takes the place of the trace when it is complete: whatever DuckDB
    writes beside a file that it changes is in a folder of ours. Raises TracerError where that
    fails, KeyboardInterrupt at Ctrl-C.
    """
    try:
        with open_place(path) as place, place.unfinished() as folder:
            copy = folder.path / DATABASE_NAME
            with open_regular(path) as trace, copy.open("xb") as file:
                found = os.fstat(trace.fileno())
                copy_file(trace.fileno(), file.fileno(), most_bytes=found.st_blocks * 512)
            _refuse_code(path, copy)
            with duckdb.connect(str(copy), config=_configuration(folder.path)) as con:
                con.begin()
                con.execute("DELETE FROM calibration_measured")
                costs = costs_of_recording(known.costs, facts)
                insert_rows(con, "calibration_measured", rows_of(costs))
                con.execute("DELETE FROM calibration_estimate")
                overhead_costs.store(con)
                con.commit()
            copy.chmod(found.st_mode & 0o666)
            # It stays whose it was, where we may see to that.
            with suppress(PermissionError):
                os.chown(copy, found.st_uid, found.st_gid)
            place.publish(folder, DATABASE_NAME, overwrite=True, mode=None)
    except (duckdb.Error, OSError, RuntimeError) as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise _not_written(path, error) from error


def _refuse_code(path: Path, copy: Path) -> None:
    """Raise TracerError where a trace has any: a macro may bear the name of a function we call."""
    connection = connect({"copied": copy})
    try:
        found = connection.execute(_CODE).fetchone()
    finally:
        connection.close()
    if found is not None:
        raise TracerError(
            f"{path} holds the {printable(found[0])[:80]}, which is not ours",
            hint="record it, import it, or recover its spool again",
        )


def _configuration(folder: Path) -> dict[str, str | bool | int | float | list[str]]:
    """Return what the copy is changed with: as the recorder writes it, reaching nothing else."""
    own = {**own_configuration(), **configuration(folder)}
    return {**own, "enable_external_access": "false", "lock_configuration": "true"}


def _running(trace: Trace) -> list[int]:
    """Return the pids of its processes that have not ended yet; for a trace of this boot."""
    return [
        pid for pid, last_ns in trace.sql(_NOT_ENDED).fetchall()
        if is_running(pid) and _born_ns(pid) <= last_ns
    ]  # fmt: skip


def _born_ns(pid: int) -> float:
    """Return when a process was created, suspend included: after its trace, it is another one."""
    ticks = process_start_time(pid)
    return math.inf if ticks is None else int(ticks) * 1e9 / os.sysconf("SC_CLK_TCK")


def _require_writable(path: Path) -> None:
    """Raise before anything is measured if the costs could not be written then."""
    for place in (path, path.absolute().parent):
        if not os.access(place, os.W_OK):
            raise TracerError(
                f"cannot write {place}: permission denied, or a file system that is read-only",
                hint=f"copy {path} to a place of yours, and add the costs to the copy",
            )
    try:
        with closing(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)) as trace:
            fcntl.lockf(trace, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise TracerError(
            f"cannot write {path}: Could not set lock: {error.strerror}",
            hint="is it open in another program?",
        ) from error


def _not_written(path: Path, error: Exception) -> TracerError:
    return TracerError(
        f"cannot write {path}: {reason_of(error)}", hint="is there room for a copy of it?"
    )


def _read(value: str) -> object:
    """Return a fact as the recorder noted it: texts stand as they are."""
    try:
        return json.loads(value)
    except ValueError:
        return value
