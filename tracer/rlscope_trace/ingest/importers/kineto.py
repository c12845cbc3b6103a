"""`import kineto`: files of the PyTorch profiler, one per rank, become one trace."""

import contextlib
import itertools
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.vocabulary import LAYER_COVERAGE
from rlscope_trace.ingest.importers.import_writer import refuse_existing, write_import
from rlscope_trace.ingest.importers.input_paths import check_paths
from rlscope_trace.ingest.importers.kineto_file import Count, KinetoFile, read_file
from rlscope_trace.ingest.importers.kineto_processes import INT32_MAX
from rlscope_trace.ingest.importers.kineto_tables import KinetoTables
from rlscope_trace.ingest.importers.wording import shown
from rlscope_trace.ingest.writer.columns import Column, Table
from rlscope_trace.ingest.writer.coverages import COVERAGE_COLUMNS, KindCoverage
from rlscope_trace.ingest.writer.database_file import ReportProgress
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.outputs.place import PRIVATE_MODE

_PHASES = {
    "B": "events", "X": "events", "i": "instant events", "I": "instant events",
    "C": "counter events", "s": "flow events", "t": "flow events", "f": "flow events",
    "b": "asynchronous events", "n": "asynchronous events", "e": "asynchronous events",
}  # fmt: skip
# Where files list the GPUs; the second is that of 2020 and 2021.
_DEVICE_KEYS = (
    ("deviceProperties", "computeMajor", "computeMinor", "numSms"),
    ("computeProperties", "major", "minor", "multiProcessorCount"),
)


@contextlib.contextmanager
def import_kineto(  # noqa: PLR0913 - one parameter per choice
    files: Sequence[Path],
    output: Path,
    *,
    salvage: bool,
    overwrite: bool,
    progress: ReportProgress,
    mode: int = PRIVATE_MODE,
) -> Iterator[TraceWriter]:
    """Yield a trace of files of the PyTorch profiler; docs/import.md tells what becomes what.

    salvage: take from a damaged file what comes before the damage. The rest as in write_import().
    Raises ImportFileError, UsageError and what write_import() raises; on any failure the output is
    as it was.
    """
    started_s = time.monotonic()
    check_paths(files, output)
    # Before anything is read: that may take long.
    refuse_existing(output, overwrite=overwrite)
    found = list(_read(files, salvage=salvage, progress=progress))
    tables, rows, losses = _convert(found)
    with write_import(
        output,
        rows,
        meta=_meta(found, tables),
        losses=losses,
        events=sum(file.event_count for file in found),
        overwrite=overwrite,
        progress=progress,
        started_s=started_s,
        mode=mode,
    ) as trace:
        yield trace


def _read(
    files: Sequence[Path], *, salvage: bool, progress: ReportProgress
) -> Iterator[KinetoFile]:
    total = sum(path.stat().st_size for path in files if os.path.isfile(path))  # noqa: PTH113 - any name is one
    before = 0
    for path in files:
        yield read_file(path, salvage=salvage, progress=_step(progress, before, total))
        before += path.stat().st_size


def _step(progress: ReportProgress, before: int, total: int) -> Callable[[int, int], object]:
    return lambda position, _size: progress("read", before + position, total)


def _convert(
    found: Sequence[KinetoFile],
) -> tuple[KinetoTables, dict[str, Table], list[TraceStat]]:
    tables = KinetoTables()
    offsets = [file.realtime_offset_ns() for file in found]
    common_ns = min((offset for offset in offsets if offset is not None), default=None)
    shifts = [None if offset is None else offset - (common_ns or 0) for offset in offsets]
    coverages = [
        KindCoverage(None, "thread_state", False, (Fact("kineto_no_scheduling"),)),
        KindCoverage(None, "wait", False, (Fact("kineto_no_waits"),)),
    ]
    for file, shift_ns in zip(found, shifts, strict=True):
        for process_id in tables.add(file, shift_ns=shift_ns):
            coverages += _coverages(process_id, file)
    rows = tables.tables()
    rows["coverage"] = _table(COVERAGE_COLUMNS, [row for one in coverages for row in one.rows()])
    rows["gpu_device"] = _devices(found)
    start_ns = min((process["start_ns"] for process in tables.owners.processes), default=None)
    if common_ns is not None and start_ns is not None:
        rows["clock"] = {"ts_ns": [start_ns], "realtime_ns": [start_ns + common_ns]}
    losses = [*_losses(found, shifts), *_losses_of_tables(tables), *_clock_losses(offsets)]
    return tables, rows, losses


def _coverages(process_id: int, file: KinetoFile) -> Iterator[KindCoverage]:
    imported = (Fact("kineto"),)
    for kind in ("operation", "native_call"):
        yield KindCoverage(process_id, kind, True, imported)
    simulator = LAYER_COVERAGE.format(layer="simulator")
    yield KindCoverage(process_id, simulator, False, (Fact("kineto_no_simulator"),))
    has_gpu = file.has_gpu_records()
    for kind in ("cuda_call", "gpu_activity"):
        facts = imported if has_gpu else (Fact("kineto_no_gpu"),)
        yield KindCoverage(process_id, kind, has_gpu, facts)


def _table(names: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> Table:
    columns: dict[str, Column] = {
        name: [row[index] for row in rows] for index, name in enumerate(names)
    }
    return columns


def _devices(found: Sequence[KinetoFile]) -> Table:
    """Return the GPUs that the files list, each once."""
    devices: dict[tuple[str | int | None, ...], None] = {}
    for file in found:
        for keys in _DEVICE_KEYS:
            devices |= dict.fromkeys(_devices_of(file, *keys))
    names = (
        "host", "device_id", "name", "memory_bytes", "multiprocessors", "compute_capability",
    )  # fmt: skip
    return _table(names, list(devices))


def _devices_of(
    file: KinetoFile, list_key: str, major_key: str, minor_key: str, count_key: str
) -> Iterator[tuple[str | int | None, ...]]:
    for index in itertools.count():
        device = f"{list_key}.{index}"
        device_id = file.integer(f"{device}.id", limit=INT32_MAX)
        if device_id is None:
            return
        major = file.header.get(f"{device}.{major_key}")
        minor = file.header.get(f"{device}.{minor_key}")
        yield (
            file.host,
            device_id,
            file.header.get(f"{device}.name") or None,
            file.integer(f"{device}.totalGlobalMem"),
            file.integer(f"{device}.{count_key}", limit=INT32_MAX),
            f"{major}.{minor}" if major and minor else None,
        )


def _meta(found: Sequence[KinetoFile], tables: KinetoTables) -> dict[str, str]:
    versions = sorted({file.header.get("schemaVersion", "unknown") for file in found})
    facts = {
        "loader": "import",
        "backends": f"PyTorch profiler (Kineto), schema version {', '.join(versions)}",
        "imported_from": json.dumps([file.path.name for file in found]),
        "ranks": json.dumps(
            [
                {
                    "file": placed.file.path.name,
                    "rank": placed.file.rank,
                    "world_size": placed.file.integer("distributedInfo.world_size"),
                    "process_ids": list(placed.process_ids),
                }
                for placed in tables.placed
            ]
        ),
        "recovered": "false",
        "ended_cleanly": json.dumps(all(file.damage is None for file in found)),
    }
    hosts = {file.host for file in found}
    if len(hosts) == 1 and (host := hosts.pop()):
        facts["host"] = host
    if tables.owners.processes:
        facts["start_ns"] = str(min(process["start_ns"] for process in tables.owners.processes))
        facts["end_ns"] = str(max(process["end_ns"] for process in tables.owners.processes))
    return facts


class _Tally:
    """Counts of the same thing in several files."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], list[int | None]] = defaultdict(lambda: [0, None])

    def add(
        self, code: str, count: Count, shift_ns: int, *, record: str = "", detail: str = ""
    ) -> None:
        known = self._counts[code, detail, record]
        known[0] = (known[0] or 0) + count[0]
        if count[1] is not None:
            first_ns = count[1] + shift_ns
            known[1] = first_ns if known[1] is None else min(first_ns, known[1])

    def stats(self) -> list[TraceStat]:
        return [
            TraceStat(code, count, first_ns, record=record or None, detail=detail or None)
            for (code, detail, record), (count, first_ns) in sorted(self._counts.items())
            if count
        ]


def _losses(found: Sequence[KinetoFile], shifts: Sequence[int | None]) -> Iterator[TraceStat]:
    tally = _Tally()
    for file, known_ns in zip(found, shifts, strict=True):
        shift_ns = known_ns or 0
        if file.damage is not None:
            yield TraceStat("kineto_file_cut", None, record=file.path.name, detail=file.damage)
        for phase, category, count in file.skipped:
            code = "kineto_skipped" if category else "kineto_skipped_uncategorised"
            what = _PHASES.get(phase, f"events of phase {shown(phase)}")
            tally.add(code, count, shift_ns, record=shown(category), detail=what)
        for code, count in (
            ("kineto_further_categories", file.further_kinds),
            ("kineto_threads_too_many", file.further_threads),
            ("kineto_names_too_many", file.further_names),
            ("kineto_collectives_too_many", file.further_collectives),
            ("owner_names_too_many", (file.further_owner_names, None)),
            ("kineto_text_cut", (file.cut_text_count, None)),
            ("kineto_unreadable", file.unreadable),
            ("kineto_no_object", (file.stray_count, None)),
            ("kineto_rounded", file.rounded),
            ("kineto_no_text", (file.lossy_text_count, None)),
            ("kineto_never_ended", file.never_ended),
            ("kineto_never_began", file.never_begun),
        ):
            tally.add(code, count, shift_ns)
    yield from tally.stats()


def _losses_of_tables(tables: KinetoTables) -> Iterator[TraceStat]:
    yield from tables.losses
    if tables.owners.orphan_count:
        yield TraceStat(
            "kineto_gpu_without_call", tables.owners.orphan_count, tables.owners.first_orphan_ns
        )


def _clock_losses(offsets: Sequence[int | None]) -> Iterator[TraceStat]:
    unknown = sum(offset is None for offset in offsets)
    if unknown:
        yield TraceStat("kineto_clock_unknown", unknown)
