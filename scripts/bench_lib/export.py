"""How fast a trace becomes a timeline file on one CPU, in how much memory, and how large it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb

from bench_lib.figure import BenchError, Figure
from bench_lib.overlap_trace import write_trace
from bench_lib.recorder import Recorder
from rlscope_analysis.derive import complete

if TYPE_CHECKING:
    from pathlib import Path

    from bench_lib.recorder import Bench, Ended

ROWS = 4_000_000
# A tenth of the rows, to see what memory the rows take: hardly any.
_FEW_ROWS = ROWS // 10
_FILES = {
    "perfetto": ("perfetto", "timeline.pftrace", 1e6),
    "perfetto, gzipped": ("perfetto", "timeline.pftrace.gz", None),
    "chrome": ("chrome", "timeline.json", 0.5e6),
    "chrome, gzipped": ("chrome", "timeline.json.gz", None),
}


def measure(bench: Bench) -> list[Figure]:
    """Return slices per second of CPU time, peak memory and size, by format."""
    large, small = bench.trace("timeline"), bench.trace("timeline_small")
    for path, rows in ((large, ROWS), (small, _FEW_ROWS)):
        _write(path, rows)
    figures = []
    for name, (form, file, floor) in _FILES.items():
        output = bench.directory / file
        runs = [_export(bench, large, form, output) for _ in range(bench.runs)]
        figures += _figures(name, runs, floor, output.stat().st_size)
        few = _export(bench, small, form, output)[0]
        megabytes = (few.peak_rss_bytes / 1e6,)
        figures.append(Figure(f"{name}: memory, {_FEW_ROWS:,} rows", "MB", megabytes))
        output.unlink()
    return figures


def _write(path: Path, rows: int) -> None:
    write_trace(path, rows)
    with duckdb.connect(str(path)) as connection:
        # Every second call has caused an activity.
        connection.execute("UPDATE cuda_call_coded SET correlation_id = rowid // 2 * 2 + 1")
        connection.execute("UPDATE gpu_activity_coded SET correlation_id = rowid * 2 + 1")
        complete(connection)


def _export(bench: Bench, trace: Path, form: str, output: Path) -> tuple[Ended, int]:
    """Export on one CPU; return how that ended and how many slices there were."""
    arguments = ["export", form, str(trace), "-o", str(output), "--force"]
    ended = Recorder.start(bench, arguments, bench.pinned()).ended()
    found = re.search(r"wrote .*: ([\d,]+) slices", ended.said)
    if ended.exit_code or found is None:
        raise BenchError(f"export failed: {ended.said.strip()}", hint="see above")
    return ended, int(found[1].replace(",", ""))


def _figures(
    name: str, runs: list[tuple[Ended, int]], floor: float | None, size: int
) -> list[Figure]:
    slices = runs[0][1]
    return [
        Figure(
            f"export {name}",
            "slices/s",
            tuple(count / ended.cpu_s for ended, count in runs),
            floor,
            at_least=True,
            note=f"{slices:,} slices, by CPU time; the start of Python is included",
        ),
        Figure(f"{name}: memory", "MB", tuple(ended.peak_rss_bytes / 1e6 for ended, _ in runs)),
        Figure(f"{name}: size", "bytes per slice", (size / slices,)),
    ]
