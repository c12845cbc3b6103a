"""Renders what stands above the tables of a summary: how the trace was made, what it lacks."""

from __future__ import annotations

import itertools
import json
import shlex
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from rlscope_analysis.summary.gpu import gpu_line
from rlscope_analysis.summary.overhead import overhead_line
from rlscope_analysis.wording import count_of, harmless, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.summary.values import Loss, Summary

# Longer ones push the numbers off the screen; `sql` has them whole.
_MAX_COMMAND = 300


def header_lines(summary: Summary) -> Iterable[str]:
    """Tell, in this order: what is wrong with the trace, how it was made, what was lost."""
    if not summary.is_complete:
        yield "warning: the recording of this trace was cut off: what came after is not in it"
    for name, value in _facts(summary):
        if value:
            yield f"{name:<10} {printable(value)}"
    gpu = gpu_line(summary.gpu)
    if gpu is not None:
        yield f"{'GPU':<10} {gpu}"
    yield f"{'overhead':<10} {printable(overhead_line(summary.overhead))}"
    yield from loss_lines(summary.losses)
    for note in summary.notes:
        yield f"{'note':<10} {harmless(note)}"
    for finding in summary.findings:
        yield f"{'finding':<10} {harmless(finding)}"


def _facts(summary: Summary) -> Iterable[tuple[str, str]]:
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
    yield "duration", _duration(summary)
    processes = count_of(len(summary.processes), "process")
    yield "traced", f"{processes}, {count_of(summary.thread_count, 'thread')}"
    loader = meta.get("loader", "")
    ladder = _ladder(meta.get("ladder", ""))
    yield "capture", "; ".join(part for part in (loader and f"loader {loader}", ladder) if part)


def _duration(summary: Summary) -> str:
    if summary.duration_ns is None:
        return "not known: the trace holds no thread"
    return f"{summary.duration_ns / 1e9:,.3f} s"


def loss_lines(losses: tuple[Loss, ...]) -> Iterable[str]:
    """Tell what was lost, or that nothing was."""
    if not losses:
        yield f"{'losses':<10} nothing lost"
    for loss in losses:
        count = (
            "records, not known how many" if loss.count is None else count_of(loss.count, "record")
        )
        yield f"{'losses':<10} {printable(loss.kind)}: {count}, {printable(loss.source)}"
        if loss.remedy:
            yield f"{'':<10} hint: {printable(loss.remedy)}"


def _command(value: str) -> str:
    """Write the command line so that a shell takes it back; the beginning of a very long one."""
    try:
        line = shlex.join(json.loads(value))
    except (ValueError, TypeError):
        line = value
    return line if len(line) <= _MAX_COMMAND else f"{line[:_MAX_COMMAND]} ..."


def _ladder(value: str) -> str:
    """Write the rungs that were tried, from the best one down, each with what came of it."""
    try:
        rungs = [f"{rung['rung']} {rung['result']}" for rung in json.loads(value)]
    except (ValueError, TypeError, KeyError):
        return _flat(value)
    return ", then ".join(rungs)


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
