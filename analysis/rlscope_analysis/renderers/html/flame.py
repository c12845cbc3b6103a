"""Functions as a flame graph, the phases at its top, and the innermost functions as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.renderers.html.words import percent_words, phase_classes, place
from rlscope_analysis.wording import count_of, role_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.result.page import Frame, Functions, Page

_ROW = 19
# How wide a letter is, and how wide the picture at the least for each class of label.
_LETTER, _PADDING = 6.7, 8
_WIDTHS = (("s", 288), ("m", 700), ("l", 1060))
_MOST_ROWS = 36
# Fewer letters of a name say nothing.
_LEAST_LETTERS = 6
_UNKNOWN = "(no Python function)"


def flame(m: Markup, page: Page) -> Html | None:
    """Return the functions of the leading thread; None: no sample fell into the iterations."""
    found = page.functions
    if found is None:
        return None
    lead = next((row for row in page.processes if row["is_lead"]), None)
    who = role_words(lead["role"] if lead else "main")
    classes = phase_classes([phase.name or "" for phase in found.phases])
    drawn: list[Html] = []
    at, depth = 0.0, 0
    for phase in found.phases:
        name = phase.name or ""
        frames = list(_frames(phase, at, 0, found.samples))
        drawn += [_drawn(m, frame, classes[name]) for frame in frames]
        depth = max(depth, *(level for _, level, *_ in frames))
        at += phase.samples / found.samples
    said = ", ".join(
        f"{phase.name} {percent_words(phase.samples / found.samples)}" for phase in found.phases
    )
    words = f"samples by phase: {said}; the functions are listed below"
    picture = m.tag(
        "svg", *drawn, height=(depth + 1) * _ROW, class_="flame", role="img", aria_label=words
    )
    return m.section(
        f"Functions of the {who}",
        m.tag("div", picture, class_="flame-box"),
        m.tag("h3", "Innermost functions"),
        _list(m, found, classes),
        aside=f"{count_of(found.samples, 'sample')} of its CPU time; phases, and what they called",
        id_="functions",
    )


def _frames(
    frame: Frame, at: float, level: int, total: int
) -> Iterator[tuple[Frame, int, float, float]]:
    """Yield each frame with its level, and where it begins and how wide it is, in parts of 1."""
    yield frame, level, at, frame.samples / total
    if level >= _MOST_ROWS:
        return
    for child in frame.children:
        yield from _frames(child, at, level + 1, total)
        at += child.samples / total


def _drawn(m: Markup, place_: tuple[Frame, int, float, float], name: str) -> Html:
    frame, level, at, width = place_
    whole = m.plain(frame.name or _UNKNOWN)
    said = f"{whole}: {count_of(frame.samples, 'sample')}, {percent_words(width, 1)}"
    shade = f"{name} shade{level % 2}"
    inside = [m.tag("title", said), m.tag("rect", width="100%", height=_ROW - 1, class_=shade)]
    # The name at each width of the page at which it, or enough of it, has room.
    short = whole.partition(" (")[0]
    for size, pixels in _WIDTHS:
        room = int((width * pixels - _PADDING) / _LETTER)
        if room >= _LEAST_LETTERS:
            words = whole if len(whole) <= room else short
            words = words if len(words) <= room else f"{words[: room - 1]}…"
            inside.append(m.tag("text", words, x="4", y="13", class_=f"{name} t at-{size}"))
    return m.tag("svg", *inside, x=place(at), width=place(width), y=level * _ROW, height=_ROW)


def _list(m: Markup, found: Functions, classes: dict[str, str]) -> Html:
    most = max(row["samples"] for row in found.functions)
    lines = []
    for row in found.functions:
        share = row["samples"] / found.samples
        name = row["function"] or _UNKNOWN
        rect = m.tag("rect", width=place(row["samples"] / most), height="100%",
                     class_=classes[row["phase"]])  # fmt: skip
        lines.append(
            m.tag(
                "li",
                m.tag("code", name, class_="name", title=f"{name} in {row['phase']}"),
                m.tag("svg", rect, class_="bar", aria_hidden="true", focusable="false"),
                m.tag("span", percent_words(share), class_="n", data_function=name,
                      data_phase=row["phase"], data_samples=row["samples"]),
                m.tag("span", row["phase"], class_="n quiet"),
            )
        )  # fmt: skip
    rest = percent_words(found.left_out / found.samples)
    more = m.tag("p", f"All others: {rest}. The share is of the samples; the bar has the colour of"
                 " the phase.", class_="quiet") if found.left_out else None  # fmt: skip
    return m.join([m.tag("ul", *lines, class_="rows functions"), more])
