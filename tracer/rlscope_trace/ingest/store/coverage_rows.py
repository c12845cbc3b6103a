"""What coverage says of thread states and operations, and why some were not measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact, fact_of
from rlscope_trace.ingest.writer.coverages import Coverages, KindCoverage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

NOT_REPORTED = Fact("not_reported")
_OPERATION = "operation"


def add_operation_coverage(
    coverages: Coverages,
    con: duckdb.DuckDBPyConnection,
    session: Mapping[str, object],
    annotated: Sequence[int],
) -> None:
    """Set what is known of operations; `annotated` are the processes whose NVTX ranges were read.

    Of several things that are known of a process the later counts, but that nothing was measured
    counts most.
    """
    coverages.set(KindCoverage(None, "thread_state", True, _kept(session)))
    reported = session.get("operations")
    measured, facts = verdict_of(reported)
    coverages.set(KindCoverage(None, _OPERATION, measured, facts))
    if not measured:
        coverages.set(
            *(KindCoverage(process_id, _OPERATION, measured=True) for process_id in annotated)
        )
    refused = (Fact("shim_without_memory"),)
    for coverage in [
        *_attached(con, session),
        *_taken(con, session, annotated),
        *(
            KindCoverage(one, _OPERATION, False, refused)
            for one in _refused(con, session, annotated)
        ),
    ]:
        known = coverages.get(coverage.process_id, _OPERATION)
        if known is None or known.measured:
            coverages.set(coverage)


def _kept(session: Mapping[str, object]) -> tuple[Fact, ...]:
    """Return what is said of a recording of which the last seconds were kept."""
    kept_ns, started_ns = session.get("kept_from_ns"), session.get("started_ns")
    if not isinstance(kept_ns, int) or not isinstance(started_ns, int):
        return ()
    return (Fact("kept_last", ts_ns=kept_ns, duration_ns=max(kept_ns - started_ns, 0)),)


def verdict_of(reported: object) -> tuple[bool, tuple[Fact, ...]]:
    """Return whether the recorder measured something, and how or why not, as it noted that."""
    if not isinstance(reported, dict):
        return False, (NOT_REPORTED,)
    fact = fact_of(reported.get("fact"))
    return reported.get("measured") is True, () if fact is None else (fact,)


def _attached(con: duckdb.DuckDBPyConnection, session: Mapping[str, object]) -> list[KindCoverage]:
    """Return what is known of the processes into which the shim was loaded while they ran."""
    reported = session.get("operations_late")
    verdicts: dict[int, list[tuple[bool, tuple[Fact, ...]]]] = {}
    for late in reported if isinstance(reported, list) else []:
        verdicts.setdefault(late["pid"], []).append(verdict_of(late))
    return [
        KindCoverage(
            process_id,
            _OPERATION,
            all(measured for measured, _ in found),
            tuple(fact for _, facts in found for fact in facts),
        )
        for pid, found in verdicts.items()
        for process_id in _processes(con, [pid])[:1]
    ]


def _taken(
    con: duckdb.DuckDBPyConnection, session: Mapping[str, object], annotated: Sequence[int]
) -> list[KindCoverage]:
    """Return the processes whose operations another recorder read, to the end or for a while."""
    pids = session.get("shim_taken_pids")
    return [
        KindCoverage(process_id, _OPERATION, True, (Fact("other_recorder_first"),))
        if process_id in annotated
        else KindCoverage(process_id, _OPERATION, False, (Fact("other_recorder"),))
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
