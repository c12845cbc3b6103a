"""Turns a spool into a trace database: decode, sort, store, verify, then delete the spool."""

import contextlib
import json
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_trace import __version__
from rlscope_trace._capture import SpoolScan, StateRows
from rlscope_trace.errors import OutputExistsError, SpoolError, TracerError, VerificationError
from rlscope_trace.store.calibration import insert_calibration
from rlscope_trace.store.calibration_windows import insert_calibration_windows, window_losses
from rlscope_trace.store.capture_events import insert_event_capture, processes_with
from rlscope_trace.store.capture_rows import insert_capture
from rlscope_trace.store.counters import insert_counters
from rlscope_trace.store.database_file import (
    BATCH_ROWS,
    Complete,
    ReportProgress,
    configuration,
    is_interrupt,
    partial_of,
    publish,
    reason_of,
    refuse_existing,
    remove_partial,
)
from rlscope_trace.store.event_losses import event_losses
from rlscope_trace.store.events import EventWriter
from rlscope_trace.store.gil_ranges import gil_ranges
from rlscope_trace.store.gpu import GpuRecording, GpuWriter
from rlscope_trace.store.gpu_capture import insert_gpu_capture
from rlscope_trace.store.operations import Operations, OperationWriter
from rlscope_trace.store.probe_facts import read_probe_facts
from rlscope_trace.store.processes import Columns, ProcessTree
from rlscope_trace.store.spool import Spool
from rlscope_trace.store.stats import Decoded, TraceStat, trace_stats
from rlscope_trace.store.verify import Expected, exact_sum, verify

_STEP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class FinaliseReport:
    """What finalise wrote."""

    output: Path
    rows: dict[str, int]
    """Rows by table."""
    records: int
    """Records read from the spool."""
    losses: tuple[TraceStat, ...]
    file_bytes: int
    duration_s: float


def finalise(
    spool: Spool,
    output: Path,
    *,
    overwrite: bool,
    complete: Complete,
    progress: ReportProgress,
) -> FinaliseReport:
    """Write the trace database of a spool, and delete the spool once the database is verified.

    complete(con) adds what is derived, before the file is closed and verified. progress(step, done,
    total) is called about every 64 MiB or half a million rows. On any failure, Ctrl-C included,
    the output is left alone, the spool stays, and the error says how to try again.
    """
    started = time.monotonic()
    refuse_existing(output, overwrite=overwrite)
    with _undone_on_failure(spool, output):
        decoding = _Decoding(spool, output, progress)
        written = decoding.write(partial_of(output), complete)
        file_bytes = publish(output, overwrite=overwrite)
    # The trace is safe: a spool that cannot be deleted is no failure.
    with contextlib.suppress(OSError):
        spool.remove()
    return FinaliseReport(
        output=output,
        rows=written.rows,
        records=written.records,
        losses=tuple(written.losses),
        file_bytes=file_bytes,
        duration_s=time.monotonic() - started,
    )


def recover_hint(spool: Spool) -> str:
    """Return the command that tries once more, somewhere else."""
    return f"rlscope-trace recover {shlex.quote(str(spool.directory))} -o SOMEWHERE_ELSE.duckdb"


@contextlib.contextmanager
def _undone_on_failure(spool: Spool, output: Path) -> Iterator[None]:
    """Remove the partial file at any failure, and name a way to try again."""
    hint = recover_hint(spool)
    try:
        remove_partial(output)
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove_partial(output)
        if isinstance(error, OutputExistsError):
            raise
        if isinstance(error, VerificationError):
            raise VerificationError(f"{output} was not written: {error}", hint=hint) from error
        if isinstance(error, TracerError):
            error.hint = error.hint or hint
            raise
        if is_interrupt(error):
            raise SpoolError(f"interrupted before {output} was complete", hint=hint) from error
        if isinstance(error, (duckdb.Error, OSError, MemoryError, RuntimeError)):
            reason = reason_of(error)
            raise SpoolError(f"cannot write {output}: {reason}", hint=hint) from error
        raise


@dataclass(frozen=True, slots=True)
class _Written:
    rows: dict[str, int]
    losses: list[TraceStat]
    records: int


class _Decoding:
    """One spool on its way into one database file."""

    def __init__(self, spool: Spool, output: Path, progress: ReportProgress) -> None:
        self._spool = spool
        self._progress = progress
        self._config = configuration(output)
        self.scan = SpoolScan(str(spool.records_path), end_ns=spool.end_ns)
        while self.scan.advance(_STEP_BYTES):
            progress("scan", self.scan.position, self.scan.file_bytes)
        progress("scan", self.scan.file_bytes, self.scan.file_bytes)
        self._tree = ProcessTree(self.scan.threads(), self.scan.execs(), end_ns=spool.end_ns)
        self._states = StateRows(
            self.scan,
            slots=self._tree.slots,
            # Where the user says that there is room: a retry with another -o moves it as well.
            scratch_directory=str(output.parent),
            batch_rows=BATCH_ROWS,
        )
        self._facts = read_probe_facts(spool.probes_path)
        self._set_gil()

    def write(self, partial: Path, complete: Complete) -> _Written:
        """Write, close, reopen and verify the file."""
        with contextlib.closing(duckdb.connect(str(partial), config=self._config)) as con:
            create_tables(con)
            self._write_states(con)
            outcomes = self._states.outcomes()
            counters = insert_counters(con, self._spool)
            losses = [*trace_stats(self._spool, self._decoded()), *counters.losses]
            rows = {
                "thread_state": self._states.row_count,
                "thread": sum(
                    _insert_threads(con, batch) for batch in self._tree.thread_batches(outcomes)
                ),
                "process": self._write_processes(con, outcomes),
                "clock": _insert_clock(con, self.scan.clocks()),
                "meta": _insert_meta(con, self._meta(outcomes) | counters.meta),
                "counter": counters.rows,
            }
            operations, gpu = self._write_shims(con)
            events = EventWriter(con, self.scan).write(self._facts, self._progress)
            rows |= operations.rows | gpu.rows | events.rows
            losses += [*operations.losses, *gpu.losses]
            losses += [*event_losses(self._facts, events.malformed_count)]
            losses += window_losses(self._facts)
            rows |= insert_calibration_windows(con, self._facts, self._end_ns(outcomes))
            rows |= {
                "trace_stat": _insert_losses(con, losses),
                "capture": self._write_capture(con, operations, gpu) + counters.capture_rows,
            }
            rows["calibration_measured"] = insert_calibration(
                con, self._spool.directory, self._spool.session
            )
            complete(con)
            self._progress("store", 0, 1)
            con.execute("CHECKPOINT")
            self._progress("store", 1, 1)
        expected = Expected(
            state_rows=self._states.row_count,
            state_totals=self._states.totals(),
            rows=rows,
            lifetime_ns=exact_sum(outcomes["end_ns"]) - exact_sum(outcomes["start_ns"]),
            lost_ns=exact_sum(outcomes["lost_ns"]),
        )
        self._progress("verify", 0, 1)
        config = {**self._config, "access_mode": "READ_ONLY"}
        with contextlib.closing(duckdb.connect(str(partial), config=config)) as con:
            verify(con, expected)
        self._progress("verify", 1, 1)
        records = sum(self.scan.records().values()) + operations.records
        return _Written(rows, losses, records)

    def _write_capture(
        self, con: duckdb.DuckDBPyConnection, operations: Operations, gpu: GpuRecording
    ) -> int:
        session = self._spool.session
        rows = insert_capture(con, session, operations.processes)
        rows += insert_gpu_capture(con, session, gpu.verdicts)
        return rows + insert_event_capture(con, session, self._facts, self._tree.lives())

    def _set_gil(self) -> None:
        ranges = gil_ranges(self._tree.lives(), self._facts.interpreters)
        for position, process_id in enumerate(self._tree.process_ids.tolist() if ranges else ()):
            if process_id in ranges:
                self._states.set_gil(position, ranges[process_id])

    def _write_shims(self, con: duckdb.DuckDBPyConnection) -> tuple[Operations, GpuRecording]:
        path = self._spool.shim_path
        if path is None:
            return Operations({}, [], [], 0), GpuRecording({}, [], [])
        execs = [(ts_ns, thread_id) for ts_ns, thread_id, *_ in self.scan.execs()]
        is_clean = self._spool.end_ns > 0
        writer = OperationWriter(
            con, path, is_clean=is_clean, execs=execs,
            other_clocks=processes_with(self._facts.other_clocks, self._tree.lives()),
        )  # fmt: skip
        operations = writer.write(self._progress)
        host = self._spool.session.get("host")
        gpu = GpuWriter(
            con, writer.scan, writer.lives, host=host if isinstance(host, str) else None,
            is_clean=is_clean,
        )  # fmt: skip
        return operations, gpu.write(self._progress)

    def _write_states(self, con: duckdb.DuckDBPyConnection) -> None:
        sort_bytes = 0
        while self._states.prepare(_STEP_BYTES):
            sort_bytes = min(sort_bytes + _STEP_BYTES, self.scan.file_bytes)
            self._progress("sort", sort_bytes, self.scan.file_bytes)
        # A cycle makes three rows at most; how many exactly is known at the end.
        cycles = int(self.scan.threads()["cycles"].sum())
        estimate = max(3 * cycles, 1)
        while (batch := self._states.next_batch()) is not None:
            _insert_states(con, batch)
            self._progress("write", min(self._states.row_count, estimate - 1), estimate)
        self._progress("write", estimate, estimate)

    def _write_processes(self, con: duckdb.DuckDBPyConnection, outcomes: NDArray[np.void]) -> int:
        host = self._spool.session.get("host")
        columns = self._tree.process_columns(outcomes, host if isinstance(host, str) else None)
        return _insert_processes(con, columns)

    def _decoded(self) -> Decoded:
        return Decoded(
            records=self.scan.records(),
            whole_bytes=self.scan.position,
            file_bytes=self.scan.file_bytes,
            malformed_count=self.scan.malformed_count,
            unknown_kind_count=self.scan.unknown_kind_count,
            unknown_start_count=self._tree.unknown_start_count,
            findings=self._states.findings(),
        )

    def _end_ns(self, outcomes: NDArray[np.void]) -> int:
        last_ns = int(outcomes["end_ns"].max()) if len(outcomes) else 0
        return self._spool.end_ns or last_ns

    def _meta(self, outcomes: NDArray[np.void]) -> dict[str, str]:
        facts: dict[str, object] = {
            "tool_version": __version__,
            **self._spool.session,
            "schema_version": str(SCHEMA_VERSION),
            "ended_cleanly": self._spool.end_ns > 0,
            # Written by another process than the one that recorded.
            # Not a loss: the time of these follows from the CPU accounting of the OS kernel.
            "inferred_switch_ins": self._states.findings()["inferred_switch_in"][0],
            "recovered": self._spool.session.get("recorder_pid") != os.getpid(),
        }
        if len(outcomes):
            facts["start_ns"] = int(outcomes["start_ns"].min())
            facts["end_ns"] = self._end_ns(outcomes)
        if self._facts.rejected:
            facts["call_addresses_rejected"] = self._facts.rejected
        if self._facts.sampler:
            facts["sampler"] = self._facts.sampler
        if self._facts.always_timed:
            facts["programs_always_timed"] = True
        if self._facts.no_windows:
            facts["in_run_calibration_failed"] = self._facts.no_windows
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in facts.items()
        }


# DuckDB finds the numpy columns below by the name of the parameter that holds them.


def _insert_states(con: duckdb.DuckDBPyConnection, batch: Columns) -> None:
    con.execute(
        "INSERT INTO thread_state_coded"
        " SELECT thread_id, start_ns, end_ns, state, cpu, waker FROM batch"
    )
    con.execute(
        "INSERT INTO wait_coded SELECT thread_id, start_ns, end_ns, wait FROM batch WHERE wait > 0"
    )


def _insert_threads(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    con.execute(
        "INSERT INTO thread SELECT thread_id, process_id, nullif(tid, 0), start_ns, end_ns,"
        " nullif(name, ''), ended, lost_ns FROM batch"
    )
    return len(batch["thread_id"])


def _insert_processes(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    con.execute(
        "INSERT INTO process SELECT process_id, nullif(host, ''), nullif(pid, 0),"
        " nullif(parent_process_id, 0), start_ns, end_ns, nullif(name, ''), nullif(command, ''),"
        " nullif(exit_code, -1), nullif(born_ns, 0) FROM batch"
    )
    return len(batch["process_id"])


def _insert_clock(con: duckdb.DuckDBPyConnection, clocks: NDArray[np.void]) -> int:
    batch = {name: np.ascontiguousarray(clocks[name]) for name in clocks.dtype.names or ()}
    return _insert_clock_columns(con, batch)


def _insert_clock_columns(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    con.execute("INSERT INTO clock SELECT ts_ns, realtime_ns, boottime_ns FROM batch")
    return len(batch["ts_ns"])


def _insert_losses(con: duckdb.DuckDBPyConnection, losses: list[TraceStat]) -> int:
    for loss in losses:
        con.execute(
            "INSERT INTO trace_stat VALUES (?, ?, ?, ?, ?)",
            [loss.kind, loss.source, loss.count, loss.first_ns, loss.remedy],
        )
    return len(losses)


def _insert_meta(con: duckdb.DuckDBPyConnection, facts: dict[str, str]) -> int:
    for key, value in facts.items():
        con.execute("INSERT INTO meta VALUES (?, ?)", [key, value])
    return len(facts)
