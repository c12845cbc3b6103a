"""Where the parts of this package lie that are no Python: the shim, the loops, BPF programs."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from rlscope_trace.errors import NoRecorderError

PACKAGE = Path(__file__).absolute().parent
SHIM_FOLDER = PACKAGE / "shim"
LIBRARY_FOLDER = PACKAGE / "lib"

_ONLY_READS = "this installation reads traces and cannot record"
_ELSEWHERE = (
    "record on Linux, x86-64 or aarch64, and read the trace here: rlscope-trace summarize TRACE"
)
_MACHINES = ("x86_64", "aarch64")
# A name would be looked up on an index, and pip keeps what it has built without asking for this.
_REBUILD = (
    "install a wheel, or, in a checkout:"
    " RLSCOPE_RECORDER=on pip install --force-reinstall --no-deps --no-cache-dir ."
)


def own_command(module: str) -> list[str]:
    """Return the command that runs a module of ours; arguments follow.

    With -m alone every module is looked for in the current folder first, whosever that is.
    """
    if hasattr(sys.flags, "safe_path"):
        return [sys.executable, "-P", "-m", module]
    run = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-c", f"import sys; del sys.path[0]; import runpy; {run}"]


def _recorders() -> list[str]:
    return [f"_capture{suffix}" for suffix in EXTENSION_SUFFIXES]


def is_recorder(path: str | None) -> bool:
    """Tell whether this is the file of the native module that records."""
    return path is not None and Path(path).parent == PACKAGE and Path(path).name in _recorders()


def require_recorder(package: Path = PACKAGE) -> None:
    """Raise NoRecorderError, with the reason, where this was built without what records.

    The file is looked for, not loaded: one that does not load is a finding of `doctor`.
    """
    if any((package / name).exists() for name in _recorders()):
        return
    system = os.uname()
    if system.sysname != "Linux":
        reason = f"eBPF is of Linux, not of {system.sysname}"
        raise NoRecorderError(f"{_ONLY_READS}: {reason}", hint=_ELSEWHERE)
    if system.machine not in _MACHINES:
        reason = f"the recorder is made for x86-64 and aarch64, not for {system.machine}"
        raise NoRecorderError(f"{_ONLY_READS}: {reason}", hint=_ELSEWHERE)
    raise NoRecorderError(f"{_ONLY_READS}: it was built without the recorder", hint=_REBUILD)
