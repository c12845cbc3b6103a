"""The options of `record` for the GPU, and what is said where its activity cannot be had."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.sentences import coverage_sentence
from rlscope_trace.cli import messages
from rlscope_trace.record import shims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.target import Target

_NOT_LAUNCHED = Fact("not_launched", "CUPTI")
_HOW_TO_GET_IT = "--inject loads one, or start the program with: rlscope-trace -- COMMAND"
_DRIVER = "/libcuda.so"


class CuptiName(str, Enum):
    """Who uses CUPTI, of which a process has one."""

    ON = "on"
    YIELD = "yield"
    OFF = "off"


class GraphsName(str, Enum):
    """What is recorded of a CUDA graph."""

    GRAPH = "graph"
    NODE = "node"


def gpu_settings(cupti: CuptiName, graphs: GraphsName, *, memory: bool) -> shims.GpuSettings:
    """Return the settings that the options ask for."""
    return shims.GpuSettings(cupti.value, graphs.value, memory)


class GpuCapture:
    """How the GPU activity of one recording is had."""

    def __init__(self, settings: shims.GpuSettings) -> None:
        self.settings = settings
        refusal = settings.refusal()
        self._is_wanted = refusal is None
        self._is_launched = False
        self.verdict = shims.Verdict(False, refusal or _NOT_LAUNCHED)

    @property
    def is_wanted(self) -> bool:
        """Whether GPU activity is to be recorded at all."""
        return self._is_wanted

    def launched(self, injection: shims.Injection) -> None:
        """Take what came of the environment of a program that is launched."""
        self._is_launched = True
        self.verdict = injection.gpu

    def injected(self) -> None:
        """Take that the shim is loaded into running processes: they report how it went."""
        if self._is_wanted:
            self.verdict = shims.Verdict(True, Fact("cupti_late"))

    def tell(self, targets: Sequence[Target]) -> None:
        """Say at the start, not only in the summary, that GPU activity cannot be had."""
        if self.verdict.measured or not self._is_wanted:
            return
        why = coverage_sentence([self.verdict.fact], measured=False)
        if self._is_launched:
            messages.warning(f"GPU activity is not recorded: {why}")
        elif any(_uses_cuda(target.pid) for target in targets):
            messages.warning(f"GPU activity is not recorded: {why}", _HOW_TO_GET_IT)

    def facts(self) -> dict[str, object]:
        """Return what the spool holds for the table coverage."""
        return self.verdict.to_json()


def _uses_cuda(pid: int) -> bool:
    try:
        return _DRIVER in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
