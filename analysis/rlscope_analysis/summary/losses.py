"""What a trace lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.sentences import loss_sentence
from rlscope_analysis.summary.queries import LOSSES_SQL
from rlscope_analysis.summary.values import Loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.trace import Trace

_PARAMETERS = ("cpu", "record", "pid", "bytes", "detail")


def losses_of(trace: Trace) -> tuple[Loss, ...]:
    """Read trace_stat, in the order of kinds and sentences."""
    found = []
    for kind, code, count, first_ns, *rest in run_query(trace, LOSSES_SQL).rows:
        named = dict(zip(_PARAMETERS, rest, strict=True))
        parameters = {name: value for name, value in named.items() if value is not None}
        words, has_remedy = loss_sentence(code, parameters)
        reported = {"of": code, "parameters": parameters}
        remedy = note("loss_remedy", **reported) if has_remedy else None
        loss = Loss(
            kind, code, note("loss_source", **reported), count, first_ns, remedy, parameters
        )
        found.append(((str(kind), words, first_ns or 0), loss))
    return tuple(loss for _, loss in sorted(found, key=lambda pair: pair[0]))


def loss_lines(losses: Sequence[Loss]) -> Iterable[tuple[str, Note]]:
    """Yield what the head of an answer says of them, or that there are none."""
    if not losses:
        yield "losses", note("nothing_lost")
    for loss in losses:
        yield "losses", note("loss", kind=loss.kind, count=loss.count, source=loss.source)
        if loss.remedy:
            yield "", note("loss_hint", remedy=loss.remedy)
