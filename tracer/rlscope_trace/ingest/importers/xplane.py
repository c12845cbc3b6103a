"""`import xplane`: profiles of JAX (XSpace), one per host or process, become one trace."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.errors import reason_of
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.import_writer import refuse_existing, write_import
from rlscope_trace.ingest.importers.input_paths import check_paths
from rlscope_trace.ingest.importers.wording import shown
from rlscope_trace.ingest.importers.xplane_file import XplaneFile, read_file
from rlscope_trace.ingest.importers.xplane_hlo_dump import read_dump
from rlscope_trace.ingest.importers.xplane_tables import XplaneTables
from rlscope_trace.ingest.writer.coverages import KindCoverage
from rlscope_trace.ingest.writer.database_file import ReportProgress
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.outputs.place import PRIVATE_MODE

SUFFIX = ".xplane.pb"
_MAX_LISTED = 100_000


@contextlib.contextmanager
def import_xplane(  # noqa: PLR0913 - one parameter per choice
    files: Sequence[Path],
    output: Path,
    *,
    hlo: Path | None,
    overwrite: bool,
    progress: ReportProgress,
    mode: int = PRIVATE_MODE,
) -> Iterator[TraceWriter]:
    """Yield a trace of profiles of JAX; docs/import-xplane.md tells what becomes what.

    files: profiles, or folders with those of one run.
    hlo: where XLA dumped its programs, for profiles that do not carry them.
    The rest as in write_import(). Raises ImportFileError, UsageError and what write_import()
    raises; on any failure the output is as it was.
    """
    started_s = time.monotonic()
    paths = [path for given in files for path in _profiles_of(given)]
    check_paths(paths, output)
    # Before anything is read: that may take long.
    refuse_existing(output, overwrite=overwrite)
    found = [read_file(path, lambda done, size: progress("read", done, size)) for path in paths]
    without = [file for file in found if not file.programs]
    if hlo is not None and without:
        dumped = read_dump(hlo)
        for file in without:
            file.programs.update(dumped)
    tables = XplaneTables(coverages=_never_measured())
    clocks = [file.realtime_at_zero_ns for file in found]
    for file, shift_ns in zip(found, _shifts(found), strict=True):
        tables.add(file, shift_ns=shift_ns)
    if not tables.processes:
        raise ImportFileError(
            f"{', '.join(map(str, paths))} holds no event that a trace has a place for",
            hint="profile a part of the program in which it computes",
        )
    rows = tables.tables()
    zero_ns = min((clock for clock in clocks if clock is not None), default=None)
    if zero_ns is not None:
        rows["clock"] = {"ts_ns": [0], "realtime_ns": [zero_ns]}
    with write_import(
        output,
        rows,
        meta=_meta(found, tables),
        losses=[*_losses(found), *tables.losses],
        events=sum(file.event_count for file in found),
        overwrite=overwrite,
        progress=progress,
        started_s=started_s,
        mode=mode,
    ) as trace:
        yield trace


def _profiles_of(given: Path) -> list[Path]:
    """Return the profiles that were named: a file, or those of the one run in a folder."""
    if not os.path.isdir(given):  # noqa: PTH112 - any name is one
        return [given]
    found: dict[str, list[Path]] = {}
    listed = 0
    for folder, _, names in os.walk(given, onerror=_refuse):
        listed += len(names)
        if listed > _MAX_LISTED:
            raise ImportFileError(
                f"{given} holds more than {_MAX_LISTED} files", hint="name the file of the profile"
            )
        for name in sorted(names):
            if name.endswith(SUFFIX):
                found.setdefault(folder, []).append(Path(folder) / name)
    if not found:
        raise ImportFileError(
            f"{given} holds no file *{SUFFIX}", hint="name the folder given to jax.profiler"
        )
    if len(found) > 1:
        raise ImportFileError(
            f"{given} holds {len(found)} profiles",
            hint=f"name one: rlscope-trace import xplane {max(found)}",
        )
    return next(iter(found.values()))


def _refuse(error: OSError) -> None:
    raise ImportFileError(
        f"cannot read {error.filename}: {reason_of(error)}", hint="check its mode"
    ) from error


def _shifts(found: Sequence[XplaneFile]) -> list[int]:
    """Return what to add to the times of each file, so that all are on one clock."""
    clocks = [file.realtime_at_zero_ns for file in found]
    if len(found) == 1:
        return [0]
    known = [clock for clock in clocks if clock is not None]
    if len(known) < len(clocks):
        path = found[clocks.index(None)].path
        raise ImportFileError(
            f"{path} does not tell when it began, so that it cannot be put on one clock with the"
            " others",
            hint="import it alone",
        )
    return [clock - min(known) for clock in known]


def _never_measured() -> list[KindCoverage]:
    return [
        KindCoverage(None, "thread_state", False, (Fact("xplane_no_scheduling"),)),
        KindCoverage(None, "wait", False, (Fact("xplane_no_scheduling"),)),
    ]


def _losses(found: Sequence[XplaneFile]) -> Iterator[TraceStat]:
    for code, count in (
        ("xplane_instants", sum(file.instants for file in found)),
        ("xplane_unreadable", sum(file.unreadable for file in found)),
        ("names_too_many", sum(file.further_names for file in found)),
        ("xplane_threads_too_many", sum(file.further_threads for file in found)),
        ("xplane_programs_cut", sum(file.cut_programs for file in found)),
    ):
        if count:
            yield TraceStat(code, count)
    for file in found:
        for message in file.profiler_messages:
            yield TraceStat("xplane_profiler", None, record=file.path.name, detail=shown(message))


def _meta(found: Sequence[XplaneFile], tables: XplaneTables) -> dict[str, str]:
    hosts = sorted({file.host for file in found if file.host})
    versions = sorted({file.versions.get("jax_version", "unknown") for file in found})
    return {
        "loader": "import",
        "backends": f"JAX profiler, JAX {', '.join(versions)}",
        "imported_from": json.dumps([file.path.name for file in found]),
        "recovered": "false",
        "ended_cleanly": "true",
        "start_ns": str(min(process["start_ns"] for process in tables.processes)),
        "end_ns": str(max(process["end_ns"] for process in tables.processes)),
        **({"host": ", ".join(hosts)} if hosts else {}),
    }
