"""Spools with GPU records, made into traces: for the tests of what becomes of such records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import duckdb

from finalising import add_nothing, finalise
from rlscope_analysis.derive import complete
from rlscope_trace.spool.directory import open_spool
from said import said
from shim_builder import ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport

# What the kernel recorded of each thread below.
BEGIN, FINISH = 100, 10_000
EPOCH = 1_700_000_000 * 10**9
CALLS = "SELECT thread_id, start_ns, end_ns, kind, name, correlation_id FROM cuda_call ORDER BY ALL"
ACTIVITIES = "SELECT start_ns, end_ns, kind, name, correlation_id FROM gpu_activity ORDER BY ALL"


def kernel_half(folder: Path, *, tids: tuple[int, ...] = (10,), end: bool = True) -> Path:
    """Write the spool of threads of process 10, ids from 1, which lived from BEGIN to FINISH."""
    spool = SpoolBuilder()
    for thread_id, tid in enumerate(tids, 1):
        spool.thread(thread_id, ts_ns=BEGIN, tid=tid, tgid=10)
        spool.cycle(thread_id, off_ns=BEGIN, wake_ns=BEGIN, in_ns=BEGIN + 10, out_ns=1000)
        spool.cycle(thread_id, off_ns=1000, wake_ns=2000, in_ns=2000, out_ns=FINISH - 50)
        spool.close(thread_id, off_ns=FINISH - 50)
    session = {"host": "box", "gpu": {"measured": True, "reason": "CUPTI"}}
    spool.write(folder, end_ns=FINISH if end else 0, session=session)
    return folder


def saved(folder: Path, shim: ShimBuilder, *, views: bool = False) -> tuple[Path, TraceReport]:
    shim.write(folder)
    output = folder.with_name("trace.duckdb")
    report = finalise(
        open_spool(folder), output, overwrite=True,
        derive=complete if views else add_nothing,
    )  # fmt: skip
    return output, report


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(query).fetchall()


def losses(path: Path) -> dict[str, tuple[object, ...]]:
    found = rows(path, "SELECT concat_ws(' ', code, record, detail), kind, count FROM trace_stat")
    return {str(source): tuple(rest) for source, *rest in found}


def verdicts(path: Path) -> list[tuple[object, ...]]:
    found = said(partial(rows, path), "starts_with(kind, 'gpu_') OR kind = 'cuda_call'")
    reported = [(kind, process_id, *rest) for process_id, kind, *rest in found]
    return sorted(reported, key=lambda row: (row[0], row[1] is None, row[1] or 0))


def cupti_thread() -> ShimBuilder:
    """Return the shim of process 10 with the thread of CUPTI, which nobody asks about."""
    made = ShimBuilder()
    made.source(pid=10)
    made.thread(tid=99, ts_ns=BEGIN)
    return made
