"""The GPUs that Nsight Systems exports describe."""

from typing import Any

from rlscope_trace.ingest.importers.nsys_sqlite import NsysFile

DeviceKey = tuple[str | None, int]
"""Host, and the number of the device there as the program counts."""
Facts = dict[str, Any]

_FACTS = (
    "name", "uuid", "memory_bytes", "multiprocessors", "compute_capability", "clock_hz",
    "memory_bandwidth",
)  # fmt: skip


def read_devices(file: NsysFile, host: str | None) -> dict[DeviceKey, Facts]:
    """Return the facts about each device, by the number that CUDA gives it."""
    gpus = _gpus(file)
    by_number: dict[int, list[Facts]] = {}
    for gpu_id, cuda_id in file.rows("TARGET_INFO_CUDA_DEVICE", gpuId=int, cudaId=int):
        if gpu_id in gpus and cuda_id is not None:
            by_number.setdefault(cuda_id, []).append(gpus[gpu_id])
    if not by_number:
        by_number = {gpu["number"]: [gpu] for gpu in gpus.values() if gpu["number"] is not None}
    return {(host, number): _agreed(facts) for number, facts in by_number.items()}


def add_devices(known: dict[DeviceKey, Facts], more: dict[DeviceKey, Facts]) -> None:
    """Add devices; of those that are known already, keep what both agree on."""
    for key, facts in more.items():
        known[key] = _agreed([known[key], facts]) if facts and known.get(key) else (
            known.get(key) or facts
        )  # fmt: skip


def device_table(devices: dict[DeviceKey, Facts]) -> dict[str, list[Any]]:
    """Return the table gpu_device."""
    keys = sorted(devices, key=lambda key: (key[0] or "", key[1]))
    return {
        "host": [host for host, _ in keys],
        "device_id": [number for _, number in keys],
        **{fact: [devices[key].get(fact) for key in keys] for fact in _FACTS},
    }


def _gpus(file: NsysFile) -> dict[int, Facts]:
    rows = file.rows(
        "TARGET_INFO_GPU",
        id=int, cuDevice=int, name=str, uuid=str, totalMemory=int, smCount=int,
        computeMajor=int, computeMinor=int, clockRate=int, memoryBandwidth=int,
    )  # fmt: skip
    return {
        gpu_id: {
            # Where a process sees fewer GPUs it counts otherwise: TARGET_INFO_CUDA_DEVICE knows.
            "number": gpu_id if cuda_device is None else cuda_device,
            "name": name,
            "uuid": uuid,
            "memory_bytes": memory,
            "multiprocessors": processors,
            "compute_capability": None if major is None else f"{major}.{minor or 0}",
            "clock_hz": clock or None,
            "memory_bandwidth": width or None,
        }
        for gpu_id, cuda_device, name, uuid, memory, processors, major, minor, clock, width in rows
        if gpu_id is not None
    }


def _agreed(facts: list[Facts]) -> Facts:
    """Keep what holds of every GPU that some process calls by this number."""
    return {
        fact: facts[0].get(fact)
        for fact in _FACTS
        if all(other.get(fact) == facts[0].get(fact) for other in facts)
    }
