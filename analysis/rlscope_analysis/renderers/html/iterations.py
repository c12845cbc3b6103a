"""Every iteration, stacked by phase: one path of SVG for each phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.renderers.html.bars import in_no_phase, legend
from rlscope_analysis.renderers.html.markup import Html
from rlscope_analysis.renderers.html.words import phase_classes, place, round_words, time_words
from rlscope_analysis.schema.vocabulary import NO_PHASE, WAITING
from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    from rlscope_analysis.renderers.html.markup import Markup
    from rlscope_analysis.result.page import IterationBars, Page

# Of the picture, in units of its own.
_WIDTH, _HEIGHT = 4000, 1000
_STEPS = (1, 2, 2.5, 5, 10)
_TICKS = 4
# Apart, so that neither covers the other.
_MARK_ROWS = {"typical": -12, "slowest": -29}


def iterations(m: Markup, page: Page) -> Html | None:
    """Return how long each iteration took, and in which phases."""
    found = page.iterations
    if found is None or not found.bars:
        return None
    longest = max(bar.duration_ns for bar in found.bars) or 1
    step = _step(longest / _TICKS)
    top = longest * 1.02
    ticks = [value * step for value in range(1, int(top / step) + 1)]
    span = max(found.bars[-1].end_ns, 1)
    classes = phase_classes(list(found.phases))
    drawn = [
        m.tag("path", d=_path(found, at, top, span), class_=classes[phase])
        for at, phase in enumerate(found.phases)
    ]
    picture = m.tag(
        "svg", *drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none",
        width="100%", height="100%",
    )  # fmt: skip
    lines = [
        m.tag("line", x1="0", x2="100%", y1=place(1 - value / top), y2=place(1 - value / top),
              class_="grid")
        for value in ticks
    ]  # fmt: skip
    said = (
        f"{count_of(found.count, 'iteration')}, the longest"
        f"{' mean' if found.per_bar > 1 else ''} {time_words(longest)}"
    )
    chart = m.tag(
        "div",
        m.tag("svg", *(_label(m, value, top) for value in ticks), class_="axis-y",
              aria_hidden="true"),
        m.tag("svg", *lines, picture, *_marks(m, found, span), class_="chart", role="img",
              aria_label=said),
        m.tag("span"),
        m.tag("div", *(m.tag("span", time_words(span * part / 4) if part else "0 s")
                      for part in range(5)), class_="axis-x", aria_hidden="true"),
        class_="iterations",
    )  # fmt: skip
    aside = f"how long each took, by phase; {count_of(found.count, 'iteration')}"
    if page.pace is not None and page.pace["first_ns"] is not None:
        aside += ", of which the first is in no other figure"
    if found.per_bar > 1:
        aside += f", a bar is the mean of {found.per_bar}"
    parts = ((classes[phase], phase) for phase in found.phases)
    return m.section(
        "Every iteration", chart, legend(m, parts), _outside_phases(m, page, found),
        _numbers(m, found), aside=aside, id_="iterations",
    )  # fmt: skip


def _outside_phases(m: Markup, page: Page, found: IterationBars) -> Html | None:
    """Explain what is no phase, where nothing above did."""
    left = set(found.phases) - {row["operation"] for row in page.phases}
    return in_no_phase(m, tuple(name for name in (NO_PHASE, WAITING) if name in left))


def _step(least: float) -> float:
    size = 1.0
    while size * 10 <= least:
        size *= 10
    return next(size * factor for factor in _STEPS if size * factor >= least)


def _label(m: Markup, value: float, top: float) -> Html:
    return m.tag("text", round_words(value), x="100%", y=place(1 - value / top), dy="0.32em")


def _path(found: IterationBars, phase: int, top: float, span: int) -> Html:
    """Draw one phase of every iteration: on top of those before it."""
    pieces = []
    for bar in found.bars:
        length = bar.parts_ns[phase]
        if length <= 0:
            continue
        below = sum(bar.parts_ns[:phase])
        left, right = (round(ns / span * _WIDTH) for ns in (bar.start_ns, bar.end_ns))
        low, high = (round((1 - ns / top) * _HEIGHT) for ns in (below, below + length))
        width = max(right - left, 1)
        pieces.append(f"M{left} {high}h{width}v{low - high}h-{width}z")
    return Html("".join(pieces))


def _marks(m: Markup, found: IterationBars, span: int) -> list[Html]:
    drawn = []
    for which, row in found.marks:
        bar = next((b for b in found.bars if b.first_id <= row["iteration_id"] <= b.last_id), None)
        if bar is None or which not in _MARK_ROWS:
            continue
        at, y = (bar.start_ns + bar.end_ns) / 2 / span, _MARK_ROWS[which]
        anchor = "start" if at < 0.25 else "end" if at > 0.75 else "middle"
        drawn += [
            m.tag("line", x1=place(at), x2=place(at), y1=y + 4, y2="100%", class_="mark"),
            m.tag("text", f"{which}: {time_words(row['duration_ns'])}", x=place(at), y=y,
                  text_anchor=anchor, class_="mark"),
        ]  # fmt: skip
    return drawn


def _numbers(m: Markup, found: IterationBars) -> Html:
    """Return the same as a table."""
    head = m.tag("tr", m.tag("th", "iteration"), m.tag("th", "ms"),
                 *(m.tag("th", phase) for phase in found.phases))  # fmt: skip
    rows = []
    for bar in found.bars:
        name = str(bar.first_id)
        name += f"-{bar.last_id}" if bar.last_id != bar.first_id else ""
        cells = [m.tag("td", f"{ns / 1e6:,.2f}") for ns in bar.parts_ns]
        own = m.tag("td", f"{bar.duration_ns / 1e6:,.2f}", data_iteration=name,
                    data_ns=f"{bar.duration_ns:.0f}")  # fmt: skip
        rows.append(m.tag("tr", m.tag("th", name, scope="row"), own, *cells))
    table = m.tag("table", m.tag("thead", head), m.tag("tbody", *rows))
    region = m.tag("div", table, class_="scroll", tabindex="0", role="region",
                   aria_label="every iteration in numbers")  # fmt: skip
    return m.tag("details", m.tag("summary", "In numbers"), region)
