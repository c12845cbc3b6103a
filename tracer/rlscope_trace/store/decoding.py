"""One spool on its way into one database file: every part of it in its turn."""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_trace import __version__
from rlscope_trace._capture import SpoolScan, StateRows
from rlscope_trace.store.calibration import insert_calibration
from rlscope_trace.store.calibration_windows import insert_calibration_windows, window_losses
from rlscope_trace.store.capture_events import add_event_capture, processes_with
from rlscope_trace.store.capture_rows import add_operation_capture
from rlscope_trace.store.captures import Captures
from rlscope_trace.store.counters import Counters, insert_counters
from rlscope_trace.store.database_file import (
    BATCH_ROWS,
    DATABASE_NAME,
    Complete,
    ReportProgress,
    configuration,
)
from rlscope_trace.store.event_losses import event_losses
from rlscope_trace.store.events import EventWriter
from rlscope_trace.store.gil_ranges import gil_ranges
from rlscope_trace.store.gpu import GpuRecording, GpuWriter
from rlscope_trace.store.gpu_capture import add_gpu_capture
from rlscope_trace.store.operations import Operations, OperationWriter
from rlscope_trace.store.probe_facts import read_probe_facts
from rlscope_trace.store.processes import ProcessTree
from rlscope_trace.store.schedule_inserts import (
    insert_clock,
    insert_meta,
    insert_processes,
    insert_states,
    insert_threads,
)
from rlscope_trace.store.spool import Spool
from rlscope_trace.store.stats import (
    Decoded,
    TraceStat,
    insert_losses,
    stats_from,
    trace_stats,
)
from rlscope_trace.store.verify import Expected, exact_sum, verify

_STEP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Written:
    """What is in the file."""

    rows: dict[str, int]
    """Rows by table."""
    losses: list[TraceStat]
    records: int
    """Records read from the spool."""


class Decoding:
    """One spool on its way into one database file."""

    def __init__(self, spool: Spool, folder: Path, progress: ReportProgress) -> None:
        """folder: a private one for the database, and for what is written on the way to it."""
        self._spool = spool
        self._progress = progress
        self._config = configuration(folder)
        self._database = str(folder / DATABASE_NAME)
        self.scan = SpoolScan(
            str(spool.records_path), end_ns=spool.end_ns, latest_ns=spool.latest_ns
        )
        while self.scan.advance(_STEP_BYTES):
            progress("scan", self.scan.position, self.scan.file_bytes)
        progress("scan", self.scan.file_bytes, self.scan.file_bytes)
        self._tree = ProcessTree(self.scan.threads(), self.scan.execs(), end_ns=spool.end_ns)
        self._states = StateRows(
            self.scan,
            slots=self._tree.slots,
            # Where the user says that there is room: a retry with another -o moves it as well.
            scratch_directory=str(folder),
            batch_rows=BATCH_ROWS,
        )
        self._facts = read_probe_facts(spool.probes_path)
        self._set_gil()

    def write(self, complete: Complete) -> Written:
        """Write, close, reopen and verify the file."""
        with contextlib.closing(duckdb.connect(self._database, config=self._config)) as con:
            create_tables(con)
            self._write_states(con)
            outcomes = self._states.outcomes()
            counters = insert_counters(con, self._spool)
            losses = [*trace_stats(self._spool, self._decoded()), *counters.losses]
            rows = {
                "thread_state": self._states.row_count,
                "thread": sum(
                    insert_threads(con, batch) for batch in self._tree.thread_batches(outcomes)
                ),
                "process": self._write_processes(con, outcomes),
                "clock": insert_clock(con, self.scan.clocks()),
                "meta": insert_meta(con, self._meta(outcomes) | counters.meta),
                "counter": counters.rows,
            }
            operations, gpu = self._write_shims(con)
            events = EventWriter(con, self.scan).write(self._facts, self._progress)
            rows |= operations.rows | gpu.rows | events.rows
            losses += [*operations.losses, *gpu.losses]
            losses += event_losses(self._facts, events, is_clean=self._spool.end_ns > 0)
            losses += window_losses(self._facts)
            rows |= insert_calibration_windows(con, self._facts, self._end_ns(outcomes))
            rows |= {
                "trace_stat": insert_losses(con, losses),
                "capture": self._write_capture(con, operations, gpu, counters),
            }
            rows["calibration_measured"] = insert_calibration(
                con, self._spool.directory, self._spool.session
            )
            complete(con)
            losses += self._told_while_derived(con, rows)
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
        with contextlib.closing(duckdb.connect(self._database, config=config)) as con:
            verify(con, expected)
        self._progress("verify", 1, 1)
        records = sum(self.scan.records().values()) + operations.records
        return Written(rows, losses, records)

    def _told_while_derived(
        self, con: duckdb.DuckDBPyConnection, rows: dict[str, int]
    ) -> list[TraceStat]:
        """Return what could not be worked out of the trace, and count it among the rows."""
        told = stats_from(con, rows["trace_stat"])
        rows["trace_stat"] += len(told)
        return told

    def _write_capture(
        self,
        con: duckdb.DuckDBPyConnection,
        operations: Operations,
        gpu: GpuRecording,
        counters: Counters,
    ) -> int:
        session = self._spool.session
        captures = Captures()
        if counters.capture is not None:
            captures.set(counters.capture)
        add_operation_capture(captures, con, session, operations.processes)
        add_gpu_capture(captures, con, session, gpu.verdicts)
        add_event_capture(captures, con, session, self._facts, self._tree.lives())
        captures.set(*operations.phase_failures.captures(self._tree.lives()))
        return captures.insert(con)

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
            insert_states(con, batch)
            self._progress("write", min(self._states.row_count, estimate - 1), estimate)
        self._progress("write", estimate, estimate)

    def _write_processes(self, con: duckdb.DuckDBPyConnection, outcomes: NDArray[np.void]) -> int:
        host = self._spool.session.get("host")
        columns = self._tree.process_columns(outcomes, host if isinstance(host, str) else None)
        return insert_processes(con, columns)

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
            # Not a loss: the time of these follows from the CPU accounting of the OS kernel.
            "inferred_switch_ins": self._states.findings()["inferred_switch_in"][0],
            # Written by another process than the one that recorded.
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
