"""Threads, processes, their states and what is told of the trace as a whole, into the database.

DuckDB finds the numpy columns by the name of the variable that holds them. 0 and "" stand for none.
"""

import duckdb
import numpy as np
from numpy.typing import NDArray

from rlscope_trace.store.processes import Columns
from rlscope_trace.store.row_inserts import insert_rows


def insert_states(con: duckdb.DuckDBPyConnection, batch: Columns) -> None:
    """Insert thread_id, start_ns, end_ns (ns), state, cpu, waker, and wait where there is one."""
    con.execute(
        "INSERT INTO thread_state_coded"
        " SELECT thread_id, start_ns, end_ns, state, cpu, waker FROM batch"
    )
    con.execute(
        "INSERT INTO wait_coded SELECT thread_id, start_ns, end_ns, wait FROM batch WHERE wait > 0"
    )


def insert_threads(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    """Insert the columns of thread; return how many rows."""
    con.execute(
        "INSERT INTO thread SELECT thread_id, process_id, nullif(tid, 0), start_ns, end_ns,"
        " nullif(name, ''), ended, lost_ns FROM batch"
    )
    return len(batch["thread_id"])


def insert_processes(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    """Insert the columns of process, exit_code -1 for none; return how many rows."""
    con.execute(
        "INSERT INTO process SELECT process_id, nullif(host, ''), nullif(pid, 0),"
        " nullif(parent_process_id, 0), start_ns, end_ns, nullif(name, ''), nullif(command, ''),"
        " nullif(exit_code, -1), nullif(born_ns, 0) FROM batch"
    )
    return len(batch["process_id"])


def insert_clock(con: duckdb.DuckDBPyConnection, clocks: NDArray[np.void]) -> int:
    """Insert ts_ns, realtime_ns, boottime_ns (ns) of each look at the clocks; return how many."""
    batch = {name: np.ascontiguousarray(clocks[name]) for name in clocks.dtype.names or ()}
    con.execute("INSERT INTO clock SELECT ts_ns, realtime_ns, boottime_ns FROM batch")
    return len(batch["ts_ns"])


def insert_meta(con: duckdb.DuckDBPyConnection, facts: dict[str, str]) -> int:
    """Insert the facts; return how many."""
    return insert_rows(con, "meta", list(facts.items()))
