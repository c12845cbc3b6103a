"""Where tracefs is, and the offsets of tracepoint fields that it tells."""

from __future__ import annotations

import re
from pathlib import Path

from rlscope_trace import _capture
from rlscope_trace.errors import TracerError

TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
MOUNT_COMMAND = "mount -t tracefs tracefs /sys/kernel/tracing"

_FIELD = re.compile(r"field:(?P<declaration>[^;]*);\s*offset:(?P<offset>\d+);")


def field_offsets(roots: tuple[Path, ...] = TRACEFS) -> dict[str, int]:
    """Return the offset of every tracepoint field the programs read, by its name there."""
    events = _events_folder(roots)
    formats: dict[tuple[str, str], dict[str, int]] = {}
    offsets = {}
    for name, group, event, field in _capture.tracepoint_fields():
        if (group, event) not in formats:
            formats[group, event] = _parse_format(_read_format(events / group / event / "format"))
        if field not in formats[group, event]:
            raise TracerError(f"the tracepoint {group}:{event} has no field {field} on this kernel")
        offsets[name] = formats[group, event][field]
    return offsets


def _events_folder(roots: tuple[Path, ...]) -> Path:
    for root in roots:
        if (root / "events" / "sched").is_dir():
            return root / "events"
    raise TracerError(
        f"tracefs is not mounted at {' or '.join(map(str, roots))}", hint=f"sudo {MOUNT_COMMAND}"
    )


def _read_format(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise TracerError(f"cannot read {path}: {error.strerror}") from error


def _parse_format(text: str) -> dict[str, int]:
    offsets = {}
    for match in _FIELD.finditer(text):
        # The last word, less the length: pid_t prev_pid, or an array like char comm of 16.
        name = match["declaration"].split()[-1].split("[")[0]
        offsets[name] = int(match["offset"])
    return offsets
