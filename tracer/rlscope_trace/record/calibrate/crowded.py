"""What a probed call costs among work that needs the caches, as that of training programs does.

A trap finds nothing in the caches there, and what it fetches has to be fetched again by the program
that goes on: next to work of our own both are seen. How much dearer a call becomes for each
nanosecond that its program in the OS kernel takes longer is what a recording needs to know.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from rlscope_trace.record.calibrate.account import counted, per_run, together
from rlscope_trace.record.calibrate.children import CalibrationError
from rlscope_trace.record.calibrate.results import Values, crowded
from rlscope_trace.record.calibrate.visits import Visit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlscope_trace import _capture
    from rlscope_trace.record.calibrate.children import Child
    from rlscope_trace.spool.costs import Cost

CALL_PROGRAMS = ("session_call", "enter_call", "return_call")
# Two calls each, of a fifth of a millisecond where the cache has a megabyte.
_TURNS = 250
# What a run takes longer while the OS kernel keeps its account: two looks at the clock.
_ACCOUNT_NS = 60.0


class CrowdedCalls:
    """Measurements of such calls, whose records are read at the end."""

    def __init__(self, plain: int) -> None:
        """plain: the site that is not probed."""
        self._plain = plain
        self._values = Values()
        self._visits: list[Visit] = []

    def visit(self, child: Child, mode: str, probes: _capture.NativeProbes, site: int) -> None:
        """Take one measurement of a probed site."""
        before, start_ns = probes.counters().get(site, (0, 0))[0], time.monotonic_ns()
        told: dict[str, list[float]] = {}
        # Both of one batch: a machine that changes its speed in between would tell a wrong rate.
        ran = counted(probes.programs(), lambda: told.update(self._ask(child, site)))
        runs_ns = 2 * _ACCOUNT_NS
        if not told:
            # The OS kernel keeps no account for us.
            told, runs_ns = self._ask(child, site), 0.0
        end_ns = time.monotonic_ns()
        if (hits := probes.counters().get(site, (0, 0))[0] - before) != _TURNS:
            raise CalibrationError(f"{hits} of {_TURNS} probed calls were seen")
        # The two of a turn lie side by side, so that a clock that changes its rate is in both.
        total_ns = statistics.median(
            on - off for on, off in zip(told["on"], told["off"], strict=True)
        )
        # Of the two runs, one half of each lies inside.
        plain_ns = statistics.median(told["inside"]) + runs_ns / 2
        self._visits.append(
            Visit("call", mode, site, start_ns, end_ns, total_ns - runs_ns, plain_ns)
        )
        self._values.add_program("call", mode, per_run(together(ran, *CALL_PROGRAMS)))

    def _ask(self, child: Child, site: int) -> dict[str, list[float]]:
        return child.ask("crowded_calls", plain=self._plain, site=site, turns=_TURNS)

    def finish(self, calls: dict[str, NDArray[np.int64]]) -> None:
        """Split what was measured by the recorded calls, whose time holds a part of their cost."""
        import numpy as np

        for visit in self._visits:
            own = visit.durations_ns(calls)
            if len(own):
                inside_ns = float(np.median(own)) - visit.plain_ns
                self._values.add_split(visit.event, visit.mode, visit.total_ns, inside_ns)

    def costs(self) -> list[Cost]:
        """Return the rows of what was measured."""
        return crowded(self._values.costs())
