"""What limits say, as an answer, as annotations of GitHub and as JUnit XML."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from rlscope_analysis.compare.answer import answer_of as compared_answer
from rlscope_analysis.compare.answer import verdict_note
from rlscope_analysis.compare.gate import CANNOT_TELL, OK, WORSE, outcome_of
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.result.column import Column, Unit
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import Answer, Table
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.gate import Held

_COMMANDS = {OK: "notice", WORSE: "error", CANNOT_TELL: "warning"}


def answer_of(found: Comparison, results: Sequence[Held]) -> Answer:
    """Lay out what the limits say, above what changed most."""
    columns = (
        Column("outcome"),
        Column("limit"),
        Column("measured"),
        Column("runs", Unit.COUNT, label="runs needed"),
    )
    rows = [(held.outcome, held.limit.text, measured_note(held), held.runs) for held in results]
    whole = compared_answer(found, is_first_screen=True)
    outcome = outcome_of(results)
    table = Table("limits", "", columns, rows)
    return Answer(
        tables=(table, *whole.tables[:1]),
        data=table,
        facts={
            "outcome": outcome,
            "limits": [_facts(held) for held in results],
            "comparison": whole.facts,
        },
        opening=(
            note("gate", outcome=outcome, limits=len(results), runs=runs_needed(found, results)),
            *whole.opening,
        ),
        closing=whole.closing[:-1],
        facts_hold_rows=True,
    )


def runs_needed(found: Comparison, results: Sequence[Held]) -> int | None:
    """Return how many more runs a side would tell; None: that is not known."""
    needed = [held.runs for held in results if held.outcome == CANNOT_TELL]
    if not needed or None in needed:
        return None
    have = min(found.units.base_runs, found.units.new_runs)
    return max(max(runs for runs in needed if runs is not None) - have, 1)


def measured_note(held: Held) -> Note:
    """Return what was measured of a limit."""
    of = held.difference
    return note(
        "held", share=held.limit.unit == "pp", relative=held.limit.unit == "%", base=of.base,
        new=of.new, low=of.low, high=of.high,
    )  # fmt: skip


def _facts(held: Held) -> dict[str, object]:
    of = held.difference
    return {
        "what": held.limit.what, "limit": held.limit.text, "outcome": held.outcome,
        "base": of.base, "new": of.new, "change": of.change, "low": of.low, "high": of.high,
        "allowed": held.allowed, "runs_needed": held.runs,
    }  # fmt: skip


def github(found: Comparison, results: Sequence[Held]) -> Iterator[str]:
    """Yield workflow commands: an annotation for each limit."""
    for held in results:
        words = f"{held.outcome}: {held.limit.text}: {sentence_of(measured_note(held))}"
        if held.outcome != OK:
            words += f". {sentence_of(verdict_note(found))}"
        # What GitHub asks for: no line ends, and no percent sign that it could take for one.
        text = printable(words).replace("%", "%25")
        yield f"::{_COMMANDS[held.outcome]} title=rlscope-trace gate::{text}\n"


def junit(found: Comparison, results: Sequence[Held]) -> str:
    """Return JUnit XML: a test case for each limit; what cannot be decided is an error."""
    outcomes = [held.outcome for held in results]
    counts = {
        "name": "rlscope-trace gate", "tests": str(len(results)),
        "failures": str(outcomes.count(WORSE)), "errors": str(outcomes.count(CANNOT_TELL)),
    }  # fmt: skip
    suite = ElementTree.Element("testsuite", counts)
    for held in results:
        name = printable(held.limit.text)
        case = ElementTree.SubElement(suite, "testcase", classname="rlscope-trace", name=name)
        words = printable(sentence_of(measured_note(held)))
        if held.outcome != OK:
            tag = "failure" if held.outcome == WORSE else "error"
            reported = ElementTree.SubElement(case, tag, message=f"{held.outcome}: {words}")
            reported.text = printable(sentence_of(verdict_note(found)))
        else:
            ElementTree.SubElement(case, "system-out").text = words
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
