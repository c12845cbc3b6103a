"""The file of the readings in a spool: a JSON value per line, whole lines only.

The first line has a fixed length and tells what was lost and how it ended: it is rewritten in
place, which works on a full disk too. The others tell of a device, of what is not measured and why,
and readings.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.fact import Fact, fact_of
from rlscope_trace.spool.line_files import lines_of
from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COUNTERS_FILE = "counters.jsonl"
OS_COUNTERS_FILE = "os_counters.jsonl"
_FORMAT = "rlscope-counters 1"
_HEADER_BYTES = 512
# What a file may grow to, beyond twice of what was to be kept, before old readings are dropped.
_WORTH_BYTES = 1 << 16
# As much of a reason as the first line holds, whatever its letters are.
_REASON_LETTERS = 22
# What damage may put there: no BIGINT holds it; nobody tells as much.
_IMPOSSIBLE = 2**63
_MOST_LETTERS = 4096
_MOST_DEVICES = 4096
DAMAGE = (
    ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError,
)  # fmt: skip


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

    def __init__(self, path: Path, *, ts_at: int = 1) -> None:
        """Create the file, which must not exist; OSError where that fails, and there is none.

        ts_at: see forget_before().
        """
        self._path = path
        self._ts_at = ts_at
        self._end_then = 0
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
        self.unavailable: Sequence[Fact] = ()
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

    def forget_before(self, from_ns: int) -> None:
        """Drop readings before a time, now and then: as many as are worth the work.

        A disk that is full leaves the file as it is. Readings are lists, with their time in the
        place that `ts_at` says.
        """
        if self._end < 2 * self._end_then + _WORTH_BYTES:
            return
        written = Path(f"{self._path}.new")
        data = os.pread(self._file, self._end, 0)[_HEADER_BYTES:]
        kept = [line for line in data.splitlines(keepends=True) if self._is_kept(line, from_ns)]
        try:
            made = os.open(written, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        former, self._file, former_end, self._end = self._file, made, self._end, 0
        try:
            self._write_whole(self._header() + b"".join(kept))
            written.replace(self._path)
            os.close(former)
        except OSError:
            os.close(made)
            self._file, self._end = former, former_end
            with suppress(OSError):
                written.unlink()
        self._end_then = self._end

    def _is_kept(self, line: bytes, from_ns: int) -> bool:
        reading = json.loads(line)
        return not isinstance(reading, list) or reading[self._ts_at] >= from_ns

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
        facts: dict[str, object] = {
            "format": _FORMAT,
            "lost": [self.lost.count, self.lost.first_ns],
            "failed": [self.failed.count, self.failed.first_ns],
            "ended": self.is_ended,
            "hung": self.is_hung,
        }
        if self.unavailable:
            facts["unavailable"] = _short(self.unavailable[0]).to_json()
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


def _short(fact: Fact) -> Fact:
    """Return a fact as the first line has room for it."""
    return replace(fact, detail=fact.detail and fact.detail[:_REASON_LETTERS])


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
    unavailable: list[Fact] = field(default_factory=list)
    """Why there is no reading at all; of several reasons the first, where only that was kept."""
    is_ended: bool = False
    """Whether the sampler lived to read to the end."""
    is_hung: bool = False
    """Whether NVML did not answer any more when the recording ended."""
    damaged: int = 0
    """Lines that cannot be read."""
    lost: Counted = field(default_factory=Counted)
    failed: Counted = field(default_factory=Counted)
    is_shortened: bool = False
    """The reason is that of the first line, which has no room for all of it."""


def read_counter_file(path: Path, lines: CounterLines) -> Iterator[tuple[int, int, str, float]]:
    """Yield each reading: position of its device, time in ns, name, value; fill `lines`.

    Damaged lines are counted and left out; OSError where the file cannot be read.
    """
    with open_regular(path) as file:
        for line in lines_of(file):
            if line is None:
                lines.damaged += 1
            else:
                yield from _read_line(line, lines)


def _read_line(line: bytes, lines: CounterLines) -> list[tuple[int, int, str, float]]:
    """Return the readings of a line; what else it tells goes to `lines`."""
    try:
        value = json.loads(line)
        if not isinstance(value, list):
            _take(value, lines)
            return []
        position, ts_ns, values = value
        # A reading that lost the line of its device.
        if not 0 <= whole(position) < len(lines.devices):
            raise IndexError(position)
        readings = [
            (position, whole(ts_ns), text(name), _finite(read)) for name, read in values.items()
        ]
    except DAMAGE:
        lines.damaged += 1
        return []
    return readings


def _take(value: dict[str, Any], lines: CounterLines) -> None:
    """Take what a line tells that is no reading."""
    if "format" in value:
        lines.lost, lines.failed = counted(value["lost"]), counted(value["failed"])
        lines.unavailable = _reasons(value)
        lines.is_shortened = True
        _take_end(value, lines)
    elif "uuid" in value:
        index = whole(value["index"], _MOST_DEVICES)
        if len(lines.devices) >= _MOST_DEVICES:
            raise ValueError("devices")
        lines.devices.append(DeviceFacts(index, text(value["uuid"]), text(value["name"])))
    elif "not_measured" in value:
        position = whole(value["device"], len(lines.devices))
        row = position, text(value["not_measured"]), text(value["reason"])
        if row not in lines.not_measured:
            lines.not_measured.append(row)
    elif "interval_ms" in value:
        driver = None if value["driver"] is None else text(value["driver"])
        lines.interval_ms, lines.driver = whole(value["interval_ms"]), driver
    else:
        _take_reasons(_reasons(value), lines)
        _take_end(value, lines)


def _reasons(value: dict[str, Any]) -> list[Fact]:
    """Return the reason that a line tells, if it tells one."""
    unavailable = value.get("unavailable")
    if unavailable is None:
        return []
    found = fact_of(unavailable)
    if found is None or len(found.detail or "") > _MOST_LETTERS:
        raise ValueError("unavailable")
    return [found]


def _take_reasons(reasons: list[Fact], lines: CounterLines) -> None:
    """Take reasons from lines of their own, which have all of them, in place of the first one."""
    if reasons and lines.is_shortened:
        lines.unavailable, lines.is_shortened = [], False
    if len(lines.unavailable) >= _MOST_DEVICES:
        raise ValueError("reasons")
    lines.unavailable += [fact for fact in reasons if fact not in lines.unavailable]


def _take_end(value: dict[str, Any], lines: CounterLines) -> None:
    """Take whether it lived to its end."""
    lines.is_ended = value.get("ended", lines.is_ended) is True
    lines.is_hung = value.get("hung", lines.is_hung) is True


def counted(reported: object) -> Counted:
    """Return what a header counts; TypeError or ValueError where it is none of it."""
    if not isinstance(reported, list):
        raise TypeError("no counts")
    count, first_ns = reported
    return Counted(whole(count), None if first_ns is None else whole(first_ns))


def whole(value: object, end: int = _IMPOSSIBLE) -> int:
    """Return a number that a column holds; ValueError where it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise ValueError(value)
    return value


def _finite(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def text(value: object) -> str:
    """Return a text that a column holds; ValueError where it is none."""
    if not isinstance(value, str) or len(value) > _MOST_LETTERS:
        raise ValueError("text")
    value.encode()  # half a surrogate pair passes for a character in JSON
    return value
