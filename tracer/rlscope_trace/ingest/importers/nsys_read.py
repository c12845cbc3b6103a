"""Reads one Nsight Systems export into what becomes a trace."""

import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS
from rlscope_trace.ingest.importers import nsys_nvtx, nsys_sched
from rlscope_trace.ingest.importers.nsys_calls import CALL_TABLES, Calls, count_orphans, read_calls
from rlscope_trace.ingest.importers.nsys_coverage import Found, state_verdict, verdicts
from rlscope_trace.ingest.importers.nsys_devices import add_devices, read_devices
from rlscope_trace.ingest.importers.nsys_gpu import GPU_TABLES, Activities, read_activities
from rlscope_trace.ingest.importers.nsys_session import Session
from rlscope_trace.ingest.importers.nsys_source import Source
from rlscope_trace.ingest.importers.nsys_tables import Recordings
from rlscope_trace.ingest.importers.wording import shown

IMPORTED_TABLES = (*CALL_TABLES, nsys_nvtx.TABLE, *sorted(GPU_TABLES), nsys_sched.TABLE)
_GIVES_WORK = [CUDA_CALL_KINDS.index(kind) for kind in ("launch", "memcpy", "memset", "graph")]
# Names of tables of events that are left out; those about the recording itself are not reported.
_DESCRIPTIONS = ("ENUM_", "TARGET_INFO_", "META_DATA_", "ANALYSIS_", "DIAGNOSTIC_", "sqlite_")
# Those of further tables are counted together.
_MAX_SKIPPED_TABLES = 50
_TIME_COLUMNS = frozenset({"start", "timestamp", "rawTimestamp"})


def read_recording(source: Source, session: Session, read: Recordings) -> None:
    """Add an export to what was read so far."""
    calls = list(read_calls(source))
    operations, async_ranges = nsys_nvtx.read_ranges(source, read.nvtx_names)
    # After the calls: a GPU activity that does not tell its process belongs to the only one.
    activities = list(read_activities(source))
    states, has_switches = nsys_sched.read_states(source)
    _count_orphans(source, activities, calls)
    _count_skipped(source)
    read.calls += calls
    read.activities += activities
    read.operations += [operations] if operations else []
    read.async_ranges += [async_ranges] if async_ranges else []
    read.states += [states] if states else []
    found = Found(
        launches=sum(int(np.isin(part.columns["kind"], _GIVES_WORK).sum()) for part in calls),
        has_switches=has_switches,
        reported_processes=states.processes if states else frozenset(),
    )
    shared = verdicts(source.file, found)
    for process in source.owners.processes_of_file(source.index):
        read.verdicts[process] = {"thread_state": state_verdict(found, process), **shared}
    source.owners.learn_names(source.file, source.index, session.host)
    add_devices(read.devices, read_devices(source.file, session.host))
    used = [part.columns["device_id"] for part in activities]
    add_devices(read.devices, {(session.host, number): {} for number in _values(used)})
    _add_clock(source, session, read)
    _count_cut(source)


def _count_orphans(source: Source, activities: list[Activities], calls: list[Calls]) -> None:
    count, first_ns = count_orphans(source, activities, calls)
    source.losses.add("nsys_gpu_without_call", count, first_ns=first_ns)


def _count_skipped(source: Source) -> None:
    """Count the rows of every table of events that a trace has no place for."""
    tables = sorted(
        table
        for table, columns in source.file.tables.items()
        if table not in IMPORTED_TABLES
        and not table.startswith(_DESCRIPTIONS)
        and _TIME_COLUMNS & columns
    )
    for number, table in enumerate(tables):
        count = source.file.row_count(table)
        if number < _MAX_SKIPPED_TABLES:
            source.losses.add("nsys_table_skipped", count, record=shown(table))
        else:
            source.losses.add("nsys_tables_skipped", count)


def _count_cut(source: Source) -> None:
    """Count what is more, or longer, than there is a place for."""
    file, losses = source.file, source.losses
    losses.add("text_cut", file.cut_text_count)
    losses.add("nsys_rows_too_many", file.left_out_count)


def _values(columns: list[NDArray[np.int64]]) -> set[int]:
    known = [np.ma.compressed(np.ma.asarray(column)) for column in columns]
    return {number for column in known for number in np.unique(column).tolist()}


def _add_clock(source: Source, session: Session, read: Recordings) -> None:
    """Note when the recording began on both clocks, and when the last one ended."""
    if session.realtime_at_zero_ns is not None:
        realtime_ns = session.realtime_at_zero_ns + session.start_ns
        read.clocks.append((session.start_ns + source.shift_ns, realtime_ns))
    if session.end_ns is not None:
        end_ns = session.end_ns + source.shift_ns
        read.end_ns = end_ns if read.end_ns is None else max(end_ns, read.end_ns)
