"""What was paid for and is not in the trace: its cost is subtracted nowhere, and others bear it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.overhead.place import PROBED_CUDA_SQL
from rlscope_analysis.schema.facts.loss import CALL_RECORD, Calls
from rlscope_analysis.schema.facts.losses import LOSSES
from rlscope_analysis.schema.facts.qualities import quality

if TYPE_CHECKING:
    import duckdb

    from rlscope_analysis.schema.facts.qualities import Quality

# A part that is smaller changes a cost by less than its interval says, as a rule.
_TOLERANCE = 0.1
# Under way when the recording began or ended.
_FEWEST = 100
# Losses that the trace tells of are a finding already.
_HIT = [(code, loss.calls) for code, loss in LOSSES.items() if loss.was_hit]
_REPORTED = " OR ".join(
    f"code = '{code}' AND record = '{CALL_RECORD}'"
    if calls is Calls.LOST_IF_CALLS
    else f"code = '{code}'"
    for code, calls in _HIT
)
_CALLS_SQL = f"""
SELECT
  (SELECT coalesce(sum(hits), 0) FROM site)::BIGINT,
  (SELECT count(*) FROM native_call_coded) + (SELECT count(*) FROM ({PROBED_CUDA_SQL})),
  (SELECT coalesce(sum(count), 0) FROM trace_stat WHERE {_REPORTED})::BIGINT,
  (SELECT coalesce(list(DISTINCT coalesce(is_expensive, false)), []) FROM site WHERE hits > 0)
"""  # noqa: S608 - a query of our own


def doubts(connection: duckdb.DuckDBPyConnection) -> dict[str, Quality]:
    """Return by event why its cost is to be doubted: the OS kernel counted more than the trace has.

    Calls are counted at their probes until the recording ends, those too whose record was lost, or
    left out because CUPTI tells of them.
    """
    ((counted, known, reported, kinds),) = connection.execute(_CALLS_SQL).fetchall()
    if counted - reported <= known * (1 + _TOLERANCE) + _FEWEST:
        return {}
    doubt = quality("calls_missing", counted, known)
    return {"call_expensive" if is_expensive else "call": doubt for is_expensive in kinds}
