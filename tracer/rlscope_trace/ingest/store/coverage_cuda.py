"""What coverage says of CUDA calls which probes recorded: store/cuda_rows.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.store.cupti_intervals import (
    IS_OF_CUPTI,
    OF_CUPTI,
    create_intervals,
)
from rlscope_trace.ingest.store.gil_ranges import life_of
from rlscope_trace.ingest.writer.coverages import KindCoverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from rlscope_trace.ingest.store.probe_facts import CudaReported, ProbeFacts
    from rlscope_trace.ingest.store.processes import Life
    from rlscope_trace.ingest.writer.coverages import Coverages

_CALLS = "cuda_call"
# So many names of files are said; the rest is counted.
_NAMES = 4
_WITH_ROWS = f"""
SELECT DISTINCT t.process_id
FROM cuda_call_coded AS c JOIN thread AS t USING (thread_id)
WHERE NOT {IS_OF_CUPTI}
"""  # noqa: S608 - a query of our own


def add_cuda_coverage(  # noqa: PLR0913 - one parameter per source
    coverages: Coverages,
    con: duckdb.DuckDBPyConnection,
    facts: ProbeFacts,
    lives: Sequence[Life],
    *,
    lacking: tuple[Fact, ...],
    mode: object,
) -> None:
    """Set what is known of each process with probed libraries.

    To be called when that is set which CUPTI's half tells: a process where CUPTI was refused was
    not measured, which a measured one takes the place of. lacking: what was not recorded of all
    processes. mode: --cuda-calls.
    """
    create_intervals(con)
    latest = _by_process(facts, lives)
    cupti = {process_id for (process_id,) in con.execute(OF_CUPTI).fetchall()}
    probed = _Probed(facts, lives, lacking)
    rows = {
        process_id: probed.coverage(process_id, one)
        for process_id, one in latest.items()
        if process_id not in cupti and one.state != "left"
    }
    is_any_probed = any(site.layer == "cuda_api" for site in facts.sites.values())
    for (process_id,) in con.execute(_WITH_ROWS).fetchall() if is_any_probed else ():
        one = latest.get(process_id)
        if process_id in cupti:
            coverages.add(process_id, _CALLS, probed.beside_cupti(one))
        elif process_id not in rows or not rows[process_id].measured:
            # It ended before it was looked at, but its libraries had their probes from others.
            rows[process_id] = probed.coverage(process_id, None)
    if mode in ("auto", "on") and not lacking:
        _explain(coverages, set(latest) | set(rows) | cupti)
    for process_id, coverage in sorted(rows.items()):
        known = coverages.get(process_id, _CALLS)
        if known is None or not known.measured:
            coverages.set(coverage)


def _explain(coverages: Coverages, known: set[int]) -> None:
    """Say of processes that CUPTI left to probes why these did not tell of them either."""
    for coverage in coverages.of_kind(_CALLS):
        process_id = coverage.process_id
        if not coverage.measured and process_id is not None and process_id not in known:
            coverages.add(process_id, _CALLS, [Fact("cuda_ended_unprobed")])


class _Probed:
    """What is said of the processes whose calls probes reported."""

    def __init__(self, facts: ProbeFacts, lives: Sequence[Life], lacking: tuple[Fact, ...]) -> None:
        self._sites = [site for site in facts.sites.values() if site.layer == "cuda_api"]
        self._lives = {life.process_id: life for life in lives}
        self._lacking = lacking
        self._first_reported_ns: dict[int, int] = {}
        for reported in sorted(facts.cuda, key=lambda one: -one.ts_ns):
            life = life_of(lives, reported.pid, reported.ts_ns)
            if life is not None:
                self._first_reported_ns[life.process_id] = reported.ts_ns

    def coverage(self, process_id: int, reported: CudaReported | None) -> KindCoverage:
        """Return whether the calls of a process were recorded, and how or why not."""
        if reported is not None and reported.state == "failed":
            fact = Fact("cuda_files_not_probed", detail=reported.reason)
            return KindCoverage(process_id, _CALLS, False, (fact,))
        late = self._late(process_id, reported.files if reported is not None else ())
        facts = (*self._lacking, *([late] if late else []), *_how("cuda_probed", reported))
        return KindCoverage(process_id, _CALLS, True, facts)

    def beside_cupti(self, reported: CudaReported | None) -> list[Fact]:
        """Return what is said of a process that CUPTI reported on, too."""
        return _how("cuda_probed_beside", reported)

    def _late(self, process_id: int, files: Sequence[str]) -> Fact | None:
        """Return since when the probes were there, if a process may have called before."""
        life = self._lives.get(process_id)
        if life is None:  # whose it was is not known
            return None
        probed = [
            site.probed_ns for site in self._sites
            if site.probed_ns is not None and (not files or Path(site.module).name in files)
        ]  # fmt: skip
        first_reported_ns = self._first_reported_ns.get(process_id, 2**63)
        starts = [at_ns for at_ns in life.exec_ns if at_ns <= first_reported_ns]
        since_ns = max(probed, default=0)
        if since_ns <= max(starts, default=life.first_ns):
            return None
        return Fact("cuda_calls_late", ts_ns=since_ns)


def _by_process(facts: ProbeFacts, lives: Sequence[Life]) -> dict[int, CudaReported]:
    """Return what was said last of each process; of a fork that was never looked at, its parent."""
    latest: dict[int, CudaReported] = {}
    for reported in sorted(facts.cuda, key=lambda one: one.ts_ns):
        life = life_of(lives, reported.pid, reported.ts_ns)
        if life is not None:
            latest[life.process_id] = reported
    for life in lives:
        if life.process_id not in latest and not life.exec_ns and life.parent_process_id in latest:
            latest[life.process_id] = latest[life.parent_process_id]
    return latest


def _how(code: str, reported: CudaReported | None) -> list[Fact]:
    files, blind = (reported.files, reported.blind) if reported is not None else ((), ())
    facts = [Fact(code, _names(files) if files else "CUDA's libraries")]
    if blind:
        facts.append(Fact("cuda_runtime_blind", _names(blind)))
    if reported is not None and reported.reason:
        facts.append(Fact("cuda_files_not_probed", detail=reported.reason))
    return facts


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    shown = ", ".join(names[:_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown
