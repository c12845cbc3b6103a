"""The GPUs of a machine: one number for each, however the processes count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_trace._ingest import shim_gpu_devices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rlscope_trace._ingest import ShimScan

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
# In place of the number of a GPU that is not known.
NO_DEVICE = 2**32 - 1


def int32(value: int) -> int | None:
    """Return a number that a process reported, None where a column of 32 bits cannot hold it."""
    return value if value <= INT32_MAX else None


def int64(value: int) -> int | None:
    """Return a number that a process reported, None where a column of 64 bits cannot hold it."""
    return value if value <= INT64_MAX else None


class GpuDevices:
    """Numbers GPUs by their uuid: with CUDA_VISIBLE_DEVICES or MIG, each process has its own 0."""

    def __init__(self, scan: ShimScan, host: str | None) -> None:
        """`host`: the machine that was recorded."""
        self._host = host
        self._facts: dict[int, dict[str, Any]] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        # By ordinal: the numbers that it stands for in the processes that reported.
        self._meanings: dict[int, set[int]] = {}
        self._next = 0
        by_source: dict[int, list[dict[str, Any]]] = {}
        for device in shim_gpu_devices(scan):
            if device["device"] <= INT32_MAX:
                by_source.setdefault(device["source"], []).append(device)
        known: dict[object, int] = {}
        # Who sees the most of them numbers them most as the machine does.
        for devices in sorted(by_source.values(), key=len, reverse=True):
            for device in devices:
                self._add(device, known)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of gpu_device: each GPU once, however many processes could use it."""
        for number, device in sorted(self._facts.items()):
            capability = f"{device['major']}.{device['minor']}" if device["major"] else None
            yield (
                self._host,
                number,
                device["name"],
                device["uuid"],
                int64(device["memory_bytes"]) or None,
                int32(device["multiprocessors"]) or None,
                capability,
                device["clock_khz"] * 1000 or None,
                # Memory moves data twice a cycle.
                int64(device["memory_clock_khz"] * 2000 * (device["memory_bus_bits"] // 8)) or None,
            )

    def number(self, source: int, ordinal: int) -> int | None:
        """Return the number of the GPU that a process calls by an ordinal; None: not known."""
        number = self._numbers.get((source, ordinal))
        if number is not None:
            return number
        meanings = self._meanings.get(ordinal, set())
        if not meanings and ordinal not in self._facts:
            return int32(ordinal)
        # The process did not tell: it is known where all others mean the same by it.
        return next(iter(meanings)) if len(meanings) == 1 else None

    def numbers(self, sources: NDArray[Any], ordinals: NDArray[Any]) -> NDArray[np.uint32]:
        """Return the number for each pair; NO_DEVICE: not known."""
        keys = sources.astype(np.int64) << 32 | ordinals
        used, place = np.unique(keys, return_inverse=True)
        found = [self.number(key >> 32, key & 0xFFFFFFFF) for key in used.tolist()]
        numbers = [NO_DEVICE if number is None else number for number in found]
        return np.array(numbers, dtype=np.uint32)[place]

    def _add(self, device: dict[str, Any], known: dict[object, int]) -> None:
        ordinal = device["device"]
        identity = device["uuid"] or (ordinal, device["name"])
        if identity not in known:
            number = ordinal if ordinal not in self._facts else self._free()
            known[identity] = number
            self._facts[number] = device
        self._numbers.setdefault((device["source"], ordinal), known[identity])
        self._meanings.setdefault(ordinal, set()).add(known[identity])

    def _free(self) -> int:
        while self._next in self._facts:
            self._next += 1
        return self._next
