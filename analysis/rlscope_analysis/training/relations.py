"""Makes the relations of the training: phases of the leading process, and the other processes.

They are about the iterations, of three or more without the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.enums import word_of
from rlscope_analysis.sweep.segments import make_segment_table, selection
from rlscope_analysis.training import relations_sql

if TYPE_CHECKING:
    import duckdb

    from rlscope_analysis.sweep.segments import OpenTrace

_LEAD_SQL = """
SELECT thread_id::INTEGER, start_ns::BIGINT, end_ns::BIGINT FROM _training_span
WHERE thread_id IS NOT NULL
"""
_COLUMNS = f"* REPLACE ({word_of('THREAD_STATE', 'state')} AS state)"


def add_training(trace: OpenTrace) -> None:
    """Make training_phase and training_process, in memory, out of the iterations."""
    connection = trace.connection
    remove_training(connection)
    try:
        # What the leading thread did in the iterations, piece by piece.
        make_segment_table(trace, "_lead_segment", selection(trace, _LEAD_SQL), columns=_COLUMNS)
        connection.execute(relations_sql())
    except BaseException:
        # What is there in part would be taken for all there is.
        remove_training(connection)
        raise
    finally:
        connection.execute("DROP TABLE IF EXISTS _lead_segment")


def remove_training(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove them: they are of other iterations."""
    connection.execute("DROP TABLE IF EXISTS training_phase; DROP TABLE IF EXISTS training_process")
