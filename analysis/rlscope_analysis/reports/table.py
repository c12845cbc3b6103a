"""Renders the answer of a report for people: a plain table, or one with a column for each value."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import TraceError
from rlscope_analysis.text_table import Column, TextRow, format_table
from rlscope_analysis.window import asked_window
from rlscope_analysis.wording import count_of, percent, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.reports.answer import Answer
    from rlscope_analysis.trace import Trace

# The order of columns in pivots; what is not listed comes after.
_PIVOT_ORDER = (
    "python", "simulator", "backend", "cuda_api", "spin", "other", "running", "runnable",
    "gil_wait", "gpu_wait", "io_wait", "sleeping", "lost", "unknown",
    "CPU", "CPU+GPU", "GPU", "none", "not measured",
)  # fmt: skip
_TOTAL = "total"
# What is taken for granted where a kind of record was not measured: see Report.assumes.
_ASSUMED = {"thread_state": "there, inside a call that does not wait counts as on a CPU"}


def render_table(found: Answer, *, limit: int | None, is_terminal: bool) -> str:
    """Render at most `limit` rows (None: all), with a total over all of them."""
    table = _pivoted(found) if found.report.pivot else _plain(found)
    listed = table.rows if limit is None else table.rows[:limit]
    text = f"{found.report.title}\n" + format_table(
        table.columns, [*listed, *table.totals], is_terminal=is_terminal
    )
    if len(listed) < len(table.rows):
        more = count_of(len(table.rows) - len(listed), "more row")
        text += f"({more}{', in the total' if table.totals else ''}; all of them: --all)\n"
    if "±" in text:
        text += "±: standard error of what samples split; a share without it is exact\n"
    for kind, processes in found.not_measured.items():
        text += f"note: {kind} was not measured for {count_of(processes, 'process')}"
        text += f": {_ASSUMED[kind]}\n" if kind in found.report.assumes else "\n"
    return text


def render_page(found: Answer, trace: Trace, *, limit: int | None, is_terminal: bool) -> str:
    """Render the table of a view that stands alone: over it, the stretch of time it is about."""
    window = asked_window(trace.connection)
    head = f"{'window':<10} {window}\n\n" if window else ""
    return head + render_table(found, limit=limit, is_terminal=is_terminal)


@dataclass(frozen=True, slots=True)
class _Table:
    columns: list[Column]
    rows: list[TextRow]
    totals: list[TextRow]


def _plain(found: Answer) -> _Table:
    shown = [i for i, name in enumerate(found.columns) if name not in found.report.hidden]
    names = [found.columns[i] for i in shown]
    texts = [i for i in shown if _is_text(found, i)]
    columns = [
        Column(_heading(found.columns[i]), is_number=i not in texts) for i in shown
    ]  # fmt: skip
    rows = [
        TextRow([_cell(name, row[i]) for name, i in zip(names, shown, strict=True)])
        for row in found.rows
    ]
    if not found.report.additive or not rows:
        return _Table(columns, rows, [])
    total = ["" for _ in shown]
    total[0] = _TOTAL
    for place, (name, i) in enumerate(zip(names, shown, strict=True)):
        if name in found.report.additive:
            values = [row[i] for row in found.rows]
            known = all(value is not None for value in values)
            total[place] = _cell(name, sum(values)) if known else _cell(name, None)
    return _Table(columns, rows, [TextRow(total, is_bold=True)])


def _is_text(found: Answer, index: int) -> bool:
    return any(isinstance(row[index], str) for row in found.rows)


def _heading(name: str) -> str:
    if name.endswith("_ns"):
        return f"{name.removesuffix('_ns').replace('_cpu', '_CPU').replace('_', ' ')} ms"
    if name == "share" or name.endswith("_share"):
        return f"{name.removesuffix('share').replace('_', ' ')}%".strip()
    return name.replace("_", " ")


def _cell(name: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return printable(str(value))
    if name.endswith("_ns"):
        return f"{value / 1e6:,.3f}"
    if name == "share" or name.endswith("_share"):
        return f"{value * 100:.1f}"
    if name in {"pid", "tid", "peer_pid", "process_id", "thread_id"}:
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _pivoted(found: Answer) -> _Table:
    """Lay out one line per label, with a column and its % for each value of the pivot."""
    over, held = found.report.pivot or ("", "")
    at, value_at = found.columns.index(over), found.columns.index(held)
    labels = [
        i
        for i, name in enumerate(found.columns)
        if name not in {over, held} and name not in found.report.hidden
    ]
    keys = [*labels, *(found.columns.index(name) for name in found.report.key)]
    by_label: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    errors = _errors_of(found, keys)
    for row in found.rows:
        if not isinstance(row[value_at], int):
            raise TraceError(
                f"the view {found.report.name} of this trace gives {row[value_at]!r} for {held}",
                hint="its views are not those that rlscope-trace writes",
            )
        by_label[tuple(row[i] for i in keys)][row[at]] += row[value_at]
    values = sorted({row[at] for row in found.rows}, key=_pivot_rank)
    columns = [Column(_heading(found.columns[i]), is_number=not _is_text(found, i)) for i in labels]
    for value in values:
        columns += [Column(_cell(over, value), is_number=True), Column("%", is_number=True, gap=1)]
    columns.append(Column(_TOTAL, is_number=True))
    names = [found.columns[i] for i in labels]
    rows = [
        _pivot_row(
            [_cell(*pair) for pair in zip(names, label, strict=False)], values, times, errors[label]
        )
        for label, times in by_label.items()  # the label, then what else tells the line apart
    ]
    everything: dict[str, int] = defaultdict(int)
    for times in by_label.values():
        for value, time_ns in times.items():
            everything[value] += time_ns
    head = [_TOTAL, *[""] * (len(labels) - 1)]
    totals = [_pivot_row(head, values, everything, {}, is_bold=True)] if rows else []
    return _Table(columns, rows, totals)


def _errors_of(found: Answer, keys: Sequence[int]) -> dict[tuple[Any, ...], dict[str, int]]:
    """Return the standard errors of each line by the value of the pivot; none of what is exact."""
    errors: dict[tuple[Any, ...], dict[str, int]] = defaultdict(dict)
    if found.report.error and found.report.pivot:
        at = found.columns.index(found.report.pivot[0])
        error_at = found.columns.index(found.report.error)
        for row in found.rows:
            if row[error_at]:
                errors[tuple(row[i] for i in keys)][row[at]] = row[error_at]
    return errors


def _pivot_rank(value: object) -> tuple[int, str]:
    order = _PIVOT_ORDER.index(str(value)) if value in _PIVOT_ORDER else len(_PIVOT_ORDER)
    return order, str(value)


def _pivot_row(
    label: list[str],
    values: Sequence[str],
    times: dict[str, int],
    errors: dict[str, int],
    *,
    is_bold: bool = False,
) -> TextRow:
    total_ns = sum(times.values())
    cells = list(label)
    for value in values:
        time_ns = times.get(value, 0)
        error = f" ± {errors[value] / total_ns * 100:.1f}" if value in errors and total_ns else ""
        cells += [f"{time_ns / 1e6:,.2f}", f"{percent(time_ns, total_ns)}{error}"]
    return TextRow([*cells, f"{total_ns / 1e6:,.2f}"], is_bold=is_bold)
