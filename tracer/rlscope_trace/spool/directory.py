"""A spool on disk: what a recording left behind, and whether its recorder still runs."""

import errno
import os
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rlscope_trace import __version__
from rlscope_trace.errors import SpoolError
from rlscope_trace.outputs.trusted import closing, open_folder
from rlscope_trace.procfs import is_running, split_stat
from rlscope_trace.spool.counter_file import COUNTERS_FILE, OS_COUNTERS_FILE
from rlscope_trace.spool.regular_files import open_regular
from rlscope_trace.spool.segments import (
    Segment,
    find_segments,
    join_records,
    join_shims,
    progress_name,
    records_name,
    segment_files,
)
from rlscope_trace.spool.session_facts import read_session
from rlscope_trace.texts import shell_line

SESSION_FILE = "session.json"
RECORDS_FILE = "records.bin"
PROGRESS_FILE = "progress.bin"
SHIM_FILE = "shim.bin"
PROBES_FILE = "probes.jsonl"
CALIBRATION_FILE = "calibration.json"

# In the order of their deletion.
_FILES = (
    f"{SESSION_FILE}.new", f"{PROBES_FILE}.new", f"{COUNTERS_FILE}.new", f"{OS_COUNTERS_FILE}.new",
    PROGRESS_FILE, SHIM_FILE, PROBES_FILE, CALIBRATION_FILE, COUNTERS_FILE, OS_COUNTERS_FILE,
    SESSION_FILE, RECORDS_FILE,
)  # fmt: skip

# The layouts of tracer/native/spool/format.h.
SPOOL_MAGIC = int.from_bytes(b"LSSPOOL1", "little")
PROGRESS_MAGIC = 0x3247525053534C
WIRE_VERSION = 6
RECORD_KINDS = (
    "none", "thread", "cycle", "close", "exec", "name", "exit", "clock", "call", "gil_release",
    "sample", "stack", "other_run", "quota", "early_message", "title",
)  # fmt: skip
_HEADER = struct.Struct("<QII")
_SOUND_HEADER = _HEADER.pack(SPOOL_MAGIC, WIRE_VERSION, _HEADER.size)
_PROGRESS = struct.Struct(f"<QII{len(RECORD_KINDS)}Q3Q{2 * len(RECORD_KINDS)}Q3Q")
_LOSS = struct.Struct("<QQ")
_MAX_LOSS_CPUS = 4096
# The kernel's own limit.
_PIDS = 2**22 + 1
# No counter and no clock gets there, and no BIGINT holds it: the file is damaged.
_IMPOSSIBLE = 2**63
_PROGRESS_BYTES = _PROGRESS.size + _MAX_LOSS_CPUS * len(RECORD_KINDS) * _LOSS.size
# The ring is emptied a last time when the recording ends: at another time one of both is damaged.
_END_SLACK_NS = 600 * 10**9
# By which the clock of the OS kernel can differ between two CPUs, and much more.
_CLOCK_SLACK_NS = 10**7
_ALL_BITS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of one kind that were lost in one place."""

    kind: str
    count: int
    first_ns: int
    cpu: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What the drain counted while it wrote the spool."""

    records: dict[int, int]
    whole_bytes: int
    end_ns: int
    latest_ns: int
    """A time that no sound record is after; 0: not known."""
    ring_losses: tuple[Loss, ...]
    spool_losses: tuple[Loss, ...]
    missed_runs: int
    failed_updates: int


@dataclass(frozen=True, slots=True)
class Spool:
    """An opened spool directory. Nothing of it is kept open."""

    directory: Path
    """Where its files are opened: a path of its own, which holds whatever becomes of its name."""
    shown: Path
    """Its name, for messages."""
    session: dict[str, object]
    progress: Progress | None
    """None: progress.bin is missing or damaged, so that losses are not known."""
    damaged_facts: int = 0
    """Facts of the session that cannot be read."""
    segments: tuple[Segment, ...] = ()
    """Where only the last seconds are kept: what there is in place of records.bin."""
    joined: Path | None = None
    """A directory in which their records.bin was made: see whole()."""

    @property
    def kept_from_ns(self) -> int:
        """From when on the recording was kept; 0: all of it."""
        first = self.segments[0] if self.segments else None
        return first.cut_ns if first is not None and first.number > 0 else 0

    @property
    def records_path(self) -> Path:
        """The file of the records; of segments there is one only within whole()."""
        return (self.joined or self.directory) / RECORDS_FILE

    @property
    def shim_path(self) -> Path | None:
        """The file of what the shims recorded, if the spool has one; see records_path."""
        path = (self.joined or self.directory) / SHIM_FILE
        return path if path.exists() else None

    @contextmanager
    def whole(self, folder: Path) -> Iterator["Spool"]:
        """Yield the spool with one file of records, where it has segments made in a folder."""
        if not self.segments:
            yield self
            return
        made = replace(self, joined=folder)
        try:
            join_records(self.directory, self.segments, _SOUND_HEADER, folder / RECORDS_FILE)
            join_shims(self.directory, self.segments[0], folder / SHIM_FILE)
            yield made
        finally:
            for name in (RECORDS_FILE, SHIM_FILE):
                (folder / name).unlink(missing_ok=True)

    def is_there(self) -> bool:
        """Tell whether it was not deleted."""
        names = [records_name(segment.number) for segment in self.segments] or [RECORDS_FILE]
        return any((self.directory / name).exists() for name in names)

    @property
    def probes_path(self) -> Path | None:
        """The file of what was found and probed in the target, if the spool has one."""
        path = self.directory / PROBES_FILE
        return path if path.exists() else None

    @property
    def counters_path(self) -> Path | None:
        """The file of what was read of the GPUs, if the spool has one."""
        path = self.directory / COUNTERS_FILE
        return path if path.exists() else None

    @property
    def os_counters_path(self) -> Path | None:
        """The file of what was read of the OS kernel, if the spool has one."""
        path = self.directory / OS_COUNTERS_FILE
        return path if path.exists() else None

    @property
    def end_ns(self) -> int:
        """The end of the trace; 0 if the recorder did not live to note it."""
        return self.progress.end_ns if self.progress is not None else 0

    @property
    def latest_ns(self) -> int:
        """A time that no sound record is after; 0: not known."""
        return self.progress.latest_ns if self.progress is not None else 0

    def is_live(self) -> bool:
        """Whether the recorder that writes this spool still runs."""
        pid = self.session.get("recorder_pid")
        started = self.session.get("recorder_starttime")
        if type(pid) is not int or not 0 < pid < _PIDS or started is None:
            return False
        # One that was killed, and that nobody has waited for, is still listed.
        return process_start_time(pid) == str(started) and is_running(pid)

    def remove(self) -> None:
        """Delete the spool, but nothing that somebody else put into its directory."""
        remove_files(self.directory, shown=self.shown)


def remove_files(directory: Path, *, shown: Path | None = None) -> None:
    """Delete the files of a spool, and its directory if it holds nothing else. Raises OSError.

    shown: the name of the directory, where it is given by a descriptor.
    """
    unlink_files(directory)
    _remove_if_empty(shown or directory)


def unlink_files(directory: Path) -> None:
    """Delete the files of a spool. Raises OSError.

    The records go last: what a kill leaves of it is a spool, or an empty directory.
    """
    for name in (*_FILES[:-2], *segment_files(directory), *_FILES[-2:]):
        (directory / name).unlink(missing_ok=True)


def _remove_if_empty(directory: Path) -> None:
    with closing(open_folder(directory.absolute().parent)) as parent, suppress(FileNotFoundError):
        try:
            os.rmdir(directory.name, dir_fd=parent)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise


def open_spool(directory: Path, *, shown: Path | None = None) -> Spool:
    """Open the spool in a directory; SpoolError if it is none, or one of another version.

    shown: its name for messages, where the directory is named by a descriptor.
    """
    files, directory = directory, shown or directory
    try:
        for name in _FILES:
            _require_regular(files / name)
        if not (files / RECORDS_FILE).exists() and segment_files(files):
            return _open_segments(files, directory)
        with open_regular(files / RECORDS_FILE) as file:
            header = file.read(_HEADER.size)
            records_bytes = os.fstat(file.fileno()).st_size - _HEADER.size
        session, damaged_facts = read_session(files / SESSION_FILE)
        progress = _read_progress(files / PROGRESS_FILE)
    except (FileNotFoundError, NotADirectoryError):
        raise SpoolError(
            f"{directory} is not a spool: it has no {RECORDS_FILE}",
            hint="name the directory that the recorder left beside the output",
        ) from None
    except OSError as error:
        raise SpoolError(
            f"cannot read the spool {directory}: {error.strerror}",
            hint=shell_line(["sudo", "rlscope-trace", "recover", str(directory)]),
        ) from error
    is_damaged = header != _SOUND_HEADER
    # Where the other file of the recorder is one of ours, a bit of this one is damaged, no more.
    if is_damaged and (progress is None or len(header) < _HEADER.size):
        _refuse(header, directory, session)
    if records_bytes <= 0:
        raise SpoolError(f"the spool {directory} holds no record", hint=f"rm -r {directory}")
    return Spool(files, directory, session, progress, damaged_facts + is_damaged)


def _open_segments(files: Path, directory: Path) -> Spool:
    """Open the spool of a recording of which the last seconds are kept. Raises OSError."""
    session, damaged_facts = read_session(files / SESSION_FILE)
    segments = find_segments(files, WIRE_VERSION)
    if not segments:
        raise SpoolError(
            f"the spool {directory} holds no segment that this rlscope-trace reads",
            hint=f"it is damaged, or of version {session.get('tool_version', 'not known')}:"
            " recover it with that one",
        )
    if segments[0].number > 0:
        session["kept_from_ns"] = segments[0].cut_ns
    found = [_read_progress(files / progress_name(segment.number)) for segment in segments]
    progress = _added(segments, [each for each in found if each is not None])
    is_known = all(each is not None for each in found)
    return Spool(files, directory, session, progress if is_known else None, damaged_facts, segments)


def _added(segments: Sequence[Segment], found: Sequence[Progress]) -> Progress | None:
    """Return what was counted in all segments that are kept."""
    if not found:
        return None
    last, first = found[-1], segments[0]
    records: Counter[int] = Counter()
    for each in found:
        records.update(each.records)
    # They are noted when the recording ends, of all of it.
    return replace(
        last,
        records=dict(records),
        ring_losses=_sums([loss for each in found for loss in each.ring_losses]),
        spool_losses=_sums([loss for each in found for loss in each.spool_losses]),
        missed_runs=max(last.missed_runs - first.missed_runs, 0),
        failed_updates=max(last.failed_updates - first.failed_updates, 0),
    )


def _sums(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """Add up losses of the same kind and place; the first of them comes first."""
    sums: dict[tuple[str, int | None], Loss] = {}
    for loss in losses:
        before = sums.get((loss.kind, loss.cpu))
        added = loss if before is None else replace(before, count=before.count + loss.count)
        sums[loss.kind, loss.cpu] = added
    return tuple(sums.values())


def _refuse(header: bytes, directory: Path, session: dict[str, object]) -> None:
    """Say why a spool whose records do not start as ours is not read; an empty one passes."""
    if not header:
        return
    magic, version, _ = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
    if len(header) < _HEADER.size or magic != SPOOL_MAGIC:
        raise SpoolError(
            f"{directory} is not a spool: {RECORDS_FILE} does not start like one",
            hint="name the directory that the recorder left beside the output",
        )
    recorder = session.get("tool_version", "not known")
    whose = f"the rlscope-trace that recorded it (version {recorder})"
    raise SpoolError(
        f"the spool {directory} has wire version {version}, this rlscope-trace reads"
        f" {WIRE_VERSION}",
        hint=f"it is damaged, or of another build: recover it with {whose}"
        if recorder == __version__
        else f"recover it with {whose}",
    )


def _require_regular(path: Path) -> None:
    """Refuse what is no file while it costs nothing; whoever reads it looks again."""
    with suppress(FileNotFoundError):
        open_regular(path).close()


def _read_progress(path: Path) -> Progress | None:
    try:
        with open_regular(path) as file:
            data = file.read(_PROGRESS_BYTES)
    except FileNotFoundError:
        return None
    if len(data) < _PROGRESS.size:
        return None
    kinds = len(RECORD_KINDS)
    magic, version, cpus, *numbers = _PROGRESS.unpack_from(data)
    if magic != PROGRESS_MAGIC or version != WIRE_VERSION:
        return None
    records, rest = numbers[:kinds], numbers[kinds:]
    whole_bytes, drained_ns, end_ns, *losses, end_check = rest
    end_ns = end_ns if _is_end(end_ns, drained_ns) and end_ns ^ end_check == _ALL_BITS else 0
    ring_losses = _read_ring_losses(data, cpus=min(cpus, _MAX_LOSS_CPUS))
    reported = [number for loss in ring_losses for number in (loss.count, loss.first_ns)]
    if max([*records, whole_bytes, *losses, *reported]) >= _IMPOSSIBLE:
        return None
    spool_losses = [
        Loss(kind=name, count=losses[2 * kind], first_ns=losses[2 * kind + 1])
        for kind, name in enumerate(RECORD_KINDS)
        if losses[2 * kind] > 0
    ]
    return Progress(
        records=dict(enumerate(records)),
        whole_bytes=whole_bytes,
        end_ns=end_ns,
        latest_ns=_latest_ns(drained_ns, is_clean=end_ns > 0),
        ring_losses=ring_losses,
        spool_losses=tuple(spool_losses),
        missed_runs=losses[2 * kinds],
        failed_updates=losses[2 * kinds + 1],
    )


def _latest_ns(drained_ns: int, *, is_clean: bool) -> int:
    """Return a time that no sound record is after: a killed recorder may have been at it."""
    if not 0 < drained_ns < _IMPOSSIBLE // 2:
        return 0
    return drained_ns + (_CLOCK_SLACK_NS if is_clean else _END_SLACK_NS)


def _is_end(end_ns: int, drained_ns: int) -> bool:
    """Tell whether the end of a trace can be that; else it is not known."""
    return end_ns < _IMPOSSIBLE and abs(end_ns - drained_ns) <= _END_SLACK_NS


def _read_ring_losses(data: bytes, *, cpus: int) -> tuple[Loss, ...]:
    losses = []
    for row in range(cpus * len(RECORD_KINDS)):
        offset = _PROGRESS.size + row * _LOSS.size
        if offset + _LOSS.size > len(data):
            break
        count, first_ns = _LOSS.unpack_from(data, offset)
        if count > 0:
            cpu, kind = divmod(row, len(RECORD_KINDS))
            losses.append(Loss(kind=RECORD_KINDS[kind], count=count, first_ns=first_ns, cpu=cpu))
    return tuple(losses)


def process_start_time(pid: int) -> str | None:
    """Start time of a process as its stat file shows it, in clock ticks; None: no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return split_stat(stat)[1][19]
