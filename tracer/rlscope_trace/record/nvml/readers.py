"""What is read of one device, counter by counter; each may be refused, and then says so once."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_trace.record.nvml.library import Device

# A counter that fails so often in a row will not come back.
_MOST_FAILURES = 10
_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
# By how much a sample may seem to come from the future: clocks are read one after the other.
_AHEAD_NS = 1_000_000_000

Reading = tuple[int, float]
"""Time on CLOCK_MONOTONIC in ns, and the value."""


class RefusedError(Exception):
    """A counter cannot be had; its text says why."""


def realtime_ahead_ns() -> int:
    """Return what CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, read as close as can be."""
    before_ns = time.monotonic_ns()
    realtime_ns = time.time_ns()
    return realtime_ns - (before_ns + time.monotonic_ns()) // 2


@dataclass(slots=True)
class Reader:
    """One counter of one device."""

    name: str
    read: Callable[[], list[Reading]]
    failures: int = 0


def make_readers(nvml: Any, device: Device, since_ns: int) -> list[Reader]:  # noqa: ANN401
    """Return what to read of a device. since_ns: older samples tell of the time before us."""
    activity = _Activity(nvml, device)
    readers = [
        Reader("memory_used", _instant(lambda: _memory_used(nvml, device.handle))),
        Reader("sm_activity", activity.read),
    ]
    if device.parent is not None:
        # All else is about the whole GPU.
        return readers
    samples = (
        ("utilization_gpu", nvml.NVML_GPU_UTILIZATION_SAMPLES),
        ("utilization_memory", nvml.NVML_MEMORY_UTILIZATION_SAMPLES),
    )
    handle = device.handle
    instants: dict[str, Callable[[], float]] = {
        "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
        "throttle_reasons": lambda: _throttle_reasons(nvml, handle),
    }
    return [
        *(Reader(name, _Samples(nvml, handle, kind, since_ns).read) for name, kind in samples),
        *(Reader(name, _instant(read)) for name, read in instants.items()),
        Reader("sm_clock_max", _once(lambda: _highest_clock(nvml, handle))),
        *readers,
    ]


def _instant(read: Callable[[], float]) -> Callable[[], list[Reading]]:
    """Return a reader of what holds now: in the middle of the call."""

    def reading() -> list[Reading]:
        before_ns = time.monotonic_ns()
        value = float(read())
        return [((before_ns + time.monotonic_ns()) // 2, value)]

    return reading


def _once(read: Callable[[], float]) -> Callable[[], list[Reading]]:
    """Return a reader of what stays: it reads it a first time only."""
    first = _instant(read)
    readings: list[Reading] = []

    def reading() -> list[Reading]:
        if readings:
            return []
        readings.extend(first())
        return readings

    return reading


def _highest_clock(nvml: Any, handle: Any) -> float:  # noqa: ANN401
    return float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))


def _memory_used(nvml: Any, handle: Any) -> float:  # noqa: ANN401
    try:
        # As nvidia-smi tells it: without what the driver reserves for itself.
        return float(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    except nvml.NVMLError as error:
        if error.value not in (
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        ):
            raise
        return float(nvml.nvmlDeviceGetMemoryInfo(handle).used)


def _throttle_reasons(nvml: Any, handle: Any) -> float:  # noqa: ANN401
    try:
        return float(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        # What it was called before driver 535.
        return float(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


@dataclass(slots=True)
class _Samples:
    """The driver's own samples: each once, with its time, nothing averaged away."""

    nvml: Any
    handle: Any
    kind: int
    since_ns: int
    _seen_us: int = field(default=0, init=False)
    _ahead_ns: int = field(default_factory=realtime_ahead_ns, init=False)

    def read(self) -> list[Reading]:
        ahead_ns = realtime_ahead_ns()
        # Where the clock was set, so are the times by which we ask for newer samples.
        self._seen_us = max(self._seen_us + self._clock_step_us(ahead_ns), 0)
        try:
            kind, samples = self.nvml.nvmlDeviceGetSamples(self.handle, self.kind, self._seen_us)
        except self.nvml.NVMLError as error:
            if error.value in (self.nvml.NVML_ERROR_NOT_FOUND, self.nvml.NVML_ERROR_NO_DATA):
                return []  # none is new
            raise
        now_ns = time.monotonic_ns()
        readings = []
        for sample in samples:
            ts_ns = sample.timeStamp * 1000 - ahead_ns
            if sample.timeStamp > self._seen_us and ts_ns >= self.since_ns:
                if ts_ns > now_ns + _AHEAD_NS:
                    raise RefusedError("the times of its samples are not those of CLOCK_REALTIME")
                readings.append((ts_ns, float(getattr(sample.sampleValue, _FIELDS[kind]))))
        self._seen_us = max([self._seen_us, *(sample.timeStamp for sample in samples)])
        return readings

    def _clock_step_us(self, ahead_ns: int) -> int:
        step_ns, self._ahead_ns = ahead_ns - self._ahead_ns, ahead_ns
        # Slewing is no step: a sample more or less is distinguished by its time.
        return step_ns // 1000 if self._seen_us and abs(step_ns) > _AHEAD_NS else 0


class _Activity:
    """Share of the SMs that worked since the reading before (GPM, from Hopper on)."""

    def __init__(self, nvml: Any, device: Device) -> None:  # noqa: ANN401
        self._nvml = nvml
        self._device = device
        self._samples: list[Any] = []
        self._instance: int | None = None

    def read(self) -> list[Reading]:
        nvml = self._nvml
        if not self._samples:
            self._begin()
            self._take(self._samples[0])
            return []
        before, after = self._samples
        self._take(after)
        ts_ns = time.monotonic_ns()
        self._samples = [after, before]
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = 1
        request.sample1, request.sample2 = before, after
        request.metrics[0].metricId = nvml.NVML_GPM_METRIC_SM_UTIL
        metric = nvml.nvmlGpmMetricsGet(request).metrics[0]
        if metric.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(metric.nvmlReturn)
        value = float(metric.value)
        return [(ts_ns, value)] if math.isfinite(value) else []

    def _begin(self) -> None:
        nvml, device = self._nvml, self._device
        gpu = device.handle if device.parent is None else device.parent
        if not nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
            raise RefusedError("GPM is there from Hopper on")
        if device.is_partitioned:
            raise RefusedError("reported for its MIG instances, not for the whole")
        if device.parent is not None:
            self._instance = nvml.nvmlDeviceGetGpuInstanceId(device.handle)
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]

    def _take(self, sample: Any) -> None:  # noqa: ANN401
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._device.handle, sample)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._device.parent, self._instance, sample)


def refusal(nvml: Any, reader: Reader, error: Exception) -> str | None:  # noqa: ANN401
    """Return why a counter that failed is given up; None: it is worth another try."""
    if isinstance(error, RefusedError):
        return str(error)
    reader.failures += 1
    passing = (nvml.NVML_ERROR_UNKNOWN, nvml.NVML_ERROR_TIMEOUT, nvml.NVML_ERROR_IN_USE,
        nvml.NVML_ERROR_NOT_READY, nvml.NVML_ERROR_NO_DATA, nvml.NVML_ERROR_MEMORY)  # fmt: skip
    if getattr(error, "value", None) in passing and reader.failures < _MOST_FAILURES:
        return None
    return str(error)
