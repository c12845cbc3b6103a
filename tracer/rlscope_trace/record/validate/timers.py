"""Timers of the program itself: lines {"operation": NAME, "cpu_ns": N} in a file it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rlscope_trace.errors import TracerError, reason_of
from rlscope_trace.privileges import acting_as, invoking_identity, read_small

if TYPE_CHECKING:
    from pathlib import Path

# No program runs so long; what is larger is no number for the arithmetic of shares.
_MOST_NS = 10**18
_MOST_BYTES = 64 << 20
_WANTED = '{"operation": "simulation", "cpu_ns": 1200}'


def read_timers(path: Path) -> dict[str, int]:
    """Return the CPU time (ns) of each operation: lines of one operation add up.

    Raises TracerError where the program wrote none, or something else.
    """
    try:
        with acting_as(invoking_identity()):
            lines = read_small(path, _MOST_BYTES).splitlines()
    except FileNotFoundError:
        lines = []
    except (OSError, UnicodeDecodeError) as error:
        raise TracerError(f"cannot read the timers {path}: {reason_of(error)}") from error
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        operation, cpu_ns = _parse(line, f"{path}, line {number}")
        found[operation] = found.get(operation, 0) + cpu_ns
    if not found:
        raise TracerError(
            f"the program wrote no timers to {path}",
            hint=f"RLSCOPE_TIMERS names the file; it takes lines such as {_WANTED}",
        )
    return found


def _parse(line: str, where: str) -> tuple[str, int]:
    try:
        reported: Any = json.loads(line)
        operation, cpu_ns = reported["operation"], reported["cpu_ns"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _wrong(where, line) from error
    # Not isinstance: Python takes true for a number.
    if not isinstance(operation, str) or type(cpu_ns) is not int or not 0 <= cpu_ns < _MOST_NS:
        raise _wrong(where, line)
    return operation, cpu_ns


def _wrong(where: str, line: str) -> TracerError:
    return TracerError(f"{where} is no timer: {line[:80]}", hint=f"lines such as {_WANTED}")


def remove_timers(timers: Path | None) -> None:
    """Remove what an earlier run wrote; None: there are no timers."""
    try:
        if timers is not None:
            with acting_as(invoking_identity()):
                timers.unlink(missing_ok=True)
    except OSError as error:
        raise TracerError(
            f"cannot remove the timers {timers}: {error.strerror}",
            hint="--timers names a file that the program makes",
        ) from error
