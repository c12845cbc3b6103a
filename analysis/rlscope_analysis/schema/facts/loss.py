"""What a code of trace_stat means, and what helps against losses of several tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Calls(Enum):
    """What a loss means for counts of calls: with one of these, none of them is exact."""

    LOST = "calls were lost, count says how many"
    LOST_IF_CALLS = "so it is where record is call"
    PERHAPS = "calls may be among what is missing"


@dataclass(frozen=True, slots=True)
class Loss:
    """What a code of trace_stat means."""

    kind: str
    """dropped, truncated, unmatched, rate-limited, skipped: see the comment of trace_stat.kind."""
    sentence: str
    remedy: str | None = None
    """What to do the next time; None: nothing."""
    calls: Calls | None = None
    was_hit: bool = False
    """The probes that count hits saw these calls: see site.hits."""


# The record of the calls of functions, in the rings and in the spool.
CALL_RECORD = "call"

KILLED = "stop the recorder with Ctrl-C or SIGTERM: a kill loses what was under way"
DAMAGED = "check the disk: what is written there does not come back"
SPACE = "free space, or record to another disk with -o"
OUTSIDE = "run the program outside of it"
RING = "--ring-mib {more_mib}"
TRACERS = (
    "stop other tracers, if there are any: the OS kernel skips a probe that interrupts another one,"
    " and hides some threads from all of them"
)
