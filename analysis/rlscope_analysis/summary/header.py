"""What stands above the tables of a summary: how the trace was made, what it lacks."""

from __future__ import annotations

import itertools
import json
import shlex
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.note import Note, note
from rlscope_analysis.summary.gpu import gpu_note
from rlscope_analysis.summary.losses import loss_lines
from rlscope_analysis.summary.overhead import overhead_note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlscope_analysis.summary.values import Summary

# Longer ones push the numbers off the screen; `sql` has them whole.
_MAX_COMMAND = 300


def head_lines(summary: Summary) -> Iterable[tuple[str, str | Note]]:
    """Tell how the trace was made, what was lost, what limits the numbers, and what stands out."""
    yield from ((name, said) for name, said in _facts(summary) if said)
    gpu = gpu_note(summary.gpu)
    if gpu is not None:
        yield "GPU", gpu
    yield "overhead", overhead_note(summary.overhead)
    yield from loss_lines(summary.losses)
    yield from (("note", limits) for limits in summary.notes)
    yield from (("observed", said) for said in summary.observations)


def _facts(summary: Summary) -> Iterable[tuple[str, str | Note]]:
    meta = {key: value or "" for key, value in summary.meta.items()}
    yield "trace", summary.trace
    yield "command", _command(meta.get("argv", ""))
    kernel = meta.get("kernel", "")
    cpus = meta.get("cpus_allowed", "")
    machine = [
        meta.get("host", ""),
        kernel and f"Linux {kernel}",
        cpus and f"CPUs {_cpu_list(cpus)}",
    ]
    yield "host", ", ".join(part for part in machine if part)
    if summary.started_realtime_ns is not None:
        start = datetime.fromtimestamp(summary.started_realtime_ns / 1e9, tz=timezone.utc)
        yield "started", f"{start:%Y-%m-%d %H:%M:%S} UTC"
    yield "window", str(summary.window or "")
    length_ns = summary.duration_ns
    yield "duration", note("no_duration") if length_ns is None else note("duration", ns=length_ns)
    yield "kept", _kept(meta)
    yield "traced", note("traced", processes=len(summary.processes), threads=summary.thread_count)
    loader = meta.get("loader", "")
    backends = _backends(meta.get("backends", ""))
    yield "capture", "; ".join(part for part in (loader and f"loader {loader}", backends) if part)


def _kept(meta: Mapping[str, str]) -> Note | str:
    """Say how long a recording had been before what was kept of it."""
    kept, started = meta.get("kept_from_ns", ""), meta.get("started_ns", "")
    if not (kept.isdecimal() and started.isdecimal()):
        return ""
    return note("kept_last", before_ns=int(kept) - int(started))


def _command(value: str) -> str:
    """Write the command line so that a shell takes it back; the beginning of a very long one."""
    try:
        line = shlex.join(json.loads(value))
    except (ValueError, TypeError):
        line = value
    return line if len(line) <= _MAX_COMMAND else f"{line[:_MAX_COMMAND]} ..."


def _backends(value: str) -> str:
    """Write the backends that were tried, from the best one down, each with what came of it."""
    try:
        backends = [f"{backend['backend']} {backend['result']}" for backend in json.loads(value)]
    except (ValueError, TypeError, KeyError):
        return _flat(value)
    return ", then ".join(backends)


def _cpu_list(value: str) -> str:
    """Write a JSON list of CPUs as the kernel does, 0-3,8; anything else stays as it is."""
    try:
        cpus = sorted(int(cpu) for cpu in json.loads(value))
    except (ValueError, TypeError):
        return _flat(value)
    # Neighbours keep the same distance to their place in the list.
    runs = [
        [cpu for _, cpu in group]
        for _, group in itertools.groupby(enumerate(cpus), key=lambda pair: pair[1] - pair[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _flat(value: str, *, between: str = ", ") -> str:
    """Turn the value of a fact, plain or JSON, into words on one line."""
    try:
        return _words(json.loads(value), between)
    except ValueError:
        return value


def _words(value: Any, between: str) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        return between.join(f"{key} {_words(part, between)}" for key, part in value.items())
    if isinstance(value, list):
        return between.join(_words(part, between) for part in value)
    return value if isinstance(value, str) else json.dumps(value)
