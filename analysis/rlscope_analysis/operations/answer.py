"""`summarize --by operation` as an answer: what is said of the trace, and a table per question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.operations.tables import process_name, tables_of
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import Answer, Table
from rlscope_analysis.schema.vocabulary import ANY_ITERATION_NAME
from rlscope_analysis.summary.losses import loss_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.operations.iteration import Iteration, Row
    from rlscope_analysis.operations.report import OperationReport


def answer_of(report: OperationReport) -> Answer:
    """Make an answer of what was read."""
    rows = [tuple(row.values()) for row in report.rows]
    return Answer(
        tables=tuple(tables_of(report)),
        data=Table("operation", "", report.columns, rows),
        facts={
            "view": "operation",
            "trace": report.trace,
            "is_complete": report.is_complete,
            "window": report.window,
            "losses": report.losses,
            "notes": report.notes,
            "processes_not_measured": report.not_measured,
            "iteration": report.iteration and _iteration(report.iteration),
            "processes": report.processes,
        },
        head=tuple(_head(report)),
        is_complete=report.is_complete,
    )


def _iteration(found: Iteration) -> dict[str, Any]:
    counts = found.by_process.items()
    return {
        "operation": found.name,
        "source": found.source,
        "instances": [{"process_id": key, "instances": count} for key, count in counts],
    }


def _head(report: OperationReport) -> Iterable[tuple[str, str | Note]]:
    yield "trace", report.trace
    if report.window:
        yield "window", str(report.window)
    if report.of_scope("operation"):
        yield "iteration", _iteration_note(report.iteration, report.processes)
    else:
        yield "operations", note("no_operations")
    yield from loss_lines(report.losses)
    yield from (("note", limits) for limits in report.notes)


def _iteration_note(found: Iteration | None, processes: Iterable[Row]) -> Note:
    if found is None:
        return note("no_iteration", names=ANY_ITERATION_NAME)
    processes_by_id = {row["process_id"]: process_name(row) for row in processes}
    (most, times), *others = found.by_process.items()
    return note(
        "iteration",
        name=found.name,
        source=found.source,
        times=times,
        process=processes_by_id.get(most),
        more_processes=len(others),
        more_times=sum(count for _, count in others),
    )
