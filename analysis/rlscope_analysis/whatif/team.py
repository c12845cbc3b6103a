"""Another number of threads for parallel regions (OpenMP): spinning dropped, work shared anew."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.errors import TraceError
from rlscope_analysis.whatif.program import RUN

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.whatif.program import Program
    from rlscope_analysis.whatif.read import Recorded

    Column = npt.NDArray[Any]

_LEAST_SAMPLES = 50
# Of the CPU time of the leading thread: who runs less is none of the team.
_MEMBER = 0.05
_NONE = (0, 0, 0)


def of_team(threads: int, recorded: Recorded, program: Program) -> tuple[Column, float]:
    """Return the factors of items with so many threads, and the standard error of the leading one.

    The leading thread shares parallel work with its team evenly. With one thread it does all of
    it and never spins; with several it spins as it did, for its shorter or longer part.
    Raises TraceError where no team is known, or too few samples tell what spins.
    """
    ran = _ran_ns(recorded, program)
    lead = recorded.lead_thread_id
    cpus = max(program.cpus, recorded.allowed_cpus)
    team = [
        thread for thread, ns in ran.items()
        if thread != lead and ns > _MEMBER * ran[lead] and recorded.spins.get(thread, _NONE)[1]
    ]  # fmt: skip
    waited = {
        # A team that is larger than the machine soon gives up to spin: it is in the OS kernel to
        # sleep, and to wake each other.
        thread: (samples, spinning + in_kernel * (len(team) + 1 > cpus))
        for thread, (samples, spinning, in_kernel) in recorded.spins.items()
    }
    samples, spinning = waited.get(lead, (0, 0))
    if not team:
        raise TraceError(
            "cannot be answered: no thread beside the leading one was seen to spin in a parallel"
            " region",
            hint="rlscope-trace summarize TRACE --view breakdown tells who spins",
        )
    if samples < _LEAST_SAMPLES:
        raise TraceError(
            f"cannot be answered: {samples} samples of the leading thread are too few to tell"
            " how much of it is spinning",
            hint="a longer recording",
        )
    size, asked = min(len(team) + 1, cpus), min(threads, cpus)
    useful, spun = ran[lead] * (1 - spinning / samples), ran[lead] * spinning / samples
    helped = sum(ran[t] * (1 - waited[t][1] / waited[t][0]) for t in team)
    share = min(useful, helped / len(team))
    parallel = share + helped if asked == 1 else (share + spun) * size / asked
    factor = np.ones(len(program.kind))
    factor[program.thread_id == lead] = (useful - share + parallel) / ran[lead]
    bursts = program.kind == RUN
    helpers = np.isin(program.thread_id, team)
    # Useful work of helpers is spread over more of them, or is the leading thread's.
    factor[helpers & bursts] = 0.0 if asked == 1 else size / asked
    part = spinning / samples
    return factor, sqrt(part * (1 - part) / samples + 1 / samples**2)


def _ran_ns(recorded: Recorded, program: Program) -> dict[int, float]:
    """Return the CPU time of each thread of the leading process."""
    bursts = program.kind == RUN
    lives, place = np.unique(program.thread_id[bursts], return_inverse=True)
    sums = np.bincount(place, program.length_ns[bursts], len(lives))
    found = dict(zip(lives.tolist(), sums.tolist(), strict=True))
    mine = {
        thread: ns for thread, ns in found.items()
        if recorded.process_of.get(thread) == recorded.lead_process_id
    }  # fmt: skip
    return {recorded.lead_thread_id: 1.0, **mine}
