"""What a trace lacks, with the sentences that its codes stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.sentences import loss_sentence
from rlscope_analysis.summary.queries import LOSSES_SQL
from rlscope_analysis.summary.values import Loss

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.trace import Trace

_PARAMETERS = ("cpu", "record", "pid", "bytes", "detail")


def losses_of(trace: Trace) -> tuple[Loss, ...]:
    """Read trace_stat, in the order of kinds and sentences."""
    found = []
    for kind, code, count, first_ns, *rest in run_query(trace, LOSSES_SQL).rows:
        named = dict(zip(_PARAMETERS, rest, strict=True))
        parameters = {name: value for name, value in named.items() if value is not None}
        source, remedy = loss_sentence(code, parameters)
        found.append(Loss(kind, code, source, count, first_ns, remedy, parameters))
    return tuple(sorted(found, key=lambda loss: (str(loss.kind), loss.source, loss.first_ns or 0)))


def loss_lines(losses: Iterable[Loss]) -> Iterable[tuple[str, Note]]:
    """Yield what the head of an answer says of them, or that there are none."""
    name = "losses"
    for loss in losses:
        told = {"of": loss.code, "parameters": loss.parameters}
        yield "losses", note("loss", kind=loss.kind, count=loss.count, **told)
        if loss.remedy:
            yield "", note("loss_hint", **told)
        name = ""
    if name:
        yield name, note("nothing_lost")
