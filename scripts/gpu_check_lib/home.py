"""What is brought home: at most eight files of at most 16 MiB, written as soon as it can be."""

from __future__ import annotations

import json
import shutil
import tarfile
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 16 << 20
# Archives, by the folder that is staged for each; with report.json and what steps write that is
# less than eight files.
ARCHIVES = ("fixtures", "stack", "logs")
_LOG_BYTES = 1 << 20
# Larger files are not compressed to see how small they get.
_COMPRESSED_BYTES = 256 << 20


class Home:
    """The output folder, and beside it what is still to go into its archives."""

    def __init__(self, folder: Path, staging: Path) -> None:
        self.folder = folder
        self.staging = staging
        self.left_out: list[str] = []
        """What did not fit, as sentences."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ARCHIVES:
            (staging / name).mkdir(parents=True)

    def write_json(self, name: str, reported: dict[str, Any]) -> None:
        """Write a file of the output folder."""
        write_json(self.folder / name, reported)

    def keep_log(self, name: str, log: Path) -> None:
        """Keep the end of a log."""
        if log.exists():
            (self.staging / "logs" / f"{name}.log").write_bytes(log.read_bytes()[-_LOG_BYTES:])

    def pack(self) -> None:
        """Write what is staged: JSON files as they are, folders as archives."""
        for file in sorted(self.staging.glob("*.json")):
            shutil.copyfile(file, self.folder / file.name)
        for name in ARCHIVES:
            if any((self.staging / name).iterdir()):
                self._pack(name)

    def _pack(self, name: str) -> None:
        # The smallest first, so that it is the largest that do not fit.
        files = sorted(
            (path for path in (self.staging / name).rglob("*") if path.is_file()),
            key=lambda path: path.stat().st_size,
        )
        part = self.folder / f".{name}.part"
        packed_bytes = 0
        with tarfile.open(part, "w:gz") as archive:
            for path in files:
                packed_bytes += _packed_bytes(path)
                if packed_bytes > MOST_BYTES:
                    self._leave_out(f"{name}/{path.name}: {path.stat().st_size} bytes")
                    continue
                archive.add(path, arcname=str(path.relative_to(self.staging / name)))
        part.replace(self.folder / f"{name}.tar.gz")

    def _leave_out(self, reported: str) -> None:
        if reported not in self.left_out:
            self.left_out.append(reported)


def write_json(path: Path, reported: dict[str, Any]) -> None:
    """Write a file so that whoever reads meanwhile sees the old one or the new."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(reported, indent=1, sort_keys=True) + "\n")
    part.replace(path)


def _packed_bytes(path: Path) -> int:
    """Return at most how much of an archive a file takes: compressed for itself, and its header."""
    size = path.stat().st_size
    return size if size > _COMPRESSED_BYTES else len(zlib.compress(path.read_bytes())) + 1024
