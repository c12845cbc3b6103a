"""The rows of table capture that tell of CUDA calls which probes recorded: store/cuda_rows.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.store.cupti_intervals import (
    IS_TOLD_BY_CUPTI,
    TOLD_BY_CUPTI,
    create_intervals,
)
from rlscope_trace.store.gil_ranges import life_of
from rlscope_trace.store.gpu_verdicts import IN_PART

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from rlscope_trace.store.probe_facts import CudaTold, ProbeFacts
    from rlscope_trace.store.processes import Life

# So many names of files are said; the rest is counted.
_NAMES = 4
_WITH_ROWS = f"""
SELECT DISTINCT t.process_id
FROM cuda_call_coded AS c JOIN thread AS t USING (thread_id)
WHERE NOT {IS_TOLD_BY_CUPTI}
"""  # noqa: S608 - a query of our own
_TOO_SHORT = "it ended before it could be probed"


def insert_cuda_capture(
    con: duckdb.DuckDBPyConnection,
    facts: ProbeFacts,
    lives: Sequence[Life],
    *,
    lacking: str | None,
    mode: object,
) -> int:
    """Insert a row for each process with probed libraries; returns how many rows more there are.

    To be called when the rows that CUPTI's half makes are there: a process where CUPTI was refused
    has a row that its calls were not measured, which a measured one takes the place of. lacking:
    what was not recorded of all processes ("in part: ..."), None: nothing. mode: --cuda-calls.
    """
    create_intervals(con)
    latest = _by_process(facts, lives)
    cupti = {process_id for (process_id,) in con.execute(TOLD_BY_CUPTI).fetchall()}
    said = _Sentences(facts, lives, lacking)
    rows = {
        process_id: said.row(process_id, one)
        for process_id, one in latest.items()
        if process_id not in cupti and one.state != "left"
    }
    is_any_probed = any(site.layer == "cuda_api" for site in facts.sites.values())
    for (process_id,) in con.execute(_WITH_ROWS).fetchall() if is_any_probed else ():
        one = latest.get(process_id)
        if process_id in cupti:
            _add_to(con, process_id, said.row(process_id, one)[1])
        elif not rows.get(process_id, (False, None))[0]:
            # It ended before it was looked at, but its libraries had their probes from others.
            rows[process_id] = said.row(process_id, None)
    if mode in ("auto", "on") and lacking is None:
        _explain(con, set(latest) | set(rows) | cupti)
    return _insert(con, rows)


def _insert(con: duckdb.DuckDBPyConnection, rows: dict[int, tuple[bool, str]]) -> int:
    added = 0
    for process_id, (measured, reason) in sorted(rows.items()):
        (gone,) = con.execute(
            "DELETE FROM capture WHERE kind = 'cuda_call' AND process_id = ? AND NOT measured",
            [process_id],
        ).fetchall()[0]
        con.execute(
            "INSERT INTO capture VALUES (?, 'cuda_call', ?, ?)", [process_id, measured, reason]
        )
        added += 1 - gone
    return added


def _add_to(con: duckdb.DuckDBPyConnection, process_id: int, sentence: str) -> None:
    """Say of a process that probes told of its calls, too, when CUPTI did not."""
    con.execute(
        "UPDATE capture SET reason = reason || '; when CUPTI did not tell: ' || ?"
        " WHERE kind = 'cuda_call' AND process_id = ?",
        [sentence.removeprefix(IN_PART), process_id],
    )


def _explain(con: duckdb.DuckDBPyConnection, known: set[int]) -> None:
    """Say of processes that CUPTI left to probes why these did not tell of them either."""
    con.execute(
        "UPDATE capture SET reason = reason || ?"
        " WHERE kind = 'cuda_call' AND NOT measured AND process_id IS NOT NULL"
        " AND NOT list_contains(?::INTEGER[], process_id)",
        [f"; and {_TOO_SHORT}", sorted(known)],
    )


class _Sentences:
    """What is said of the processes whose calls probes told."""

    def __init__(self, facts: ProbeFacts, lives: Sequence[Life], lacking: str | None) -> None:
        self._sites = [site for site in facts.sites.values() if site.layer == "cuda_api"]
        self._lives = {life.process_id: life for life in lives}
        self._start_ns = min((life.first_ns for life in lives), default=0)
        self._lacking = lacking
        self._first_told_ns: dict[int, int] = {}
        for told in sorted(facts.cuda, key=lambda one: -one.ts_ns):
            life = life_of(lives, told.pid, told.ts_ns)
            if life is not None:
                self._first_told_ns[life.process_id] = told.ts_ns

    def row(self, process_id: int, told: CudaTold | None) -> tuple[bool, str]:
        """Return whether the calls of a process were recorded, and how or why not."""
        if told is not None and told.state == "failed":
            return False, f"not probed: {told.reason}"
        files = told.files if told is not None else ()
        late = self._late(process_id, files)
        parts = [part.removeprefix(IN_PART) for part in (self._lacking, late) if part]
        blind, reason = (told.blind, told.reason) if told is not None else ((), None)
        words = "; ".join([*parts, _sentence(files, blind, reason)])
        return True, f"{IN_PART}{words}" if parts else words

    def _late(self, process_id: int, files: Sequence[str]) -> str | None:
        """Say that a process may have called before the probes were there; None: it cannot."""
        life = self._lives[process_id]
        probed = [
            site.probed_ns for site in self._sites
            if site.probed_ns is not None and (not files or Path(site.module).name in files)
        ]  # fmt: skip
        first_told_ns = self._first_told_ns.get(process_id, 2**63)
        starts = [at_ns for at_ns in life.exec_ns if at_ns <= first_told_ns]
        since_ns = max(probed, default=0)
        if since_ns <= max(starts, default=life.first_ns):
            return None
        return f"only calls from {(since_ns - self._start_ns) / 1e9:.3f} s after the start on"


def _by_process(facts: ProbeFacts, lives: Sequence[Life]) -> dict[int, CudaTold]:
    """Return what was said last of each process; of a fork that was never looked at, its parent."""
    latest: dict[int, CudaTold] = {}
    for told in sorted(facts.cuda, key=lambda one: one.ts_ns):
        life = life_of(lives, told.pid, told.ts_ns)
        if life is not None:
            latest[life.process_id] = told
    for life in lives:
        if life.process_id not in latest and not life.exec_ns and life.parent_process_id in latest:
            latest[life.process_id] = latest[life.parent_process_id]
    return latest


def _sentence(files: Sequence[str], blind: Sequence[str], reason: str | None = None) -> str:
    where = _names(files) if files else "CUDA's libraries"
    words = [f"by probes on the functions of {where}: no GPU activity, no correlation"]
    if blind:
        words.append(
            f"calls of the runtime inside {_names(blind)} have no names and are not seen, those of"
            " the driver that they make are"
        )
    if reason:
        words.append(f"not probed: {reason}")
    return "; ".join(words)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    shown = ", ".join(names[:_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown
