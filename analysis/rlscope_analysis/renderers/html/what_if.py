"""What a change would bring: predictions of a replay, with their intervals and grades."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.html.tables import command_of
from rlscope_analysis.renderers.html.words import percent_words, place, time_words
from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.result.page import Page, Record

_MOST = 5
_GRADES = (
    "Grades: how well a replay with nothing changed takes as long as the run did. A: within 1 %;"
    " B: within 3 %; C: worse, or a bound"
)


def what_if(m: Markup, page: Page) -> Html | None:
    """Return the predictions, the largest first; None: there was nothing to replay."""
    found = page.what_if
    if found is None:
        return None
    title, shown = "What a change would bring", m.command(command_of(page, found))
    if found.table is None:
        reason = found.reason or "not known why"
        said = m.tag("p", f"{reason[0].upper()}{reason[1:]}.", class_="quiet")
        return m.section(title, said, shown, id_="what-if")
    rows = list(found.table.records())
    replayed, all_of = found.of["iterations"], found.of["of_iterations"]
    of = count_of(all_of, "iteration") if replayed == all_of else (
        f"{replayed:,} of {count_of(all_of, 'iteration')}"
    )  # fmt: skip
    shown_rows = rows[:_MOST]
    longest = max([1.0, *(row["high"] or row["duration_ratio"] for row in shown_rows)])
    return m.section(
        title,
        m.tag("ul", *(_change(m, row, longest) for row in shown_rows), class_="rows predicted"),
        m.tag("p", f"The box is between at least and at most, the thin line is now. {_GRADES}.",
              class_="quiet"),
        shown,
        aside="how long the run takes: replayed with one thing changed" if found.of["is_whole"]
        else f"how long an iteration takes: {of} replayed with one thing changed",
        id_="what-if",
    )  # fmt: skip


def _change(m: Markup, row: Record, longest: float) -> Html:
    said = sentence_of(row["change"])
    ratio, low, high = row["duration_ratio"], row["low"], row["high"]
    top = longest if high is None else high
    at_most = "not known" if high is None else percent_words(high)
    why = sentence_of(row["reasons"])
    words = f"at least {percent_words(low)} of now, at most {at_most}"
    bar = m.tag(
        "svg",
        m.tag("title", words),
        m.tag("rect", x=place(low / longest), width=place((top - low) / longest), y="4",
              height="8", class_="unknown"),
        m.tag("rect", x=place(ratio / longest), width="3", height="16", class_="cpu"),
        m.tag("line", x1=place(1 / longest), x2=place(1 / longest), y1="0", y2="16",
              class_="middle"),
        class_="change", aria_hidden="true",
    )  # fmt: skip
    return m.tag(
        "li",
        m.tag("span", f"{said[0].upper()}{said[1:]}",
              m.tag("small", f"grade {row['grade']}" + (f": {why}" if why else "")),
              class_="name"),
        bar,
        m.tag("span", time_words(row["predicted_ns"]), class_="n"),
        m.tag("span", f"{percent_words(ratio)} of now", class_="n", data_change=said,
              data_ratio=ratio),
        m.tag("span", f"{percent_words(low)} to {at_most}", class_="n quiet", title=words),
    )  # fmt: skip
