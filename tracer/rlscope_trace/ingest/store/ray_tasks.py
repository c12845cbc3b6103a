"""What workers of Ray did: tasks and methods of actors, by the titles that they give themselves.

A worker writes into its title what it runs: `ray::IDLE`, `ray::task`, and of an actor `ray::Class`
between its methods and `ray::Class.method` in them. Each thread that does so renames itself, so the
OS kernel tells when (record "title").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.vocabulary import RAY_COVERAGE
from rlscope_trace.ingest.writer.coverages import KindCoverage
from rlscope_trace.texts import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from rlscope_trace._ingest import SpoolScan
    from rlscope_trace.ingest.store.operation_inserts import Columns
    from rlscope_trace.ingest.store.processes import Exec
    from rlscope_trace.ingest.store.ray_methods import RayMethod

NO_RANGES: Columns = {
    "start_ns": np.zeros(0, np.int64), "end_ns": np.zeros(0, np.int64),
    "key": np.zeros(0, np.int32), "payload": np.zeros(0, np.uint64),
    "payload_type": np.zeros(0, np.uint8), "is_open": np.zeros(0, np.uint8),
    "environment_steps": np.zeros(0, np.int64),
}  # fmt: skip
"""Of a thread that marked nothing."""

_PREFIX = "ray::"
_IDLE = "IDLE"
_NEW = "__init__"
# Ray's own processes beside its workers, which have titles of the same kind.
_AGENTS = ("DashboardAgent", "RuntimeEnvAgent")


@dataclass(frozen=True, slots=True)
class RayThread:
    """A thread of a worker, and what it ran: times in ns, one after the other."""

    process_id: int
    thread_id: int
    start_ns: int
    """Since when it is known what the thread does."""
    end_ns: int
    starts_ns: NDArray[np.int64]
    ends_ns: NDArray[np.int64]
    names: NDArray[np.int64]
    """Places in RayTasks.names."""


@dataclass(slots=True)
class RayTasks:
    """All of a trace."""

    names: list[str] = field(default_factory=list)
    threads: dict[int, RayThread] = field(default_factory=dict)
    """By thread_id."""
    overlapping: list[int] = field(default_factory=list)
    """process_id of workers whose methods overlap (async actors): their titles tell nothing."""
    methods: list[RayMethod] = field(default_factory=list)
    """Of some of those, as the cluster tells of them."""
    worked: dict[int, str] = field(default_factory=dict)
    """process_id of each worker -> class of the actor, "" where it runs tasks."""
    idle: list[int] = field(default_factory=list)
    """process_id of workers that did nothing."""

    def coverages(self) -> Iterator[KindCoverage]:
        """Yield what is to be said of async actors."""
        reported = {method.process_id for method in self.methods}
        left_out = len(set(self.overlapping) - reported)
        facts = (
            *([Fact("ray_async_actors", count=left_out)] if left_out else ()),
            *([Fact("ray_async_methods", count=len(reported))] if reported else ()),
        )
        if facts:
            yield KindCoverage(None, RAY_COVERAGE, measured=True, facts=facts)

    def most_done(self) -> dict[int, str]:
        """Return what each worker was: its class as an actor, else the task it ran longest."""
        spent: dict[int, dict[int, int]] = {}
        for thread in self.threads.values():
            of_process = spent.setdefault(thread.process_id, {})
            times_ns = (thread.ends_ns - thread.starts_ns).tolist()
            for name, time_ns in zip(thread.names.tolist(), times_ns, strict=True):
                of_process[name] = of_process.get(name, 0) + time_ns
        found = {one: self.names[max(ns, key=ns.__getitem__)] for one, ns in spent.items()}
        return found | {one: name.rpartition(":")[2] for one, name in self.worked.items() if name}


@dataclass(slots=True)
class _Title:
    ts_ns: int
    thread_id: int
    text: str


@dataclass(slots=True)
class _Worker:
    process_id: int
    titles: list[_Title] = field(default_factory=list)

    def texts(self) -> list[str]:
        return [title.text for title in self.titles]


def ray_tasks(
    scan: SpoolScan, con: duckdb.DuckDBPyConnection, known: Mapping[int, str]
) -> RayTasks:
    """Return what the workers of a recording ran, whose threads and processes are written.

    known: of some processes (process_id) what the cluster says of them: actor, worker, driver.
    """
    texts = [_task_text(text) for text in scan.title_texts()]
    titles = scan.titles()
    chosen = np.array([text is not None for text in texts], dtype=bool)[titles["text_id"]]
    titles = titles[chosen]
    attached = _attached(scan.execs())
    if not len(titles) and not attached:
        return RayTasks()
    owners = _owners(con, np.unique(titles["thread_id"]).tolist(), list(attached))
    workers: dict[int, _Worker] = {}
    for thread_id, owner in owners.threads.items():
        worker = workers.setdefault(owner.process_id, _Worker(owner.process_id))
        # Only of its main thread is known what it did when the recording began.
        if thread_id == owners.leaders.get(owner.process_id) and owner.pid in attached:
            worker.titles.append(_Title(owner.start_ns, thread_id, attached[owner.pid]))
    order = np.argsort(titles["ts_ns"], kind="stable")
    for ts_ns, thread_id, text_id in titles[order][["ts_ns", "thread_id", "text_id"]].tolist():
        of_thread = owners.threads.get(thread_id)
        if of_thread is not None:
            title = _Title(ts_ns, thread_id, texts[text_id] or "")
            workers[of_thread.process_id].titles.append(title)
    found = RayTasks()
    for worker in workers.values():
        _add(found, worker, owners, known.get(worker.process_id))
    return found


def _task_text(title: bytes) -> str | None:
    """Return what a title says that a worker does; None: it is no worker."""
    text = title.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
    if not text.startswith(_PREFIX):
        return None
    return str(storable(text.removeprefix(_PREFIX).removesuffix("()"))) or None


def _attached(execs: Sequence[Exec]) -> dict[int, str]:
    """Return by pid what the workers did that were there when the recording began."""
    found = {}
    for _, thread_id, _, _, pid, _, _, args in execs:
        text = _task_text(args) if thread_id == 0 else None
        if text is not None:
            found[pid] = text
    return found


class _Owner(NamedTuple):
    """Of a thread: whose it is, and when it lived."""

    process_id: int
    pid: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class _Owners:
    """Whose the threads are."""

    threads: dict[int, _Owner]
    """By thread_id."""
    leaders: dict[int, int]
    """process_id -> its main thread."""


def _owners(
    con: duckdb.DuckDBPyConnection, thread_ids: Sequence[int], pids: Sequence[int]
) -> _Owners:
    rows = con.execute(
        "SELECT t.thread_id, t.process_id, p.pid, t.start_ns, t.end_ns, t.tid = p.pid"
        " FROM thread AS t JOIN process AS p ON p.process_id = t.process_id"
        " WHERE t.thread_id IN (SELECT unnest(?::INTEGER[]))"
        "   OR (t.tid = p.pid AND p.pid IN (SELECT unnest(?::INTEGER[])))"
        " ORDER BY t.thread_id",
        [list(thread_ids), list(pids)],
    ).fetchall()
    return _Owners(
        threads={thread_id: _Owner(*facts) for thread_id, *facts, _ in rows},
        leaders={row[1]: row[0] for row in reversed(rows) if row[5]},
    )


def _add(found: RayTasks, worker: _Worker, owners: _Owners, kind: str | None) -> None:
    """Add what a worker ran."""
    if kind is None and worker.titles and worker.titles[0].text in _AGENTS:
        return
    idle, name = _idle_texts(worker.texts(), kind)
    if all(title.text in idle for title in worker.titles):
        if name or kind == "actor":
            found.worked[worker.process_id] = name or next(iter(idle - {_IDLE}), "")
        else:
            found.idle.append(worker.process_id)
        return
    found.worked[worker.process_id] = name
    by_thread: dict[int, list[_Title]] = {}
    for title in worker.titles:
        by_thread.setdefault(title.thread_id, []).append(title)
    if any(_overlaps(titles, idle) for titles in by_thread.values()):
        found.overlapping.append(worker.process_id)
        return
    places = {text: place for place, text in enumerate(found.names)}
    for thread_id, titles in by_thread.items():
        owner = owners.threads[thread_id]
        rows = _ran(titles, owner, idle)
        if rows:
            found.threads[thread_id] = _thread(thread_id, owner, rows, places)
    found.names[:] = places


def _ran(titles: Sequence[_Title], owner: _Owner, idle: set[str]) -> list[tuple[int, int, str]]:
    """Return what a thread ran: from when, until when, what."""
    ends = [*(title.ts_ns for title in titles[1:]), owner.end_ns]
    rows = [
        (max(title.ts_ns, owner.start_ns), min(until_ns, owner.end_ns), title.text)
        for title, until_ns in zip(titles, ends, strict=True)
        if title.text not in idle
    ]
    return [row for row in rows if row[0] < row[1]]


def _thread(
    thread_id: int, owner: _Owner, rows: Sequence[tuple[int, int, str]], places: dict[str, int]
) -> RayThread:
    """Return a thread that ran these.

    places: of the names; those that are new get one.
    """
    starts_ns, ends_ns, texts = zip(*rows, strict=True)
    return RayThread(
        owner.process_id, thread_id, owner.start_ns, owner.end_ns,
        np.array(starts_ns, dtype=np.int64), np.array(ends_ns, dtype=np.int64),
        np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int64),
    )  # fmt: skip


def _idle_texts(texts: Sequence[str], kind: str | None) -> tuple[set[str], str]:
    """Return the titles under which a worker runs nothing, and the class of the actor that it is.

    The class is "" where it is none. An actor never becomes idle again, and its first method
    is its making.
    """
    busy = [text for text in texts if text != _IDLE]
    began_idle = bool(texts) and texts[0] == _IDLE
    returned = _IDLE in texts[texts.index(busy[0]) :] if busy else False
    is_new_actor = bool(busy) and busy[0].endswith(f".{_NEW}")
    is_task = kind == "worker" or (
        kind != "actor" and (returned or (began_idle and bool(busy) and not is_new_actor))
    )
    if is_task or not busy:
        return {_IDLE}, ""
    classes = {text.rpartition(".")[0] for text in busy if "." in text}
    # One that did nothing meanwhile shows its class all the time.
    classes = classes or set(busy)
    return {_IDLE, *classes}, busy[0].rpartition(".")[0] or busy[0]


def _overlaps(titles: Iterable[_Title], idle: set[str]) -> bool:
    """Tell whether a thread began a method before the last one had ended."""
    was_busy = False
    for title in titles:
        is_busy = title.text not in idle
        if is_busy and was_busy:
            return True
        was_busy = is_busy
    return False


def with_tasks(
    ranges: Columns, tasks: RayThread, key: int, is_auto: NDArray[np.uint8],
    span_ns: tuple[int, int],
) -> Columns:  # fmt: skip
    """Return the ranges of a thread with the tasks around them.

    key: that of the first name. span_ns: of the whole of these ranges, where there are more. A
    phase that was found ends with the task that it began in: then the worker waits for another.
    """
    keys = ranges["key"]
    auto = np.zeros(len(keys), dtype=bool)
    known = keys < len(is_auto)
    auto[known] = is_auto[keys[known]] != 0
    place = np.searchsorted(tasks.starts_ns, ranges["start_ns"], side="right") - 1
    inside = auto & (place >= 0) & (ranges["start_ns"] < tasks.ends_ns[np.maximum(place, 0)])
    end_ns = np.where(
        inside, np.minimum(ranges["end_ns"], tasks.ends_ns[np.maximum(place, 0)]), ranges["end_ns"]
    )
    here = (tasks.ends_ns > span_ns[0]) & (tasks.starts_ns < span_ns[1])
    added = {name: np.zeros(int(here.sum()), column.dtype) for name, column in ranges.items()}
    added["start_ns"] = np.maximum(tasks.starts_ns[here], span_ns[0])
    added["end_ns"] = np.minimum(tasks.ends_ns[here], span_ns[1])
    added["key"] = (tasks.names[here] + key).astype(keys.dtype)
    added["environment_steps"] = np.full(int(here.sum()), -1, dtype=np.int64)
    # Of equal times the task is outside: it comes first.
    merged = {**ranges, "end_ns": end_ns}
    return {name: np.concatenate((added[name], column)) for name, column in merged.items()}
