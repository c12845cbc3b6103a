"""Builds small trace databases for tests, from the real schema and the real views.

builder = TraceBuilder(tmp_path / "trace.duckdb")
process = builder.process(pid=100, name="python")
builder.thread(process, tid=100, states=[run(5, cpu=0), sleep(10), woken(2, by=INTERRUPT)])
path = builder.write()
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow

from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.facts.losses import LOSSES
from rlscope_analysis.schema.facts.qualities import GOOD, Quality
from rlscope_analysis.schema.vocabulary import (
    SCHEMA_VERSION,
    THREAD_STATES,
)
from rlscope_analysis.views import install_views
from rlscope_trace.ingest.writer.coverages import KindCoverage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlscope_analysis.schema.facts.fact import Fact

REPOSITORY = Path(__file__).resolve().parents[2]

RUNNING, RUNNABLE, SLEEPING, BLOCKED, LOST = THREAD_STATES
NOBODY, INTERRUPT, OUTSIDE, UNKNOWN, TIMER, DEVICE = 0, -1, -2, -3, -4, -5


def insert_rows(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]
) -> None:
    """Write rows as columns: one by one each takes half a millisecond."""
    if not rows:
        return
    columns = [pyarrow.array(values) for values in zip(*rows, strict=True)]
    names = [f"c{number}" for number in range(len(columns))]
    connection.register("written", pyarrow.Table.from_arrays(columns, names=names))
    connection.execute(f"INSERT INTO {table} FROM written")
    connection.unregister("written")


@dataclass(frozen=True, slots=True)
class Interval:
    """A state for so many nanoseconds; LOST leaves a gap."""

    state: str
    length_ns: int
    cpu: int = -1
    waker: int = NOBODY


def waker_of(code: int) -> tuple[str | None, int | None]:
    """Return waker_kind and waker_thread_id of a thread_id or of one of the codes above."""
    if code > 0:
        return "thread", code
    kinds = {
        NOBODY: None, INTERRUPT: "interrupt", OUTSIDE: "outside", UNKNOWN: "unknown",
        TIMER: "timer", DEVICE: "device",
    }  # fmt: skip
    return kinds[code], None


def run(length_ns: int, *, cpu: int = 0) -> Interval:
    return Interval(RUNNING, length_ns, cpu=cpu)


def preempted(length_ns: int) -> Interval:
    """Runnable without a waker."""
    return Interval(RUNNABLE, length_ns)


def woken(length_ns: int, *, by: int) -> Interval:
    """Runnable after a wakeup by a thread_id, INTERRUPT, OUTSIDE or UNKNOWN."""
    return Interval(RUNNABLE, length_ns, waker=by)


def sleep(length_ns: int) -> Interval:
    return Interval(SLEEPING, length_ns)


def blocked(length_ns: int) -> Interval:
    return Interval(BLOCKED, length_ns)


def lost(length_ns: int) -> Interval:
    return Interval(LOST, length_ns)


@contextmanager
def _attached(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS trace (STORAGE_VERSION 'v1.2.0')")
        connection.execute("USE trace")
        yield connection


@cache
def _empty_trace(*, with_views: bool) -> Path:
    """Return a trace without rows: to copy one is ten times as fast as to make one."""
    folder = Path(tempfile.mkdtemp(prefix="rlscope-empty-trace-"))
    owner = os.getpid()

    @atexit.register
    def remove() -> None:
        if os.getpid() == owner:  # not a child that was forked
            shutil.rmtree(folder, ignore_errors=True)

    with _attached(folder / "trace.duckdb") as connection:
        create_tables(connection)
        if with_views:
            install_views(connection)
    return folder / "trace.duckdb"


@dataclass
class TraceBuilder:
    """Collects rows, then writes them in the stored order."""

    path: Path
    meta: dict[str, str | None] = field(
        default_factory=lambda: {"schema_version": str(SCHEMA_VERSION)}
    )
    with_views: bool = True
    _processes: list[tuple[object, ...]] = field(default_factory=list)
    _threads: list[tuple[object, ...]] = field(default_factory=list)
    _states: list[tuple[object, ...]] = field(default_factory=list)
    _losses: list[tuple[object, ...]] = field(default_factory=list)
    _clocks: list[tuple[object, ...]] = field(default_factory=list)
    _coverages: list[tuple[object, ...]] = field(default_factory=list)
    _operations: list[tuple[int, int, int, tuple[str | None, ...], int | None]] = field(
        default_factory=list
    )
    _async_ranges: list[tuple[object, ...]] = field(default_factory=list)
    _calls: list[tuple[int, int, int, str, str, str]] = field(default_factory=list)
    _samples: list[tuple[int, int, str | None, bool, bool, int | None]] = field(
        default_factory=list
    )
    _stacks: dict[tuple[str, ...], int] = field(default_factory=dict)
    _releases: list[tuple[int, int, int]] = field(default_factory=list)
    _other_runs: list[tuple[int, int, int, int]] = field(default_factory=list)
    _programs: dict[tuple[int, str], int] = field(default_factory=dict)
    _quotas: list[tuple[int, int]] = field(default_factory=list)
    _messages: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    _waits: list[tuple[int, int, int, str, int | None, bool | None]] = field(default_factory=list)
    _cuda_calls: list[tuple[int, int, int, str, str, int | None]] = field(default_factory=list)
    _activities: list[dict[str, Any]] = field(default_factory=list)
    _event_waits: list[tuple[object, ...]] = field(default_factory=list)
    _collectives: list[tuple[object, ...]] = field(default_factory=list)
    _devices: list[tuple[object, ...]] = field(default_factory=list)
    _counters: list[tuple[object, ...]] = field(default_factory=list)
    _os_counters: list[tuple[object, ...]] = field(default_factory=list)
    _gpu_statuses: list[tuple[object, ...]] = field(default_factory=list)
    _costs: list[tuple[object, ...]] = field(default_factory=list)
    _strings: dict[str, int] = field(default_factory=dict)
    _sites: dict[tuple[str, str], int] = field(default_factory=dict)
    _expensive: set[tuple[str, str]] = field(default_factory=set)
    _lost_calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    _site_facts: dict[int, tuple[str, int | None, int | None]] = field(default_factory=dict)
    _site_codes: dict[int, str | None] = field(default_factory=dict)

    def process(
        self,
        *,
        pid: int | None = None,
        name: str | None = "python",
        command: str | None = None,
        parent: int | None = None,
        start_ns: int | None = 0,
        end_ns: int | None = None,
        exit_code: int | None = None,
        title: str | None = None,
        python_name: str | None = None,
    ) -> int:
        """Add a process; returns its process_id."""
        process_id = len(self._processes) + 1
        self._processes.append(
            (
                process_id,
                "host",
                pid,
                parent,
                start_ns,
                end_ns,
                name,
                command,
                exit_code,
                None,
                title,
                python_name,
            )
        )
        return process_id

    def thread(
        self,
        process_id: int | None,
        *,
        states: Sequence[Interval],
        tid: int | None = None,
        name: str | None = "worker",
        start_ns: int = 0,
        ended: bool | None = True,
        end_ns: int | None = None,
    ) -> int:
        """Add a thread whose states follow each other from start_ns; returns its thread_id.

        end_ns: with no states at all, for a thread whose states nobody measured.
        """
        thread_id = len(self._threads) + 1
        now_ns = start_ns if end_ns is None else end_ns
        assert end_ns is None or not states
        for state in states:
            then_ns = now_ns + state.length_ns
            if state.state != LOST and state.length_ns:
                self._states.append(
                    (thread_id, now_ns, then_ns, state.state, state.cpu, *waker_of(state.waker))
                )
            now_ns = then_ns
        lost_ns = sum(state.length_ns for state in states if state.state == LOST)
        row = (thread_id, process_id, tid, start_ns, now_ns, name, ended, lost_ns, None)
        self._threads.append(row)
        return thread_id

    def loss(
        self,
        code: str = "ring_full",
        *,
        count: int | None = 1,
        cpu: int | None = 0,
        record: str | None = "cycle",
        ring_bytes: int | None = 32 << 20,
    ) -> None:
        """Add a row of trace_stat."""
        kind = LOSSES[code].kind
        self._losses.append((kind, code, count, None, cpu, record, None, ring_bytes, None))

    def clock(self, *, ts_ns: int, realtime_ns: int) -> None:
        """Add an instant on three clocks."""
        self._clocks.append((ts_ns, realtime_ns, ts_ns))

    def coverage(
        self,
        kind: str,
        *,
        process_id: int | None = None,
        measured: bool = True,
        fact: Fact | None = None,
    ) -> None:
        """Say that a kind of record was measured, or was not; without any: thread_state was."""
        facts = () if fact is None else (fact,)
        self._coverages += KindCoverage(process_id, kind, measured, facts).rows()

    def operation(
        self,
        thread_id: int,
        start_ns: int,
        end_ns: int,
        name: str,
        *,
        domain: str | None = None,
        category: str | None = None,
        source: str = "nvtx",
        steps: int | None = None,
        framework_name: str | None = None,
    ) -> None:
        """Add an operation; which others are around it follows from their times."""
        times = (thread_id, start_ns, end_ns)
        what = (name, domain, category, source, framework_name)
        self._operations.append((*times, what, steps))

    def async_range(
        self, process_id: int, start_ns: int, end_ns: int, name: str, domain: str | None = None
    ) -> None:
        """Add a range that belongs to no thread."""
        self._async_ranges.append((process_id, start_ns, end_ns, name, domain))

    def native_call(
        self,
        thread_id: int,
        start_ns: int,
        end_ns: int,
        layer: str,
        symbol: str = "f",
        *,
        outcome: str = "returned",
    ) -> None:
        """Add a native call; depth and the layer around it follow from the times."""
        self._calls.append((thread_id, start_ns, end_ns, layer, symbol, outcome))

    def site(
        self,
        layer: str,
        symbol: str,
        *,
        state: str = "probed",
        probed_ns: int | None = 0,
        dropped_ns: int | None = None,
        is_expensive: bool = False,
        code: str | None = None,
    ) -> int:
        """Say more of a function than that it is probed; returns its site_id."""
        if is_expensive:
            self._expensive.add((layer, symbol))
        site_id = self._sites.setdefault((layer, symbol), len(self._sites) + 1)
        self._site_facts[site_id] = (state, probed_ns, dropped_ns)
        self._site_codes[site_id] = code
        return site_id

    def lost_calls(self, layer: str, symbol: str, count: int) -> None:
        """Let the OS kernel have counted more calls of a function than there are rows."""
        self._lost_calls[layer, symbol] += count

    def sample(
        self,
        thread_id: int,
        ts_ns: int,
        layer: str | None,
        *,
        frames: Sequence[str] = (),
        in_kernel: bool = False,
        by_stack: bool = False,
    ) -> None:
        """Add a sample of a running thread; layer None: it could not be told."""
        stack_id = self._stacks.setdefault(tuple(frames), len(self._stacks) + 1) if frames else None
        self._samples.append((thread_id, ts_ns, layer, in_kernel, by_stack, stack_id))

    def gil_release(self, thread_id: int, start_ns: int, end_ns: int) -> None:
        """Add an interval in which a thread had given the GIL away."""
        self._releases.append((thread_id, start_ns, end_ns))

    def other_run(self, cpu: int, start_ns: int, end_ns: int, *, pid: int, name: str) -> None:
        """Add a stay of a program outside the trace on a CPU."""
        program_id = self._programs.setdefault((pid, name), len(self._programs) + 1)
        self._other_runs.append((cpu, start_ns, end_ns, program_id))

    def quota(self, thread_id: int, ts_ns: int) -> None:
        """Add an instant from which on a runnable thread waits for its CPU quota."""
        self._quotas.append((thread_id, ts_ns))

    def early_message(
        self, reader: int, *, sent_ns: int, read_ns: int, sender: int, channel: str = "socket"
    ) -> None:
        """Add a message that came while its reader waited for a CPU."""
        self._messages.append((reader, read_ns, sent_ns, sender, channel))

    def wait(
        self,
        thread_id: int,
        start_ns: int,
        end_ns: int,
        kind: str,
        lock: int | None = None,
        is_mutex: bool | None = None,
    ) -> None:
        """Add a wait whose reason is known; lock: the address of one."""
        self._waits.append((thread_id, start_ns, end_ns, kind, lock, is_mutex))

    def cuda_call(
        self,
        thread_id: int,
        start_ns: int,
        end_ns: int,
        *,
        kind: str = "launch",
        name: str = "cudaLaunchKernel",
        correlation_id: int | None = None,
    ) -> None:
        """Add a call of the CUDA API."""
        self._cuda_calls.append((thread_id, start_ns, end_ns, kind, name, correlation_id))

    def gpu_activity(
        self,
        process_id: int,
        start_ns: int,
        end_ns: int,
        *,
        kind: str = "kernel",
        name: str | None = "kernel",
        device_id: int = 0,
        stream_id: int | None = 7,
        correlation_id: int | None = None,
        graph_id: int | None = None,
        byte_count: int | None = None,
    ) -> None:
        """Add something a GPU did."""
        self._activities.append(
            {
                "process_id": process_id, "device_id": device_id, "context_id": 1,
                "stream_id": stream_id, "start_ns": start_ns, "end_ns": end_ns,
                "kind": kind, "name_id": self._string_id(name),
                "correlation_id": correlation_id, "graph_id": graph_id, "bytes": byte_count,
                "peer_device_id": None,
            }
        )  # fmt: skip

    def event_wait(
        self, process_id: int, correlation_id: int | None, *, stream_id: int | None,
        event_stream_id: int | None, event_correlation_id: int, device_id: int | None = 0,
    ) -> None:  # fmt: skip
        """Add a wait, of a stream or else of a thread, for an event that a stream recorded."""
        self._event_waits.append(
            (
                process_id, correlation_id, device_id, stream_id, event_stream_id,
                event_correlation_id,
            )
        )  # fmt: skip

    def collective(
        self, collective_id: int, process_id: int, start_ns: int, end_ns: int, *,
        stream_id: int | None = 7, device_id: int = 0, correlation_id: int | None = None,
    ) -> None:  # fmt: skip
        """Say that an activity is the part of a process in a collective."""
        self._collectives.append(
            (
                collective_id, self._string_id("allreduce"), self._string_id("0"),
                collective_id, process_id, device_id, stream_id,
                start_ns, end_ns, correlation_id,
            )
        )  # fmt: skip

    def device(
        self, device_id: int, name: str = "GPU", host: str = "host", uuid: str | None = None,
        *, clock_hz: int | None = None, memory_bandwidth: int | None = None,
    ) -> None:  # fmt: skip
        """Add a GPU."""
        speed = (clock_hz, memory_bandwidth)
        self._devices.append((host, device_id, name, uuid, 1 << 30, 108, "8.0", *speed))

    def gpu_status(
        self, process_id: int, ts_ns: int, *, state: str = "on", is_late: bool = False
    ) -> None:
        """Say how the recording of GPU activity went."""
        self._gpu_statuses.append((process_id, ts_ns, state, *[None] * 8, is_late, None))

    def counter(
        self,
        ts_ns: int,
        value: float,
        *,
        name: str = "utilization_gpu",
        uuid: str = "GPU-a",
        device_id: int = 0,
        host: str = "host",
    ) -> None:
        """Add a reading of a GPU."""
        self._counters.append((ts_ns, host, uuid, device_id, name, value))

    def os_counter(
        self,
        name: str,
        *readings: tuple[int, int],
        process: int | None = None,
        cgroup: str | None = None,
    ) -> None:
        """Add readings (ts_ns, value) of the machine, or of a process or a cgroup."""
        scope = "process" if process else "cgroup" if cgroup else "system"
        self._os_counters += [
            (ts_ns, "host", scope, process, cgroup, name, value) for ts_ns, value in readings
        ]

    def cost(
        self,
        event: str,
        mean_ns: float | None,
        *,
        part: str | None = "outside",
        method: str = "micro",
        error_ns: float = 0.0,
        quality: Quality = GOOD,
    ) -> None:
        """Add what an event costs beside the recording; error_ns: half of the 95 % interval."""
        ends = (None, None) if mean_ns is None else (mean_ns - error_ns, mean_ns + error_ns)
        self._costs.append(
            (event, part, method, mean_ns, error_ns, 9, *ends, False, *quality.columns)
        )

    def write(self) -> Path:
        """Write the database as the recorder does: old storage, stored order, then the views."""
        if self.path.exists():
            raise FileExistsError(self.path)
        shutil.copy(_empty_trace(with_views=self.with_views), self.path)
        with _attached(self.path) as connection:
            self._insert(connection)
        return self.path

    def fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the tables and views in the database in use, with the rows collected."""
        empty = _empty_trace(with_views=self.with_views)
        ((database,),) = connection.execute("SELECT current_database()").fetchall()
        connection.execute(f"ATTACH '{empty}' AS empty_trace (READ_ONLY)")
        connection.execute(f"COPY FROM DATABASE empty_trace TO {database} (SCHEMA)")
        connection.execute("DETACH empty_trace")
        self._insert(connection)

    def _insert(self, connection: duckdb.DuckDBPyConnection) -> None:
        process_of = {row[0]: row[1] or 0 for row in self._threads}

        def in_stored_order(row: tuple[Any, ...]) -> tuple[int, int, int, int]:
            # Equal starts: the longer one is around the others.
            return process_of[row[0]], row[0], row[1], -row[2]

        for rows in (
            self._states, self._operations, self._calls, self._waits, self._cuda_calls,
            self._releases,
        ):  # fmt: skip
            rows.sort(key=in_stored_order)  # type: ignore[attr-defined]
        self._samples.sort(key=lambda row: (process_of[row[0]], row[0], row[1]))
        self._activities.sort(key=lambda row: (row["process_id"], row["start_ns"]))
        paths, operations = self._nested_operations()
        connection.execute("BEGIN")  # else every row would be a transaction of its own
        for table, rows in (
            ("meta", list(self.meta.items())),
            ("clock", self._clocks),
            ("coverage", self._coverages or list(KindCoverage(None, "thread_state", True).rows())),
            ("process", self._processes),
            ("thread", self._threads),
            ("thread_state_coded", self._states),
            ("operation_path", paths),
            ("operation_coded", operations),
            ("async_range_coded", self._async_ranges),
            ("native_call_coded", self._nested_calls()),
            ("site", self._site_rows()),
            ("wait_coded", self._waits),
            ("gil_release_coded", self._releases),
            ("other_program", [(key, *program) for program, key in self._programs.items()]),
            ("other_run_coded", sorted(self._other_runs)),
            ("cpu_quota_wait_coded", sorted(self._quotas)),
            ("early_message", sorted(set(self._messages))),
            ("cpu_sample_coded", self._samples),
            ("stack_coded", [(key, list(frames)) for frames, key in self._stacks.items()]),
            ("cuda_call_coded", self._cuda_call_rows()),
            ("gpu_activity_coded", [tuple(row.values()) for row in self._activities]),
            ("gpu_event_wait", self._event_waits),
            ("gpu_collective_coded", self._collectives),
            ("gpu_device", self._devices),
            ("gpu_status", self._gpu_statuses),
            ("counter", self._counters),
            ("os_counter", self._os_counters),
            ("string", [(key, value) for value, key in self._strings.items()]),
            ("trace_stat", self._losses),
            ("calibration_measured", self._costs),
        ):
            insert_rows(connection, table, rows)
        connection.execute("COMMIT")

    def _string_id(self, value: str | None) -> int | None:
        return None if value is None else self._strings.setdefault(value, len(self._strings) + 1)

    def _cuda_call_rows(self) -> list[tuple[object, ...]]:
        return [
            (thread, start, end, kind, self._string_id(name), correlation)
            for thread, start, end, kind, name, correlation in self._cuda_calls
        ]

    def _nested_operations(self) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """Return the rows of operation_path and of operation_coded."""
        keys: dict[tuple[object, ...], int] = {}
        paths: list[tuple[object, ...]] = []
        rows: list[tuple[object, ...]] = []
        open_: list[tuple[int, int, int]] = []  # thread, end, path
        depths: dict[int | None, int] = {None: -1}
        for thread, start, end, what, steps in self._operations:
            open_ = [entry for entry in open_ if entry[0] == thread and entry[1] > start]
            parent = open_[-1][2] if open_ else None
            key = (parent, *what)
            if key not in keys:
                keys[key] = len(keys) + 1
                # Not how many are open: one may end before another that began in it.
                depths[keys[key]] = depths[parent] + 1
                *named, framework_name = what
                paths.append((keys[key], parent, *named, depths[keys[key]], None, framework_name))
            rows.append((thread, start, end, keys[key], steps))
            open_.append((thread, end, keys[key]))
        return paths, rows

    def _nested_calls(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        open_: list[tuple[int, int, str]] = []  # thread, end, layer
        for thread, start, end, layer, symbol, outcome in self._calls:
            open_ = [entry for entry in open_ if entry[0] == thread and entry[1] > start]
            site = self._sites.setdefault((layer, symbol), len(self._sites) + 1)
            parent = open_[-1][2] if open_ else None
            rows.append((thread, start, end, layer, parent, len(open_), site, outcome))
            open_.append((thread, end, layer))
        return rows

    def _site_rows(self) -> list[tuple[object, ...]]:
        hits = self._lost_calls + Counter((call[3], call[4]) for call in self._calls)
        return [
            (
                site_id, f"{layer}.so", symbol, layer, 0x1000 + site_id,
                *self._site_facts.get(site_id, ("probed", 0, None)), hits[layer, symbol], None,
                (layer, symbol) in self._expensive, self._site_codes.get(site_id), None, None,
            )
            for (layer, symbol), site_id in self._sites.items()
        ]  # fmt: skip
