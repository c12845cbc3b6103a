"""The OS kernel's account of how long programs run, for a batch of a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace import _capture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Runs = tuple[int, int]
"""How often programs ran, and for how many ns together."""


def counted(programs: Sequence[tuple[str, int]], batch: Callable[[], object]) -> dict[str, Runs]:
    """Return what ran while the batch did, by name; for whatever thread of the machine.

    The account takes two looks at the clock per run, which is in what the batch says of its own
    time. Nothing is run, and nothing returned, where the OS kernel keeps no account for us:
    that takes CAP_SYS_ADMIN, which tracing does not.
    """
    clock = _capture.ProgramClock(programs)
    try:
        clock.start()
    except OSError:
        return {}
    try:
        batch()
    finally:
        _, _, told = clock.stop()
    return told


def per_run(runs: Runs, own: int | None = None, other_run_ns: float = 0.0) -> float | None:
    """Return the ns of one run; None where there was none.

    own: how many of them are meant, if not all; the others take other_run_ns each.
    """
    count, time_ns = runs
    meant = count if own is None else own
    if count <= 0 or meant <= 0:
        return None
    return max(time_ns - max(count - meant, 0) * other_run_ns, 0.0) / meant


def together(told: dict[str, Runs], *names: str) -> Runs:
    """Return the runs of several programs."""
    found = [told[name] for name in names if name in told]
    return sum(runs for runs, _ in found), sum(time_ns for _, time_ns in found)
