"""What a replay of some iterations says of changes, as `whatif` does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rlscope_analysis.errors import TraceError
from rlscope_analysis.page.tables import reason_of
from rlscope_analysis.query import run_query
from rlscope_analysis.result.page import PageTable
from rlscope_analysis.whatif.answer import what_if
from rlscope_analysis.whatif.changes import Changes

if TYPE_CHECKING:
    from rlscope_analysis.page.tables import Asked
    from rlscope_analysis.trace import Trace

# A page is to be there at once: a few iterations tell nearly what all do. One with more states
# than this takes seconds.
_STATES, _MOST_STATES, _MOST_ITERATIONS = 50_000, 400_000, 20
_STATES_SQL = """
SELECT count(*) / greatest((SELECT count(*) FROM iteration), 1) FROM thread_state_coded
"""


def what_if_table(trace: Trace, asked: Asked) -> PageTable:
    """Return the ranking of changes, or why there is none, with the command that prints it."""
    ((states,),) = run_query(trace, _STATES_SQL).rows
    most = max(1, min(_MOST_ITERATIONS, int(_STATES / max(states, 1))))
    made = partial(PageTable, "whatif", f"--iterations {most}", asked=asked.of_iterations)
    if states > _MOST_STATES:
        return made(None, "not predicted here: an iteration is so long that it takes a while")
    try:
        answer = what_if(trace, Changes(), most=most, keep=True)
    except TraceError as error:
        return made(None, reason_of(trace, error))
    return made(answer.data, of=answer.facts)
