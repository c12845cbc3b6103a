"""The table capture: what was measured, and why the rest was not."""

from collections.abc import Mapping, Sequence

import duckdb

NOT_RECORDED = "recorded before rlscope-trace could, or with --no-nvtx"


def insert_capture(
    con: duckdb.DuckDBPyConnection, session: Mapping[str, object], annotated: Sequence[int]
) -> int:
    """Insert the rows; `annotated` are the processes whose NVTX ranges were read."""
    con.execute("INSERT INTO capture VALUES (NULL, 'thread_state', true, NULL)")
    told = session.get("operations")
    measured = isinstance(told, dict) and told.get("measured") is True
    reason = told.get("reason") if isinstance(told, dict) else NOT_RECORDED
    con.execute("INSERT INTO capture VALUES (NULL, 'operation', ?, ?)", [measured, reason])
    if measured:
        return 2
    for process_id in annotated:
        con.execute("INSERT INTO capture VALUES (?, 'operation', true, NULL)", [process_id])
    return 2 + len(annotated)
