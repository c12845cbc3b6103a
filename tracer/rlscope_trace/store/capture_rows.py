"""The table capture: what was measured, and why the rest was not."""

from collections.abc import Mapping, Sequence

import duckdb

REFUSED = (
    "the shim could not share memory: the program set a seccomp filter, or a limit on the size of"
    " files or memory (ulimit -f, -v)"
)
TAKEN = "another recorder read the operations of this process"
NOT_RECORDED = "this version of rlscope-trace records them, the one that made the spool did not"
OTHER_CLOCK = (
    "it runs in a time namespace, by another clock: when what it told of itself was is not known"
)


# Process, whether its operations were measured, and why not or what is missing.
_Row = tuple[int, bool, str | None]


def insert_capture(
    con: duckdb.DuckDBPyConnection, session: Mapping[str, object], annotated: Sequence[int]
) -> int:
    """Insert the rows; `annotated` are the processes whose NVTX ranges were read."""
    con.execute("INSERT INTO capture VALUES (NULL, 'thread_state', true, NULL)")
    told = session.get("operations")
    measured = isinstance(told, dict) and told.get("measured") is True
    reason = told.get("reason") if isinstance(told, dict) else NOT_RECORDED
    con.execute("INSERT INTO capture VALUES (NULL, 'operation', ?, ?)", [measured, reason])
    rows: list[_Row] = [] if measured else [(process_id, True, None) for process_id in annotated]
    refused = [(process_id, False, REFUSED) for process_id in _refused(con, session, annotated)]
    for row in [*_attached(con, session), *_taken(con, session, annotated), *refused]:
        # More is known of these than that they were read, or should have been.
        if (row[0], False) not in [other[:2] for other in rows]:
            rows = [other for other in rows if other[0] != row[0]] + [row]
    for process_id, is_measured, why in rows:
        con.execute(
            "INSERT INTO capture VALUES (?, 'operation', ?, ?)", [process_id, is_measured, why]
        )
    return 2 + len(rows)


def _attached(con: duckdb.DuckDBPyConnection, session: Mapping[str, object]) -> list[_Row]:
    """Return what is told of the processes into which the shim was loaded while they ran."""
    told = session.get("operations_late")
    return [
        (process_id, late["measured"], _late_reason(late))
        for late in (told if isinstance(told, list) else [])
        for process_id in _processes(con, [late["pid"]])[:1]
    ]


def _late_reason(late: Mapping[str, object]) -> str | None:
    reason = str(late["reason"])
    return f"in part: {reason}" if late["measured"] and reason else reason or None


def _taken(
    con: duckdb.DuckDBPyConnection, session: Mapping[str, object], annotated: Sequence[int]
) -> list[_Row]:
    """Return the processes whose operations another recorder read, to the end or for a while."""
    pids = session.get("shim_taken_pids")
    return [
        (process_id, True, f"in part: at first, {TAKEN}")
        if process_id in annotated
        else (process_id, False, TAKEN)
        for process_id in _processes(con, pids if isinstance(pids, list) else [])
    ]


def _refused(
    con: duckdb.DuckDBPyConnection, session: Mapping[str, object], annotated: Sequence[int]
) -> list[int]:
    pids = session.get("shim_refused_pids")
    found = _processes(con, pids if isinstance(pids, list) else [])
    return [process_id for process_id in found if process_id not in annotated]


def _processes(con: duckdb.DuckDBPyConnection, pids: Sequence[object]) -> list[int]:
    """Return the processes with these pids, the earliest first."""
    numbers = [pid for pid in pids if isinstance(pid, int)]
    found = con.execute(
        "SELECT process_id FROM process WHERE pid IN (SELECT unnest(?)) ORDER BY process_id",
        [numbers],
    ).fetchall()
    return [process_id for (process_id,) in found]
