"""The tables of operations: by process, as a tree, per iteration, and what belongs to no sum."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.column import Column, Role, Said, Scale, Unit
from rlscope_analysis.result.names import ProcessName
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import NO_VALUE, Group, NoValue, Table, sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.operations.iteration import Row
    from rlscope_analysis.operations.report import OperationReport
    from rlscope_analysis.result.table import Values

_NAME_LENGTH = 60
_LABELS = ("domain", "category", "source")
_ENTERED = {
    "to_simulator": "-> simulator", "to_backend": "-> backend", "to_cuda_api": "-> CUDA API",
}  # fmt: skip
_PARTS = {"running": "on CPU", "runnable": "runnable", "off_cpu": "off CPU"}
_OPERATION = Column("operation", most=_NAME_LENGTH, said=Said("no_name"))
_INSTANCES = Column("instances", Unit.COUNT)
_TOTAL = Column("total_ns", Unit.NS)
_SELF = Column("self_ns", Unit.NS, additive=True)
_QUANTILES = tuple(Column(name, Unit.NS) for name in ("mean_ns", "p50_ns", "p99_ns"))
_DEPTH, _RANK = Column("depth", Unit.COUNT, Role.HIDDEN), Column("rank", role=Role.HIDDEN)


def tables_of(report: OperationReport) -> Iterable[Table]:
    """Yield each table that there is something to say in."""
    flat = report.of_scope("operation")
    labels = _labels(flat)
    parts = _PARTS | ({"lost": "lost"} if any(row["self_lost_ns"] for row in flat) else {})
    if flat:
        yield _flat(report, labels, parts)
    if any(row["depth"] for row in report.of_scope("path")):
        yield _tree(report, labels, parts)
    if report.iteration:
        yield _per_iteration(report, labels)
    names = {row["process_id"]: process_name(row) for row in report.processes}
    for scope, title, rest in (
        (
            "async_range",
            "ranges that belong to no thread (start/end): they may overlap, and are in no sum",
            (_TOTAL, *_QUANTILES),
        ),
        ("mark", "marks: instants", ()),
    ):
        if rows := report.of_scope(scope):
            yield _side(scope, title, rest, rows, names)


def process_name(row: Row) -> ProcessName:
    """Name the process of a row of reports/operation-threads.sql."""
    return ProcessName(row["name"], row["pid"])


def _labels(flat: Sequence[Row]) -> list[Column]:
    """Return what else tells operations apart: not what would say the same in every row."""
    marked = [row for row in flat if row["instances"]]
    values = {label: {row[label] for row in marked} for label in _LABELS}
    shown = [label for label in _LABELS if len(values[label]) > 1]
    if "source" not in shown and values["source"] - {"nvtx"}:
        shown.append("source")
    return [Column(label) for label in shown]


def _flat(report: OperationReport, labels: Sequence[Column], parts: dict[str, str]) -> Table:
    rows = report.of_scope("operation")
    columns = [
        _OPERATION, *labels, _INSTANCES, replace(_SELF, share_of="lifetime_ns"),
        *(
            Column(f"self_{part}_ns", Unit.NS, label=label, additive=True, share_of="self_ns")
            for part, label in parts.items()
        ),
    ]  # fmt: skip
    if any(row["self_gpu_busy_ns"] is not None for row in rows):
        columns.append(Column("self_gpu_busy_ns", Unit.NS, label="GPU busy", additive=True))
    columns += [_TOTAL, *_QUANTILES, Column("lifetime_ns", Unit.NS, Role.HIDDEN)]
    lifetime_ns = sum(row["lifetime_ns"] for row in report.processes)
    threads = sum(row["annotated_threads"] for row in report.processes)
    table = _grouped(
        report,
        "by process",
        "self: while the operation was the innermost one open, in % of all; its parts in % of it",
        columns,
        [row | {"lifetime_ns": lifetime_ns} for row in rows],
    )
    return replace(
        table,
        total=_sums(table.columns, rows, operation="total", lifetime_ns=lifetime_ns),
        law=_sums(
            table.columns, (), operation=note("lifetime", threads=threads), self_ns=lifetime_ns
        ),
        remarks=tuple(_other_threads(report.processes)),
    )


def _tree(report: OperationReport, labels: Sequence[Column], parts: dict[str, str]) -> Table:
    columns = [
        _OPERATION, *labels, _INSTANCES, _TOTAL,
        *(Column(f"total_{part}_ns", Unit.NS, label=label) for part, label in parts.items()),
        _SELF, *_QUANTILES, _DEPTH, _RANK,
    ]  # fmt: skip
    groups, rows = [], []
    for process, own in _by_process(report, report.of_scope("path")):
        groups.append(Group(_head(process), len(own)))
        rows += [_values(columns, row, row["total_ns"], 1 + row["depth"]) for row in _as_tree(own)]
    return Table(
        "tree",
        "tree: total and its parts are with the operations inside, self is without them",
        tuple(columns),
        rows,
        groups=tuple(groups),
        rank="rank",
        depth="depth",
    )


def _per_iteration(report: OperationReport, labels: Sequence[Column]) -> Table:
    rows = report.of_scope("operation")
    # The others would be columns of dashes.
    entered = [name for name in _ENTERED if any(row[name] for row in rows)]
    spent = {"self": "self"} | {f"self_{part}": label for part, label in _PARTS.items()}
    columns = [
        _OPERATION, *labels,
        Column("held", Unit.RATE, label="instances", scale=Scale.TWO_DIGITS),
        Column("total_per_iteration_ns", Unit.NS, label="total"),
        *(
            Column(f"{name}_per_iteration_ns", Unit.NS, label=label, additive=True)
            for name, label in spent.items()
        ),
        *(
            Column(
                f"{name}_per_iteration", Unit.RATE, label=_ENTERED[name], scale=Scale.TWO_DIGITS
            )
            for name in entered
        ),
    ]  # fmt: skip
    counts = report.iteration.by_process if report.iteration else {}
    title = "per iteration: the times above / the number of iterations in the process"
    if entered:
        title += "\n-> : calls that entered that layer while the operation was innermost"

    def held(row: Row) -> float | NoValue:
        times, instances = counts.get(row["process_id"]), row["instances"]
        return instances / times if times and instances else NO_VALUE

    named = [row | {"held": held(row)} for row in rows]
    return _grouped(report, "per iteration", title, columns, named)


def _grouped(
    report: OperationReport,
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
) -> Table:
    """Lay out the operations of each process under their sums."""
    shown = (*columns, _DEPTH, _RANK)
    groups, values = [], []
    for process, own in _by_process(report, rows):
        lifetime_ns = own[0].get("lifetime_ns")
        groups.append(
            Group(_sums(shown, own, operation=_head(process), lifetime_ns=lifetime_ns), len(own))
        )
        values += [_values(shown, row, row["self_ns"], 1) for row in own]
    return Table(
        name,
        title,
        shown,
        values,
        groups=tuple(groups),
        rank="rank",
        depth="depth",
        noun="operation",
    )


def _side(
    scope: str,
    title: str,
    rest: Sequence[Column],
    rows: Sequence[Row],
    names: dict[int | None, ProcessName],
) -> Table:
    columns = (
        replace(_OPERATION, label="name"), Column("domain"), Column("process"),
        replace(_INSTANCES, label="count"), *rest,
    )  # fmt: skip
    nobody = ProcessName(is_known=False)
    named = [row | {"process": names.get(row["process_id"], nobody)} for row in rows]
    return Table(
        scope, title, columns, [tuple(row[column.name] for column in columns) for row in named]
    )


def _values(columns: Sequence[Column], row: Row, rank_ns: int | None, depth: int) -> Values:
    """Return the values of an operation, or of the time without any, which has no instances."""
    is_marked = bool(row["instances"])
    values: dict[str, Any] = row | {"depth": depth, "rank": (rank_ns or 0) if is_marked else None}
    if row["instances"] is None:
        values |= dict.fromkeys((*_LABELS, "instances"), NO_VALUE)
    return tuple(values[column.name] for column in columns)


def _sums(columns: Sequence[Column], rows: Iterable[Row], **named: object) -> Values:
    """Return a row that adds up others, where that means something, and holds what is named."""
    records = list(rows)
    return tuple(
        named[column.name]
        if column.name in named
        else sum_of(row[column.name] for row in records)
        if column.additive and records
        else NO_VALUE
        for column in columns
    )


def _by_process(report: OperationReport, rows: Sequence[Row]) -> Iterable[tuple[Row, list[Row]]]:
    """Yield each process with its rows, the longest lifetime first."""
    found: dict[int | None, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["process_id"]].append(row)
    for process in report.processes:
        if own := found[process["process_id"]]:
            yield process, own


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


def _head(process: Row) -> ProcessName:
    return ProcessName(
        process["name"],
        process["pid"],
        is_known=process["process_id"] is not None,
        threads=process["annotated_threads"],
    )


def _other_threads(processes: Sequence[Row]) -> Iterable[Note]:
    threads = sum(row["other_threads"] for row in processes)
    if threads:
        yield note(
            "other_threads",
            threads=threads,
            not_measured=sum(row["other_threads_not_measured"] for row in processes),
            running_ns=sum(row["other_running_ns"] for row in processes),
        )
