"""Checks of the place where the trace is to be written."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

from rlscope_trace.record.preflight.finding import Finding
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# An hour of 50,000 sched records/s is some 5 GB of spool: below 2 GiB long sessions will not fit.
WARNING_BYTES = 2 << 30
ERROR_BYTES = 64 << 20
ANOTHER = "rlscope-trace -o ANOTHER_DIRECTORY/trace.duckdb ..."


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def _writable(directory: Path) -> bool:
    # Asks as the effective user; also says no on a read-only file system, even to root.
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=True)


def output_directory(output: Path) -> Path:
    """Return the directory that a trace named `output` is written into."""
    path = output.absolute()
    # os.path: the one of pathlib raises where a folder on the way is closed to us.
    return path if os.path.isdir(path) else path.parent  # noqa: PTH112


def check_directory(directory: Path, writable: Callable[[Path], bool] = _writable) -> Finding:
    """Check that files can be made there."""
    name = "output"
    quoted = shell_line([str(directory)])
    try:
        mode = directory.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return Finding(name, "error", f"{directory} does not exist", f"mkdir -p {quoted}")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return Finding(name, "error", f"{directory} cannot be used: {reason}", ANOTHER)
    if not stat.S_ISDIR(mode):
        return Finding(name, "error", f"{directory} is no directory", ANOTHER)
    if not writable(directory):
        return Finding(name, "error", f"{directory} is not writable", ANOTHER)
    return Finding(name, "ok", f"{directory} is writable")


def check_free_space(directory: Path, free_bytes: Callable[[Path], int] = _free_bytes) -> Finding:
    """Check the space for spool and trace, which lie side by side until the trace is verified."""
    name = "disk"
    try:
        free = free_bytes(directory)
    except OSError as error:
        return Finding(name, "note", f"free space of {directory} is not known: {error.strerror}")
    what = f"{directory} has {free / (1 << 20):,.0f} MiB free"
    remedy = f"df -h {shell_line([str(directory)])}"
    if free < ERROR_BYTES:
        return Finding(name, "error", f"{what}, a session needs 64 MiB at least", remedy)
    if free < WARNING_BYTES:
        return Finding(name, "warning", f"{what}, long sessions need more than 2,048 MiB", remedy)
    return Finding(name, "ok", what)
