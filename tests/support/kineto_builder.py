"""Builds small files of the PyTorch profiler for tests, imports them, and reads them independently.

path = write_kineto(tmp_path / "a.json", [op("aten::mm", 0, 10), kernel("mm", 5, 7)])
with imported(path) as con:
    con.execute("FROM gpu_activity")
"""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb

from finalising import add_nothing, ended, report_nothing
from rlscope_analysis.views import install_views
from rlscope_trace.ingest.importers.kineto import import_kineto

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport

Event = dict[str, Any]
# Since 1970, as older files count.
EPOCH_US = 1_695_835_542_000_000


def slice_(
    category: str, name: str, start_us: float, end_us: float, *, pid: int | str = 100,
    tid: int | str = 100, **args: object,
) -> Event:  # fmt: skip
    """Make a complete event; its times are written so that EPOCH_US + start_us is exact."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
        "ts": EPOCH_US + start_us, "dur": end_us - start_us, "args": args,
    }  # fmt: skip


def op(name: str, start_us: int, end_us: int, **keywords: Any) -> Event:  # noqa: ANN401
    return slice_("cpu_op", name, start_us, end_us, **keywords)


def annotation(name: str, start_us: int, end_us: int, **keywords: Any) -> Event:  # noqa: ANN401
    return slice_("user_annotation", name, start_us, end_us, **keywords)


def call(
    name: str, start_us: int, end_us: int, correlation: int = 0, **keywords: Any  # noqa: ANN401
) -> Event:  # fmt: skip
    return slice_("cuda_runtime", name, start_us, end_us, correlation=correlation, **keywords)


def kernel(
    name: str, start_us: int, end_us: int, correlation: int = 0, *, device: int = 0,
    stream: int = 7, category: str = "kernel", **args: object,
) -> Event:  # fmt: skip
    return slice_(
        category, name, start_us, end_us, pid=device, tid=stream, device=device, context=1,
        stream=stream, correlation=correlation, **args,
    )  # fmt: skip


def write_kineto(path: Path, events: Sequence[Event], **header: object) -> Path:
    """Write a file; header: what stands around the events."""
    text = json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)})
    return write_text(path, text)


def write_text(path: Path, text: str) -> Path:
    """Write a file, compressed if its name ends so."""
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def run_import(
    paths: Sequence[Path], output: Path, *, salvage: bool = False, overwrite: bool = False,
    views: bool = False,
) -> TraceReport:  # fmt: skip
    """Import as the command does, without its bar, and without the views unless they are wanted."""
    made = import_kineto(
        list(paths), output, salvage=salvage, overwrite=overwrite, progress=report_nothing
    )
    return ended(made, install_views if views else add_nothing)


@contextmanager
def imported(
    *paths: Path, salvage: bool = False, views: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Import files and open the trace."""
    output = paths[0].with_name("imported.duckdb")
    run_import(paths, output, salvage=salvage, overwrite=True, views=views)
    with duckdb.connect(str(output), read_only=True) as con:
        yield con


def losses(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], int | None]:
    """Return the counts of trace_stat by kind and source."""
    rows = con.execute(
        "SELECT kind, concat_ws(' ', code, record, detail), count FROM trace_stat"
    ).fetchall()
    return {(kind, source): count for kind, source, count in rows}


def gpu_intervals(text: bytes) -> dict[str, list[tuple[int, int]]]:
    """Read the GPU activities of a file with Python's json and decimals: the reference."""
    trace = json.loads(text, parse_float=Decimal)
    events = trace if isinstance(trace, list) else trace["traceEvents"]
    kinds = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
    found: dict[str, list[tuple[int, int]]] = {}
    for event in events:
        if event.get("ph") == "X" and (kind := kinds.get(event.get("cat", ""))):
            start, length = int(event["ts"] * 1000), int(event["dur"] * 1000)
            found.setdefault(kind, []).append((start, start + length))
    return found


def measures(intervals: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Return count, sum, union, span and idle of intervals."""
    union = reach = 0
    for start, end in sorted(intervals):
        union += max(end - max(start, reach), 0)
        reach = max(reach, end)
    span = max(end for _, end in intervals) - min(start for start, _ in intervals)
    return {
        "count": len(intervals),
        "sum": sum(end - start for start, end in intervals),
        "union": union,
        "span": span,
        "idle": span - union,
    }
