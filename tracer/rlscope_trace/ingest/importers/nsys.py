"""Imports exports of Nsight Systems, all of them into one trace.

The readers of its tables are beside this file: nsys_gpu, nsys_calls, nsys_nvtx, nsys_sched.
docs/import-nsys.md tells what becomes what.
"""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.import_writer import Tables, refuse_existing, write_import
from rlscope_trace.ingest.importers.input_paths import check_paths
from rlscope_trace.ingest.importers.nsys_read import IMPORTED_TABLES, read_recording
from rlscope_trace.ingest.importers.nsys_session import Session, read_session
from rlscope_trace.ingest.importers.nsys_source import MAX_TIME_NS, Source
from rlscope_trace.ingest.importers.nsys_sqlite import NsysFile
from rlscope_trace.ingest.importers.nsys_tables import Recordings, build_tables
from rlscope_trace.ingest.writer.database_file import ReportProgress
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.outputs.place import PRIVATE_MODE


@contextlib.contextmanager
def import_nsys(  # noqa: PLR0913 - one parameter per option
    files: Sequence[Path],
    output: Path,
    *,
    overwrite: bool,
    progress: ReportProgress,
    mode: int = PRIVATE_MODE,
    names: Mapping[Path, Path] | None = None,
) -> Iterator[TraceWriter]:
    """Yield a trace of SQLite exports.

    Several files become one trace: each on the wall clock of its machine, its processes its own.
    names: those to open files by, where they are others. progress(step, done, total) is called
    every 262,144 rows. The rest as in write_import().
    Raises ImportFileError, OutputExistsError, TracerError; KeyboardInterrupt at Ctrl-C. On any
    failure the output is as it was, and nothing is left beside it.
    """
    started_s = time.monotonic()
    check_paths(files, output)
    # Before anything is read: that may take long.
    refuse_existing(output, overwrite=overwrite)
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(NsysFile(path, (names or {}).get(path))) for path in files]
        sessions = [read_session(file) for file in opened]
        shifts = _shifts(files, sessions)
        read, events = _read_all(opened, sessions, shifts, progress)
        _check_found(read, files)
        tables, losses = build_tables(read)
        meta = _meta(files, sessions, tables)
    with write_import(
        output,
        tables,
        meta=meta,
        losses=losses,
        events=events,
        overwrite=overwrite,
        progress=progress,
        started_s=started_s,
        mode=mode,
    ) as trace:
        yield trace


def _check_found(read: Recordings, files: Sequence[Path]) -> None:
    if not read.owners.processes:
        raise ImportFileError(
            f"{', '.join(map(str, files))} holds no event that a trace has a place for",
            hint="record with: nsys profile --trace=cuda,nvtx PROGRAM",
        )


def _shifts(files: Sequence[Path], sessions: list[Session]) -> list[int]:
    """Return what to add to the times of each file, so that all are on one clock."""
    if len(sessions) == 1:
        return [0]
    zeros: list[int] = []
    for path, session in zip(files, sessions, strict=True):
        if session.realtime_at_zero_ns is None:
            raise ImportFileError(
                f"{path} does not tell when its recording began, so that it cannot be put on one"
                " clock with the others",
                hint="import it alone, or export it with a newer nsys",
            )
        zeros.append(session.realtime_at_zero_ns)
    shifts = [zero - min(zeros) for zero in zeros]
    for path, shift_ns in zip(files, shifts, strict=True):
        if shift_ns > MAX_TIME_NS:
            raise ImportFileError(
                f"{path} tells a time of its recording that lies decades after that of another",
                hint="import it alone",
            )
    return shifts


def _read_all(
    files: list[NsysFile], sessions: list[Session], shifts: list[int], progress: ReportProgress
) -> tuple[Recordings, int]:
    """Read all files; returns how many rows of events that were, too."""
    read = Recordings()
    total = sum(file.row_count(table) for file in files for table in IMPORTED_TABLES)
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        progress("read", min(done, total), total)

    for index, (file, session) in enumerate(zip(files, sessions, strict=True)):
        source = Source(file, index, shifts[index], read.owners, read.names, read.losses, advance)
        read_recording(source, session, read)
    return read, total


def _meta(files: Sequence[Path], sessions: list[Session], tables: Tables) -> dict[str, str]:
    """Return the facts about the trace: those of a recording where all agree on them."""
    shared = dict(sessions[0].facts)
    for session in sessions[1:]:
        shared = {key: value for key, value in shared.items() if session.facts.get(key) == value}
    hosts = sorted({session.host for session in sessions if session.host})
    starts, ends = (tables["process"][name] for name in ("start_ns", "end_ns"))
    return {
        **shared,
        "loader": "import",
        "imported_from": json.dumps([path.name for path in files]),
        "ended_cleanly": "true",
        "recovered": "false",
        **({"host": ", ".join(hosts)} if hosts else {}),
        "start_ns": str(min(starts)),
        "end_ns": str(max(ends)),
    }
