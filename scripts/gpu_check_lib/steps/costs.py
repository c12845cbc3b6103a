"""What CUPTI and the shim cost per call and per kernel: one process per way, asked in turn."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.context import NotHereError
from gpu_check_lib.home import write_json
from gpu_check_lib.listening import listen

if TYPE_CHECKING:
    from gpu_check_lib.context import Context
    from gpu_check_lib.listening import Listener

# Kinds of CUPTI's records: memset 2, driver 4, runtime 5, kernel 10, synchronization 38.
_KINDS = {
    "callbacks only": "",
    "kernel": "10",
    "driver": "4",
    "runtime": "5",
    "synchronization": "38",
    "kernel, driver": "10,4",
    "kernel, driver, runtime, synchronization": "10,4,5,38",
}
# A launch of a kernel; a wait for an idle stream; a call that frees no memory.
_EVENTS = ("launch", "wait", "free")
_COUNT, _BATCHES = 400, 5
_SHARE = 0.7
_FEWEST = 6


@dataclass(slots=True)
class Way:
    """One process, and what it reported."""

    process: subprocess.Popen[str]
    launch: list[float] = field(default_factory=list)
    """Medians of a visit, ns."""
    wait: list[float] = field(default_factory=list)
    free: list[float] = field(default_factory=list)
    listener: Listener | None = None
    """Who reads it: of a shim that nobody reads nothing is recorded."""

    def ask(self, count: int, batches: int) -> dict[str, Any]:
        """Return what the process measures now; NotHereError where it has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps([count, batches]) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise NotHereError("a measured process has ended") from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, errors = self.process.communicate()
            said = errors.strip().splitlines()
            raise NotHereError(said[-1] if said else "a measured process has ended")
        reported: dict[str, Any] = json.loads(line)
        return reported


def run(context: Context) -> None:
    """Measure all ways until most of the time is over."""
    ways = start(context)
    end_s = time.monotonic() + _SHARE * context.limit_s
    visits = 0
    while visits < _FEWEST or time.monotonic() < end_s:
        for name in list(ways)[:: 1 if visits % 2 else -1]:
            reported = ways[name].ask(_COUNT, _BATCHES)
            for event in _EVENTS:
                getattr(ways[name], event).append(statistics.median(reported[event]))
        visits += 1
    for way in ways.values():
        way.process.kill()
    report(context, ways)
    check_shim(context, ways["shim"])


def check_shim(context: Context, way: Way) -> None:
    """Check that the shim recorded while it was measured: by the bytes, since they are many."""
    assert way.listener is not None
    way.listener.collector.stop()
    size = (way.listener.folder / "shim.bin").stat().st_size
    launches = _COUNT * _BATCHES * len(way.launch)
    # Each has a call and a kernel.
    context.check(
        "the shim recorded what was measured", size >= 2 * launches * records.CELL_BYTES,
        f"{size} bytes of {launches} launches",
    )  # fmt: skip


def start(context: Context) -> dict[str, Way]:
    """Start a process per way; those that CUPTI refuses are reported and left out."""
    from rlscope_trace.record.calibrate.children import LIBRARY

    cupti = context.known.get("cupti_library", "")
    plain = ["--loops", LIBRARY]
    made = {"alone": _start(context, plain, {})}
    for name, kinds in _KINDS.items() if cupti else ():
        way = _try_start(context, name, [*plain, "--cupti", cupti, "--kinds", kinds])
        if way is not None:
            made[name] = way
    listener = listen(context, "shim")
    made["shim"] = _start(context, plain, listener.environment())
    made["shim"].listener = listener
    return made


def _try_start(context: Context, name: str, options: list[object]) -> Way | None:
    try:
        return _start(context, options, {})
    except NotHereError as error:
        context.tell(f"CUPTI alone, {name}: refused", str(error))
        return None


def _start(context: Context, options: list[object], more: dict[str, str]) -> Way:
    process = subprocess.Popen(
        context.program("costs", *options), env=context.environment(more), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    way = Way(process)
    way.answer()
    # What happens once is not what is measured.
    way.ask(_COUNT, 1)
    return way


def report(context: Context, ways: dict[str, Way]) -> None:
    """Tell what each way adds to a launch and to a wait, and keep it for the calibration."""
    rows = []
    for name, way in ways.items():
        if name == "alone":
            continue
        for event in _EVENTS:
            row = added(getattr(way, event), getattr(ways["alone"], event))
            rows.append({"way": name, "event": event, **row})
            context.tell(
                f"{name}: added to a {event}",
                f"{row['median_ns']:,.0f} ns (mean {row['mean_ns']:,.0f},"
                f" sd {row['stddev_ns']:,.0f}, n {row['n']})",
                **row,
            )
    alone = {event: statistics.median(getattr(ways["alone"], event)) for event in _EVENTS}
    library = Path(context.known.get("cupti_library", "")).name
    write_json(
        context.home / "calibration.json",
        {"costs": rows, "alone_ns": alone, "libcupti": library, "count_per_batch": _COUNT},
    )


def added(with_it: list[float], without: list[float]) -> dict[str, Any]:
    """Return mean, spread and number of the differences of visits that were side by side."""
    differences = [a - b for a, b in zip(with_it, without, strict=True)]
    return {
        "mean_ns": statistics.fmean(differences),
        "stddev_ns": statistics.stdev(differences) if len(differences) > 1 else None,
        "median_ns": statistics.median(differences),
        "n": len(differences),
    }
