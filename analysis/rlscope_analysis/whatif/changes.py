"""The changes that can be asked for, and what each does to a program of the replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.errors import TraceError
from rlscope_analysis.whatif.gpu_changes import of_gpu
from rlscope_analysis.whatif.overlap import overlapped
from rlscope_analysis.whatif.team import of_team
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.whatif.program import Program
    from rlscope_analysis.whatif.read import Recorded
    from rlscope_analysis.whatif.vectorised import Vectorised

    Column = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Scaled:
    """An operation takes `factor` times what it took, bursts and sleeps alike; 0: nothing."""

    operation: str
    factor: float
    is_count: bool = False
    """It happens so many times as often; else each one takes so much longer."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """An operation is another one, of which each takes so much CPU time."""

    operation: str
    by: str
    mean_ns: float
    stderr_ns: float


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different; with nothing in it, nothing is."""

    scaled: tuple[Scaled, ...] = ()
    cpus: int | None = None
    """So many CPUs."""
    workers: int | None = None
    """So many processes beside the leading one; 0: it steps the environments itself."""
    kernels: float | None = None
    """Kernels take so many times what they took; 0: nothing."""
    replaced: tuple[Replaced, ...] = ()
    vectorised: tuple[Vectorised, ...] = ()
    threads: int | None = None
    """So many threads for parallel regions of the leading process."""
    overlap: tuple[str, str] | None = None
    """Two operations of the leading thread at the same time."""
    graphs: tuple[str, ...] = ()
    """Operations whose launches become one."""


def apply(changes: Changes, recorded: Recorded, program: Program) -> Program:
    """Return the program, its bursts and sleeps changed. Raises TraceError: no such operation."""
    factor = np.ones(len(program.kind))
    for change in changes.scaled:
        factor[rows_of(change.operation, recorded, program)] *= change.factor
    for one in changes.replaced:
        rows = rows_of(one.operation, recorded, program)
        factor[rows] *= one.mean_ns / mean_ns(one.operation, rows, recorded, program)
    for many in changes.vectorised:
        rows = _stepping_rows(many.operation, recorded, program)
        factor[rows] *= many.time_ns(recorded.environment_steps) / program.length_ns[rows].sum()
    if changes.kernels is not None or changes.graphs:
        factor *= of_gpu(changes.kernels, changes.graphs, recorded, program)
    if changes.threads is not None:
        factor *= of_team(changes.threads, recorded, program)[0]
    changed = program.scaled(factor)
    return overlapped(*changes.overlap, recorded, changed) if changes.overlap else changed


def mean_ns(operation: str, rows: Column, recorded: Recorded, program: Program) -> float:
    """Return how long one of an operation takes: bursts and sleeps, not what waits for others."""
    count = sum(
        times for (name, thread), times in recorded.instances.items()
        if name == operation and (program.thread_id[rows] == thread).any()
    )  # fmt: skip
    total = float(program.length_ns[rows].sum())
    if not count or not total:
        raise TraceError(
            f"cannot be answered: what one {printable(operation)!r} takes is not known",
            hint="rlscope-trace summarize TRACE --by operation",
        )
    return total / count


def _stepping_rows(operation: str, recorded: Recorded, program: Program) -> Column:
    """Return the items of an operation of the leading process. TraceError: workers have it."""
    rows = rows_of(operation, recorded, program)
    if not (rows & _of_lead(recorded, program)).any():
        raise TraceError(
            f"cannot be answered: worker processes do {printable(operation)!r}, and one simulator"
            " in the place of them is another program",
            hint="record it with a vector of environments in one process",
        )
    return rows


def rows_of(operation: str, recorded: Recorded, program: Program) -> Column:
    """Return which items are in an operation, or in one inside it.

    Of an operation that worker processes have, theirs only: in the leading process it hands work
    out and waits for it. Raises TraceError where there is none called so.
    """
    paths = recorded.paths_of.get(operation)
    if paths is None:
        names = ", ".join(printable(name) for name in list(recorded.paths_of)[:8]) or "none"
        raise TraceError(
            f"cannot be answered: the trace has no operation {printable(operation)!r}",
            hint=f"those it has: {names}; rlscope-trace summarize TRACE --by operation",
        )
    rows: Column = np.isin(program.path_id, paths)
    if not rows.any():
        raise TraceError(
            f"cannot be answered: nothing of {printable(operation)!r} lies in the iterations",
            hint="rlscope-trace summarize TRACE --by operation",
        )
    theirs: Column = rows & ~_of_lead(recorded, program)
    # A stray helper thread elsewhere is no worker.
    if program.length_ns[theirs].sum() > 0.1 * program.length_ns[rows].sum():
        return theirs
    return rows


def _of_lead(recorded: Recorded, program: Program) -> Column:
    lead = [t for t, p in recorded.process_of.items() if p == recorded.lead_process_id]
    mine: Column = np.isin(program.thread_id, lead)
    return mine
