"""What NVML says of a GPU that does next to nothing, beside what it really did."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.context import last_object
from gpu_check_lib.home import write_json
from gpu_check_lib.listening import listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_check_lib.context import Context

_RATE = 100
_SECONDS = 6
_KERNEL_NS = 50_000
_PERIOD_S = 0.02


def run(context: Context) -> None:
    """Launch a short kernel every 10 ms, read NVML meanwhile, compare."""
    listener = listen(context, "short-kernels")
    command = context.program(
        "launches", "--count", _RATE * _SECONDS, "--rate", _RATE, "--spin-ns", _KERNEL_NS
    )
    process = subprocess.Popen(
        command, env=context.environment(listener.environment()), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    series = sample_while(process)
    output, errors = process.communicate(timeout=_SECONDS + 30)
    reported = last_object(output, process.returncode, errors)
    found = listener.records()
    write_json(context.home / "fixtures" / "nvml.json", series)
    busy = busy_share(found, reported)
    said = _said(series, reported)
    context.check(
        "NVML was read", bool(said),
        f"{len(said)} values, by {'samples' if series['samples'] else 'rates'}",
        errors=series["errors"],
    )  # fmt: skip
    mean = sum(said) / len(said) if said else None
    context.tell(
        "nvidia-smi and the truth",
        f"NVML says {'nothing' if mean is None else f'{mean:.0f} % on average'};"
        f" kernels ran {100 * busy:.2f} % of the time",
        nvml_percent=mean, nvml_max=max(said, default=None), busy_percent=100 * busy,
    )  # fmt: skip
    context.check("kernels ran for about what they spin", 0 < busy < 0.05, f"{100 * busy:.2f} %")
    context.tell("GPM", series["gpm"])


def busy_share(found: records.Records, reported: dict[str, Any]) -> float:
    """Return the part of the time in which a kernel ran: the union of their intervals."""
    busy_ns, until_ns = 0, 0
    for kernel in sorted(found.of(records.KERNEL), key=lambda kernel: kernel.start_ns):
        busy_ns += max(0, kernel.end_ns - max(kernel.start_ns, until_ns))
        until_ns = max(until_ns, kernel.end_ns)
    return busy_ns / (reported["end_ns"] - reported["start_ns"])


def sample_while(process: Any) -> dict[str, Any]:  # noqa: ANN401 - a Popen
    """Read the first GPU until the process ends."""
    import pynvml

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    readings: list[dict[str, Any]] = []
    errors: dict[str, str] = {}
    calls = {
        "utilization": lambda: pynvml.nvmlDeviceGetUtilizationRates(device).gpu,
        "energy_mj": lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(device),
        "power_mw": lambda: pynvml.nvmlDeviceGetPowerUsage(device),
        "sm_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
    }
    while process.poll() is None:
        reading: dict[str, Any] = {"ts_ns": time.monotonic_ns()}
        for name, call in calls.items():
            _read(call, name, reading, errors)
        readings.append(reading)
        time.sleep(_PERIOD_S)
    reported = {"readings": readings, "samples": _samples(device, errors), "errors": errors}
    reported["gpm"] = _gpm(pynvml, device)
    pynvml.nvmlShutdown()
    return reported


def _said(series: dict[str, Any], reported: dict[str, Any]) -> list[float]:
    """Return what NVML said of the time after the first second, in percent."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    begin_ns, end_ns = reported["start_ns"] + 10**9, reported["end_ns"]
    samples = [(1000 * at_us - offset_ns, value) for at_us, value in series["samples"]]
    rates = [(each["ts_ns"], each.get("utilization")) for each in series["readings"]]
    return [
        value
        for at_ns, value in samples or rates
        if value is not None and begin_ns < at_ns <= end_ns
    ]


def _samples(device: Any, errors: dict[str, str]) -> list[tuple[int, int]]:  # noqa: ANN401
    """Return what NVML kept of the utilization: us of CLOCK_REALTIME, percent."""
    import pynvml

    try:
        _, kept = pynvml.nvmlDeviceGetSamples(device, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    except pynvml.NVMLError as error:
        errors["samples"] = str(error)
        return []
    return [(sample.timeStamp, sample.sampleValue.uiVal) for sample in kept]


def _read(
    call: Callable[[], float], name: str, reading: dict[str, Any], errors: dict[str, str]
) -> None:
    import pynvml

    try:
        reading[name] = call()
    except pynvml.NVMLError as error:
        errors[name] = str(error)


def _gpm(pynvml: Any, device: Any) -> str:  # noqa: ANN401 - the package has no types
    """Return whether the counters of GPM can be read here."""
    try:
        support = pynvml.nvmlGpmQueryDeviceSupport(device)
        if not support.isSupportedDevice:
            return "not supported by this GPU"
        sample = pynvml.nvmlGpmSampleAlloc()
        pynvml.nvmlGpmSampleGet(device, sample)
        pynvml.nvmlGpmSampleFree(sample)
    except (pynvml.NVMLError, AttributeError) as error:
        return f"refused: {error}"
    return "allowed"
