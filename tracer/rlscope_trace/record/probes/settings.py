"""What of the Python side of a target is to be recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Transitions = Literal["simulator", "all", "off"]
Gil = Literal["waits", "full"]
CudaCallsMode = Literal["auto", "on", "off"]
Messages = Literal["sockets", "all", "off"]


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The options of `record` that decide what is attached to Python programs."""

    transitions: Transitions = "simulator"
    """Whose entry points are probed: those of simulators, of backends too, or nobody's."""
    simulators: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    sample_hz: int = 99
    """Samples per second and CPU; 0: none."""
    gil: Gil = "waits"
    """full: also the intervals in which a thread had given the GIL away."""
    probe_budget: float = 0.02
    """Share of the target's CPU time that the probes of calls may cost."""

    cuda_calls: CudaCallsMode = "auto"
    """Whether the functions of the CUDA API are probed; auto: where CUPTI does not tell of them."""

    messages: Messages = "sockets"
    """Of which messages is recorded who sent them where nobody slept for them; all: pipes too."""

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers whose entry points are probed."""
        return {"simulator": ("simulator",), "all": ("simulator", "backend"), "off": ()}[
            self.transitions
        ]

    def facts(self) -> dict[str, object]:
        """Return what the trace keeps of this."""
        return {
            "transitions": self.transitions,
            "layers": list(self.layers),
            "simulators": list(self.simulators),
            "backends": list(self.backends),
            "sample_hz": self.sample_hz,
            "gil": self.gil,
            "probe_budget": self.probe_budget,
            "cuda_calls": self.cuda_calls,
            "messages": self.messages,
        }
