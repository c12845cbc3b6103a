"""NVIDIA's management library, if this machine has it, and the GPUs it knows."""

from __future__ import annotations

import ctypes
import importlib
from dataclasses import dataclass
from typing import Any

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.spool.counter_file import DeviceFacts

LIBRARY = "libnvidia-ml.so.1"
_PACKAGE = "nvidia-ml-py"


class NvmlUnavailableError(Exception):
    """NVML cannot be used here."""

    def __init__(self, *facts: Fact) -> None:
        """Take what coverage says of it."""
        super().__init__(*facts)
        self.facts = facts


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or a MIG instance of one, with the handles that NVML wants."""

    facts: DeviceFacts
    handle: Any
    parent: Any = None
    """Of a MIG instance: the handle of its GPU."""
    is_partitioned: bool = False
    """A GPU in MIG mode, whose instances are devices of their own."""


def load() -> Any:  # noqa: ANN401 - a module without types
    """Return the module pynvml, with NVML initialised; shut it down with nvmlShutdown().

    May take seconds where the driver wakes the GPUs up. Raises NvmlUnavailableError.
    """
    try:
        # Asked first: without a driver the package need not be loaded.
        ctypes.CDLL(LIBRARY)
    except OSError:
        raise NvmlUnavailableError(Fact("no_nvidia_driver", LIBRARY)) from None
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise NvmlUnavailableError(Fact("nvml_package_missing", _PACKAGE)) from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        has_no_driver = error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED
        code = "nvml_no_driver" if has_no_driver else "nvml_call_failed"
        raise NvmlUnavailableError(Fact(code, detail=str(error))) from None
    return nvml


def driver_version(nvml: Any) -> str | None:  # noqa: ANN401 - a module without types
    """Return the version of the driver; None: it does not tell."""
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return None


def find_devices(nvml: Any) -> list[Device]:  # noqa: ANN401 - a module without types
    """Return the GPUs, each followed by its MIG instances. Raises NvmlUnavailableError."""
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(Fact("nvml_call_failed", detail=str(error))) from None
    devices = []
    refused = []
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            facts = _facts(nvml, index, handle)
        except nvml.NVMLError as error:
            refused.append(Fact("nvml_gpu_refused", detail=str(error), count=index))
            continue
        parts = _instances(nvml, index, handle)
        devices += [Device(facts, handle, is_partitioned=bool(parts)), *parts]
    if not devices:
        raise NvmlUnavailableError(*(refused or [Fact("nvml_no_gpu")]))
    return devices


def _facts(nvml: Any, index: int, handle: Any) -> DeviceFacts:  # noqa: ANN401
    uuid = nvml.nvmlDeviceGetUUID(handle)
    try:
        name = nvml.nvmlDeviceGetName(handle)
    except nvml.NVMLError:
        name = ""
    return DeviceFacts(index, str(uuid), str(name))


def _instances(nvml: Any, index: int, gpu: Any) -> list[Device]:  # noqa: ANN401
    """Return the MIG instances of a GPU; none where MIG is off or unknown."""
    try:
        is_on = nvml.nvmlDeviceGetMigMode(gpu)[0] == nvml.NVML_DEVICE_MIG_ENABLE
        places = nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if is_on else 0
    except nvml.NVMLError:
        return []
    instances = [_instance(nvml, index, gpu, place) for place in range(places)]
    return [instance for instance in instances if instance is not None]


def _instance(nvml: Any, index: int, gpu: Any, place: int) -> Device | None:  # noqa: ANN401
    """Return the MIG instance in a place of a GPU; None: that is empty."""
    try:
        handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
        return Device(_facts(nvml, index, handle), handle, parent=gpu)
    except nvml.NVMLError:
        return None
