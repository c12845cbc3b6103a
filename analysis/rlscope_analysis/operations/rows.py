"""Chooses the lines of the tables of operations: per process, the largest first, and totals."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.wording import count_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.operations.iteration import Row
    from rlscope_analysis.operations.report import OperationReport


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table; `depth` is how far its label is indented."""

    label: str
    row: Row
    depth: int = 0
    is_total: bool = False
    is_trace: bool = False
    """The total of the whole trace."""


def flat_lines(report: OperationReport, limit: int | None) -> tuple[list[Line], int]:
    """List the operations of each process under its total; and how many are not listed."""
    rows = report.of_scope("operation")
    shown = _largest(rows, "self_ns", limit)
    lines: list[Line] = []
    for process, own in _by_process(report, rows):
        listed = [row for row in own if id(row) in shown]
        if listed:
            total = _total(own, report.columns)
            lines.append(Line(_process_label(process), total, is_total=True))
            lines += [Line(row["operation"], row, depth=1) for row in listed]
    total = _total(rows, report.columns)
    lines.append(Line("total", total, is_total=True, is_trace=True))
    return lines, _hidden(rows, shown)


def tree_lines(report: OperationReport, limit: int | None) -> tuple[list[Line], int]:
    """List the operations of each process, each below the one around it."""
    rows = report.of_scope("path")
    shown = _largest(rows, "total_ns", limit)
    lines: list[Line] = []
    for process, own in _by_process(report, rows):
        listed = [row for row in _as_tree(own) if id(row) in shown]
        if listed:
            head = dict.fromkeys(report.columns)
            lines.append(Line(_process_label(process), head, is_total=True))
            lines += [Line(row["operation"], row, depth=1 + row["depth"]) for row in listed]
    return lines, _hidden(rows, shown)


def async_lines(rows: Sequence[Row], limit: int | None) -> tuple[Sequence[Row], int]:
    """Return the first rows, and how many are not listed."""
    listed = rows if limit is None else rows[:limit]
    return listed, len(rows) - len(listed)


def _by_process(report: OperationReport, rows: Sequence[Row]) -> Iterable[tuple[Row, list[Row]]]:
    """Yield each process with its rows, the longest lifetime first."""
    found: dict[int | None, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["process_id"]].append(row)
    for process in report.processes:
        yield process, found[process["process_id"]]


def _largest(rows: Sequence[Row], by: str, limit: int | None) -> set[int]:
    """Return the identities of the rows to show: operations with the most time.

    Time without any is shown of each process that has one of them.
    """
    marked = sorted((row for row in rows if row["instances"]), key=lambda row: -(row[by] or 0))
    shown = marked[:limit]
    processes = {row["process_id"] for row in shown}
    shown += [row for row in rows if not row["instances"] and row["process_id"] in processes]
    return {id(row) for row in shown}


def _hidden(rows: Sequence[Row], shown: set[int]) -> int:
    return sum(bool(row["instances"]) and id(row) not in shown for row in rows)


def _as_tree(rows: Sequence[Row]) -> Iterable[Row]:
    """Yield each row before those inside it, of one parent the largest first."""
    present = {row["path_id"] for row in rows}
    inside: dict[int | None, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["path_id"] == 0, -(row["total_ns"] or 0))):
        # The one around it may have ended before a window in which this one is still open.
        parent = row["parent_path_id"]
        inside[parent if parent in present else None].append(row)
    waiting = inside[None][::-1]
    while waiting:
        row = waiting.pop()
        yield row
        waiting += inside[row["path_id"]][::-1]


def _total(rows: Sequence[Row], columns: Iterable[str]) -> Row:
    """Add up the times that belong to one row each; one that is not known leaves no sum."""
    total: Row = dict.fromkeys(columns)
    for name in columns:
        if name.startswith("self_"):
            values = [row[name] for row in rows]
            total[name] = None if None in values else sum(values)
    return total


def _process_label(process: Row) -> str:
    if process["process_id"] is None:
        return "(process not known)"
    pid = "not known" if process["pid"] is None else process["pid"]
    threads = count_of(process["annotated_threads"], "thread")
    return f"{printable(process['name'] or '(no name)')} (pid {pid}, {threads})"
