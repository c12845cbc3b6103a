"""The rows of table capture that tell of CUDA calls which probes recorded: store/cuda_rows.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.store.cuda_rows import TOLD_BY_CUPTI
from rlscope_trace.store.gil_ranges import life_of

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
WHERE t.process_id NOT IN ({TOLD_BY_CUPTI})
"""  # noqa: S608 - a query of our own


def insert_cuda_capture(
    con: duckdb.DuckDBPyConnection,
    facts: ProbeFacts,
    lives: Sequence[Life],
    *,
    lacking: str | None,
) -> int:
    """Insert a row for each process with probed libraries; returns how many rows more there are.

    To be called when the rows that CUPTI's half makes are there: a process where CUPTI was refused
    has a row that its calls were not measured, which a measured one takes the place of. lacking:
    what was not recorded of all processes ("in part: ..."), None: nothing.
    """
    told = _by_process(facts, lives)
    cupti = {process_id for (process_id,) in con.execute(TOLD_BY_CUPTI).fetchall()}
    rows = {
        process_id: _row(one, lacking)
        for process_id, one in told.items()
        if process_id not in cupti and one.state != "left"
    }
    for (process_id,) in con.execute(_WITH_ROWS).fetchall():
        # It ended before it was looked at, but its libraries had their probes from others.
        known = rows.get(process_id, (False, None))
        if not known[0] and any(site.layer == "cuda_api" for site in facts.sites.values()):
            rows[process_id] = (True, _joined(lacking, _sentence((), ())))
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


def _row(told: CudaTold, lacking: str | None) -> tuple[bool, str | None]:
    if told.state != "probed":
        return False, f"not probed: {told.reason}"
    return True, _joined(lacking, _sentence(told.files, told.blind, told.reason))


def _joined(lacking: str | None, sentence: str) -> str:
    return f"{lacking}; {sentence}" if lacking else sentence


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
