"""Puts a page together: what `summarize` says, and what there is to look at."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlscope_analysis.cpu_list import listed_cpus
from rlscope_analysis.explain.answer import chosen_iteration
from rlscope_analysis.findings.catalog import BY_CODE
from rlscope_analysis.note_sentences import FEW
from rlscope_analysis.overview.answer import (
    completed,
    facts_of,
    limits_of,
    overview,
    pace_of,
    program_of,
    role_note,
    training_of,
    verdict,
)
from rlscope_analysis.overview.not_measured import loss_records, not_measured_notes
from rlscope_analysis.page import tables
from rlscope_analysis.page.close_up import close_up
from rlscope_analysis.page.figures import figures
from rlscope_analysis.page.functions import functions
from rlscope_analysis.page.gpu import gpu
from rlscope_analysis.page.iterations import iteration_bars
from rlscope_analysis.page.private import private_words
from rlscope_analysis.page.run_queue import queues
from rlscope_analysis.page.tables import Asked, in_order
from rlscope_analysis.page.what_if import what_if_table
from rlscope_analysis.query import run_query, run_records, run_together
from rlscope_analysis.result.note import note
from rlscope_analysis.result.page import Page
from rlscope_analysis.window import asked_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlscope_analysis.overview.values import Overview
    from rlscope_analysis.result.note import Note
    from rlscope_analysis.result.page import Gpu, PageTable
    from rlscope_analysis.trace import Trace
    from rlscope_analysis.window import AskedWindow

_FACTS_SQL = """
SELECT
  (SELECT value FROM meta WHERE key = 'host') AS host,
  (SELECT value FROM meta WHERE key = 'kernel') AS kernel,
  (SELECT count(*) FROM thread) AS threads,
  (
    SELECT arg_min(c.realtime_ns - c.ts_ns, c.ts_ns) + (SELECT min(start_ns) FROM thread)
    FROM clock AS c
  ) AS started_ns
"""
_ITERATION_SQL = "SELECT *, end_ns - start_ns AS duration_ns FROM iteration WHERE iteration_id = {}"
# What most iterations look like, and the worst one.
_SHOWN = (("typical", "median"), ("slowest", "slowest"))
_FEW = 2


def read_first_screen(trace: Trace, *, per: str | None = None) -> Page:
    """Read what stands first on the page of an open trace: the rest of the page is empty.

    per: the range that counts as an iteration; TraceError where none is called so.
    """
    reported = overview(trace, per=per)
    return _first_screen(trace, reported)


def read_page(trace: Trace, *, per: str | None = None) -> Page:
    """Read an open trace.

    per: the range that counts as an iteration; TraceError where none is called so, and where
    something cannot be read. A trace of whose iterations nothing can be said has a page.
    """
    window = _options(asked_window(trace.connection))
    asked = Asked(window, (*window, "--per", per) if per else window)
    # What needs no iteration is read while it is found out which there are.
    pace, (facts, found_gpu, of_trace) = run_together(
        trace, lambda own: pace_of(own, per=per), lambda own: _of_trace(own, asked)
    )
    page, of_iterations = _of_iterations(trace, replace(facts, **pace), asked)
    return replace(page, gpu=found_gpu, tables=in_order((*of_iterations, *of_trace)))


def _of_iterations(
    trace: Trace, begun: Overview, asked: Asked
) -> tuple[Page, tuple[PageTable, ...]]:
    """Return the page without what needs no iteration, and the views of iterations."""
    if not (begun.pace and begun.pace["iterations"]):
        return _page(trace, completed(trace, begun)), ()
    (limits, of_limits), (training, drawn, of_training) = run_together(
        trace,
        lambda own: _of_limits(own, asked),
        lambda own: _of_training(own, begun, asked),
    )
    reported = replace(begun, **{**limits, **training})
    page = _page(trace, reported)
    if reported.pace is None:
        return page, ()
    return replace(page, **drawn), (*of_limits, *of_training)


def _of_limits(trace: Trace, asked: Asked) -> tuple[dict[str, Any], tuple[PageTable, ...]]:
    """Return what the overview says of limits, and views."""
    found = limits_of(trace)
    return found, () if "reason" in found else tables.of_limits(trace, asked)


def _of_training(
    trace: Trace, begun: Overview, asked: Asked
) -> tuple[dict[str, Any], dict[str, Any], tuple[PageTable, ...]]:
    """Return what the overview says of the training, what is drawn of it, and views."""
    found = training_of(trace)
    if "reason" in found:
        return found, {}, ()
    shown, roles = list(_shown(trace)), _roles(found["processes"])
    drawn = {
        "iterations": None if _is_whole(begun) else iteration_bars(trace, shown),
        "close_ups": tuple(close_up(trace, which, row, roles) for which, row in shown),
        "queues": tuple(queues(trace)),
        "functions": functions(trace),
        "what_if": what_if_table(trace, asked),
    }
    return found, drawn, tables.of_training(trace, asked)


def _of_trace(trace: Trace, asked: Asked) -> tuple[Overview, Gpu | None, tuple[PageTable, ...]]:
    found = gpu(trace)
    return facts_of(trace), found, tables.of_trace(trace, asked, has_gpu=found is not None)


def _options(window: AskedWindow | None) -> tuple[str, ...]:
    return window.options() if window else ()


def _page(trace: Trace, reported: Overview) -> Page:
    """Return the page as far as the overview tells it."""
    return replace(
        _first_screen(trace, reported),
        not_measured=tuple(not_measured_notes(trace, reported)),
        private=tuple(dict.fromkeys(private_words(trace))),
    )


def _roles(processes: Iterable[dict[str, Any]]) -> dict[int, Note]:
    return {row["process_id"]: role_note(row) for row in processes}


def _first_screen(trace: Trace, reported: Overview) -> Page:
    roles = _roles(reported.processes)
    return Page(
        trace=reported.trace,
        facts=_facts(trace, reported),
        asked=_options(reported.window),
        verdict=verdict(reported) if reported.pace else note("no_verdict", reason=reported.reason),
        verdict_more=tuple(_more(reported)),
        pace=reported.pace,
        figures=tuple(figures(reported)),
        phases=reported.phases,
        processes=tuple(_process(row, roles) for row in reported.processes),
        findings=tuple(_finding(row, reported.lead, roles) for row in reported.findings),
        what_if=None,
        iterations=None,
        close_ups=(),
        queues=(),
        functions=None,
        gpu=None,
        tables=(),
        losses=loss_records(reported),
        overhead={"cpu_ns": reported.overhead.cpu_ns, "overhead_ns": reported.overhead.overhead_ns},
        not_measured=(),
        private=(),
    )


def _is_whole(reported: Overview) -> bool:
    return reported.pace is not None and reported.pace["source"] == "whole"


def _facts(trace: Trace, reported: Overview) -> dict[str, Any]:
    (facts,) = run_records(trace, _FACTS_SQL)
    return {
        **facts,
        "program": program_of(reported.machine["command"]),
        "cpus": reported.machine["cpus"],
        "cpu_count": len(listed_cpus(reported.machine["cpus"])) or None,
        "processes": reported.machine["processes"],
        "duration_ns": reported.duration_ns,
        "left_out_ns": reported.machine["left_out_ns"],
        "start_up_ns": reported.pace["start_up_ns"] if reported.pace else None,
        "is_complete": reported.is_complete,
        "window": str(reported.window) if reported.window else None,
    }


def _shown(trace: Trace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the iterations that have a close-up, with all that is known of them."""
    ((count,),) = run_query(trace, "SELECT count(*) FROM iteration").rows
    seen = set()
    for which, quantile in _SHOWN:
        number = chosen_iteration(trace, quantile)["iteration_id"]
        if number not in seen:
            (row,) = run_records(trace, _ITERATION_SQL.format(number))
            name = "whole" if row["source"] == "whole" else which
            yield name if count >= _FEW or name == "whole" else "only", row
        seen.add(number)


def _process(row: dict[str, Any], roles: dict[int, Note]) -> dict[str, Any]:
    return {**row, "who": roles[row["process_id"]], "for": roles.get(row["waits_for_process_id"])}


def _finding(
    row: dict[str, Any], lead: dict[str, Any] | None, roles: dict[int, Note]
) -> dict[str, Any]:
    limit, where = BY_CODE[row["code"]], row["where"]
    # As the verdict says it: what the leading process waits for may be the work of another.
    of = lead if limit.is_of_lead and lead else where
    by = where.get("by_program") or where.get("by_holder")
    return {**row, "who": roles.get(of["process_id"]), "by": by, "proof": limit.proof}


def _more(reported: Overview) -> Iterator[Note]:
    """Say what the others do meanwhile."""
    workers = [row for row in reported.processes if row["role"] == "worker" and not row["is_lead"]]
    lead, pace = reported.lead, reported.pace
    if pace is not None and pace["source"] != "whole" and pace["iterations"] < FEW:
        yield note("few_iterations")
    if lead is None or not workers:
        return
    waiting = [row for row in workers if row["waits_for_process_id"] == lead["process_id"]]
    shares = [row["waits_share"] for row in workers]
    if len(waiting) == len(workers) and None not in shares:
        mean = sum(shares) / len(shares)
        yield note("workers_wait", workers=len(workers), share=mean, role=lead["role"])
