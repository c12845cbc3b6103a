"""How fast a stored trace becomes the overlap of its threads, and in how much memory.

The measuring is done by a process of the Python that the recorder is installed for: this file, as
a program. It alternates the ways, so that a machine that gets slower favours none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_lib.figure import Figure
    from bench_lib.recorder import Bench

_ROWS = 10_000_000
_MANY_ROWS = 50_000_000
FILE_BUDGET = 25.0
ALONE_BUDGET = 100.0
# What a processor does with so many unpredictable branches differs by a factor of three between
# machines of today. A bare merge did 113 M rows/s where the budget above comes from.
BARE_BUDGET = ALONE_BUDGET / 113


def measure(bench: Bench) -> list[Figure]:
    """Return rows per second from the file and of the sweep alone, and the peak memory."""
    from bench_lib.figure import Figure

    short, long = bench.trace("overlap_short"), bench.trace("overlap_long")
    for path, rows in ((short, _ROWS), (long, _MANY_ROWS)):
        _child(bench, "write", str(path), str(rows))
    reported = json.loads(_child(bench, "time", str(short), str(bench.runs), str(bench.cpu))[0])
    rates = {
        name: tuple(reported["rows"] / s / 1e6 for s in reported[name])
        for name in reported["seconds"]
    }

    over_bare = tuple(b / a for a, b in zip(reported["alone"], reported["bare"], strict=True))
    unit = "M rows/s"
    peaks = [_child(bench, "once", str(path))[1] / 1e6 for path in (short, long)]
    return [
        Figure("file to overlap, one core", unit, rates["file"], FILE_BUDGET, at_least=True),
        Figure("sweep alone, one core", unit, rates["alone"], ALONE_BUDGET, at_least=True),
        Figure("a bare merge, one core", unit, rates["bare"]),
        Figure("sweep alone over a bare merge", "times", over_bare, BARE_BUDGET, at_least=True),
        Figure("peak memory, 10 M rows", "MB", (peaks[0],)),
        Figure("peak memory, 50 M rows", "MB", (peaks[1],)),
    ]


def _child(bench: Bench, *arguments: str) -> tuple[str, int]:
    """Run this file; return what it printed, and its largest resident size in bytes."""
    python = Path(bench.recorder).with_name("python")
    command = [str(python) if python.exists() else sys.executable, __file__, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed, usage.ru_maxrss * 1024


def _time(path: str, runs: int, cpu: int) -> dict[str, Any]:
    """Return the rows of a trace, and for each way of sweeping it the seconds of each run."""
    os.sched_setaffinity(0, {cpu})
    ways: dict[str, Callable[[], object]] = {
        "file": _from_file(path), "alone": _alone(path), "bare": _bare(path),
    }  # fmt: skip
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for run in range(runs):
        for name in ways if run % 2 == 0 else reversed(ways):
            start_s = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - start_s)
    return {"rows": _plan(path).rows, "seconds": list(ways), **seconds}


def _from_file(path: str) -> Callable[[], object]:
    from rlscope_analysis.sweep import threads as thread_overlap

    def run() -> object:
        with _open(path) as connection:
            return thread_overlap.compute(connection)

    return run


def _alone(path: str) -> Callable[[], object]:
    """Return the sweep of columns that are in memory already."""
    from rlscope_analysis import _sweep
    from rlscope_analysis.sweep.thread_parts import Part, join

    plan = _plan(path)
    with _open(path) as connection:
        loaded = [(chunk, _columns(connection, chunk)) for chunk in plan.chunks]

    def sweep(chunk: Any, tables: Any) -> Part:  # noqa: ANN401 - what _plan and _columns return
        bounds = {
            "window_start_ns": chunk.start_ns, "window_end_ns": chunk.end_ns,
            "probed_ns": chunk.probed_ns,
        }  # fmt: skip
        progress = _sweep.SweepProgress()
        return Part(*_sweep.sweep_threads(chunk.columns, tables, **bounds, progress=progress))

    def run() -> object:
        return join([sweep(*one) for one in loaded])

    return run


def _bare(path: str) -> Callable[[], object]:
    """Return the least work that gives times: the yardstick of this machine."""
    import bare_merge

    with _open(path) as connection:
        return bare_merge.load(connection)


def _open(path: str) -> Any:  # noqa: ANN401 - duckdb is not there for the parent
    import duckdb

    return duckdb.connect(path, read_only=True, config={"threads": 1})


def _plan(path: str) -> Any:  # noqa: ANN401 - as above
    from rlscope_analysis.sweep.thread_plan import make_plan

    with _open(path) as connection:
        return make_plan(connection, None, None)


def _columns(connection: Any, chunk: Any) -> list[Any]:  # noqa: ANN401 - as above
    from rlscope_analysis.sweep.thread_plan import SWEPT_TABLES
    from rlscope_analysis.sweep.thread_read import chunk_query

    return [
        tuple(connection.execute(chunk_query(chunk, index)).fetchnumpy().values())
        for index in range(len(SWEPT_TABLES))
    ]


def _main(what: str, path: str, *arguments: str) -> None:
    if what == "write":
        from overlap_trace import write_trace

        write_trace(Path(path), int(arguments[0]))
    elif what == "time":
        runs, cpu = map(int, arguments)
        sys.stdout.write(json.dumps(_time(path, runs, cpu)))
    else:
        _from_file(path)()


if __name__ == "__main__":
    _main(*sys.argv[1:])
