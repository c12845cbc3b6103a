"""Runs one of the reports; its rows as JSON or CSV."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import TraceError
from rlscope_analysis.query import run_query
from rlscope_analysis.result_format import csv_lines, json_report, json_value
from rlscope_analysis.sentences import (
    coverage_sentence,
    facts_of,
    gap_sentence,
    quality_sentence,
    reason_sentence,
)
from rlscope_analysis.window import asked_window, origin_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlscope_analysis.reports import Report
    from rlscope_analysis.trace import Trace

_GAP_SQL = """
SELECT
  EXISTS (FROM calibration WHERE used AND mean_ns IS NOT NULL),
  EXISTS (FROM calibration), EXISTS (FROM process),
  (
    SELECT arg_min([code, subject, detail], event <> 'switch') FROM calibration
    WHERE mean_ns IS NULL AND method = 'micro'
  )
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The columns and rows of a report, and the kinds of record it could not see everywhere."""

    report: Report
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    not_measured: dict[str, int]
    """Of each kind of record that it needs or makes good: processes without it, if any."""


def answer(trace: Trace, report: Report) -> Answer:
    """Run the query of a report.

    Raises TraceError where no kind of record it needs was measured for any process, or nobody
    measured what recording costs.
    """
    missing = _not_measured(trace, report)
    if report.needs_costs and (reason := cost_gap(trace)):
        raise TraceError(
            f"{trace.path} does not tell what its recording cost: {reason}",
            hint=f"what it holds: rlscope-trace sql {trace.path} 'FROM calibration'",
        )
    # Before the query: what it finds is read row by row.
    words = _words(trace) if report.worded else {}
    result = run_query(trace, report.sql)
    places = {result.columns.index(name): words[kind] for name, kind in report.worded}
    rows = [
        tuple(
            places[place](value) if place in places and value is not None else value
            for place, value in enumerate(row)
        )
        for row in result.rows
    ]
    return Answer(report, result.columns, rows, missing)


def _words(trace: Trace) -> dict[str, Callable[[dict[str, Any]], str]]:
    """Return what makes sentences of the codes in a report: see Report.worded."""
    first_ns = origin_ns(trace.connection)
    return {
        "gap": lambda told: gap_sentence(
            told["reason"], facts_of(told["facts"]), origin_ns=first_ns
        ),
        "quality": lambda told: quality_sentence(*told.values()),
    }


def cost_gap(trace: Trace) -> str | None:
    """Return why nothing can be subtracted; None: what recording costs was measured."""
    ((is_calibrated, is_told, has_processes, reason),) = run_query(trace, _GAP_SQL).rows
    if is_calibrated or not has_processes:
        return None
    if not is_told:
        return "its recorder did not measure it"
    return reason_sentence(*reason) if reason else "no cost of an event was measured"


def _not_measured(trace: Trace, report: Report) -> dict[str, int]:
    """Return for how many processes each kind that matters was not measured, if for any."""
    kinds = report.needs + report.assumes
    ((processes,),) = run_query(trace, "SELECT count(*) FROM process").rows
    if not kinds or not processes:
        return {}
    known = dict.fromkeys(kinds, (0, processes))
    query = "SELECT kind, count(*) FILTER (WHERE measured), count(*) FROM _measured GROUP BY kind"
    known |= {kind: (yes, of) for kind, yes, of in run_query(trace, query).rows if kind in known}
    if report.needs and not any(known[kind][0] for kind in report.needs):
        first_ns = origin_ns(trace.connection)
        told = "SELECT kind, measured, facts FROM _captured WHERE facts IS NOT NULL"
        reasons = [
            (kind, coverage_sentence(facts_of(facts), measured=measured, origin_ns=first_ns))
            for kind, measured, facts in run_query(trace, told).rows
            if kind in report.needs
        ]
        why = "; ".join(dict.fromkeys(sentence for _, sentence in sorted(reasons)))
        raise TraceError(
            f"{trace.path} holds no {' or '.join(report.needs)}: it was not measured"
            + (f" ({why})" if why else ""),
            hint=f"what it holds: rlscope-trace sql {trace.path} 'FROM capture'",
        )
    return {kind: of - yes for kind, (yes, of) in known.items() if of > yes}


def render_json(found: Answer, trace: Trace) -> Iterator[str]:
    """Render one object: the report, the trace, and a row per line."""
    window = asked_window(trace.connection)
    head = {
        "view": found.report.name,
        "trace": str(trace.path),
        "window": asdict(window) if window else None,
        "processes_not_measured": found.not_measured,
    }
    return json_report(head, rows_of(found))


def rows_of(found: Answer) -> Iterator[dict[str, Any]]:
    """Yield each row as an object of JSON."""
    for row in found.rows:
        yield {name: json_value(value) for name, value in zip(found.columns, row, strict=True)}


def render_csv(found: Answer) -> Iterator[str]:
    """Render every row under a line of headings; NULL is an empty field."""
    return csv_lines([found.columns, *found.rows])
