"""Runs one of the reports."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rlscope_analysis.errors import TraceError
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.query import run_query
from rlscope_analysis.result.column import Column, Role, Said, Unit, unit_of
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import Answer, Table, total_of
from rlscope_analysis.sentences import coverage_sentence, facts_of
from rlscope_analysis.window import asked_window, origin_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.reports import Report
    from rlscope_analysis.result.table import Values
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


def answer(trace: Trace, report: Report) -> Answer:
    """Run the query of a report.

    Raises TraceError where no kind of record it needs was measured for any process, or nobody
    measured what recording costs.
    """
    missing = _not_measured(trace, report)
    if report.needs_costs and (reason := cost_gap(trace)):
        raise TraceError(
            f"{trace.path} does not tell what its recording cost: {sentence_of(reason)}",
            hint=_holding(trace, "calibration"),
        )
    window = asked_window(trace.connection)
    table = _table(trace, report, missing)
    return Answer(
        tables=(table,),
        data=table,
        facts={
            "view": report.name,
            "trace": str(trace.path),
            "window": window,
            "processes_not_measured": missing,
        },
        head=(("window", str(window)),) if window else (),
    )


def _table(trace: Trace, report: Report, missing: dict[str, int]) -> Table:
    first_ns = origin_ns(trace.connection) if report.notes else 0
    result = run_query(trace, report.sql)
    codes = {result.columns.index(name): code for name, code in report.notes}
    rows = [
        tuple(
            note(codes[at], origin_ns=first_ns, **value) if at in codes and value else value
            for at, value in enumerate(row)
        )
        for row in result.rows
    ]
    said = dict(report.said)
    columns = tuple(
        _column(
            report,
            name,
            type_name,
            said.get(name),
            is_known=_is_known(result.columns, rows, name, said.get(name)),
        )
        for name, type_name in zip(result.columns, result.types, strict=True)
    )
    notes = []
    for kind, processes in missing.items():
        code = "kind_assumed" if kind in report.assumes else "kind_not_measured"
        notes.append(note(code, kind=kind, processes=processes))
    return Table(
        report.name,
        report.title,
        columns,
        rows,
        notes=tuple(notes),
        pivot=report.pivot,
        total=total_of(columns, rows),
        title_has_units=report.pivot is not None,
    )


def _is_known(columns: Sequence[str], rows: Sequence[Values], name: str, said: Said | None) -> bool:
    if said is not None and said.is_always_known:
        return bool(rows)
    places = [columns.index(one) for one in (name, *(said.columns if said else ()))]
    # What is said of a count of 0 is that there is nothing.
    nothing = (None,) if said is None else (None, 0)
    return any(row[at] not in nothing for row in rows for at in places)


def _column(
    report: Report, name: str, type_name: str, said: Said | None, *, is_known: bool
) -> Column:
    roles = dict.fromkeys(report.hidden, Role.HIDDEN) | dict.fromkeys(report.key, Role.KEY)
    roles |= {report.error: Role.ERROR} if report.error else {}
    unit = unit_of(name, type_name)
    return Column(
        name,
        unit if is_known or unit is not Unit.TEXT else Unit.UNKNOWN,
        roles.get(name, Role.SHOWN),
        label=said.label if said else None,
        additive=name in report.additive,
        said=said,
    )


def cost_gap(trace: Trace) -> Note | None:
    """Return why nothing can be subtracted; None: what recording costs was measured."""
    ((is_calibrated, is_reported, has_processes, reason),) = run_query(trace, _GAP_SQL).rows
    if is_calibrated or not has_processes:
        return None
    if not is_reported:
        return note("no_calibration")
    return note("cost_failed", reason=reason) if reason else note("no_costs")


def _not_measured(trace: Trace, report: Report) -> dict[str, int]:
    """Return for how many processes each kind that matters was not measured, if for any."""
    kinds = report.needs + report.assumes
    ((processes,),) = trace.once("SELECT count(*) FROM process")
    if not kinds or not processes:
        return {}
    known = dict.fromkeys(kinds, (0, processes))
    query = "SELECT kind, count(*) FILTER (WHERE measured), count(*) FROM _measured GROUP BY kind"
    known |= {kind: (yes, of) for kind, yes, of in trace.once(query) if kind in known}
    if report.needs and not any(known[kind][0] for kind in report.needs):
        first_ns = origin_ns(trace.connection)
        reported = "SELECT kind, measured, facts FROM _covered WHERE facts IS NOT NULL"
        reasons = [
            (kind, coverage_sentence(facts_of(facts), measured=measured, origin_ns=first_ns))
            for kind, measured, facts in run_query(trace, reported).rows
            if kind in report.needs
        ]
        why = "; ".join(dict.fromkeys(sentence for _, sentence in sorted(reasons)))
        raise TraceError(
            f"{trace.path} holds no {' or '.join(report.needs)}: it was not measured"
            + (f" ({why})" if why else ""),
            hint=_holding(trace, "coverage"),
        )
    return {kind: of - yes for kind, (yes, of) in known.items() if of > yes}


def _holding(trace: Trace, relation: str) -> str:
    command = shlex.join(["rlscope-trace", "sql", str(trace.path), f"FROM {relation}"])
    return f"what it holds: {command}"
