"""One XSpace of the JAX profiler: its events as columns, and the programs of XLA it carries.

Read by ranges of the file: never more of it at once than one line of events or one program.
"""

import os
import stat
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rlscope_trace.errors import reason_of
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.protobuf_wire import (
    Span,
    Value,
    WireError,
    fields,
    signed,
    spans,
    text,
    varint,
)
from rlscope_trace.ingest.importers.xplane_hlo import Program, Room, read_program

MAX_TIME_NS = 2**62
_MAX_PIECE = 192 << 20
# Of planes, lines and names, before anything is decoded.
_MAX_PARTS = 500_000
_MAX_NAMES = 100_000
# Of one name or stat, and of all that are kept of a file.
_MAX_ENTRY = 1 << 20
_MAX_STAT = 64 << 10
_MAX_KEPT = 32 << 20
_MAX_PLANE_STATS = 1_000
_MAX_THREADS = 20_000
_HEAD_BYTES = 32
OTHER_NAMES = "(other names)"
_PROGRAMS_PLANE = "/host:metadata"
_CLOCK_PLANE = "Task Environment"
# What is kept of the stats of an event.
_WANTED = ("hlo_op", "hlo_module", "program_id", "correlation_id", "step_num", "memcpy_details")


class Key(NamedTuple):
    """What events have in common."""

    name: str
    hlo_op: str | None = None
    module: str | None = None
    program: int | None = None
    is_step: bool = False
    is_copy: bool = False


@dataclass(slots=True)
class Line:
    """A line of a plane: a thread of a CPU, or a stream of a GPU. Columns equally long; ns."""

    name: str
    number: int
    start_ns: "array[int]" = field(default_factory=lambda: array("q"))
    end_ns: "array[int]" = field(default_factory=lambda: array("q"))
    key: "array[int]" = field(default_factory=lambda: array("q"))
    """Index of XplaneFile.keys."""
    correlation: "array[int]" = field(default_factory=lambda: array("q"))
    """0: none."""


@dataclass(slots=True)
class Plane:
    """What one device, or the host, did."""

    name: str
    pid: int | None = None
    lines: list[Line] = field(default_factory=list)


@dataclass(slots=True)
class XplaneFile:
    """What was read of a file; times in ns since the profile began."""

    path: Path
    planes: list[Plane] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    programs: dict[int, Program] = field(default_factory=dict)
    """By program_id."""
    host: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    realtime_at_zero_ns: int | None = None
    instants: int = 0
    unreadable: int = 0
    further_names: int = 0
    further_threads: int = 0
    cut_programs: int = 0
    profiler_messages: list[str] = field(default_factory=list)

    @property
    def event_count(self) -> int:
        """How many events were read."""
        return sum(len(line.key) for plane in self.planes for line in plane.lines)


def read_file(path: Path, progress: Callable[[int, int], object]) -> XplaneFile:
    """Read a file. Raises ImportFileError if it cannot be read, or is none of the profiler."""
    try:
        # Not to wait for a pipe that nobody opens.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ImportFileError(
            f"cannot read {path}: {reason_of(error)}", hint="check its name and its mode"
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ImportFileError(f"{path} is no file", hint="name the .xplane.pb of a profile")
        return _Reader(path, descriptor, status.st_size, progress).read()
    except OSError as error:
        raise ImportFileError(
            f"cannot read {path}: {reason_of(error)}", hint="check the disk"
        ) from error
    finally:
        os.close(descriptor)


class _Reader:
    def __init__(
        self, path: Path, descriptor: int, size: int, progress: Callable[[int, int], object]
    ) -> None:
        self._descriptor = descriptor
        self._size = size
        self._progress = progress
        self._at = 0
        self._parts = 0
        self._room = Room()
        # Of names and stats.
        self._kept = Room(bytes_left=_MAX_KEPT)
        self._file = XplaneFile(path)
        self._key_of: dict[Key, int] = {}

    def read(self) -> XplaneFile:
        """Read all of it. Raises ImportFileError, OSError."""
        file = self._file
        try:
            for number, span in self._fields((0, self._size)):
                if number == 1:
                    self._plane(span)
                elif number == 2 and len(file.profiler_messages) < 100:
                    file.profiler_messages.append(self._text(span))
                elif number == 4:
                    file.host = file.host or self._text(span) or None
        except WireError as error:
            raise ImportFileError(
                f"{file.path} is no profile of JAX, or is damaged: {error.reason} near byte"
                f" {self._at + error.at}",
                hint="name the .xplane.pb that jax.profiler wrote, or copy it once more",
            ) from error
        if not file.planes:
            raise ImportFileError(
                f"{file.path} is no profile of JAX: it holds no plane",
                hint="name the .xplane.pb that jax.profiler wrote",
            )
        return file

    def _fields(self, span: Span) -> Iterator[tuple[int, Span]]:
        """Yield the fields of a message in the file that are messages, text or bytes."""
        begin, end = span
        while begin < end:
            self._at = begin
            self._parts += 1
            if self._parts > _MAX_PARTS:
                raise ImportFileError(
                    f"{self._file.path} has more than {_MAX_PARTS:,} planes, lines and names",
                    hint="profile fewer steps",
                )
            head = os.pread(self._descriptor, min(_HEAD_BYTES, end - begin), begin)
            tag, at = varint(head, 0, len(head))
            if tag >> 3 == 0:
                raise WireError("a field without a number", 0)
            if tag & 7 == 2:
                size, at = varint(head, at, len(head))
                if size > end - begin - at:
                    raise WireError("it is cut off", 0)
                yield tag >> 3, (begin + at, begin + at + size)
                begin += at + size
            elif tag & 7 == 0:
                begin += varint(head, at, len(head))[1]
            elif tag & 7 in (1, 5):
                begin += at + (8 if tag & 7 == 1 else 4)
            else:
                raise WireError(f"a field of kind {tag & 7}", 0)

    def _bytes(self, span: Span) -> bytes:
        begin, end = span
        if end - begin > _MAX_PIECE:
            raise ImportFileError(
                f"{self._file.path} has a line of {(end - begin) >> 20} MiB, more than"
                f" {_MAX_PIECE >> 20} MiB",
                hint="profile fewer steps",
            )
        self._at = begin
        data = os.pread(self._descriptor, end - begin, begin)
        if len(data) != end - begin:
            raise WireError("it became shorter", len(data))
        return data

    def _text(self, span: Span) -> str:
        data = self._bytes((span[0], min(span[1], span[0] + 65_536)))
        return text(data, (0, len(data)))

    def _name(self, span: Span, to: dict[int, str]) -> None:
        """Add an entry of event_metadata or stat_metadata: its number and its name."""
        for number, name in _named(self._bytes((span[0], min(span[1], span[0] + _MAX_ENTRY)))):
            if self._kept.take("bytes_left", len(name)):
                to[number] = name
            else:
                self._file.further_names += 1

    def _plane(self, span: Span) -> None:
        name, names = "", dict[int, str]()
        lines, metadata, stats = list[Span](), list[Span](), list[bytes]()
        for number, part in self._fields(span):
            if number == 2:
                name = self._text(part)
            elif number == 3:
                lines.append(part)
            elif number == 4:
                metadata.append(part)
            elif number == 5:
                self._name(part, names)
            elif number == 6 and len(stats) < _MAX_PLANE_STATS and _size(part) <= _MAX_STAT:
                stats.append(self._bytes(part))
        plane = Plane(name)
        self._plane_stats(plane, names, stats)
        if name == _PROGRAMS_PLANE:
            self._programs(metadata, names)
        else:
            self._lines(plane, lines, metadata, names)
        self._file.planes.append(plane)

    def _plane_stats(self, plane: Plane, names: dict[int, str], stats: list[bytes]) -> None:
        for one in stats:
            name, value = _stat(one, 0, len(one), names)
            if name == "process_id" and isinstance(value, int) and value < 1 << 31:
                plane.pid = value
            elif name == "profile_start_time" and plane.name == _CLOCK_PLANE:
                if isinstance(value, int) and value < MAX_TIME_NS:
                    self._file.realtime_at_zero_ns = value
            elif name in ("jax_version", "jaxlib_version") and isinstance(value, str):
                self._file.versions[name] = value

    def _programs(self, metadata: list[Span], names: dict[int, str]) -> None:
        """Read the programs: events of this plane that never occur, with a HloProto each."""
        for span in metadata:
            data = self._bytes(span)
            for entry in spans(data, 2):
                number = next((v for f, v in fields(data, *entry) if f == 1), 0)
                for one in spans(data, 5, entry):
                    for blob in spans(data, 6, one):
                        self._program(data, blob, number if isinstance(number, int) else 0)
            self._progress(span[1], self._size)
        self._file.cut_programs = int(self._room.is_short)

    def _program(self, data: bytes, blob: Span, number: int) -> None:
        program = read_program(data, blob, self._room)
        if program is not None:
            self._file.programs[number] = program

    def _lines(
        self, plane: Plane, lines: list[Span], metadata: list[Span], names: dict[int, str]
    ) -> None:
        events: dict[int, str] = {}
        for span in metadata:
            self._name(span, events)
        decoder = _Events(self._file, self._key_of, self._kept, events, names)
        for span in lines:
            if sum(len(known.lines) for known in self._file.planes) + len(plane.lines) >= (
                _MAX_THREADS
            ):
                self._file.further_threads += 1
                continue
            plane.lines.append(decoder.line(self._bytes(span)))
            self._progress(span[1], self._size)


class _Events:
    """Decodes the lines of a plane."""

    def __init__(
        self,
        file: XplaneFile,
        key_of: dict[Key, int],
        kept: Room,
        events: dict[int, str],
        names: dict[int, str],
    ) -> None:
        self._file = file
        self._key_of = key_of
        self._kept = kept
        self._events = events
        self._wanted = {number: name for number, name in names.items() if name in _WANTED}
        self._names = names
        self._known: dict[tuple[int, tuple[bytes, ...]], int] = {}
        # Most stats are of no interest: recognised by their first bytes, which are their number.
        self._ends = {number for number, name in events.items() if name.startswith("end: ")}

    def line(self, data: bytes) -> Line:
        """Decode an XLine. Raises WireError."""
        number, name, shown, timestamp_ns = 0, "", "", 0
        for found, value in fields(data):
            if found == 1 and isinstance(value, int):
                number = value
            elif found == 2:
                name = text(data, value)
            elif found == 11:
                shown = text(data, value)
            elif found == 3 and isinstance(value, int):
                timestamp_ns = signed(value)
        line = Line(shown or name, number)
        # Once more, as the fields of a message come in any order: a list of them would be big.
        for begin, end in spans(data, 4):
            self._event(data, begin, end, timestamp_ns * 1000, line)
        return line

    def _event(self, data: bytes, begin: int, end: int, zero_ps: int, line: Line) -> None:
        event = offset_ps = duration_ps = correlation = 0
        stats: list[bytes] = []
        for found, value in fields(data, begin, end):
            if isinstance(value, tuple):
                if (
                    found == 4
                    and len(stats) < len(_WANTED)
                    and (one := data[value[0] : value[1]])[:1] == b"\x08"
                ):
                    number, at = varint(one, 1, len(one))
                    name = self._wanted.get(number)
                    if name == "correlation_id":
                        correlation = _number(one, at)
                    elif name is not None:
                        stats.append(one)
            elif found == 1:
                event = value
            elif found == 2:
                offset_ps = signed(value)
            elif found == 3:
                duration_ps = signed(value)
        if event in self._ends or (duration_ps == 0 and not correlation):
            self._file.instants += 1
            return
        start_ns = (zero_ps + offset_ps) // 1000
        end_ns = (zero_ps + offset_ps + duration_ps) // 1000
        if not 0 <= start_ns <= end_ns < MAX_TIME_NS:
            self._file.unreadable += 1
            return
        line.start_ns.append(start_ns)
        line.end_ns.append(end_ns)
        line.key.append(self._key(event, tuple(stats)))
        line.correlation.append(correlation if correlation < 1 << 62 else 0)

    def _key(self, event: int, stats: tuple[bytes, ...]) -> int:
        known = self._known.get((event, stats))
        if known is not None:
            return known
        values = dict(_stat(one, 0, len(one), self._names) for one in stats)
        name = self._events.get(event, OTHER_NAMES)
        key = Key(
            name,
            _word(values.get("hlo_op")),
            _word(values.get("hlo_module")),
            number if isinstance(number := values.get("program_id"), int) else None,
            "step_num" in values,
            "memcpy_details" in values,
        )
        if key not in self._key_of and not (
            len(self._key_of) < _MAX_NAMES
            and self._kept.take("bytes_left", sum(len(word) for word in key[:3] if word))
        ):
            self._file.further_names += 1
            key = Key(OTHER_NAMES)
        number_of_key = self._key_of.setdefault(key, len(self._key_of))
        if number_of_key == len(self._file.keys):
            self._file.keys.append(key)
        if len(self._known) < _MAX_NAMES and self._kept.take("bytes_left", sum(map(len, stats))):
            self._known[event, stats] = number_of_key
        return number_of_key


def _size(span: Span) -> int:
    return span[1] - span[0]


def _named(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield number and name of an entry of event_metadata or stat_metadata."""
    for number, value in fields(data):
        if number != 2 or isinstance(value, int):
            continue
        key, name, shown = 0, "", ""
        for found, part in fields(data, *value):
            if found == 1 and isinstance(part, int):
                key = part
            elif found == 2:
                name = text(data, part)
            elif found == 4:
                shown = text(data, part)
        yield key, shown or name


def _stat(data: bytes, begin: int, end: int, names: dict[int, str]) -> tuple[str, int | str | None]:
    """Return name and value of an XStat; a number with a fraction is None."""
    name = ""
    found: int | str | None = None
    for number, value in fields(data, begin, end):
        if number == 1 and isinstance(value, int):
            name = names.get(value, "")
        elif number in (3, 4) and isinstance(value, int):
            found = value
        elif number == 5:
            found = text(data, value)
        elif number == 7 and isinstance(value, int):
            found = names.get(value)
    return name, found


def _number(data: bytes, at: int) -> int:
    """Return the whole number that follows the number of a stat; 0: none does."""
    found: Value = next((value for field, value in fields(data, at) if field in (3, 4)), 0)
    return found if isinstance(found, int) else 0


def _word(value: int | str | None) -> str | None:
    return value if isinstance(value, str) else None
