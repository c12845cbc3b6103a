"""Holds a trace to what is readable in the spool that it was made of."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import duckdb

from soak_lib.home import FailureError

if TYPE_CHECKING:
    from pathlib import Path

    from soak_lib.spool_walk import Walked

from soak_lib import spool_walk as kinds

# Threads whose states do not tile their lifetime, less what was lost.
_LAW = """
WITH ordered AS (
  SELECT thread_id, start_ns, end_ns,
    lag(end_ns) OVER (PARTITION BY thread_id ORDER BY start_ns, end_ns) AS before_ns
  FROM thread_state
), reported AS (
  SELECT thread_id, sum(end_ns - start_ns) AS reported_ns, min(start_ns) AS first_ns,
    max(end_ns) AS last_ns, bool_or(start_ns < before_ns OR end_ns <= start_ns) AS is_crossed
  FROM ordered GROUP BY thread_id
)
SELECT t.thread_id FROM thread AS t LEFT JOIN reported USING (thread_id)
WHERE coalesce(reported_ns, 0) + t.lost_ns <> t.end_ns - t.start_ns OR is_crossed
  OR first_ns < t.start_ns OR last_ns > t.end_ns
"""
# Losses of ranges that are counted, and so are not missing; "cut" ones are in the trace.
_COUNTED_RANGES = {
    "operation_without_thread", "operation_other_clock", "processes_too_many", "operation_too_late",
    "operations_damaged", "operation_after_kill",
}  # fmt: skip


def compare(walked: Walked, trace: Path, words: str) -> None:
    """Raise FailureError where the trace lacks something that was readable.

    words: what was said when it was written.
    """
    found = re.search(r"^wrote .*: ([\d,]+) records", words, re.MULTILINE)
    if found is None:
        raise FailureError(f"no trace was written: {words.strip()}")
    _equal("records, as it says", int(found[1].replace(",", "")), walked.records)
    with duckdb.connect(str(trace), read_only=True) as con:
        _compare_rows(con, walked)
    require_law(trace)


def require_law(trace: Path) -> None:
    """Raise FailureError where the time of a thread is not conserved."""
    with duckdb.connect(str(trace), read_only=True) as con:
        broken = con.execute(_LAW).fetchall()
    if broken:
        raise FailureError(f"the time of {len(broken)} threads is not conserved: {broken[:5]}")


def compare_progress(walked: Walked) -> None:
    """Raise FailureError where progress.bin counts what is not there."""
    for kind, reported in enumerate(walked.reported):
        if reported > walked.counts[kind] or (walked.end_ns and reported != walked.counts[kind]):
            raise FailureError(
                f"progress.bin: {reported} records of kind {kind}, {walked.counts[kind]} are there"
            )
    if walked.reported_bytes > walked.file_bytes:
        raise FailureError("progress.bin counts more bytes than records.bin has")


def _compare_rows(con: duckdb.DuckDBPyConnection, walked: Walked) -> None:
    rows = {
        name: _count(con, f"SELECT count(*) FROM {name}")  # noqa: S608 - names of our own
        for name in ("thread", "clock", "native_call", "cpu_sample", "operation_coded", "mark")
    }
    _equal("threads", rows["thread"], len(walked.threads))
    _equal("clocks", rows["clock"], walked.counts[kinds.CLOCK])
    known = {
        name: sum(thread in walked.threads for thread, _ in events)
        for name, events in (("calls", walked.calls), ("samples", walked.samples))
    }
    _equal("calls", rows["native_call"], known["calls"])
    _equal("samples", rows["cpu_sample"], known["samples"])
    states = con.execute(
        "SELECT thread_id, start_ns, end_ns FROM thread_state WHERE state = 'running'"
    ).fetchall()
    missing = Counter(walked.running) - Counter(states)
    if missing:
        raise FailureError(f"{missing.total()} intervals of running are missing: {[*missing][:3]}")
    _equal("intervals of running", len(states), len(walked.running))
    lost = con.execute("SELECT code, count FROM trace_stat").fetchall()
    counted = sum(count for code, count in lost if code in _COUNTED_RANGES)
    unknown = sum(count for code, count in lost if code.startswith("events_without_thread"))
    _equal("calls and samples of threads not in the trace", unknown,
           len(walked.calls) + len(walked.samples) - known["calls"] - known["samples"])  # fmt: skip
    _compare_ranges(rows["operation_coded"] + rows["mark"], counted, walked)


def _compare_ranges(stored: int, counted: int, walked: Walked) -> None:
    readable = walked.ranges + walked.marks
    # Among those counted can be some that a thread marked which began after the end of the trace.
    least = 0 if walked.end_ns else counted
    if not least <= readable - stored <= counted:
        raise FailureError(
            f"ranges and marks: {stored} in the trace, {counted} counted as missing,"
            f" {readable} readable in the spool"
        )


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    ((count,),) = con.execute(query).fetchall()
    return int(count)


def _equal(what: str, in_trace: int, readable: int) -> None:
    if in_trace != readable:
        raise FailureError(f"{what}: {in_trace} in the trace, {readable} readable in the spool")
