"""Renders a summary for people: a header with what was lost, then two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.reports.table import render_table as render_view
from rlscope_analysis.summary.header import header_lines
from rlscope_analysis.summary.rows import Row, rows_of
from rlscope_analysis.text_table import NO_BREAK, Column, TextRow, format_table, width_before_last
from rlscope_analysis.wording import percent, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rlscope_analysis.summary.values import Latency, Measures, StateTimes, Summary, Waker

# Narrower than this, the names of wakers wrap to a column of single words.
_WAKERS_WIDTH = 30
_WAKER_WORDS = {"outside": "outside the trace", "unknown": "not known"}


def render_table(
    summary: Summary, *, rows: int | None, top: int, width: int, is_terminal: bool
) -> str:
    """Render the summary, with at most `rows` threads (None: all) and `top` wakers of each.

    Lines are as wide as the numbers need, also where that is more than `width`.
    """
    header = "".join(f"{line}\n" for line in header_lines(summary))
    reports = "".join(
        "\n" + render_view(report, limit=rows, is_terminal=is_terminal)
        for report in summary.reports
    )
    if not summary.has_states:
        return f"{header}{reports}"
    listed = rows_of(summary, limit=rows)
    return (
        f"{header}\nwhere the time went, in ms and % of the lifetime (a process: all its threads)\n"
        + _time_table(summary, listed, is_terminal=is_terminal)
        + "\nscheduling, with run-queue latency in us\n"
        + _scheduling_table(summary, listed, top=top, width=width, is_terminal=is_terminal)
        + reports
    )


def _time_table(summary: Summary, rows: Sequence[Row], *, is_terminal: bool) -> str:
    states = ["running", "runnable", "sleeping", "blocked"]
    # A column of zeros would only hide that nothing was lost.
    if summary.total.times.lost_ns:
        states.append("lost")
    columns = [Column("thread"), Column("tid", is_number=True)]
    for state in states:
        columns += [Column(state, is_number=True), Column("%", is_number=True, gap=1)]
    columns.append(Column("lifetime", is_number=True))
    lines = [_text_row(row, lambda m: _time_cells(m.times, states)) for row in rows]
    return format_table(columns, lines, is_terminal=is_terminal)


def _time_cells(times: StateTimes, states: Sequence[str]) -> Iterable[str]:
    for state in states:
        state_ns: int = getattr(times, f"{state}_ns")
        yield _milliseconds(state_ns)
        yield percent(state_ns, times.lifetime_ns)
    yield _milliseconds(times.lifetime_ns)


def _scheduling_table(
    summary: Summary, rows: Sequence[Row], *, top: int, width: int, is_terminal: bool
) -> str:
    has_unknown = summary.total.switches.unknown > 0
    headings = ["switches", "voluntary", "involuntary", *["unknown"] * has_unknown]
    headings += ["migrations", "p50", "p99", "max", "wakeups"]
    columns = [
        Column("thread"),
        Column("tid", is_number=True),
        *(Column(heading, is_number=True) for heading in headings),
        Column("woken by"),
    ]
    lines = [
        _text_row(row, lambda m: _scheduling_cells(m, top=top, has_unknown=has_unknown))
        for row in rows
    ]
    rest = width - width_before_last(columns, lines)
    return format_table(
        columns, lines, is_terminal=is_terminal, last_width=max(rest, _WAKERS_WIDTH)
    )


def _text_row(row: Row, cells: Callable[[Measures], Iterable[str]]) -> TextRow:
    if row.measures is None:
        return TextRow([row.label])
    return TextRow([row.label, row.tid, *cells(row.measures)], is_bold=row.is_total)


def _scheduling_cells(measures: Measures, *, top: int, has_unknown: bool) -> Iterable[str]:
    switches = measures.switches
    yield f"{switches.switches:,}"
    yield f"{switches.voluntary:,}"
    yield f"{switches.involuntary:,}"
    if has_unknown:
        yield f"{switches.unknown:,}"
    yield f"{switches.migrations:,}"
    yield from _latency_cells(measures.latency)
    yield f"{measures.wakeups:,}"
    yield ", ".join(_waker(waker, measures.wakeups) for waker in measures.wakers[:top])


def _latency_cells(latency: Latency) -> Iterable[str]:
    for latency_ns in (latency.p50_ns, latency.p99_ns, latency.max_ns):
        yield "-" if latency_ns is None else f"{latency_ns / 1e3:,.1f}"


def _waker(waker: Waker, wakeups: int) -> str:
    if waker.kind == "thread":
        name = f"{printable(waker.name or '?')}/{waker.tid or '?'}"
    else:
        name = _WAKER_WORDS.get(waker.kind) or printable(str(waker.kind))
    return f"{name} {percent(waker.wakeups, wakeups)} %".replace(" ", NO_BREAK)


def _milliseconds(time_ns: int) -> str:
    return f"{time_ns / 1e6:,.2f}"
