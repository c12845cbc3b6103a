"""A whole trace as lanes: what there is to see, and what lies between two instants of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlscope_analysis.result.note import Note

STATE, OPERATION, CALL, CUDA, GPU, PATH = (kind * 16 for kind in range(6))
"""The rows of a lane; of operations and calls the depth is added."""
COLUMNS = (
    "lane", "line", "code", "is_wide", "start_ns", "end_ns", "time_ns", "length_ns", "count",
)  # fmt: skip
"""What is known of a slice; length_ns: of a wide one, beyond the ends of the span too."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread (key: its thread_id) or a stream of a GPU (key: below 0), and the rows it has."""

    key: int
    who: Note
    operations: int = 0
    calls: int = 0
    launches: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """What there is to see of a trace. Instants are those of the trace, in ns."""

    trace: str
    start_ns: int
    end_ns: int
    verdict: Note
    lanes: tuple[Lane, ...]
    operations: tuple[tuple[int, str], ...]
    """Paths and the names of their innermost operations."""
    sites: tuple[tuple[int, str, str | None], ...]
    """What was called: its name and layer."""
    names: tuple[tuple[int, str], ...]
    """What GPUs did, and functions of CUDA."""
    states: tuple[str, ...]
    """Those that any thread was in."""
    iterations: tuple[tuple[int, int], ...]
    has_path: bool
    losses: tuple[dict[str, Any], ...]
    """kind, count (None: not known), source, remedy."""
    not_measured: tuple[Note, ...]
