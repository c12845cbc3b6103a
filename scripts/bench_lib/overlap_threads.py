"""How fast a stored trace becomes the overlap of its threads, and in how much memory.

The measuring is done by a process of the Python that the recorder is installed for: this file, as
a program. It alternates one core and two, so that a machine that gets slower favours neither.
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
TWO_CORES_BUDGET = 1.7


def measure(bench: Bench) -> list[Figure]:
    """Return rows per second from the file and of the sweep alone, and the peak memory."""
    from bench_lib.figure import Figure

    short, long = bench.trace("overlap_short"), bench.trace("overlap_long")
    for path, rows in ((short, _ROWS), (long, _MANY_ROWS)):
        _child(bench, "write", str(path), str(rows))
    told = json.loads(_child(bench, "time", str(short), str(bench.runs), str(bench.cpu))[0])
    rates = {name: tuple(told["rows"] / s / 1e6 for s in told[name]) for name in told["seconds"]}

    def gain(what: str) -> tuple[float, ...]:
        pairs = zip(told[f"{what} 2"], told[f"{what} 1"], strict=True)
        return tuple(one / two for two, one in pairs)

    over_bare = tuple(b / a for a, b in zip(told["alone 1"], told["bare 1"], strict=True))
    unit = "M rows/s"
    peaks = [_child(bench, "once", str(path))[1] / 1e6 for path in (short, long)]
    return [
        Figure("file to overlap, one core", unit, rates["file 1"], FILE_BUDGET, at_least=True),
        Figure("file to overlap, two cores", unit, rates["file 2"]),
        Figure("file, two cores over one", "times", gain("file"), TWO_CORES_BUDGET, at_least=True),
        Figure("sweep alone, one core", unit, rates["alone 1"], ALONE_BUDGET, at_least=True),
        Figure("sweep alone, two cores", unit, rates["alone 2"]),
        Figure("a bare merge, one core", unit, rates["bare 1"]),
        Figure("sweep alone over a bare merge", "times", over_bare, BARE_BUDGET, at_least=True),
        Figure(
            "alone, two cores over one", "times", gain("alone"), TWO_CORES_BUDGET, at_least=True
        ),
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
    all_cpus = os.sched_getaffinity(0)
    ways: dict[str, Callable[[], object]] = {
        f"{what} {jobs}": way(path, jobs)
        for what, way in (("file", _from_file), ("alone", _alone))
        for jobs in (1, 2)
    }
    ways["bare 1"] = _bare(path)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for run in range(runs):
        for name in ways if run % 2 == 0 else reversed(ways):
            os.sched_setaffinity(0, {cpu} if name.endswith("1") else all_cpus)
            start_s = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - start_s)
    return {"rows": _plan(path).rows, "seconds": list(ways), **seconds}


def _from_file(path: str, jobs: int) -> Callable[[], object]:
    from rlscope_analysis.sweep import threads as thread_overlap

    def run() -> object:
        with _open(path, jobs) as connection:
            return thread_overlap.compute(connection, jobs=jobs)

    return run


def _alone(path: str, jobs: int) -> Callable[[], object]:
    """Return the sweep of columns that are in memory already."""
    from concurrent.futures import ThreadPoolExecutor

    from rlscope_analysis import _sweep
    from rlscope_analysis.sweep.thread_parts import Part, join

    plan = _plan(path)
    with _open(path, jobs) as connection:
        loaded = [(cell, _columns(connection, cell)) for cell in plan.cells]

    def sweep(cell: Any, tables: Any) -> Part:  # noqa: ANN401 - what _plan and _columns return
        bounds = {
            "window_start_ns": cell.start_ns, "window_end_ns": cell.end_ns,
            "probed_ns": cell.probed_ns,
        }  # fmt: skip
        progress = _sweep.SweepProgress()
        return Part(*_sweep.sweep_threads(cell.columns, tables, **bounds, progress=progress))

    def run() -> object:
        with ThreadPoolExecutor(jobs) as pool:
            return join(pool.map(sweep, *zip(*loaded, strict=True)))

    return run


def _bare(path: str) -> Callable[[], object]:
    """Return the least work that gives times: the yardstick of this machine."""
    import bare_merge

    with _open(path, 1) as connection:
        return bare_merge.load(connection)


def _open(path: str, jobs: int) -> Any:  # noqa: ANN401 - duckdb is not there for the parent
    import duckdb

    return duckdb.connect(path, read_only=True, config={"threads": jobs})


def _plan(path: str) -> Any:  # noqa: ANN401 - as above
    from rlscope_analysis.sweep.thread_plan import make_plan

    with _open(path, 1) as connection:
        return make_plan(connection, None, None)


def _columns(connection: Any, cell: Any) -> list[Any]:  # noqa: ANN401 - as above
    from rlscope_analysis.sweep.thread_plan import SWEPT_TABLES
    from rlscope_analysis.sweep.thread_read import cell_query

    return [
        tuple(connection.execute(cell_query(cell, index)).fetchnumpy().values())
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
        _from_file(path, 1)()


if __name__ == "__main__":
    _main(*sys.argv[1:])
