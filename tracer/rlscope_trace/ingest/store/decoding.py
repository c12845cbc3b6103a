"""One spool on its way into one trace: every part of it in its turn."""

import json
import os

import numpy as np
from numpy.typing import NDArray

from rlscope_trace._ingest import SpoolScan, StateRows
from rlscope_trace.ingest.store.counters import Counters, insert_counters
from rlscope_trace.ingest.store.coverage_events import add_event_coverage, processes_with
from rlscope_trace.ingest.store.coverage_rows import add_operation_coverage
from rlscope_trace.ingest.store.event_losses import event_losses
from rlscope_trace.ingest.store.events import EventWriter
from rlscope_trace.ingest.store.gil_ranges import gil_ranges
from rlscope_trace.ingest.store.gpu import GpuRecording, GpuWriter
from rlscope_trace.ingest.store.gpu_coverage import add_gpu_coverage
from rlscope_trace.ingest.store.operations import Operations, OperationWriter
from rlscope_trace.ingest.store.os_counters import OsCounters, insert_os_counters
from rlscope_trace.ingest.store.probe_facts import read_probe_facts
from rlscope_trace.ingest.store.process_titles import titles_of
from rlscope_trace.ingest.store.processes import ProcessTree
from rlscope_trace.ingest.store.ray_methods import ray_methods
from rlscope_trace.ingest.store.ray_processes import RayProcesses, of_other_jobs
from rlscope_trace.ingest.store.ray_tasks import RayTasks, ray_tasks
from rlscope_trace.ingest.store.schedule_inserts import (
    insert_clock,
    insert_processes,
    insert_states,
    insert_threads,
)
from rlscope_trace.ingest.store.stats import Decoded, trace_stats
from rlscope_trace.ingest.store.verify import check_states
from rlscope_trace.ingest.writer.coverages import Coverages
from rlscope_trace.ingest.writer.database_file import BATCH_ROWS
from rlscope_trace.ingest.writer.stored import totals_of
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.spool.costs import costs_of_spool, rows_of
from rlscope_trace.spool.directory import Spool

_STEP_BYTES = 64 << 20


class Decoding:
    """One spool on its way into one trace."""

    def __init__(self, spool: Spool, trace: TraceWriter) -> None:
        """trace: one with empty tables."""
        self._spool = spool
        self._trace = trace
        progress = self._progress = trace.progress
        self.scan = SpoolScan(
            str(spool.records_path),
            end_ns=spool.end_ns,
            latest_ns=spool.latest_ns,
            from_ns=spool.kept_from_ns,
        )
        while self.scan.advance(_STEP_BYTES):
            progress("scan", self.scan.position, self.scan.file_bytes)
        progress("scan", self.scan.file_bytes, self.scan.file_bytes)
        self._left_out = of_other_jobs(spool.session.get("ray"))
        self._tree = ProcessTree(
            self.scan.threads(), self.scan.execs(), end_ns=spool.end_ns, left_out=self._left_out
        )
        self._states = StateRows(
            self.scan,
            slots=self._tree.slots,
            # Where the user says that there is room: a retry with another -o moves it as well.
            scratch_directory=str(trace.folder),
            batch_rows=BATCH_ROWS,
        )
        self._states.set_left_out(self._tree.left_out)
        self._facts = read_probe_facts(spool.probes_path)
        self._ray_tasks = RayTasks()
        self._set_gil()

    def write(self) -> None:
        """Fill the tables, and say what the verification is to find."""
        trace, spool, facts = self._trace, self._spool, self._facts
        self._write_states()
        outcomes = self._states.outcomes()
        counters = insert_counters(trace, spool)
        of_os = insert_os_counters(trace, spool, self._tree.lives())
        for batch in self._tree.thread_batches(outcomes):
            insert_threads(trace, batch)
        self._write_processes(outcomes)
        insert_clock(trace, self.scan.clocks())
        trace.insert_meta(self._meta(outcomes) | counters.meta)
        operations, gpu = self._write_shims()
        events = EventWriter(trace, self.scan).write(facts)
        trace.insert_losses([*trace_stats(spool, self._decoded()), *counters.losses, *of_os.losses])
        trace.insert_losses([*operations.losses, *gpu.losses])
        trace.insert_losses(event_losses(facts, events, is_clean=spool.end_ns > 0))
        self._write_capture(operations, gpu, counters, of_os)
        costs = costs_of_spool(spool.directory, spool.session)
        trace.insert_rows("calibration_measured", rows_of(costs))
        trace.records = sum(self.scan.records().values()) + operations.records
        self._expect(outcomes)

    def _expect(self, outcomes: NDArray[np.void]) -> None:
        """Let the verification compare the states and the threads with what the decoder made."""
        self._trace.expect("thread_state_coded", self._states.totals())
        names = ("start_ns", "end_ns", "lost_ns")
        self._trace.expect("thread", totals_of({name: outcomes[name] for name in names}))
        self._trace.check_at_end(check_states)

    def _write_capture(
        self, operations: Operations, gpu: GpuRecording, counters: Counters, of_os: OsCounters
    ) -> None:
        session, con = self._spool.session, self._trace.con
        coverages = Coverages()
        if counters.coverage is not None:
            coverages.set(counters.coverage)
        coverages.set(of_os.coverage)
        add_operation_coverage(coverages, con, session, operations.processes)
        add_gpu_coverage(coverages, con, session, gpu.verdicts)
        add_event_coverage(coverages, con, session, self._facts, self._tree.lives())
        coverages.set(*operations.phase_failures.coverages(self._tree.lives()))
        coverages.set(*self._ray_tasks.coverages())
        coverages.insert(self._trace)

    def _set_gil(self) -> None:
        ranges = gil_ranges(self._tree.lives(), self._facts.interpreters)
        for position, process_id in enumerate(self._tree.process_ids.tolist() if ranges else ()):
            if process_id in ranges:
                self._states.set_gil(position, ranges[process_id])

    def _write_shims(self) -> tuple[Operations, GpuRecording]:
        path = self._spool.shim_path
        if path is None:
            return Operations([], [], 0), GpuRecording([], [])
        self._ray_tasks = self._write_ray()
        execs = [(ts_ns, thread_id) for ts_ns, thread_id, *_ in self.scan.execs()]
        spool = self._spool
        writer = OperationWriter(
            self._trace, path, end_ns=spool.end_ns, latest_ns=spool.latest_ns, execs=execs,
            other_clocks=processes_with(self._facts.other_clocks, self._tree.lives()),
            kept_from_ns=spool.kept_from_ns, tasks=self._ray_tasks,
            left_out=self._left_out,
        )  # fmt: skip
        operations = writer.write()
        operations.python_names.write(self._trace, self._tree.lives())
        operations.python_locks.write(self._trace)
        host = spool.session.get("host")
        gpu = GpuWriter(
            self._trace, writer.scan, writer.lives, host=host if isinstance(host, str) else None,
            end_ns=spool.end_ns,
        )  # fmt: skip
        return operations, gpu.write()

    def _write_ray(self) -> RayTasks:
        """Write whose the processes of Ray are; return what they ran."""
        reported, con = self._spool.session.get("ray"), self._trace.con
        ray = RayProcesses(reported, con)
        tasks = ray_tasks(self.scan, con, ray.kinds())
        tasks.methods = ray_methods(reported, con, tasks.overlapping)
        ray.write(self._trace, tasks)
        return tasks

    def _write_states(self) -> None:
        sort_bytes = 0
        while self._states.prepare(_STEP_BYTES):
            sort_bytes = min(sort_bytes + _STEP_BYTES, self.scan.file_bytes)
            self._progress("sort", sort_bytes, self.scan.file_bytes)
        # A cycle makes three rows at most; how many exactly is known at the end.
        cycles = int(self.scan.threads()["cycles"].sum())
        estimate = max(3 * cycles, 1)
        while (batch := self._states.next_batch()) is not None:
            insert_states(self._trace, batch)
            self._progress("write", min(self._states.row_count, estimate - 1), estimate)
        self._progress("write", estimate, estimate)

    def _write_processes(self, outcomes: NDArray[np.void]) -> None:
        host = self._spool.session.get("host")
        titles = titles_of(self._tree.lives(), self._facts.titles)
        columns = self._tree.process_columns(
            outcomes, host if isinstance(host, str) else None, titles
        )
        insert_processes(self._trace, columns)

    def _decoded(self) -> Decoded:
        return Decoded(
            records=self.scan.records(),
            whole_bytes=self.scan.position,
            file_bytes=self.scan.file_bytes,
            malformed_count=self.scan.malformed_count,
            unknown_kind_count=self.scan.unknown_kind_count,
            unknown_start_count=self._tree.unknown_start_count,
            unread_titles=self.scan.unread_titles,
            findings=self._states.findings(),
        )

    def _end_ns(self, outcomes: NDArray[np.void]) -> int:
        last_ns = int(outcomes["end_ns"].max()) if len(outcomes) else 0
        return self._spool.end_ns or last_ns

    def _meta(self, outcomes: NDArray[np.void]) -> dict[str, str]:
        facts: dict[str, object] = {
            **self._spool.session,
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
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in facts.items()
            # Has tables of its own.
            if key != "ray"
        }
