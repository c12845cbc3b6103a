"""When CUPTI reported the CUDA calls of a process: those that probes saw are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from rlscope_trace.ingest.store.thread_lives import ThreadLives

_FOREVER = 2**63 - 1
# Whether CUPTI reported a call `c` of a thread `t`.
IS_OF_CUPTI = """EXISTS (
  SELECT 1 FROM cupti_interval AS k
  WHERE k.process_id = t.process_id AND c.end_ns > k.start_ns AND c.start_ns < k.end_ns
)"""
# The processes of which CUPTI reported calls, whether there were any or not.
OF_CUPTI = "SELECT process_id FROM cupti_interval"

# process_id, time (ns), whether CUPTI tells of calls from then on, whether CUDA had begun before.
_Status = tuple[int, int, bool, bool]


def create_intervals(con: duckdb.DuckDBPyConnection) -> None:
    """Make the temporary table, if nobody has."""
    con.execute(
        "CREATE TEMP TABLE IF NOT EXISTS cupti_interval"
        " (process_id INTEGER, start_ns BIGINT, end_ns BIGINT)"
    )


def insert_intervals(
    con: duckdb.DuckDBPyConnection, statuses: Sequence[_Status], lives: ThreadLives
) -> None:
    """Fill the table, when the calls that CUPTI reported are stored."""
    create_intervals(con)
    by_process: dict[int, list[_Status]] = {}
    for status in sorted(statuses, key=lambda reported: reported[:2]):
        by_process.setdefault(status[0], []).append(status)
    for process_id, reported in by_process.items():
        execs_ns = lives.execs_ns(process_id)
        end_ns = 0
        for place, (_, ts_ns, is_on, is_late) in enumerate(reported):
            if not is_on or ts_ns < end_ns:
                continue
            program_ns = max((at_ns for at_ns in execs_ns if at_ns <= ts_ns), default=0)
            begin_ns = max(program_ns, end_ns)
            if is_late:
                # The status may be reported when CUPTI has worked for a while.
                begin_ns = _first_call_ns(con, process_id, begin_ns, ts_ns)
            ends = [later[1] for later in reported[place + 1 :] if not later[2]]
            ends += [at_ns for at_ns in execs_ns if at_ns > ts_ns]
            end_ns = min([*ends, _FOREVER])
            con.execute(
                "INSERT INTO cupti_interval VALUES (?, ?, ?)", [process_id, begin_ns, end_ns]
            )


def _first_call_ns(
    con: duckdb.DuckDBPyConnection, process_id: int, begin_ns: int, end_ns: int
) -> int:
    """Return when CUPTI saw the first call between two instants; if it saw none, the second."""
    ((first_ns,),) = con.execute(
        "SELECT min(c.start_ns) FROM cuda_call_coded AS c JOIN thread AS t USING (thread_id)"
        " WHERE t.process_id = ? AND c.start_ns BETWEEN ? AND ?",
        [process_id, begin_ns, end_ns],
    ).fetchall()
    return end_ns if first_ns is None else int(first_ns)
