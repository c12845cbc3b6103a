"""What the first screen says, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlscope_analysis.summary.gpu import GpuSummary
    from rlscope_analysis.summary.overhead import OverheadSummary
    from rlscope_analysis.summary.values import Loss
    from rlscope_analysis.window import AskedWindow


@dataclass(frozen=True, slots=True)
class Overview:
    """What a first look at a trace should tell."""

    trace: str
    """The name of its file."""
    machine: dict[str, Any]
    """processes: how many; cpus: of the program; command: of the first process."""
    is_complete: bool
    """False: the recording was cut off."""
    duration_ns: int | None
    losses: tuple[Loss, ...]
    overhead: OverheadSummary
    gpu: GpuSummary
    window: AskedWindow | None
    pace: dict[str, Any] | None = None
    """How many iterations, found how, their mean and p99; None: see reason."""
    findings: tuple[dict[str, Any], ...] = ()
    """What limits the iterations, the largest share first: code, share, low, high, of, of_path,
    where, evidence, remedy."""
    largest: dict[str, Any] | None = None
    """The code with the largest share, finding or not."""
    phases: tuple[dict[str, Any], ...] = ()
    """Rows of training_phase."""
    processes: tuple[dict[str, Any], ...] = ()
    """Rows of training_process."""
    no_phase: dict[int, str] = field(default_factory=dict)
    """Why no phase was found in a process that has none, by process_id: a word of NO_PHASE in
    note_sentences.py."""
    reason: str | None = None
    """Why there is no critical path; None: there is."""

    @property
    def lead(self) -> dict[str, Any] | None:
        """The process that iterates; None: not known."""
        return next((row for row in self.processes if row["is_lead"]), None)
