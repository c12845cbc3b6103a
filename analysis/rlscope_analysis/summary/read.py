"""Reads the views of a trace into a Summary: one pass over the states per question."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rlscope_analysis.query import fetch_together, run_query
from rlscope_analysis.reports import REPORTS, TOP_OPERATIONS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.schema.vocabulary import WAKER_THREAD
from rlscope_analysis.summary import queries
from rlscope_analysis.summary.gpu import GpuSummary, gpu_summary
from rlscope_analysis.summary.losses import losses_of
from rlscope_analysis.summary.notes import fault_notes, site_notes, unmeasured_notes
from rlscope_analysis.summary.observations import observations
from rlscope_analysis.summary.overhead import OverheadSummary, overhead_of
from rlscope_analysis.summary.values import (
    Latency,
    Measures,
    ProcessSummary,
    StateTimes,
    Summary,
    Switches,
    ThreadSummary,
    Waker,
    added_up,
)
from rlscope_analysis.window import SPAN_SQL, asked_window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.result.table import Answer
    from rlscope_analysis.trace import Trace

# A key of `Waker`s while they are counted: kind, and the thread where it is one.
_WakerKey = tuple[str, int | None]
_NO_LATENCY = Latency(waits=0, p50_ns=None, p99_ns=None, max_ns=None)


def summarize(trace: Trace) -> Summary:
    """Compute the summary of an open trace."""
    # Those that look at every state, the longest first: each of the rest is soon done.
    long = [queries.LATENCY_SQL, queries.SWITCHES_SQL, queries.THREADS_SQL]
    long += [queries.DISORDER_SQL, queries.WAKERS_SQL]
    threads_sql = _threads_sql(trace)
    asked = [threads_sql if query == queries.THREADS_SQL else query for query in long]
    rows, rest = fetch_together(trace, asked, partial(_read_rest, trace))
    return _Reader(trace, dict(zip(long, rows, strict=True)), rest).read()


def _threads_sql(trace: Trace) -> str:
    """Return what asks the overlaps rather than the states, where they hold all of them.

    They do not say of a window whether states that it cuts were in order.
    """
    if asked_window(trace.connection) or _fetch(trace, queries.STATE_FAULTS_SQL) == [(True,)]:
        return queries.THREADS_SQL
    return queries.SWEPT_THREADS_SQL


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a summary tells that no pass over the states is needed for."""

    observations: tuple[Note, ...]
    overhead: OverheadSummary
    gpu: GpuSummary
    reports: tuple[Answer, ...]
    fault_notes: tuple[Note, ...]
    capture_notes: tuple[Note, ...]


def _read_rest(trace: Trace) -> _Rest:
    return _Rest(
        observations=tuple(observations(trace)),
        overhead=overhead_of(trace),
        gpu=gpu_summary(partial(_fetch, trace)),
        reports=tuple(_reports(trace)),
        fault_notes=tuple(fault_notes(trace)),
        capture_notes=(*unmeasured_notes(trace), *site_notes(trace)),
    )


def _fetch(trace: Trace, query: str) -> list[tuple[Any, ...]]:
    # Not on this thread: Ctrl-C must be heard while a long query runs.
    return list(run_query(trace, query).rows)


def _reports(trace: Trace) -> Iterable[Answer]:
    """Answer what the states alone do not: by operation and layer, and about the GPU."""
    measured = {kind for (kind,) in _fetch(trace, queries.MEASURED_KINDS_SQL)}
    if _fetch(trace, queries.HAS_OPERATIONS_SQL) == [(True,)]:
        yield answer(trace, TOP_OPERATIONS)
    if measured & {"operation", "native_call", "cuda_call", "cpu_sample", "wait"}:
        yield answer(trace, REPORTS["breakdown"])
    if "gpu_activity" in measured:
        yield answer(trace, REPORTS["gpu"])


@dataclass(frozen=True, slots=True)
class _Reader:
    trace: Trace
    fetched: dict[str, list[tuple[Any, ...]]]
    """Rows by query, of those that have been run."""
    rest: _Rest

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.fetched[query] if query in self.fetched else _fetch(self.trace, query)

    def read(self) -> Summary:
        meta: dict[str, str | None] = dict(self._rows("SELECT key, value FROM meta ORDER BY key"))
        latency = self._latency()
        wakers = _Wakers(
            counts=self._waker_counts(),
            threads={row[0]: row[1:] for row in self._rows(queries.THREAD_NAMES_SQL)},
        )
        by_process = self._threads(latency, wakers)
        processes = self._processes(by_process, latency, wakers)
        every_thread = [thread for process in processes for thread in process.threads]
        ((first_ns, last_ns),) = self._rows(SPAN_SQL)
        return Summary(
            trace=str(self.trace.path),
            schema_version=self.trace.schema_version,
            meta=meta,
            started_realtime_ns=_wall_clock(self._rows(queries.CLOCK_SQL), first_ns),
            duration_ns=None if first_ns is None else last_ns - first_ns,
            is_complete=meta.get("ended_cleanly") != "false",
            losses=losses_of(self.trace),
            notes=tuple(self._notes(every_thread, meta)),
            observations=self.rest.observations,
            has_states=self._has_states(processes),
            total=_total(every_thread, latency.get((queries.OVER_ALL, None), _NO_LATENCY), wakers),
            processes=processes,
            reports=self.rest.reports,
            thread_count=self._rows(queries.THREAD_COUNT_SQL)[0][0],
            overhead=self.rest.overhead,
            gpu=self.rest.gpu,
            window=asked_window(self.trace.connection),
        )

    def _has_states(self, processes: tuple[ProcessSummary, ...]) -> bool:
        if processes:
            return any(process.measures is not None for process in processes)
        return self._rows(queries.STATES_MEASURED_SQL) == [(True,)]

    def _latency(self) -> dict[tuple[int, int | None], Latency]:
        found = {}
        for level, thread_id, process_id, waits, quantiles, max_ns in self._rows(
            queries.LATENCY_SQL
        ):
            key = thread_id if level == queries.BY_THREAD else process_id
            p50_ns, p99_ns = quantiles or (None, None)
            found[level, key] = Latency(waits, p50_ns, p99_ns, max_ns)
        return found

    def _waker_counts(self) -> dict[int, Counter[_WakerKey]]:
        counts: dict[int, Counter[_WakerKey]] = defaultdict(Counter)
        for thread_id, kind, waker_thread_id, wakeups in self._rows(queries.WAKERS_SQL):
            counts[thread_id][kind, waker_thread_id] += wakeups
        return counts

    def _threads(
        self, latency: dict[tuple[int, int | None], Latency], wakers: _Wakers
    ) -> dict[int | None, list[ThreadSummary]]:
        switches = {row[0]: Switches(*row[1:]) for row in self._rows(queries.SWITCHES_SQL)}
        by_process: dict[int | None, list[ThreadSummary]] = defaultdict(list)
        for row in self._rows(queries.THREADS_SQL):
            thread_id, process_id, tid, name, start_ns, end_ns, ended, *times = row
            counts = wakers.counts.get(thread_id, Counter())
            measures = Measures(
                times=_state_times(times),
                switches=switches[thread_id],
                latency=latency.get((queries.BY_THREAD, thread_id), _NO_LATENCY),
                wakeups=counts.total(),
                wakers=wakers.ranked(counts),
            )
            by_process[process_id].append(
                ThreadSummary(thread_id, tid, name, start_ns, end_ns, ended, measures)
            )
        for threads in by_process.values():
            threads.sort(key=_busiest_first)
        return by_process

    def _processes(
        self,
        by_process: dict[int | None, list[ThreadSummary]],
        latency: dict[tuple[int, int | None], Latency],
        wakers: _Wakers,
    ) -> tuple[ProcessSummary, ...]:
        rows = self._rows(queries.PROCESSES_SQL)
        known = {row[0] for row in rows}
        rows += [(key, *[None] * 7) for key in by_process if key not in known]
        unmeasured = {row[0] for row in self._rows(queries.UNMEASURED_SQL)}
        processes = []
        for process_id, parent_process_id, pid, name, command, exit_code, start_ns, end_ns in rows:
            threads = by_process.get(process_id, [])
            waits = latency.get((queries.BY_PROCESS, process_id), _NO_LATENCY)
            processes.append(
                ProcessSummary(
                    process_id=process_id,
                    parent_process_id=parent_process_id,
                    pid=pid,
                    name=name,
                    command=command,
                    exit_code=exit_code,
                    start_ns=start_ns,
                    end_ns=end_ns,
                    measures=None if process_id in unmeasured else _total(threads, waits, wakers),
                    threads=tuple(threads),
                )
            )
        processes.sort(
            key=lambda p: (-(p.measures.times.running_ns if p.measures else 0), p.process_id or 0)
        )
        return tuple(processes)

    def _notes(self, threads: list[ThreadSummary], meta: dict[str, str | None]) -> Iterable[Note]:
        ((disorder,),) = self._rows(queries.DISORDER_SQL)
        unbalanced = sum(not thread.measures.times.is_balanced for thread in threads)
        if unbalanced or disorder:
            yield note("faulty_states", threads=unbalanced, intervals=disorder)
        if meta.get("recovered") == "true":
            yield note("recovered")
        inferred = int(meta.get("inferred_switch_ins") or 0)
        if inferred:
            yield note("inferred_switch_ins", count=inferred)
        unknown = sum(
            waker.wakeups
            for thread in threads
            for waker in thread.measures.wakers
            if waker.kind == "unknown"
        )
        if unknown:
            yield note("unknown_wakers", count=unknown)
        yield from self.rest.fault_notes
        gaps = sum(thread.measures.times.lost_ns > 0 for thread in threads)
        if gaps:
            yield note("states_lost", count=gaps)
        yield from self.rest.capture_notes


@dataclass(frozen=True, slots=True)
class _Wakers:
    """Who woke each thread, and what is known of the wakers."""

    counts: dict[int, Counter[_WakerKey]]
    threads: dict[int, tuple[int | None, int | None, str | None]]

    def ranked(self, counts: Counter[_WakerKey]) -> tuple[Waker, ...]:
        """Turn counts into wakers, the most frequent first."""
        ranking = sorted(counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or 0))
        nobody = (None, None, None)
        return tuple(
            Waker(
                kind,
                thread_id,
                *(self.threads.get(thread_id or 0, nobody) if kind == WAKER_THREAD else nobody),
                wakeups,
            )
            for (kind, thread_id), wakeups in ranking
        )


def _state_times(times: list[Any]) -> StateTimes:
    running_ns, runnable_ns, sleeping_ns, blocked_ns, lost_ns, lifetime_ns = times
    known_ns = running_ns + runnable_ns + sleeping_ns + blocked_ns
    if lifetime_ns is None:
        lifetime_ns = known_ns + (lost_ns or 0)
    if lost_ns is None:
        lost_ns = lifetime_ns - known_ns
    return StateTimes(running_ns, runnable_ns, sleeping_ns, blocked_ns, lost_ns, lifetime_ns)


def _total(threads: list[ThreadSummary], latency: Latency, wakers: _Wakers) -> Measures:
    counts: Counter[_WakerKey] = Counter()
    for thread in threads:
        counts.update(wakers.counts.get(thread.thread_id, {}))
    return Measures(
        times=added_up(StateTimes, [thread.measures.times for thread in threads]),
        switches=added_up(Switches, [thread.measures.switches for thread in threads]),
        latency=latency,
        wakeups=counts.total(),
        wakers=wakers.ranked(counts),
    )


def _busiest_first(thread: ThreadSummary) -> tuple[int, int]:
    return -thread.measures.times.running_ns, thread.thread_id


def _wall_clock(clock: list[tuple[Any, ...]], first_ns: int | None) -> int | None:
    if not clock or first_ns is None or None in clock[0]:
        return None
    ts_ns, realtime_ns = clock[0]
    return int(realtime_ns) - int(ts_ns) + first_ns
