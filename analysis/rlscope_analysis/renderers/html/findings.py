"""What to try first: each finding with the share at stake and the command that shows more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.findings.catalog import BY_CODE
from rlscope_analysis.note_sentences import opening_words
from rlscope_analysis.renderers.html.words import percent_words, time_words

if TYPE_CHECKING:
    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.result.page import Page, Record

_MOST = 6


def findings(m: Markup, page: Page) -> Html:
    """Return the findings, the largest first."""
    if not page.findings:
        if page.pace is None:
            said = "Nothing can be said of what limits it; see what was not measured, below."
        else:
            said = "No finding: nothing that can be helped takes a noticeable part of an iteration."
        return m.section("What to try first", m.tag("p", said, class_="quiet"), id_="findings")
    items = [_finding(m, page, row) for row in page.findings[:_MOST]]
    return m.section(
        "What to try first",
        m.tag("ol", *items, class_="findings"),
        aside="at stake: the most that can be gained, never to be added up",
        id_="findings",
    )


def _finding(m: Markup, page: Page, row: Record) -> Html:
    limit = BY_CODE[row["code"]]
    who = opening_words(row["who"]) if row["who"] else _whose(row)
    by = f", mostly {row['by']}" if row["by"] else ""
    title = f"{who} {limit.what}{by}"
    whole = "the run" if page.pace and page.pace["source"] == "whole" else "an iteration"
    of = f"of {whole}" if row["of_path"] else "of its life"
    interval = None
    if row["low"] is not None and row["high"] is not None:
        low, high = percent_words(row["low"], 1), percent_words(row["high"], 1)
        interval = m.tag("small", f"{low[:-2]} to {high}", title="95 % interval")
    each = ""
    if page.pace and page.pace["mean_ns"] and row["of_path"]:
        time = time_words(row["share"] * page.pace["mean_ns"])
        each = f"About {time} of {'the run' if whole == 'the run' else 'each iteration'}. "
    command = ["rlscope-trace", "summarize", page.trace, *limit.proof.split(), *page.asked]
    return m.tag(
        "li",
        m.tag(
            "div",
            m.tag("b", percent_words(row["share"]), data_finding=row["code"],
                  data_share=row["share"]),
            m.tag("span", of),
            interval,
            class_="stake",
        ),
        m.tag(
            "div",
            m.tag("h3", title),
            m.tag("p", each, m.tag("span", "Try: ", class_="try"), f"{row['remedy']}.")
            if row["remedy"]
            else None,
            m.command(command),
        ),
    )  # fmt: skip


def _whose(row: Record) -> str:
    return f"Process {row['where']['pid']}" if row["where"]["pid"] else "The GPU"
