"""What is to be done, in which order, and what each step needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a step may need -> the fact that says why it is not there ("" or no fact: it is there).
GPU, TORCH, BPF, NVML, PTRACE, PACKAGE = "gpu", "torch", "bpf", "nvml", "ptrace", "package"
# Kept free at the end of the budget for writing what is left.
_RESERVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the module gpu_check_lib.steps.NAME."""

    name: str
    needs: tuple[str, ...]
    limit_s: float
    """It is stopped after that."""
    least_s: float
    """With less time left it is not begun."""


STEPS = (
    Step("environment", (), 75, 5),
    Step("launches", (GPU, PACKAGE), 60, 15),
    Step("costs", (GPU, PACKAGE), 60, 30),
    Step("graphs", (GPU, PACKAGE), 60, 15),
    Step("oracle", (GPU, PACKAGE, TORCH), 90, 40),
    Step("profiler", (GPU, PACKAGE, TORCH), 90, 30),
    Step("late", (GPU, PACKAGE, PTRACE), 45, 15),
    Step("crash", (GPU, PACKAGE), 60, 15),
    Step("utilization", (GPU, PACKAGE, NVML), 30, 12),
    Step("stack", (GPU, PACKAGE, TORCH, BPF), 150, 45),
    Step("limits", (GPU, PACKAGE, TORCH, BPF), 120, 45),
    Step("whatif", (GPU, PACKAGE, TORCH, BPF), 200, 60),
)


@dataclass(slots=True)
class Facts:
    """What is there and what is not, and why; grows while the steps run."""

    missing: dict[str, str] = field(default_factory=dict)
    """Of what is not there: why."""
    known: dict[str, Any] = field(default_factory=dict)

    def update(self, reported: Mapping[str, Any]) -> None:
        """Take over what a step found out."""
        self.missing.update(reported.get("missing", {}))
        self.known.update(reported.get("known", {}))


def obstacle(step: Step, facts: Facts, left_s: float) -> str | None:
    """Return why a step is not begun, None if it is."""
    for need in step.needs:
        if facts.missing.get(need):
            return facts.missing[need]
    if left_s - _RESERVE_S < step.least_s:
        return f"{max(left_s, 0):.0f} s are left of the budget, it needs {step.least_s:.0f} s"
    return None


def limit(step: Step, left_s: float) -> float:
    """Return after how many seconds a step is stopped."""
    return min(step.limit_s, max(left_s - _RESERVE_S, 0.0))


def select(names: list[str]) -> list[Step]:
    """Return the named steps in their order, and the first one always; all if none is named.

    Raises ValueError for a name that no step has.
    """
    known = [step.name for step in STEPS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no step is called {', '.join(unknown)}; there are {', '.join(known)}")
    # The first one finds out what the others need.
    return [step for step in STEPS if not names or step.name in names or step is STEPS[0]]
