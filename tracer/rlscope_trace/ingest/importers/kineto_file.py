"""One file of the PyTorch profiler (Kineto): its events as columns, and what its header says."""

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from rlscope_trace._ingest import read_kineto
from rlscope_trace.ingest.importers.errors import ImportFileError

Columns: TypeAlias = Mapping[str, NDArray[Any]]
Count: TypeAlias = tuple[int, int | None]
"""How many, and when the first of them, in ns."""

# Times from here on are since 1970: 2001-09-09. Those since the start of a machine are smaller.
_SINCE_1970_NS = 10**18
_MAX_TIME_NS = 2**62
INT64_MAX = 2**63 - 1
_HOST_KEYS = ("hostname", "host_name", "host")


@dataclass(frozen=True, slots=True)
class KinetoFile:
    """What was read of a file; times in ns as it writes them, ids counted from 0."""

    path: Path
    ranges: Columns
    """Operations, calls of backend and of Python: role, thread, name, start_ns, end_ns."""
    calls: Columns
    """Calls of CUDA: the same, and correlation."""
    activities: Columns
    """GPU activities: the same, and device, context, stream, event_stream,
    event_correlation, bytes, graph, sequence, group_size; MISSING: not known. collective: a
    place in collectives; -1: none."""
    collectives: list[tuple[str, str, str]]
    """Names of collectives, their process groups and its ranks, as the file writes them."""
    names: list[str]
    threads: list[tuple[str, str]]
    """pid and tid, as the file writes them."""
    process_names: list[tuple[str, str]]
    thread_names: list[tuple[tuple[str, str], str]]
    header: dict[str, str]
    """Values outside the events by their path, for example deviceProperties.0.name."""
    skipped: list[tuple[str, str, Count]]
    """Events without a place in a trace database, by phase and category."""
    unreadable: Count
    rounded: Count
    never_ended: Count
    never_begun: Count
    event_count: int
    lossy_text_count: int
    stray_count: int
    cut_text_count: int
    """Texts that were longer than 64 KiB."""
    further_kinds: Count
    """Skipped events, of more kinds than are distinguished."""
    further_collectives: Count
    """Kernels whose collective is not kept: there are too many."""
    further_names: Count
    """Events that are called "(other names)": there are too many names."""
    further_threads: Count
    """Events left out: of more threads than there is a place for."""
    further_owner_names: int
    damage: str | None
    """Why and where reading ended early."""

    @property
    def rank(self) -> int | None:
        """Its rank in a distributed training."""
        return self.integer("distributedInfo.rank")

    @property
    def host(self) -> str | None:
        """Name of its machine."""
        return next((self.header[key] for key in _HOST_KEYS if self.header.get(key)), None)

    def integer(self, path: str, *, limit: int = INT64_MAX) -> int | None:
        """Return a whole number of the header; None: there is none, or one beyond the limit."""
        try:
            number = int(self.header.get(path, ""))
        except ValueError:
            return None
        return number if abs(number) <= limit else None

    def has_gpu_records(self) -> bool:
        """Tell whether the profiler recorded what the GPU does."""
        # Devices alone say nothing: a profile of the CPU only lists them as well.
        return len(self.activities["role"]) + len(self.calls["role"]) > 0

    def realtime_offset_ns(self) -> int | None:
        """Return what turns its times into those since 1970; None: not known."""
        starts = [
            int(columns["start_ns"].min())
            for columns in (self.ranges, self.calls, self.activities)
            if len(columns["start_ns"])
        ]
        if not starts:
            return None
        if min(starts) >= _SINCE_1970_NS:
            return 0
        base_ns = self.integer("baseTimeNanoseconds") or 0
        is_plausible = base_ns + min(starts) >= _SINCE_1970_NS and 0 <= base_ns <= _MAX_TIME_NS
        return base_ns if is_plausible else None


def read_file(path: Path, *, salvage: bool, progress: Callable[[int, int], object]) -> KinetoFile:
    """Read a file; with `salvage` what comes before the damage, if it is damaged.

    Raises ImportFileError if it cannot be read, is no trace, or is damaged.
    """
    try:
        found = read_kineto(str(path), progress)
    except OSError as error:
        raise _unreadable(path, error) from error
    _require_trace(path, found)
    damage = _damage_of(found)
    if damage is not None and not salvage:
        raise ImportFileError(
            f"{path} is damaged: {damage}",
            hint=f"--salvage imports the {found['event_count']:,} events before that",
        )
    taken = {name: found[name] for name in KinetoFile.__slots__ if name in found}
    return KinetoFile(**{**taken, "path": path, "header": dict(found["header"]), "damage": damage})


def _unreadable(path: Path, error: OSError) -> ImportFileError:
    if error.errno == errno.ENOENT:
        return ImportFileError(f"there is no file {path}", hint="name a file that you may read")
    if error.errno == errno.EISDIR:
        return ImportFileError(
            f"{path} is a directory, not a trace of the PyTorch profiler",
            hint=f"name the files in it: {path}/*.json*",
        )
    if error.errno == errno.ENOTSUP:
        return ImportFileError(f"{path} is a device, no file", hint="name a file or a pipe")
    if error.errno == errno.ETIMEDOUT:
        return ImportFileError(f"{path} is a pipe that nobody writes to", hint="name a file")
    reason = os.strerror(error.errno) if error.errno else str(error)
    return ImportFileError(f"cannot read {path}: {reason}", hint="name a file that you may read")


def _require_trace(path: Path, found: Mapping[str, Any]) -> None:
    hint = "prof.export_chrome_trace(PATH) of torch.profiler writes one"
    if path.is_file() and path.stat().st_size == 0:
        raise ImportFileError(f"{path} is empty", hint=hint)
    if not found["is_json"]:
        raise ImportFileError(f"{path} is no trace of the PyTorch profiler: no JSON", hint=hint)
    if found["damage"]:
        return
    if not found["has_events_array"]:
        raise ImportFileError(
            f"{path} is JSON, but no trace of the PyTorch profiler: it has no traceEvents",
            hint=hint,
        )
    if found["event_count"] + found["stray_count"] > 0 and not found["known_phase_count"]:
        raise ImportFileError(
            f"{path} is JSON, but no trace of the PyTorch profiler: what it lists are no events",
            hint=hint,
        )


def _damage_of(found: Mapping[str, Any]) -> str | None:
    if not found["damage"]:
        return None
    reason = found["damage"].rstrip(".")
    text = "the uncompressed text" if found["is_gzip"] else "the file"
    return f"{reason[0].lower()}{reason[1:]}, at byte {found['damage_offset']:,} of {text}"
