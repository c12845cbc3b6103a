"""What was lost and what was not measured: nothing of it is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of

if TYPE_CHECKING:
    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.result.note import Note
    from rlscope_analysis.result.page import Page, Record

MOST = 60
_OF = {"overhead_not_measured": "what recording cost: ", "gpu_refused": "GPU activity "}


def loss_words(loss: Record) -> tuple[str, str]:
    """Return what was lost and how much of it, and where from and what helps."""
    count = "not known how many" if loss["count"] is None else f"{loss['count']:,}"
    remedy = f". {sentence_of(loss['remedy'])}" if loss["remedy"] else ""
    return f"{loss['kind']}: {count}", f", {sentence_of(loss['source'])}{remedy}"


def lack_words(found: Note) -> str:
    """Return what was not measured, and why."""
    return _OF.get(found.code, "") + sentence_of(found)


def limits(m: Markup, page: Page) -> Html:
    """Return the losses first."""
    lost = []
    for loss in page.losses[:MOST]:
        what, why = loss_words(loss)
        lost.append(
            m.tag("li", m.tag("b", what), why, data_loss=loss["kind"], data_count=loss["count"])
        )
    said = [m.tag("li", lack_words(found)) for found in page.not_measured[:MOST]]
    more = len(page.losses) + len(page.not_measured) - len(lost) - len(said)
    return m.section(
        "What was lost, and what was not measured",
        m.tag("ul", *lost, class_="limits lost") if lost else m.tag("p", "Nothing was lost."),
        m.tag("ul", *said, class_="limits") if said else None,
        m.tag("p", f"{more:,} more: rlscope-trace summarize --all", class_="quiet")
        if more
        else None,
        id_="not-measured",
    )
