"""Ten seconds of the highest rate of switches: losses, the drain's CPU time, memory; then finalise.

The spool of that load is kept by hard links, and made into a trace several times on one CPU.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_lib.figure import BenchError, Figure
from bench_lib.recorder import REPOSITORY, Peer, Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from bench_lib.recorder import Bench, Ended

_SECONDS = 10
# Two threads on two CPUs make about a million switches per second.
_CPUS = 2
_SLICE_S = 1.0
RATE_FLOOR = 500_000
DRAIN_BUDGET_US = 0.1
MEMORY_BUDGET_MB = 300
# With the overlaps and what is counted for the overhead.
FINALISE_FLOOR = 1.5e6
ROW_BUDGET_BYTES = 12

# The layout of tracer/native/spool/format.h.
_KINDS = int(re.findall(r"RLS_REC_KINDS = (\d+)", (REPOSITORY / "bpf/records.h").read_text())[0])
_PROGRESS = struct.Struct(f"<QII{_KINDS}QQQQ{2 * _KINDS}Q3Q")
_SPOOL_FILES = ("records.bin", "progress.bin", "session.json")


@dataclass(frozen=True, slots=True)
class _Reading:
    """Where the recording of the load stood at one moment."""

    at_s: float
    records: int
    lost: int
    drain_ns: int


def measure(bench: Bench) -> list[Figure]:
    """Return what the load cost while recording."""
    return _load(bench, bench.trace("load"))[0]


def measure_finalise(bench: Bench) -> list[Figure]:
    """Return how fast a spool becomes a trace, and how large that is."""
    trace = bench.trace("load")
    _, ended, spool = _load(bench, trace)
    rows = ended.count("thread states")
    runs = [_recover(bench, spool) for _ in range(bench.runs)]
    empty = bench.trace("empty")
    bench.record(empty, ["true"])
    fixed_bytes = empty.stat().st_size
    sizes = [
        Figure("size, yields", "bytes per row", (trace.stat().st_size / rows,), ROW_BUDGET_BYTES),
        _switch_pairs_size(bench, fixed_bytes),
    ]
    shutil.rmtree(spool)
    return [
        Figure(
            "finalise, by CPU time",
            "rows/s",
            tuple(rows / run.cpu_s for run in runs),
            FINALISE_FLOOR,
            at_least=True,
            note=f"{rows} rows; the start of Python is included",
        ),
        Figure("finalise, by wall time", "rows/s", tuple(rows / run.wall_s for run in runs)),
        *sizes,
        Figure("size, a trace of nothing", "bytes", (fixed_bytes,)),
    ]


def _load(bench: Bench, output: Path) -> tuple[list[Figure], Ended, Path]:
    load = Peer.start([bench.helper("yield_load"), str(_SECONDS), str(_CPUS)])
    recorder = bench.attach(load.process.pid, output)
    spool = output.with_name(f"{output.name}.spool")
    readings = [_read(recorder, spool)]
    load.send("go")
    while not load.answered_within(_SLICE_S):
        readings.append(_read(recorder, spool))
    kept = _keep(spool, bench.directory / "kept.spool")
    last = _read(recorder, spool)
    ended = recorder.stop()
    load.close()
    # The first and the last second are not whole.
    slices = list(itertools.pairwise(readings[1:]))
    rates = tuple((b.records - a.records) / (b.at_s - a.at_s) for a, b in slices)
    drain = tuple((b.drain_ns - a.drain_ns) / (b.records - a.records) / 1e3 for a, b in slices)
    figures = [
        Figure("load", "records/s", rates, RATE_FLOOR, at_least=True),
        _losses(bench, output, last),
        Figure("drain thread", "us per record", drain, DRAIN_BUDGET_US),
        Figure(
            "recorder's peak memory", "MB", (ended.peak_rss_bytes / 1e6,), MEMORY_BUDGET_MB,
            note=f"{last.records} records; finalise included",
        ),
    ]  # fmt: skip
    return figures, ended, kept


def _read(recorder: Recorder, spool: Path) -> _Reading:
    content = (spool / "progress.bin").read_bytes()
    _, _, cpus, *numbers = _PROGRESS.unpack_from(content)
    ring = struct.unpack_from(f"<{2 * cpus * _KINDS}Q", content, _PROGRESS.size)
    spool_loss = numbers[_KINDS + 3 : -3]
    return _Reading(
        at_s=time.monotonic(),
        records=sum(numbers[:_KINDS]),
        # Of each pair the first is the count, the second the time of the first loss.
        lost=sum(spool_loss[::2]) + sum(ring[::2]),
        drain_ns=recorder.cpu_ns("rls-drain"),
    )


def _losses(bench: Bench, trace: Path, last: _Reading) -> Figure:
    reported = bench.query(
        trace,
        "SELECT coalesce(sum(count), 0) AS lost, count(*) FILTER (WHERE code IS NULL) AS mute"
        " FROM trace_stat WHERE kind = 'dropped'",
    )[0]
    # What is lost must be none, or reported, and not less than was seen here.
    lost = max(int(reported["lost"]), last.lost)
    is_reported = int(reported["lost"]) >= last.lost and not reported["mute"]
    note = "" if lost == 0 else "reported in trace_stat" if is_reported else "NOT REPORTED"
    return Figure("lost", "records", (lost,), None if lost and is_reported else 0, note=note)


def _keep(spool: Path, kept: Path) -> Path:
    """Hard-link a spool that is being written: it will be whole when its recorder has ended."""
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for name in _SPOOL_FILES:
        os.link(spool / name, kept / name)
    return kept


def _recover(bench: Bench, spool: Path) -> Ended:
    copy = _keep(spool, bench.directory / "copy.spool")
    output = bench.trace("copy")
    arguments = ["recover", str(copy), "-o", str(output)]
    ended = Recorder.start(bench, arguments, bench.pinned()).ended()
    if ended.exit_code:
        raise BenchError(f"recover failed: {ended.said.strip()}", hint="see above")
    return ended


def _switch_pairs_size(bench: Bench, fixed_bytes: int) -> Figure:
    """Return the size of rows with sleeps and wakers, which yields do not have."""
    output = bench.trace("pairs")
    _, ended = bench.record(output, [bench.helper("switch_pairs"), "300000", str(bench.cpu)])
    rows = ended.count("thread states")
    value = (output.stat().st_size - fixed_bytes) / rows
    note = f"{rows} rows; less a trace of nothing"
    return Figure("size, switch pairs", "bytes per row", (value,), ROW_BUDGET_BYTES, note=note)
