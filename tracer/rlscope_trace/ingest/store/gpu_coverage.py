"""What coverage says of GPUs: of which processes CUPTI reported, and why of no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.store.coverage_rows import verdict_of
from rlscope_trace.ingest.writer.coverages import KindCoverage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from rlscope_trace.ingest.writer.coverages import Coverages

_ACTIVITY = "gpu_activity"


def add_gpu_coverage(
    coverages: Coverages,
    con: duckdb.DuckDBPyConnection,
    session: Mapping[str, object],
    verdicts: Sequence[KindCoverage],
) -> None:
    """Set what CUPTI reported, and why nothing is known of all other processes.

    A process without CUDA tells nothing: its GPU activity is not measured, which is no zero.
    """
    coverages.set(*verdicts)
    known = {verdict.process_id for verdict in verdicts}
    was_measured, facts = verdict_of(session.get("gpu"))
    if was_measured:
        facts = (Fact("cuda_not_initialised"),)
    calling = _calling(con) - known if was_measured else set()
    unheard = (Fact("cupti_unheard"),)
    coverages.set(*(KindCoverage(one, _ACTIVITY, False, unheard) for one in sorted(calling)))
    processes = con.execute("SELECT process_id FROM process").fetchall()
    # Calls of CUDA may be recorded in other ways too, which tell of them.
    if any(process_id not in known | calling for (process_id,) in processes):
        coverages.set(KindCoverage(None, _ACTIVITY, False, facts))


def _calling(con: duckdb.DuckDBPyConnection) -> set[int]:
    """Return the processes that called CUDA."""
    found = con.execute(
        "SELECT DISTINCT t.process_id FROM cuda_call_coded AS c JOIN thread AS t USING (thread_id)"
    ).fetchall()
    return {process_id for (process_id,) in found}
