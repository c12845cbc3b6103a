"""What is exported, in which order, on which tracks: the part that all formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.export import sources
from rlscope_analysis.export.identity import Process, Thread, read_processes

if TYPE_CHECKING:
    import duckdb

    from rlscope_analysis.export.sources import Kind
    from rlscope_analysis.window import Window

# Each line is one pass: kinds that share their tracks, outer ones first.
_THREAD_PASSES = (
    ("lifetime", (sources.THREAD_LIFETIME,)),
    ("state", (sources.THREAD_STATE,)),
    ("waits", (sources.WAIT,)),
    # On the track of the thread itself: what viewers show of a thread first.
    ("", (sources.OPERATION, sources.NATIVE_CALL, sources.CUDA_CALL)),
)
_PROCESS_PASSES = (
    ("process lifetime", (sources.PROCESS_LIFETIME,)),
    ("async ranges", (sources.ASYNC_RANGE,)),
)


@dataclass(frozen=True, slots=True)
class GpuTrack:
    """A stream of a context on a device, as one process uses it; None: not known."""

    process_id: int | None
    device_id: int | None
    context_id: int | None
    stream_id: int | None

    @property
    def key(self) -> tuple[int | None, ...]:
        """Return the columns that its slices are found by."""
        return (self.process_id, self.device_id, self.context_id, self.stream_id)

    def constants(self) -> dict[str, int]:
        """Return what every activity of it carries, as Kineto labels it."""
        values = {"device": self.device_id, "context": self.context_id, "stream": self.stream_id}
        return {label: value for label, value in values.items() if value is not None}

    @property
    def label(self) -> str:
        """Return the track in words."""
        said = self.constants()
        device = f"GPU {said['device']}" if "device" in said else "GPU not known"
        return " ".join([device, *(f"{k} {said[k]}" for k in ("context", "stream") if k in said)])


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about a trace that a format needs besides its slices."""

    connection: duckdb.DuckDBPyConnection
    window: Window | None
    processes: list[Process]
    gpu_tracks: list[GpuTrack]
    # Kinds that have rows, whether their table is in order, and rows that are no intervals.
    in_order: dict[str, bool]
    unreadable: int
    rows: int
    start_ns: int
    """First instant of the trace, on the clock of the file."""
    shift_ns: int
    """What is added to every time: viewers drop times before 0. 0 for every recorded trace."""

    def threads(self) -> list[Thread]:
        """Return the threads in the order of the tables."""
        return [thread for process in self.processes for thread in process.threads]

    def present(self, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
        """Return the kinds that have rows."""
        return tuple(kind for kind in kinds if kind.table in self.in_order)

    def thread_passes(self) -> list[tuple[str, tuple[Kind, ...]]]:
        """Return name of the track and kinds of each pass over the threads."""
        passes = [(name, self.present(kinds)) for name, kinds in _THREAD_PASSES]
        return [(name, kinds) for name, kinds in passes if kinds]

    def process_passes(self) -> list[tuple[str, tuple[Kind, ...]]]:
        """Return name of the track and kinds of each pass over the processes."""
        passes = [(name, self.present(kinds)) for name, kinds in _PROCESS_PASSES]
        return [(name, kinds) for name, kinds in passes if kinds]


def make_plan(connection: duckdb.DuckDBPyConnection, window: Window | None) -> Plan:
    """Read what is small, and look whether the tables are as the schema says."""
    processes = read_processes(connection)
    thread_order = [thread.thread_id for process in processes for thread in process.threads]
    process_order = [process.process_id for process in processes]
    in_order: dict[str, bool] = {}
    unreadable = rows = first_ns = 0
    for _, kinds in (*_THREAD_PASSES, *_PROCESS_PASSES, ("", (sources.GPU_ACTIVITY,))):
        for kind in kinds:
            count, start_ns = _count(connection, kind)
            if not count:
                continue
            rows += count
            first_ns = min(first_ns, start_ns or 0)
            if kind.category != "lifetime":
                unreadable += sources.count_unreadable(connection, kind)
            order = thread_order if kind.keys == ("thread_id",) else process_order
            in_order[kind.table] = sources.is_in_order(connection, kind, order)
    ((start_ns,),) = connection.execute("SELECT min(start_ns) FROM thread").fetchall()
    return Plan(
        connection=connection,
        window=window,
        processes=processes,
        gpu_tracks=_gpu_tracks(connection) if "gpu_activity_coded" in in_order else [],
        in_order=in_order,
        unreadable=unreadable,
        rows=rows,
        start_ns=(start_ns or 0) - first_ns,
        shift_ns=-first_ns,
    )


def _count(connection: duckdb.DuckDBPyConnection, kind: Kind) -> tuple[int, int | None]:
    """Return how many rows there are, and the first start."""
    query = f"SELECT count(*), min(start_ns) FROM {kind.table}"  # noqa: S608
    ((count, start_ns),) = connection.execute(query).fetchall()
    return count, start_ns


def _gpu_tracks(connection: duckdb.DuckDBPyConnection) -> list[GpuTrack]:
    columns = "process_id, device_id, context_id, stream_id"
    rows = connection.execute(
        f"SELECT DISTINCT {columns} FROM gpu_activity_coded ORDER BY ALL"  # noqa: S608
    ).fetchall()
    return [GpuTrack(*row) for row in rows]
