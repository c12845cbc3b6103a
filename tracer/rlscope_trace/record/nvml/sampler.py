"""Reads the GPUs of the machine while a recording runs, on a thread of its own."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.record.nvml.library import (
    NvmlUnavailableError,
    driver_version,
    find_devices,
    load,
)
from rlscope_trace.record.nvml.readers import Reader, make_readers, refusal
from rlscope_trace.spool.counter_file import CounterFile

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.record.nvml.library import Device

INTERVAL_MS = 100
# While nobody may ever ask for a trace of it.
WATCHED_INTERVAL_MS = 1000
_UTILIZATION = "utilization_gpu"
# How long the end of a recording waits for NVML, which may hang with its driver.
STOP_TIMEOUT_S = 1.0
_NICENESS = 10


class CounterSampler:
    """Writes readings of every GPU into a file, from start() to stop(); never raises."""

    def __init__(self, path: Path, *, interval_ms: int = INTERVAL_MS) -> None:
        """`path`: the file to create; where that fails, nothing is read."""
        self._path = path
        self._interval_ms = interval_ms
        self._stopping = threading.Event()
        # Held while the file is written, so that a thread that is given up writes no more.
        self._writing = threading.Lock()
        self._file: CounterFile | None = None
        self._utilization: dict[int, float] = {}
        # A daemon: the recorder ends even where NVML never returns.
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)

    def start(self) -> None:
        """Begin; returns at once, whatever the driver does."""
        try:
            self._file = CounterFile(self._path)
        except OSError:
            return
        try:
            self._thread.start()
        except RuntimeError as error:
            # No more threads are allowed: the target comes first.
            self._end(Fact("nvml_unavailable", detail=str(error)))

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Read once more and end; a thread that hangs in NVML is left behind."""
        self._stopping.set()
        if self._file is None:
            return
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        with self._writing:
            if self._thread.is_alive():
                self._file.is_hung = True
                self._file.update_header()
            self._file.close()
            self._file = None

    def forget_before(self, from_ns: int) -> None:
        """Drop readings before a time."""
        with self._writing:
            if self._file is not None:
                self._file.forget_before(from_ns)

    def utilization(self) -> float | None:
        """Return what the driver said last, of the busiest GPU: a share; None: not measured."""
        return max(self._utilization.copy().values(), default=None)

    def _run(self) -> None:
        with suppress(OSError):
            # On Linux that is this thread alone.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        since_ns = time.monotonic_ns()
        try:
            nvml = load()
        except NvmlUnavailableError as error:
            self._end(*error.facts)
            return
        try:
            self._sample(nvml, since_ns)
            self._end()
        except NvmlUnavailableError as error:
            self._end(*error.facts)
        except Exception as error:  # noqa: BLE001 - a recording goes on without readings
            self._end(Fact("nvml_unavailable", detail=f"{type(error).__name__}: {error}"))
        finally:
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _sample(self, nvml: Any, since_ns: int) -> None:  # noqa: ANN401 - a module without types
        devices = find_devices(nvml)
        self._write(
            [
                {"interval_ms": self._interval_ms, "driver": driver_version(nvml)},
                *(
                    {"uuid": facts.uuid, "index": facts.index, "name": facts.name}
                    for facts in (device.facts for device in devices)
                ),
            ]
        )
        readers = [make_readers(nvml, device, since_ns) for device in devices]
        next_s = time.monotonic()
        while any(readers):
            is_last = self._stopping.wait(max(next_s - time.monotonic(), 0))
            self._read(nvml, devices, readers)
            if is_last:
                break
            # A reading that comes late is not made up for.
            next_s = max(next_s + self._interval_ms / 1000, time.monotonic())

    def _read(self, nvml: Any, devices: list[Device], readers: list[list[Reader]]) -> None:  # noqa: ANN401
        """Read every counter of every device once, and write what came."""
        lines: list[object] = []
        count = failed = 0
        now_ns = time.monotonic_ns()
        for position in range(len(devices)):
            for reader in list(readers[position]):
                try:
                    readings = reader.read()
                    reader.failures = 0
                except Exception as error:  # noqa: BLE001 - one counter must not cost the others
                    why = refusal(nvml, reader, error)
                    failed += why is None
                    if why is not None:
                        readers[position].remove(reader)
                        lines.append(
                            {"device": position, "not_measured": reader.name, "reason": why}
                        )
                    continue
                count += len(readings)
                if reader.name == _UTILIZATION and readings:
                    self._utilization[position] = float(readings[-1][1]) / 100
                lines += [[position, ts_ns, {reader.name: value}] for ts_ns, value in readings]
        self._write(lines, readings=count, failed=failed, ts_ns=now_ns)

    def _end(self, *unavailable: Fact) -> None:
        """Note how it ended: to the end of the recording, or why not."""
        with self._writing:
            if self._file is None:
                return
            self._file.is_ended = not unavailable
            self._file.unavailable = unavailable
            self._file.update_header()
            # All of the reasons.
            lines = [{"unavailable": fact.to_json()} for fact in unavailable]
            self._file.write(lines, ts_ns=time.monotonic_ns())

    def _write(
        self, lines: list[object], *, readings: int = 0, failed: int = 0, ts_ns: int = 0
    ) -> None:
        with self._writing:
            if self._file is None:
                return
            if failed:
                self._file.failed.add(failed, ts_ns)
                self._file.update_header()
            self._file.write(lines, ts_ns=ts_ns, readings=readings)
