"""The table capture: what was measured, and why the rest was not."""

from collections.abc import Mapping, Sequence

import duckdb

REFUSED = (
    "the shim could not share memory: the program set a seccomp filter, or a limit on the size of"
    " files (ulimit -f)"
)
NOT_RECORDED = "this version of rlscope-trace records them, the one that made the spool did not"


def insert_capture(
    con: duckdb.DuckDBPyConnection, session: Mapping[str, object], annotated: Sequence[int]
) -> int:
    """Insert the rows; `annotated` are the processes whose NVTX ranges were read."""
    con.execute("INSERT INTO capture VALUES (NULL, 'thread_state', true, NULL)")
    told = session.get("operations")
    measured = isinstance(told, dict) and told.get("measured") is True
    reason = told.get("reason") if isinstance(told, dict) else NOT_RECORDED
    con.execute("INSERT INTO capture VALUES (NULL, 'operation', ?, ?)", [measured, reason])
    rows = 2
    if not measured:
        for process_id in annotated:
            con.execute("INSERT INTO capture VALUES (?, 'operation', true, NULL)", [process_id])
        rows += len(annotated)
    refused = session.get("shim_refused_pids")
    for process_id in _processes(con, refused if isinstance(refused, list) else [], annotated):
        con.execute("INSERT INTO capture VALUES (?, 'operation', false, ?)", [process_id, REFUSED])
        rows += 1
    return rows


def _processes(
    con: duckdb.DuckDBPyConnection, pids: Sequence[object], annotated: Sequence[int]
) -> list[int]:
    """Return the processes with these pids that told of nothing."""
    numbers = [pid for pid in pids if isinstance(pid, int)]
    found = con.execute(
        "SELECT process_id FROM process WHERE pid IN (SELECT unnest(?)) ORDER BY process_id",
        [numbers],
    ).fetchall()
    return [process_id for (process_id,) in found if process_id not in annotated]
