"""The rows of table capture about GPUs: of which processes CUPTI told, and why of no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.store.capture_rows import NOT_RECORDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from rlscope_trace.store.gpu_facts import GpuVerdict

NO_CUDA = "CUDA was not initialised, as far as the recorder heard"


def insert_gpu_capture(
    con: duckdb.DuckDBPyConnection, session: Mapping[str, object], verdicts: Sequence[GpuVerdict]
) -> int:
    """Insert a row for each verdict, and why nothing is known of all other processes.

    A process without CUDA tells nothing: its GPU activity is not measured, which is no zero.
    """
    for verdict in verdicts:
        con.execute(
            "INSERT INTO capture VALUES (?, ?, ?, ?)",
            [verdict.process_id, verdict.kind, verdict.measured, verdict.reason],
        )
    known = {verdict.process_id for verdict in verdicts}
    processes = con.execute("SELECT process_id FROM process").fetchall()
    if all(process_id in known for (process_id,) in processes):
        return len(verdicts)
    # Calls of CUDA may be recorded in other ways too, which tell of them.
    con.execute("INSERT INTO capture VALUES (NULL, 'gpu_activity', false, ?)", [_reason(session)])
    return len(verdicts) + 1


def _reason(session: Mapping[str, object]) -> str:
    """Return why nothing is known of the GPU activity of a process."""
    told = session.get("gpu")
    if not isinstance(told, dict):
        return NOT_RECORDED
    return NO_CUDA if told.get("measured") is True else str(told.get("reason"))
