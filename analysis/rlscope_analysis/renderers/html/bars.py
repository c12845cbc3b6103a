"""Bars in SVG: the phases of the leading process, and what each process did."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.html.words import (
    percent_words,
    phase_classes,
    place,
    time_words,
)
from rlscope_analysis.result.note import note
from rlscope_analysis.schema.vocabulary import NO_PHASE, WAITING
from rlscope_analysis.wording import count_of, role_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.result.page import Page, Record

# What a bar is made of: column of training_phase, class, words.
_PARTS = (
    ("python_share", "python", "on a CPU: Python"),
    ("native_share", "native", "on a CPU: native code"),
    ("cpu_share", "cpu", "on a CPU: which code was not sampled"),
    ("queue_share", "queue", "waits for a CPU"),
    ("waits_share", "waits", "waits for something else"),
    ("lost_share", "lost", "lost: its records are not there"),
)
# Of the bar in pixels, where it is narrowest: beside the findings, and on a narrow screen.
_BAR_WIDTH, _NARROW_WIDTH = 470, 320
_LETTER_WIDTH, _LABEL_MARGIN = 8.3, 16
# Of more processes with the same role the mean is drawn.
_MOST_PROCESSES = 12
_MOST_PHASES = 10


def bar(m: Markup, parts: Iterable[tuple[str, float, str]], *, scale: float = 1.0) -> Html:
    """Return a bar of parts: class, length, words; where scale is 1, the whole is 1 long."""
    at, drawn = 0.0, []
    for name, length, words in parts:
        if length > 0:
            width = length / scale
            title = m.tag("title", words)
            drawn.append(
                rectangle(m, title, x=place(at), width=place(width), height="100%", class_=name)
            )
            at += width
    return m.tag("svg", *drawn, class_="bar", aria_hidden="true", focusable="false")


def rectangle(m: Markup, title: Html, **attributes: object) -> Html:
    """Return a rectangle with a tooltip."""
    return m.tag("g", title, m.tag("rect", **attributes))


def phases(m: Markup, page: Page) -> Html | None:
    """Return where the time of the leading process went."""
    rows = list(page.phases)
    if not rows:
        return None
    lead = next((row for row in page.processes if row["is_lead"]), None)
    who = role_words(lead["role"] if lead else "main")
    shown = rows[:_MOST_PHASES]
    classes = phase_classes([row["operation"] for row in rows])
    largest = max(row["time_ns"] for row in rows) or 1
    total_ns = sum(row["time_ns"] for row in rows)
    lines = [_phase(m, row, classes[row["operation"]], largest) for row in shown]
    if len(rows) > len(shown):
        lines.append(m.tag("li", f"{len(rows) - len(shown):,} more: below, --view phases"))
    drawn = {name for row in shown for name, _, _ in _parts(row)}
    is_known = any(row["queue_share"] is not None for row in rows)
    outside = tuple(name for row in shown if (name := row["operation"]) in (NO_PHASE, WAITING))
    return m.section(
        f"Where the time of the {who} went",
        _proportions(m, rows, classes),
        m.tag("h3", f"What it did in each phase, of {time_words(total_ns)}"),
        m.tag("ul", *lines, class_="rows phases"),
        legend(m, ((name, words) for _, name, words in _PARTS if name in drawn))
        if is_known
        else m.tag("p", "Not measured: when it was on a CPU.", class_="quiet"),
        in_no_phase(m, outside),
        aside=_span_words(page.pace),
        id_="phases",
    )


def in_no_phase(m: Markup, names: tuple[str, ...]) -> Html | None:
    """Explain names that stand for what is in no phase."""
    said = sentence_of(note("in_no_phase", names=names))
    return m.tag("p", said, class_="quiet") if names else None


def _span_words(pace: Record | None) -> str:
    if pace is None or pace["source"] == "whole":
        return "in the whole run"
    return "in the iterations" if pace["first_ns"] is None else "in the iterations but the first"


def _proportions(m: Markup, rows: list[Record], classes: dict[str, str]) -> Html:
    """Return one bar of all phases, with names on the wide ones."""
    at, drawn = 0.0, []
    for row in rows:
        share, name = row["share"], classes[row["operation"]]
        words = f"{row['operation']}: {time_words(row['time_ns'])}, {percent_words(share)}"
        inside = [m.tag("title", words), m.tag("rect", width="100%", height="100%", class_=name)]
        needed = len(row["operation"]) * _LETTER_WIDTH + _LABEL_MARGIN
        if needed <= share * _BAR_WIDTH:
            label = f"t {name} " + ("wide" if needed > share * _NARROW_WIDTH else "")
            inside += [
                m.tag("text", row["operation"], x="8", y="22", class_=label.strip()),
                m.tag("text", percent_words(share), x="8", y="40", class_=label.strip()),
            ]
        drawn.append(m.tag("svg", *inside, x=place(at), width=place(share), height="100%"))
        at += share
    said = ", ".join(f"{row['operation']} {percent_words(row['share'])}" for row in rows[:6])
    return m.tag("svg", *drawn, class_="proportions", role="img", aria_label=said)


def _parts(row: Record) -> list[tuple[str, float, str]]:
    """Return what is known of a phase: class, share, words."""
    shares = dict(row)
    if row["queue_share"] is not None and row["python_share"] is None:
        # No sample fell into it: on a CPU is what is neither.
        shares["cpu_share"] = 1 - row["queue_share"] - row["waits_share"] - row["lost_share"]
    known = ((name, shares.get(key), words) for key, name, words in _PARTS)
    return [(name, share, words) for name, share, words in known if share]


def _phase(m: Markup, row: Record, name: str, largest: int) -> Html:
    scale = largest / (row["time_ns"] or 1)
    parts = [(of, share, f"{words}: {percent_words(share)}") for of, share, words in _parts(row)]
    count = (
        "" if row["instances"] is None else f"{row['instances']:,} of {time_words(row['each_ns'])}"
    )
    return m.tag(
        "li",
        m.tag("span", swatch(m, name), row["operation"], class_="name", title=row["operation"]),
        bar(m, parts or [("unknown", 1.0, "not measured what it did")], scale=scale),
        m.tag("span", time_words(row["time_ns"]), class_="n", title=count or None,
              data_phase=row["operation"], data_ns=row["time_ns"]),
        m.tag("span", percent_words(row["share"]), class_="n quiet", data_share=row["share"]),
    )  # fmt: skip


def processes(m: Markup, page: Page) -> Html | None:
    """Return what each process did, one by one, and of many with the same role the mean."""
    rows = [row for row in page.processes if row["cpu_share"] is not None]
    if not rows:
        return None
    scale = max(1.0, *(_length(row) for row in rows))
    lines = [_process(m, row, scale) for row in _grouped(rows)]
    parts = (("cpu", "on a CPU (all its threads)"), ("queue", "its leading thread waits for a CPU"),
             ("waits", "that waits for another process"))  # fmt: skip
    return m.tag(
        "section",
        m.tag("h3", "What each process did of that time"),
        m.tag("ul", *lines, class_="rows processes"),
        legend(m, parts),
        id="processes",
    )


def _length(row: Record) -> float:
    return float(sum(row[key] or 0 for key in ("cpu_share", "queue_share", "waits_share")))


def _grouped(rows: list[Record]) -> Iterator[Record]:
    if len(rows) <= _MOST_PROCESSES:
        yield from rows
        return
    for (is_lead, role), found in groupby(rows, key=lambda row: (row["is_lead"], row["role"])):
        group = list(found)
        if is_lead or len(group) == 1:
            yield from group
            continue
        means = {
            key: sum(row[key] or 0 for row in group) / len(group)
            for key in ("cpu_share", "queue_share", "waits_share")
        }
        yield {**group[0], **means, "for": None, "who": f"{count_of(len(group), role)}, mean",
               "process_id": None}  # fmt: skip


def _process(m: Markup, row: Record, scale: float) -> Html:
    who = row["who"] if isinstance(row["who"], str) else sentence_of(row["who"])
    awaited = f" for {sentence_of(row['for'])}" if row["for"] else ""
    parts = [
        ("cpu", row["cpu_share"], f"on a CPU: {percent_words(row['cpu_share'])}"),
        ("queue", row["queue_share"] or 0, f"waits for a CPU: {percent_words(row['queue_share'])}"),
        ("waits", row["waits_share"] or 0, f"waits{awaited}: {percent_words(row['waits_share'])}"),
    ]
    name, _, pid = who.partition(" (pid ")
    return m.tag(
        "li",
        m.tag("span", name, m.tag("small", f" {pid[:-1]}") if pid else None, class_="name",
              title=who),
        bar(m, parts, scale=scale),
        m.tag("span", f"{percent_words(row['cpu_share'])} CPU", class_="n",
              data_process=row["process_id"], data_share=row["cpu_share"]),
        m.tag("span", f"{percent_words(row['queue_share'])} queue", class_="n quiet",
              data_queue=row["queue_share"]),
    )  # fmt: skip


def swatch(m: Markup, name: str) -> Html:
    """Return a small square in the colour of a class."""
    rect = m.tag("rect", width="100%", height="100%", rx="2", class_=name)
    return m.tag("svg", rect, class_="swatch", aria_hidden="true", focusable="false")


def legend(m: Markup, parts: Iterable[tuple[str, str]]) -> Html:
    """Return what the colours mean."""
    items = (m.tag("li", swatch(m, name), words) for name, words in parts)
    return m.tag("ul", *items, class_="legend")
