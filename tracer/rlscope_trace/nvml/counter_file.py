"""The file of the readings in a spool: a JSON value per line, whole lines only.

The first line has a fixed length and tells what was lost and how it ended: it is rewritten in
place, which works on a full disk too. The others tell of a device, of what is not measured and why,
and readings.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

COUNTERS_FILE = "counters.jsonl"
# Begins the reason where a machine has no GPU to read: a fact, and nothing that is amiss.
NOTHING_TO_MEASURE = "nothing to measure: "
_FORMAT = "rlscope-counters 1"
_HEADER_BYTES = 512
# As much of a reason as the first line holds, whatever its letters are.
_REASON_LETTERS = 40


@dataclass(slots=True)
class Counted:
    """Readings that are missing, and when the first of them was taken."""

    count: int = 0
    first_ns: int | None = None

    def add(self, count: int, ts_ns: int) -> None:
        """Count more of them."""
        if count:
            self.count += count
            self.first_ns = ts_ns if self.first_ns is None else self.first_ns


class CounterFile:
    """Writes the file; every line is on its way to the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        """Create the file, which must not exist; OSError where that fails, and there is none."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._end = 0
        # Lines that are no readings and did not get onto the disk yet: they come before the next.
        self._pending = b""
        self.lost = Counted()
        """Readings that did not get onto the disk."""
        self.failed = Counted()
        """Readings that NVML failed to give, though it had given others."""
        self.is_ended = self.is_hung = False
        self.unavailable: str | None = None
        try:
            self._write_whole(self._header())
        except OSError:
            os.close(self._file)
            path.unlink(missing_ok=True)
            raise

    def write(self, lines: Sequence[object], *, ts_ns: int, readings: int = 0) -> None:
        """Append lines, all or none; readings that a full disk does not take are counted.

        Other lines than readings, which are lists, are written later, if that can be.
        """
        try:
            self._write_whole(self._pending + _encoded(lines))
            self._pending = b""
        except OSError:
            self._pending += _encoded([line for line in lines if not isinstance(line, list)])
            self.lost.add(readings, ts_ns)
            self.update_header()

    def update_header(self) -> None:
        """Write the counts, and how it ended, where they have their place."""
        with suppress(OSError):
            os.pwrite(self._file, self._header(), 0)

    def close(self) -> None:
        """Write what waits, if the disk takes it, and close the file; nothing is written later."""
        with suppress(OSError):
            self._write_whole(self._pending)
        os.close(self._file)

    def _header(self) -> bytes:
        facts = {
            "format": _FORMAT,
            "lost": [self.lost.count, self.lost.first_ns],
            "failed": [self.failed.count, self.failed.first_ns],
            "ended": self.is_ended,
            "hung": self.is_hung,
        }
        if self.unavailable is not None:
            facts["unavailable"] = self.unavailable[:_REASON_LETTERS]
        return json.dumps(facts).ljust(_HEADER_BYTES - 1).encode() + b"\n"

    def _write_whole(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self._end + written)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise
        self._end += written


def _encoded(lines: Sequence[object]) -> bytes:
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A GPU, or a part of one (MIG), as NVML numbers them."""

    index: int
    """The number of the GPU in NVML and nvidia-smi; of a part: of the GPU it is part of."""
    uuid: str
    name: str


@dataclass(slots=True)
class CounterLines:
    """What a file holds besides its readings; complete when they have all been read."""

    devices: list[DeviceFacts] = field(default_factory=list)
    not_measured: list[tuple[int, str, str]] = field(default_factory=list)
    """Position of the device, name of the counter, why."""
    interval_ms: int | None = None
    driver: str | None = None
    unavailable: str | None = None
    """Why there is no reading at all."""
    is_ended: bool = False
    """Whether the sampler lived to read to the end."""
    is_hung: bool = False
    """Whether NVML did not answer any more when the recording ended."""
    damaged: int = 0
    """Lines that cannot be read."""
    lost: Counted = field(default_factory=Counted)
    failed: Counted = field(default_factory=Counted)


def read_counter_file(path: Path, lines: CounterLines) -> Iterator[tuple[int, int, str, float]]:
    """Yield each reading: position of its device, time in ns, name, value; fill `lines`.

    Damaged lines are counted and left out; OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        for line in file:
            yield from _read_line(line, lines)


def _read_line(line: bytes, lines: CounterLines) -> list[tuple[int, int, str, float]]:
    """Return the readings of a line; what else it tells goes to `lines`."""
    try:
        value = json.loads(line)
        if not isinstance(value, list):
            _take(value, lines)
            return []
        position, ts_ns, values = value
        readings = [(position, int(ts_ns), str(name), float(read)) for name, read in values.items()]
        # A reading that lost the line of its device.
        lines.devices[position]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        lines.damaged += 1
        return []
    return readings


def _take(value: dict[str, Any], lines: CounterLines) -> None:
    """Take what a line tells that is no reading."""
    if "format" in value:
        lines.lost, lines.failed = Counted(*value["lost"]), Counted(*value["failed"])
        _take_end(value, lines)
    elif "uuid" in value:
        lines.devices.append(DeviceFacts(int(value["index"]), value["uuid"], value["name"]))
    elif "not_measured" in value:
        row = int(value["device"]), str(value["not_measured"]), str(value["reason"])
        lines.not_measured.append(row)
    elif "interval_ms" in value:
        lines.interval_ms, lines.driver = int(value["interval_ms"]), value["driver"]
    else:
        _take_end(value, lines)


def _take_end(value: dict[str, Any], lines: CounterLines) -> None:
    """Take how it ended: from a line of its own, which has all of a reason, or the first one."""
    lines.unavailable = value.get("unavailable", lines.unavailable)
    lines.is_ended = value.get("ended", lines.is_ended)
    lines.is_hung = value.get("hung", lines.is_hung)
