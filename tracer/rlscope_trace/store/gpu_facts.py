"""What shims told once of each process: whether GPU activity is recorded, its GPUs, its streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_trace._capture import (
    shim_gpu_clocks,
    shim_gpu_devices,
    shim_gpu_has_calls,
    shim_gpu_lost,
    shim_gpu_statuses,
    shim_gpu_streams,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import duckdb

    from rlscope_trace._capture import ShimGpuReader, ShimScan
    from rlscope_trace.store.thread_lives import ThreadLives

# Of rls_shim_gpu_lost.what.
NOT_FETCHED = 4
_REST = "CUPTI still held records when it ended or was left: not the last 0.4 s, at most"
_ON, _OFF, _REFUSED = 1, 2, 3
_STATES = {_ON: "on", _OFF: "off", _REFUSED: "refused"}
# Of CUPTI, as far as any of them is asked for.
_KINDS = {
    1: "memcpy", 2: "memset", 3: "kernel", 4: "driver", 5: "runtime", 8: "device", 9: "context",
    10: "concurrent_kernel", 11: "name", 17: "overhead", 22: "memcpy2", 36: "cuda_event",
    37: "stream", 38: "synchronization", 39: "external_correlation", 45: "memory",
    46: "pcie", 48: "internal_launch_api", 49: "memory2", 50: "memory_pool", 51: "graph_trace",
}  # fmt: skip
_KERNEL_KINDS = (1 << 3) | (1 << 10)
_CALL_KINDS = (1 << 4) | (1 << 5)
_MEMORY_KINDS = (1 << 45) | (1 << 49)
_GRAPH_KIND = 1 << 51
# Without these a trace lacks GPU work.
_WORK_KINDS = (1 << 1) | (1 << 2) | (1 << 10) | (1 << 22)
# By so much may the wall clock run fast or slow while nobody looks.
_SLEW_PPM = 500


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """What was measured of a process: a row of the table capture."""

    process_id: int
    kind: str
    measured: bool
    reason: str | None


class GpuFacts:
    """The facts of one spool, with the processes they belong to."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, scan: ShimScan, lives: ThreadLives, host: str | None
    ) -> None:
        """`host`: the machine that was recorded."""
        self._con = con
        self._scan = scan
        self._lives = lives
        self._host = host
        self._pids = scan.source_pids()
        self._statuses: list[dict[str, Any]] = shim_gpu_statuses(scan)

    def write(self) -> dict[str, int]:
        """Fill gpu_status, gpu_device and gpu_stream; return their rows."""
        rows: dict[str, list[tuple[Any, ...]]] = {
            "gpu_status": list(self._status_rows()),
            "gpu_device": list(self._device_rows()),
            "gpu_stream": list(self._stream_rows()),
        }
        for table, values in rows.items():
            for row in values:
                marks = ", ".join("?" * len(row))
                self._con.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608
        return {table: len(values) for table, values in rows.items()}

    def has_calls(self, source: int) -> bool:
        """Tell whether the calls of a process were recorded, so that each activity has one."""
        status = self._last_status(source)
        if status is not None and status["state"] == _ON:
            return bool(status["recorded"] & _CALL_KINDS)
        return bool(shim_gpu_has_calls(self._scan, source))

    def verdicts(self, reader: ShimGpuReader) -> list[GpuVerdict]:
        """Return what was measured of each process that told of it, after all has been read."""
        by_process: dict[int, list[GpuVerdict]] = {}
        cut = {source for source, what, *_ in shim_gpu_lost(self._scan) if what == NOT_FETCHED}
        for source in range(len(self._pids)):
            status = self._last_status(source)
            process_id = self._process(source, self._seen_ns(source))
            if process_id is None or status is None:
                continue
            clock = self._clock_words(source, reader)
            # Of several programs that a process was one after the other, one that measured counts.
            rest = _REST if source in cut else None
            found = list(_verdicts(process_id, status, clock, rest))
            known = by_process.get(process_id)
            if known is None or any(verdict.measured for verdict in found):
                by_process[process_id] = found
        return [verdict for found in by_process.values() for verdict in found]

    def _last_status(self, source: int) -> dict[str, Any] | None:
        found = [status for status in self._statuses if status["source"] == source]
        return found[-1] if found else None

    def _seen_ns(self, source: int) -> int:
        """Return an instant at which the process was there; 0: none is known."""
        status = self._last_status(source)
        return 0 if status is None else int(status["ts_ns"])

    def _process(self, source: int, ts_ns: int) -> int | None:
        life = self._lives.process_told(self._pids[source], ts_ns)
        return None if life is None else life.process_id

    def _status_rows(self) -> Iterator[tuple[Any, ...]]:
        for status in self._statuses:
            process_id = self._process(status["source"], status["ts_ns"])
            if process_id is None:
                continue
            yield (
                process_id,
                status["ts_ns"] or None,
                _STATES.get(status["state"], "refused"),
                status["reason"],
                _code(status["code"]),
                status["library"],
                status["api"] or None,
                status["driver"] or None,
                _kinds(status["recorded"]) or None,
                _kinds(status["refused"]) or None,
                status["is_late"],
                ("monotonic" if status["has_clock"] else "converted")
                if status["state"] == _ON
                else None,
            )

    def _device_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield each GPU once, however many processes could use it."""
        seen = set()
        for device in shim_gpu_devices(self._scan):
            capability = f"{device['major']}.{device['minor']}" if device["major"] else None
            row = (
                self._host,
                device["device"],
                device["name"],
                device["uuid"],
                device["memory_bytes"] or None,
                device["multiprocessors"] or None,
                capability,
            )
            if row not in seen:
                seen.add(row)
                yield row

    def _stream_rows(self) -> Iterator[tuple[Any, ...]]:
        for source, device, context, stream, name in shim_gpu_streams(self._scan):
            process_id = self._process(source, self._seen_ns(source))
            if process_id is not None:
                yield process_id, device, context, stream, name

    def _clock_words(self, source: int, reader: ShimGpuReader) -> str | None:
        """Say how exact times are that had to be converted; None: none had to."""
        if not reader.converted().get(source):
            return None
        _, error_ns, was_set = shim_gpu_clocks(self._scan)[source]
        words = f"times converted from CUPTI's clock, to within {max(error_ns, 1) / 1e3:,.1f} us"
        words += f" (and {_SLEW_PPM} ppm before the first and after the last of its readings)"
        return f"{words}; that clock was set meanwhile" if was_set else words


def _verdicts(
    process_id: int, status: Mapping[str, Any], clock: str | None, rest: str | None
) -> Iterator[GpuVerdict]:
    if status["state"] != _ON:
        reason = status["reason"] or "CUPTI could not be started"
        yield GpuVerdict(process_id, "cuda_call", measured=False, reason=reason)
        yield GpuVerdict(process_id, "gpu_activity", measured=False, reason=reason)
        return
    recorded, refused = status["recorded"], status["refused"]
    late = "the process had run before: not what came until then" if status["is_late"] else None
    # A call of CUPTI that failed without a kind being refused: there may be fewer rows, or none.
    failed = None if refused else status["reason"]
    has_calls = bool(recorded & _CALL_KINDS)
    lacking = _lacking(refused & _CALL_KINDS)
    reason = _words(late, lacking, rest, also=[failed]) if has_calls else lacking or status["reason"]
    yield GpuVerdict(process_id, "cuda_call", measured=has_calls, reason=reason)
    if recorded & (_KERNEL_KINDS | _GRAPH_KIND):
        parts = [late, _lacking(refused & _WORK_KINDS), rest]
        told = _words(*parts, also=[_graphs(recorded), clock, failed])
        yield GpuVerdict(process_id, "gpu_activity", measured=True, reason=told)
    else:
        why = _lacking(refused) or status["reason"] or "CUPTI records no kernels"
        yield GpuVerdict(process_id, "gpu_activity", measured=False, reason=why)
    if recorded & _MEMORY_KINDS:
        yield GpuVerdict(process_id, "gpu_memory", measured=True, reason=_words(late, rest))


def _words(*parts: str | None, also: list[str | None] | None = None) -> str:
    """Return how something was measured: by CUPTI, what it lacks, and what else is to be known."""
    lacking = [part for part in parts if part]
    known = [part for part in also or [] if part]
    if lacking:
        return f"in part: {'; '.join([*lacking, *known])}"
    return "; ".join(["CUPTI", *known])


def _lacking(refused: int) -> str | None:
    return f"CUPTI refused {_kinds(refused)}" if refused else None


def _graphs(recorded: int) -> str | None:
    if not recorded & _GRAPH_KIND:
        return None
    return "a CUDA graph is one activity: its kernels were not recorded one by one"


def _kinds(bits: int) -> str:
    """Name the kinds of CUPTI records that a mask holds."""
    return ", ".join(_KINDS.get(bit, str(bit)) for bit in range(64) if bits >> bit & 1)


def _code(code: int) -> int | None:
    """Return what a call returned as the table holds it; None: none failed."""
    return code if 0 < code <= 0x7FFFFFFF else None
