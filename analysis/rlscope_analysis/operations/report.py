"""Answers `summarize --by operation`: where the time of each operation went, and per iteration.

docs/summary.md explains every number; `tables` lays it out for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.operations.iteration import Iteration, Row, find_iteration
from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.reports import REPORTS, report_sql
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.column import Column, Unit
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.summary import queries
from rlscope_analysis.summary.losses import losses_of
from rlscope_analysis.summary.notes import fault_notes, unmeasured_notes
from rlscope_analysis.window import AskedWindow, asked_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.summary.values import Loss
    from rlscope_analysis.trace import Trace

# The kinds of record that the answer draws on.
_KINDS = ("operation", "thread_state")
# Entries into a layer from any other, while the operation is innermost; None: not measured.
TRANSITIONS = ("to_simulator", "to_backend", "to_cuda_api")
_IDENTITY = ("scope", "process_id", "operation", "domain", "category", "source", "path_id")
# What is divided by the number of iterations.
PER_ITERATION = (
    "total_ns", "self_ns", "self_running_ns", "self_runnable_ns", "self_off_cpu_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OperationReport:
    """Everything `summarize --by operation` tells of one trace; times in ns, None is not known."""

    trace: str
    is_complete: bool
    window: AskedWindow | None
    losses: tuple[Loss, ...]
    notes: tuple[Note, ...]
    not_measured: dict[str, int]
    """Kind of record -> number of processes for which it was not measured."""
    iteration: Iteration | None
    """None: nothing looks like one, and no row has times per iteration."""
    processes: tuple[Row, ...]
    """Rows of reports/operation-threads.sql, the longest lifetime first."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    """By scope: operation, path (the same time as a tree), async_range and mark (in no sum)."""

    def of_scope(self, scope: str) -> list[Row]:
        """Return the rows of one scope."""
        return [row for row in self.rows if row["scope"] == scope]


def report_operations(trace: Trace, *, per: str | None = None) -> OperationReport:
    """Read the operations of an open trace; `per` names the one that counts as an iteration.

    Raises TraceError where operations were not measured, and where none is called `per`.
    """
    found = answer(trace, REPORTS["operation"])
    rows = list(found.data.records())
    not_measured = found.facts["processes_not_measured"]
    _add_transitions(trace, rows)
    paths = [row for row in rows if row["scope"] == "path"]
    iteration = find_iteration(trace.connection, paths, per)
    columns = found.data.columns + tuple(Column(name, Unit.COUNT) for name in TRANSITIONS)
    if iteration:
        columns += tuple(Column(_per_iteration(name), Unit.NS) for name in PER_ITERATION)
        columns += tuple(Column(f"{name}_per_iteration", Unit.RATE) for name in TRANSITIONS)
    names = [column.name for column in columns]
    rows += _rows(trace, "operation-async") + _rows(trace, "operation-mark")
    processes = _rows(trace, "operation-threads")
    ((ended_cleanly,),) = run_query(trace, queries.ENDED_CLEANLY_SQL).rows
    return OperationReport(
        trace=str(trace.path),
        is_complete=ended_cleanly,
        window=asked_window(trace.connection),
        losses=losses_of(trace),
        notes=tuple(_notes(trace, not_measured, rows, processes)),
        not_measured=not_measured,
        iteration=iteration,
        processes=tuple(processes),
        columns=columns,
        rows=tuple(_completed(row, names, iteration) for row in rows),
    )


def _rows(trace: Trace, name: str) -> list[Row]:
    return list(run_records(trace, report_sql(name)))


def _add_transitions(trace: Trace, rows: list[Row]) -> None:
    counts = {
        tuple(row[name] for name in _IDENTITY): row for row in _rows(trace, "operation-transitions")
    }
    for row in rows:
        found = counts.get(tuple(row[name] for name in _IDENTITY), {})
        row |= {name: found.get(name) for name in TRANSITIONS}


def _per_iteration(name: str) -> str:
    return f"{name.removesuffix('_ns')}_per_iteration_ns"


def _completed(row: Row, names: Sequence[str], iteration: Iteration | None) -> Row:
    """Return the row with every column, those per iteration too; None is not known."""
    complete = {name: row.get(name) for name in names}
    times = iteration.by_process.get(row["process_id"]) if iteration else None
    if times and row["scope"] in {"operation", "path"}:
        for name in PER_ITERATION:
            if row[name] is not None:
                complete[_per_iteration(name)] = row[name] / times
        for name in TRANSITIONS:
            if row[name] is not None:
                complete[f"{name}_per_iteration"] = row[name] / times
    return complete


def _notes(
    trace: Trace, not_measured: dict[str, int], rows: list[Row], processes: list[Row]
) -> Iterable[Note]:
    reported = list(unmeasured_notes(trace, _KINDS))
    yield from reported
    lacking = {one.named["kind"] for one in reported if not one.named["is_measured"]}
    for kind, count in not_measured.items():
        if kind not in lacking:
            yield note("kind_not_measured", kind=kind, processes=count)
    yield from fault_notes(trace, ("operation_coded", "thread", "all"))
    selves = [row["self_ns"] for row in rows if row["scope"] == "operation"]
    lifetime_ns = sum(process["lifetime_ns"] for process in processes)
    if None not in selves and sum(selves) != lifetime_ns:
        yield note("faulty_operations", self_ns=sum(selves), lifetime_ns=lifetime_ns)
    if any(
        row["scope"] == "operation"
        and row["total_running_ns"] is None is not row["self_running_ns"]
        for row in rows
    ):
        yield note("out_of_order")
