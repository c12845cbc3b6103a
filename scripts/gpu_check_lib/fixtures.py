"""Recorded buffers of a real GPU: their format, and the way from a run into tests/data/gpu.

A dump (RLSCOPE_CUPTI_DUMP) is a file `buffers.PID` of completed buffers, one behind the other:
u64 magic, u32 API version of CUPTI, u32 reserved, u64 bytes of the records, u64 bytes of the names;
then the records as CUPTI wrote them, and for each record that points to a name u32 its offset in
the records, u32 length, and the name.
"""

from __future__ import annotations

import json
import shutil
import struct
import tarfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = int.from_bytes(b"RSLCUPTI", "little")
_HEAD = struct.Struct("<QIIQQ")
_NAME = struct.Struct("<II")
_MOST_BYTES = 32 << 20
# So much of a dump is kept: whole buffers from its start, one at least.
_KEPT_BYTES = 1 << 20
_PROFILE = "torch-profiler.json"
# They name paths of the machine.
_NOT_KEPT = ("shim.bin",)
# What a run is known by, of what it reports.
_VERSIONS = ("driver_cuda", "driver", "cupti_api", "cupti_library", "torch", "torch_cuda",
             "kernel", "glibc", "rlscope_trace")  # fmt: skip


class FixtureError(Exception):
    """A file or folder that is not what a run brings home; `hint` is what to do."""

    def __init__(self, message: str, *, hint: str = "give the output folder of a run") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Buffer:
    """One completed buffer of CUPTI."""

    api: int
    records: bytes
    names: dict[int, bytes]
    """Offset of a record -> the name it points to."""


def read_dump(path: Path) -> list[Buffer]:
    """Return the buffers of a dump; raises FixtureError where it is damaged.

    A last buffer that was cut off, by the end of its process, is left out.
    """
    data = path.read_bytes()
    buffers: list[Buffer] = []
    at = 0
    while at + _HEAD.size <= len(data):
        magic, api, _, valid, names = _HEAD.unpack_from(data, at)
        if magic != MAGIC:
            raise FixtureError(f"{path.name}: no buffer at byte {at}")
        at += _HEAD.size
        if at + valid + names > len(data):
            break
        reported = _names(data[at + valid : at + valid + names], valid, path.name)
        buffers.append(Buffer(api, data[at : at + valid], reported))
        at += valid + names
    return buffers


def write_dump(path: Path, buffers: list[Buffer]) -> None:
    """Write buffers as the shim does."""
    with path.open("wb") as file:
        for buffer in buffers:
            names = b"".join(
                _NAME.pack(offset, len(name)) + name for offset, name in buffer.names.items()
            )
            file.write(_HEAD.pack(MAGIC, buffer.api, 0, len(buffer.records), len(names)))
            file.write(buffer.records + names)


def _names(data: bytes, valid: int, where: str) -> dict[int, bytes]:
    names: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if at + _NAME.size > len(data):
            raise FixtureError(f"{where}: a name is cut off")
        offset, length = _NAME.unpack_from(data, at)
        at += _NAME.size
        if offset >= valid or at + length > len(data):
            raise FixtureError(f"{where}: the name of the record at {offset} does not fit")
        names[offset] = data[at : at + length]
        at += length
    return names


def bring_in(folder: Path, target: Path) -> list[str]:
    """Take the fixtures of a run into target; return the names of the files.

    Raises FixtureError where the folder is none of a run, or target is there already.
    """
    if target.exists():
        raise FixtureError(f"{target} is there already", hint="give another --name, or remove it")
    archive, report = folder / "fixtures.tar.gz", folder / "report.json"
    if not archive.exists() or not report.exists():
        raise FixtureError(f"{folder} lacks fixtures.tar.gz or report.json")
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        _unpack(archive, part)
        for dump in part.rglob("buffers.*"):
            write_dump(dump, _first(read_dump(dump)))
        for name in _NOT_KEPT:
            (part / name).unlink(missing_ok=True)
        if (part / _PROFILE).exists():
            _count_kernels(part / _PROFILE)
        reported = json.loads(report.read_text())
        (part / "versions.json").write_text(json.dumps(_versions(reported), indent=1) + "\n")
        # Not the report: it names paths of the machine.
        if (folder / "calibration.json").exists():
            shutil.copyfile(folder / "calibration.json", part / "calibration.json")
        part.rename(target)
    except (ValueError, OSError, tarfile.TarError) as error:
        raise FixtureError(f"{folder}: {error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


def _first(buffers: list[Buffer]) -> list[Buffer]:
    """Return as many buffers as are kept."""
    kept: list[Buffer] = []
    size = 0
    for buffer in buffers:
        size += len(buffer.records)
        if kept and size > _KEPT_BYTES:
            break
        kept.append(buffer)
    return kept


def _count_kernels(profile: Path) -> None:
    """Put in the place of a profile of PyTorch how often it has each kernel."""
    events = json.loads(profile.read_text())["traceEvents"]
    counts = Counter(event["name"] for event in events if event.get("cat") == "kernel")
    profile.with_name("torch-kernels.json").write_text(json.dumps(counts, indent=1) + "\n")
    profile.unlink()


def _unpack(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as opened:
        size = sum(member.size for member in opened.getmembers())
        if size > _MOST_BYTES:
            raise FixtureError(
                f"{archive.name} unpacks to {size >> 20} MiB, more than {_MOST_BYTES >> 20}"
            )
        opened.extractall(target, filter="data")


def _versions(report: dict[str, Any]) -> dict[str, Any]:
    versions = {name: report["known"].get(name) for name in _VERSIONS}
    # Which it was, not where.
    versions["cupti_library"] = (versions["cupti_library"] or "").rpartition("/")[2]
    return versions
