"""The options of `record` for the Python side of a target, and how they are checked."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.record.layers import LayerRules

if TYPE_CHECKING:
    from rlscope_trace.record.probes.settings import ProbeSettings

# The interrupt of a virtual CPU is an exit to the hypervisor: 30 to 95 us where virtual machines
# are nested, twenty times the work of a sample. So many take at most 1 % of a program's time.
_VIRTUAL_HZ = 99
_METAL_HZ = 999


class TransitionsName(str, Enum):
    """Which calls out of Python are recorded one by one."""

    SIMULATOR = "simulator"
    ALL = "all"
    OFF = "off"


class GilName(str, Enum):
    """What is recorded of the GIL."""

    WAITS = "waits"
    FULL = "full"


class CudaCallsName(str, Enum):
    """Where calls of the CUDA API are recorded by probes."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class MessagesName(str, Enum):
    """Of which messages that nobody slept for the sender is recorded."""

    SOCKETS = "sockets"
    ALL = "all"
    OFF = "off"


def default_sample_hz(cpuinfo: Path = Path("/proc/cpuinfo")) -> int:
    """Return how often to sample on this machine: seldom where a tick is expensive."""
    try:
        flags = cpuinfo.read_text().partition("flags")[2].partition("\n")[0].split()
    except OSError:
        return _VIRTUAL_HZ
    return _VIRTUAL_HZ if "hypervisor" in flags else _METAL_HZ


def check_patterns(settings: ProbeSettings) -> None:
    """Raise UsageError for a --simulator or --backend that can match no file."""
    LayerRules(settings.simulators, settings.backends)
