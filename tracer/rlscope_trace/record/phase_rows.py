"""Rows of the user's own for the table of phases (--phases FILE): read and checked before a launch.

The launched program gets the text in its environment, so that no process of it needs the file.
"""

from __future__ import annotations

import errno
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import UsageError
from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.privileges import acting_as, read_small

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_trace.privileges import Identity

# Of one variable of an environment the OS kernel takes 128 KiB.
_MOST_BYTES = 64 << 10
_TABLE = SHIM_FOLDER / "python" / "rlscope_phases" / "table.py"
_COLUMNS = "docs/phases.md says what the columns are; an empty line, or one with #, is left out"


def read_rows(path: Path, identity: Identity | None) -> str:
    """Return the rows of a file, which is opened as the user that called sudo; UsageError."""
    try:
        with acting_as(identity):
            # Not path.resolve(): what it raises for a circle of links depends on the Python.
            text = read_small(Path(os.path.realpath(path)), _MOST_BYTES)
    except OSError as error:
        is_large = error.errno == errno.EFBIG
        why = f"larger than {_MOST_BYTES >> 10} KiB" if is_large else error.strerror
        raise UsageError(f"--phases {path}: {why}", hint=_COLUMNS) from None
    except ValueError:
        raise UsageError(f"--phases {path}: it is no UTF-8 text", hint=_COLUMNS) from None
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    try:
        if not lines or "\0" in text:
            raise ValueError("it has no rows" if not lines else "it holds a byte 0")
        _parser()(text, is_own=True)
    except ValueError as error:
        raise UsageError(f"--phases {path}: {error}", hint=_COLUMNS) from None
    return "\n".join(lines)


def _parser() -> Callable[..., object]:
    """Return what reads tables in the target: the same rules there and here."""
    spec = importlib.util.spec_from_file_location("rlscope_phases_table", _TABLE)
    if spec is None or spec.loader is None:
        raise UsageError(f"this installation lacks {_TABLE}", hint="reinstall rlscope-trace")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parse: Callable[..., object] = module.parse
    return parse
