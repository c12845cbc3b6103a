"""What shims report once per process: whether GPU activity is recorded, its GPUs, its streams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace._ingest import (
    shim_gpu_clocks,
    shim_gpu_has_calls,
    shim_gpu_lost,
    shim_gpu_statuses,
    shim_gpu_streams,
)
from rlscope_trace.ingest.store.cupti_intervals import insert_intervals
from rlscope_trace.ingest.store.gpu_devices import INT64_MAX, GpuDevices, int32, int64
from rlscope_trace.ingest.store.gpu_reasons import reason_of
from rlscope_trace.ingest.store.gpu_verdicts import (
    CALL_KINDS,
    ON,
    WORK_KINDS,
    Program,
    costs_records,
    kinds_of,
    verdicts_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlscope_trace._ingest import ShimGpuReader, ShimScan
    from rlscope_trace.ingest.store.thread_lives import ThreadLives
    from rlscope_trace.ingest.writer.coverages import KindCoverage
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

# Of rls_shim_gpu_lost.what.
NOT_FETCHED = 4
_STATES = {ON: "on", 2: "off", 3: "refused"}
# By so much may the wall clock run fast or slow while nobody looks.
_SLEW_PPM = 500


class GpuFacts:
    """The facts of one spool, with the processes they belong to."""

    def __init__(
        self, trace: TraceWriter, scan: ShimScan, lives: ThreadLives, host: str | None
    ) -> None:
        """`host`: the machine that was recorded."""
        self._trace = trace
        self._scan = scan
        self._lives = lives
        self.devices = GpuDevices(scan, host)
        self._pids = scan.source_pids()
        self._statuses: list[dict[str, Any]] = shim_gpu_statuses(scan)
        self._last = {status["source"]: status for status in self._statuses}

    def write(self) -> None:
        """Fill gpu_status, gpu_device and gpu_stream, and when CUPTI reported calls."""
        self._trace.insert_rows("gpu_status", list(self._status_rows()))
        self._trace.insert_rows("gpu_device", list(self.devices.rows()))
        self._trace.insert_rows("gpu_stream", list(self._stream_rows()))
        insert_intervals(self._trace.con, self._call_statuses(), self._lives)

    def has_calls(self, source: int) -> bool:
        """Tell whether the calls of a process were recorded, so that each activity has one."""
        status = self._last.get(source)
        if self.has_other_clock(source):
            return False
        if status is not None and status["state"] == ON:
            return bool(status["recorded"] & CALL_KINDS)
        return bool(shim_gpu_has_calls(self._scan, source))

    def has_work(self, source: int) -> bool:
        """Tell whether the GPU activity of a process was recorded, so that each call has some."""
        status = self._last.get(source)
        return not self.has_other_clock(source) and (
            status is not None and status["state"] == ON and bool(status["recorded"] & WORK_KINDS)
        )

    def has_other_clock(self, source: int) -> bool:
        """Tell whether the times of a process are not ours: none of its records is kept."""
        return self._lives.has_other_clock(self._pids[source], self._seen_ns(source))

    def is_late(self, source: int) -> bool:
        """Tell whether a process had run before its GPU activity was recorded."""
        status = self._last.get(source)
        return status is not None and bool(status["is_late"])

    def failures(self) -> list[int]:
        """Return when calls of CUPTI failed that cost records, by CLOCK_MONOTONIC in ns."""
        return [
            status["ts_ns"] for status in self._statuses
            if costs_records(status) and not self.has_other_clock(status["source"])
        ]  # fmt: skip

    def verdicts(self, reader: ShimGpuReader) -> list[KindCoverage]:
        """Return what was measured of each process that reported any, after all has been read."""
        cut = {source for source, what, *_ in shim_gpu_lost(self._scan) if what == NOT_FETCHED}
        programs: dict[int, list[Program]] = {}
        for source, status in sorted(self._last.items(), key=lambda reported: reported[1]["ts_ns"]):
            process_id = self._process(source, status["ts_ns"])
            if process_id is not None:
                clock = self._clock_facts(source, reader)
                program = Program(status, clock, has_rest=source in cut)
                programs.setdefault(process_id, []).append(program)
        other_clock = (Fact("other_clock"),)
        return [
            replace(verdict, measured=False, facts=other_clock)
            if verdict.measured and self._lives.is_by_other_clock(process_id)
            else verdict
            for process_id, reported in programs.items()
            for verdict in verdicts_of(process_id, reported, self._unheard_ns(process_id, reported))
        ]

    def _unheard_ns(self, process_id: int, programs: Sequence[Program]) -> int | None:
        """Return when a process became a program that was silent, after one with CUPTI."""
        first_ns = min((one.status["ts_ns"] for one in programs if one.is_on), default=None)
        if first_ns is None:
            return None
        execs_ns = self._lives.execs_ns(process_id)
        ends_ns = [*execs_ns[1:], float("inf")]
        for exec_ns, end_ns in zip(execs_ns, ends_ns, strict=False):
            is_heard = any(exec_ns <= one.status["ts_ns"] < end_ns for one in programs)
            if exec_ns > first_ns and not is_heard:
                return exec_ns
        return None

    def _call_statuses(self) -> list[tuple[int, int, bool, bool]]:
        """Return process_id, time, whether CUPTI reported calls from then on, and is_late."""
        rows = []
        for status in self._statuses:
            process_id = self._process(status["source"], status["ts_ns"])
            is_on = status["state"] == ON and bool(status["recorded"] & CALL_KINDS)
            # Calls reported by another clock are not in the trace; those that probes saw are.
            if process_id is not None and not self._lives.is_by_other_clock(process_id):
                ts_ns = min(status["ts_ns"], INT64_MAX)
                rows.append((process_id, ts_ns, is_on, bool(status["is_late"])))
        return rows

    def _seen_ns(self, source: int) -> int:
        """Return an instant at which the process was there; 0: none is known."""
        status = self._last.get(source)
        return 0 if status is None else int(status["ts_ns"])

    def _process(self, source: int, ts_ns: int) -> int | None:
        life = self._lives.process_reported(self._pids[source], ts_ns)
        return None if life is None else life.process_id

    def _status_rows(self) -> Iterator[tuple[Any, ...]]:
        for status in self._statuses:
            process_id = self._process(status["source"], status["ts_ns"])
            if process_id is None:
                continue
            is_dated = not self._lives.is_by_other_clock(process_id)
            reason = reason_of(status)
            yield (
                process_id,
                (int64(status["ts_ns"]) or None) if is_dated else None,
                _STATES.get(status["state"], "refused"),
                reason and reason.code,
                reason and reason.subject,
                int32(status["code"]) or None,
                status["library"],
                int32(status["api"]) or None,
                int32(status["driver"]) or None,
                kinds_of(status["recorded"]) or None,
                kinds_of(status["refused"]) or None,
                status["is_late"],
                ("monotonic" if status["has_clock"] else "converted")
                if status["state"] == ON
                else None,
            )

    def _stream_rows(self) -> Iterator[tuple[Any, ...]]:
        for source, device, context, stream, name in shim_gpu_streams(self._scan):
            process_id = self._process(source, self._seen_ns(source))
            if process_id is not None:
                yield process_id, self.devices.number(source, device), context, stream, name

    def _clock_facts(self, source: int, reader: ShimGpuReader) -> tuple[Fact, ...]:
        """Return how exact times are that had to be converted; nothing: none had to."""
        if not reader.converted().get(source):
            return ()
        _, error_ns, was_set = shim_gpu_clocks(self._scan)[source]
        error_ns = min(max(error_ns, 1), INT64_MAX)
        found = Fact("gpu_clock_converted", count=_SLEW_PPM, duration_ns=error_ns)
        return (found, Fact("gpu_clock_set")) if was_set else (found,)
