"""What is compared of one trace: sums per iteration, and what is known of where it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    Sums = npt.NDArray[np.int64]

Key = tuple[str, ...]
"""What a series is of; the first word is one of those below, the others are its labels."""

WALL = "wall"
"""Time of the critical path: place, operation, layer (of a GPU: what it does), cause."""
CPU = "cpu"
"""CPU time: place, operation, layer."""
PROCESS = "process"
"""CPU time of a process: leading, or other 1, other 2 ... in the order in which they began."""
COUNT = "count"
"""How often something that the program decides: one of COUNTS, and the operation ("": none)."""
COUNTS = (
    "cuda_launches", "gpu_bytes_copied", "gpu_graphs", "gpu_kernels", "gpu_memcpy_memset",
    "environment_steps", "leading_operations", "other_operations",
)  # fmt: skip
"""In the order in which they are shown."""
STEPS = (COUNT, "environment_steps", "")
"""The key of environment steps."""
GPU_BUSY = "gpu_busy"
"""Time in which a GPU worked."""
SEEN_TIME, SEEN_COUNT = "seen_time", "seen_count"
"""Time in, and number of: function, kernel, copy, launch, wait; and its name."""

LEADING, OTHER, GPU = "leading", "other", "GPU"
"""Places: the process with the iterations, any other, on a GPU."""
NO_LAYER = ""
RECORDING = "recording"
"""The kind of what we recorded; imports are called by the profiler."""
# Time that programs outside the trace took: it says nothing of the traced program.
OF_OTHERS = frozenset({"cpu_taken_by_other"})


@dataclass(frozen=True, slots=True)
class Run:
    """One trace, or what a baseline file keeps of one."""

    name: str
    kind: str
    """recording, kineto, nsys, xplane: how it was made. Only the same kinds are compared."""
    iteration: str
    """What an iteration is: phases, whole, or the name of the range."""
    iterations: Sums
    """How many iterations each unit holds: 1, but in a baseline."""
    series: Mapping[Key, Sums]
    """Sums in ns, or counts, by unit."""
    overhead: Mapping[str, float] | None
    """Which part of the CPU time of an operation recording cost; None: not measured."""
    environment: Mapping[str, str]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """states: whether thread states were recorded; lost: how many records were lost; probes and
    gpu_speed: how fast the machine is."""

    @property
    def length(self) -> int:
        """How many iterations there are."""
        return int(self.iterations.sum())
