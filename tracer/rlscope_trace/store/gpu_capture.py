"""The rows of table capture about GPUs: of which processes CUPTI told, and why of no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.store.capture_rows import NOT_RECORDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from rlscope_trace.store.gpu_verdicts import GpuVerdict

NO_CUDA = "CUDA was not initialised, as far as the recorder heard"
NO_SHIM = (
    "it called CUDA, but nothing was heard of CUPTI in it: CUDA loads the shim when it begins,"
    " where CUDA_INJECTION64_PATH names it"
)


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
    reason = _reason(session)
    calling = _calling(con) - known if reason == NO_CUDA else set()
    for process_id in sorted(calling):
        con.execute(
            "INSERT INTO capture VALUES (?, 'gpu_activity', false, ?)", [process_id, NO_SHIM]
        )
    processes = con.execute("SELECT process_id FROM process").fetchall()
    rows = len(verdicts) + len(calling)
    if all(process_id in known | calling for (process_id,) in processes):
        return rows
    # Calls of CUDA may be recorded in other ways too, which tell of them.
    con.execute("INSERT INTO capture VALUES (NULL, 'gpu_activity', false, ?)", [reason])
    return rows + 1


def _calling(con: duckdb.DuckDBPyConnection) -> set[int]:
    """Return the processes that called CUDA."""
    found = con.execute(
        "SELECT DISTINCT t.process_id FROM cuda_call_coded AS c JOIN thread AS t USING (thread_id)"
    ).fetchall()
    return {process_id for (process_id,) in found}


def _reason(session: Mapping[str, object]) -> str:
    """Return why nothing is known of the GPU activity of a process."""
    told = session.get("gpu")
    if not isinstance(told, dict):
        return NOT_RECORDED
    return NO_CUDA if told.get("measured") is True else str(told.get("reason"))
