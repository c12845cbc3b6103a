"""Renders `summarize --by operation` for people: what limits it, then a table per question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.operations.cells import (
    blank_cells,
    count_cell,
    left_out_line,
    ms_cell,
    number_column,
    percent_cell,
    process_name,
    quantile_cells,
    quantile_columns,
    rate_cell,
    share_column,
    shortened,
)
from rlscope_analysis.operations.iteration import AUTO_ITERATION, ITERATION_NAMES, Row
from rlscope_analysis.operations.rows import Line, async_lines, flat_lines, tree_lines
from rlscope_analysis.summary.header import loss_lines
from rlscope_analysis.text_table import Column, TextRow, format_table
from rlscope_analysis.wording import count_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.operations.report import OperationReport

_LABELS = ("domain", "category", "source")
_TRANSITION_HEADINGS = {
    "to_simulator": "-> simulator", "to_backend": "-> backend", "to_cuda_api": "-> CUDA API",
}  # fmt: skip
_PARTS = (("running", "on CPU"), ("runnable", "runnable"), ("off_cpu", "off CPU"))


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns a table has: those that would say the same in every row are left out."""

    labels: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    has_gpu: bool


def render_table(report: OperationReport, *, limit: int | None, is_terminal: bool) -> str:
    """Render every table with at most `limit` operations each (None: all)."""
    blocks = ["".join(f"{line}\n" for line in _header(report))]
    flat = report.of_scope("operation")
    layout = _layout(flat)
    if flat:
        blocks.append(_flat_table(report, layout, limit=limit, is_terminal=is_terminal))
        blocks[-1] += "".join(f"{line}\n" for line in _other_threads(report.processes))
    if any(row["depth"] for row in report.of_scope("path")):
        blocks.append(_tree_table(report, layout, limit=limit, is_terminal=is_terminal))
    if report.iteration:
        blocks.append(_iteration_table(report, layout, limit=limit, is_terminal=is_terminal))
    blocks += _side_tables(report, limit=limit, is_terminal=is_terminal)
    return "\n".join(blocks)


def _header(report: OperationReport) -> Iterable[str]:
    if not report.is_complete:
        yield "warning: the recording of this trace was cut off: what came after is not in it"
    yield f"{'trace':<10} {printable(report.trace)}"
    if report.window:
        yield f"{'window':<10} {report.window}"
    if report.of_scope("operation"):
        yield f"{'iteration':<10} {_iteration(report)}"
    else:
        yield f"{'operations':<10} none: the program marked none, and no phase was found"
    yield from loss_lines(report.losses)
    for note in report.notes:
        yield f"{'note':<10} {note}"


def _iteration(report: OperationReport) -> str:
    found = report.iteration
    if found is None:
        first = ", ".join(ITERATION_NAMES[:-1])
        return (
            f"not known: no operation is called {first} or {ITERATION_NAMES[-1]}, and none is an"
            f" automatic {AUTO_ITERATION}; name one with --per"
        )
    names = {row["process_id"]: process_name(row) for row in report.processes}
    (most, times), *others = found.by_process.items()
    source = f" ({found.source})" if found.source else ""
    text = f"one {printable(found.name)}{source}: {times:,} in {names.get(most, '?')}"
    if others:
        text += f", {sum(count for _, count in others):,} in"
        text += f" {count_of(len(others), 'more process')}"
    return text


def _layout(flat: Sequence[Row]) -> _Layout:
    marked = [row for row in flat if row["instances"]]
    values = {label: {row[label] for row in marked} for label in _LABELS}
    shown = [label for label in _LABELS if len(values[label]) > 1]
    if "source" not in shown and values["source"] - {"nvtx"}:
        shown.append("source")
    has_lost = any(row["self_lost_ns"] for row in flat)
    return _Layout(
        tuple(shown),
        (*_PARTS, *([("lost", "lost")] if has_lost else [])),
        has_gpu=any(row["self_gpu_busy_ns"] is not None for row in flat),
    )


def _flat_table(
    report: OperationReport, layout: _Layout, *, limit: int | None, is_terminal: bool
) -> str:
    columns = [
        *_label_columns(layout),
        number_column("instances"),
        number_column("self ms"),
        share_column(),
    ]
    for _, heading in layout.parts:
        columns += [number_column(f"{heading} ms"), share_column()]
    columns += [number_column("GPU busy ms")] * layout.has_gpu
    columns += [number_column("total ms"), *quantile_columns()]
    lines, hidden = flat_lines(report, limit)
    lifetime_ns = sum(row["lifetime_ns"] for row in report.processes)

    def cells(line: Line) -> list[str]:
        row = line.row
        texts = [*_label_cells(line, layout), count_cell(row["instances"])]
        texts += [ms_cell(row["self_ns"]), percent_cell(row["self_ns"], lifetime_ns)]
        for part, _ in layout.parts:
            part_ns = row[f"self_{part}_ns"]
            texts += [ms_cell(part_ns), percent_cell(part_ns, row["self_ns"])]
        texts += [ms_cell(row["self_gpu_busy_ns"])] * layout.has_gpu
        rest = [ms_cell(row["total_ns"]), *quantile_cells(row)]
        return [*texts, *(blank_cells(rest) if line.is_total else rest)]

    threads = sum(row["annotated_threads"] for row in report.processes)
    law = f"lifetime of {count_of(threads, 'thread')} with operations"
    texts = [TextRow(cells(line), is_bold=line.is_total) for line in lines]
    own = len(layout.labels) + 2
    texts.append(
        TextRow([law, *[""] * (own - 1), ms_cell(lifetime_ns), *[""] * (len(columns) - own - 1)])
    )
    return (
        "self: while the operation was the innermost one open, in % of all; its parts in % of it\n"
        + format_table(columns, texts, is_terminal=is_terminal)
        + left_out_line(hidden, "operation", in_total=True)
    )


def _tree_table(
    report: OperationReport, layout: _Layout, *, limit: int | None, is_terminal: bool
) -> str:
    columns = [*_label_columns(layout), number_column("instances"), number_column("total ms")]
    columns += [number_column(f"{heading} ms") for _, heading in layout.parts]
    columns += [number_column("self ms"), *quantile_columns()]
    lines, hidden = tree_lines(report, limit)

    def cells(line: Line) -> list[str]:
        row = line.row
        texts = [
            *_label_cells(line, layout),
            count_cell(row["instances"]),
            ms_cell(row["total_ns"]),
        ]
        texts += [ms_cell(row[f"total_{part}_ns"]) for part, _ in layout.parts]
        return [*texts, ms_cell(row["self_ns"]), *quantile_cells(row)]

    return (
        "tree: total and its parts are with the operations inside, self is without them\n"
        + format_table(
            columns,
            [TextRow([line.label] if line.is_total else cells(line)) for line in lines],
            is_terminal=is_terminal,
        )
        + left_out_line(hidden, "row")
    )


def _iteration_table(
    report: OperationReport, layout: _Layout, *, limit: int | None, is_terminal: bool
) -> str:
    parts = [part for part in layout.parts if part in _PARTS]
    columns = [*_label_columns(layout), number_column("instances"), number_column("total ms")]
    columns += [number_column("self ms"), *(number_column(f"{heading} ms") for _, heading in parts)]
    lines, hidden = flat_lines(report, limit)
    entered = _measured_transitions(report)
    columns += [number_column(_TRANSITION_HEADINGS[name]) for name in entered]
    counts = report.iteration.by_process if report.iteration else {}

    def cells(line: Line) -> list[str]:
        row, times = line.row, counts.get(line.row["process_id"])
        held = f"{row['instances'] / times:,.2f}" if times and row["instances"] else ""
        names = ["self", *(f"self_{part}" for part, _ in parts)]
        total = "" if line.is_total else ms_cell(row["total_per_iteration_ns"])
        rest = [ms_cell(row[f"{name}_per_iteration_ns"]) for name in names]
        if not line.is_total:
            rest += [rate_cell(row[f"{name}_per_iteration"]) for name in entered]
        else:
            rest += [""] * len(entered)
        return [*_label_cells(line, layout), held, total, *rest]

    return (
        "per iteration: the times above / the number of iterations in the process\n"
        + (
            "-> : calls that entered that layer while the operation was innermost\n"
            if entered
            else ""
        )
        + format_table(
            columns,
            [TextRow(cells(line), is_bold=line.is_total) for line in lines if not line.is_trace],
            is_terminal=is_terminal,
        )
        + left_out_line(hidden, "operation")
    )


def _measured_transitions(report: OperationReport) -> list[str]:
    """Return the counts that are known of any operation: the others would be columns of dashes."""
    rows = report.of_scope("operation")
    return [name for name in _TRANSITION_HEADINGS if any(row[name] for row in rows)]


def _side_tables(report: OperationReport, *, limit: int | None, is_terminal: bool) -> Iterable[str]:
    """Yield the tables of what belongs to no sum."""
    names = {row["process_id"]: process_name(row) for row in report.processes}
    ranges, hidden = async_lines(report.of_scope("async_range"), limit)
    if ranges:
        columns = [Column("name"), Column("domain"), Column("process"), number_column("count")]
        columns += [number_column("total ms"), *quantile_columns()]
        rows = [
            TextRow([*_side_labels(row, names), ms_cell(row["total_ns"]), *quantile_cells(row)])
            for row in ranges
        ]
        yield (
            "ranges that belong to no thread (start/end): they may overlap, and are in no sum\n"
            + format_table(columns, rows, is_terminal=is_terminal)
            + left_out_line(hidden, "row")
        )
    marks, hidden = async_lines(report.of_scope("mark"), limit)
    if marks:
        columns = [Column("name"), Column("domain"), Column("process"), number_column("count")]
        rows = [TextRow(_side_labels(row, names)) for row in marks]
        yield (
            "marks: instants\n"
            + format_table(columns, rows, is_terminal=is_terminal)
            + left_out_line(hidden, "row")
        )


def _side_labels(row: Row, names: dict[int | None, str]) -> list[str]:
    domain = "-" if row["domain"] is None else printable(row["domain"])
    process = names.get(row["process_id"], "(process not known)")
    return [
        shortened(row["operation"] or "(no name)"),
        domain,
        process,
        count_cell(row["instances"]),
    ]


def _other_threads(processes: Sequence[Row]) -> Iterable[str]:
    threads = sum(row["other_threads"] for row in processes)
    if not threads:
        return
    unknown = sum(row["other_threads_not_measured"] for row in processes)
    running_ns = sum(row["other_running_ns"] for row in processes)
    text = f"{count_of(threads, 'thread')} without operations: "
    text += "their time on CPU was not measured"
    if unknown < threads:
        text = f"{count_of(threads, 'thread')} without operations: {running_ns / 1e9:,.3f} s on CPU"
        text += f" ({unknown:,} of them were not measured)" if unknown else ""
    yield f"{text}; see --view thread"


def _label_columns(layout: _Layout) -> list[Column]:
    return [Column("operation"), *(Column(label) for label in layout.labels)]


def _label_cells(line: Line, layout: _Layout) -> list[str]:
    head = "  " * line.depth + shortened(line.label)
    is_named = not line.is_total and line.row["instances"] is not None
    values = [line.row.get(label) if is_named else "" for label in layout.labels]
    return [head, *("-" if value is None else printable(value) for value in values)]
