"""What was lost in a trace, and what has no number in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.overview.answer import not_known_notes
from rlscope_analysis.result.note import note
from rlscope_analysis.summary.notes import fault_notes, unmeasured_notes
from rlscope_analysis.summary.overhead import overhead_note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.overview.values import Overview
    from rlscope_analysis.result.note import Note
    from rlscope_analysis.trace import Trace


def loss_records(reported: Overview) -> tuple[dict[str, Any], ...]:
    """Return what was lost: kind, count (None: not known), source and remedy."""
    return tuple(
        {"kind": loss.kind, "count": loss.count, "source": loss.source, "remedy": loss.remedy}
        for loss in reported.losses
    )


def not_measured_notes(trace: Trace, reported: Overview) -> Iterator[Note]:
    """Yield what has no number, and why."""
    yield from not_known_notes(reported)
    yield from unmeasured_notes(trace)
    yield from fault_notes(trace)
    if reported.overhead.overhead_ns is None:
        yield overhead_note(reported.overhead)
    yield from reported.gpu.refused
    if reported.reason:
        yield note("no_verdict", reason=reported.reason)
