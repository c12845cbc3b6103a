"""What a replay needs of an open trace: what its threads did while it iterated."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.cpu_list import allowed_cpus
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema.enums import code_of
from rlscope_analysis.schema.vocabulary import THREAD_STATES
from rlscope_analysis.sweep.segments import segments
from rlscope_analysis.whatif.gpu import Gpu, read_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb
    import numpy.typing as npt

    from rlscope_analysis.trace import Trace

    Column = npt.NDArray[Any]

RUNNING = THREAD_STATES.index("running")
_ASLEEP = THREAD_STATES.index("sleeping"), THREAD_STATES.index("blocked")
# The iterations are replayed in one go, the first one left out where there are enough others.
_ITERATIONS_SQL = """
SELECT i.start_ns, i.end_ns, i.thread_id, i.process_id, i.source, coalesce(i.environment_steps, 0)
FROM iteration AS i JOIN _steady_iteration AS s ON s.iteration_id = i.iteration_id
ORDER BY i.start_ns
"""
_STATES_SQL = f"""
SELECT
  thread_id, start_ns, end_ns, {code_of("THREAD_STATE", "state")} AS state, cpu,
  CASE WHEN waker_kind = 'thread' THEN coalesce(waker_thread_id, 0) ELSE 0 END AS waker,
  (thread_id, end_ns) IN (SELECT thread_id, end_ns FROM _wait_in_driver) AS in_driver,
  (thread_id, end_ns) IN (
    SELECT thread_id, end_ns FROM wait_coded WHERE kind IN ('lock', 'pipe', 'socket', 'poll')
  ) AS listens
FROM thread_state_coded WHERE end_ns > $1 AND start_ns < $2 ORDER BY thread_id, start_ns
"""  # noqa: S608 - words of our own
_GIL_SQL = """
SELECT coalesce(sum(least(end_ns, $2) - greatest(start_ns, $1)), 0)::BIGINT
FROM wait_coded WHERE kind = 'gil' AND end_ns > $1 AND start_ns < $2
  AND thread_id IN (SELECT thread_id FROM thread WHERE process_id = $3)
"""
_INSTANCES_SQL = """
SELECT name, thread_id, count(*) FROM operation
WHERE start_ns >= $1 AND start_ns < $2 AND thread_id IS NOT NULL GROUP BY name, thread_id
"""
_SPINS_SQL = """
SELECT thread_id, count(*), count(*) FILTER (layer = 'spin'),
  count(*) FILTER (layer = 'backend' AND in_kernel)
FROM cpu_sample_coded WHERE ts_ns >= $1 AND ts_ns < $2 AND layer IS NOT NULL GROUP BY thread_id
"""
# Every stack of operations with the names on it.
_NAMES_SQL = """
WITH RECURSIVE above AS (
  SELECT path_id, name, parent_path_id FROM operation_path
  UNION
  SELECT a.path_id, p.name, p.parent_path_id
  FROM above AS a JOIN operation_path AS p ON p.path_id = a.parent_path_id
)
SELECT name, list(path_id ORDER BY path_id) FROM above GROUP BY name ORDER BY name
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded from the start of the first iteration to the end of the last; times in ns.

    states: thread_id, start_ns, end_ns, state, cpu, waker (a thread_id or 0), in_driver (a wait for
      a lock of the GPU's driver), listens (a wait that others can end at any time), by thread and
      start.
    bursts: the running segments: thread_id, start_ns, end_ns, path_id, in the same order.
    """

    start_ns: int
    end_ns: int
    lead_thread_id: int
    lead_process_id: int
    durations_ns: Column
    """Of all iterations, also of those that are not replayed."""
    replayed: int
    """How many iterations lie between start and end."""
    is_whole: bool
    """No iterations were found: it is the life of the leading thread."""
    environment_steps: int
    states: dict[str, Column]
    bursts: dict[str, Column]
    asleep: dict[str, Column]
    """The sleeping and blocked segments, likewise."""
    process_of: dict[int, int]
    paths_of: dict[str, list[int]]
    """The stacks that each operation is on."""
    allowed_cpus: int
    """How many CPUs the recorder could have used; 0: not known."""
    cpu_quota: float
    """As many CPUs as the cgroup of the program may use; inf: all there are, or not known."""
    gil_wait_ns: int
    """Of the threads of the leading process."""
    iteration_starts_ns: Column
    spins: dict[int, tuple[int, int, int]]
    """Of each thread: samples, those of loops that spin, and of backends in the OS kernel."""
    instances: dict[tuple[str, int], int]
    """How often each thread was in an operation: by its name and the thread."""
    gpu: Gpu | None = None
    """None: it launched nothing."""
    has_states: bool = True
    """Else threads that call CUDA count as running all the time."""

    @property
    def duration_ns(self) -> int:
        """What the replay is held to."""
        return self.end_ns - self.start_ns


def read(
    trace: Trace, per: str | None = None, most: int | None = None, *, keep: bool = False
) -> Recorded:
    """Read what a replay needs; per: the range that counts as an iteration.

    most: so many iterations in a row, those that last most like all of them; None: all. keep: ask
    the critical path that was worked out last. Raises TraceError where the trace holds no thread
    states, or no iteration.
    """
    if not keep:
        trace.critical_path(per=per)
    connection = trace.connection
    rows = connection.execute(_ITERATIONS_SQL).fetchall()
    if not rows:
        raise TraceError(
            f"{trace.path} has no iteration, so nothing can be predicted",
            hint=f"rlscope-trace summarize {shlex.quote(str(trace.path))}",
        )
    durations_ns = np.array([row[1] - row[0] for row in rows], dtype=np.float64)
    rows = _most_typical(rows, durations_ns, most)
    start_ns, end_ns = rows[0][0], rows[-1][1]
    lead_thread_id, lead_process_id, source = rows[0][2:5]
    window = [start_ns, end_ns]
    states = connection.execute(_STATES_SQL, window).fetchnumpy()
    states = {name: np.ma.getdata(column) for name, column in states.items()}
    gpu = read_gpu(connection, start_ns, end_ns)
    has_states = bool(len(states["thread_id"])) or gpu is None
    if gpu is not None and not has_states:
        states = _as_running(gpu, start_ns, end_ns)
        if lead_thread_id not in states["thread_id"]:
            # The profiler of PyTorch puts its steps on a thread of their own.
            threads, launches = np.unique(gpu.activities["thread_id"], return_counts=True)
            lead_thread_id, source = int(threads[np.argmax(launches)]), "whole"
            window = [*_calling(connection, lead_thread_id, window)]
            start_ns, end_ns = window
            rows = [(start_ns, end_ns, lead_thread_id, lead_process_id, source, 0)]
            durations_ns = np.array([end_ns - start_ns], dtype=np.float64)
            states = _as_running(gpu, start_ns, end_ns)
    if not np.any((states["thread_id"] == lead_thread_id) & (states["state"] == RUNNING)):
        raise TraceError(
            f"{trace.path} does not tell what the leading thread did at each instant (thread"
            " states), so nothing can be predicted",
            hint="record it with: sudo rlscope-trace -- COMMAND",
        )
    ((gil_wait_ns,),) = connection.execute(_GIL_SQL, [*window, lead_process_id]).fetchall()
    owners = connection.execute("SELECT thread_id, coalesce(process_id, 0) FROM thread").fetchall()
    return Recorded(
        start_ns, end_ns, lead_thread_id, lead_process_id,
        durations_ns,
        len(rows),
        source == "whole",
        sum(row[5] for row in rows),
        states,
        *_segments(trace, start_ns, end_ns, [] if has_states else np.unique(states["thread_id"])),
        dict(owners),
        dict(connection.execute(_NAMES_SQL).fetchall()),
        len(allowed_cpus(connection)),
        _cpu_quota(trace),
        gil_wait_ns,
        np.array([row[0] for row in rows], dtype=np.int64),
        {row[0]: row[1:] for row in connection.execute(_SPINS_SQL, window).fetchall()},
        {
            (name, thread): count
            for name, thread, count in connection.execute(_INSTANCES_SQL, window).fetchall()
        },
        gpu,
        has_states,
    )  # fmt: skip


def _calling(
    connection: duckdb.DuckDBPyConnection, thread: int, window: list[int]
) -> tuple[int, int]:
    """Return from the first to the end of the last call of a thread within a window."""
    ((first, last),) = connection.execute(
        "SELECT min(start_ns), max(end_ns) FROM cuda_call_coded"
        " WHERE thread_id = $3 AND start_ns >= $1 AND start_ns < $2",
        [*window, thread],
    ).fetchall()
    return int(first), int(last)


def _as_running(gpu: Gpu, start_ns: int, end_ns: int) -> dict[str, Column]:
    """Return states in which each thread that calls CUDA has a CPU to itself all the time."""
    threads = np.unique(np.r_[gpu.activities["thread_id"], gpu.waits["thread_id"]])
    like = np.ones(len(threads), dtype=np.int64)
    return {
        "thread_id": threads, "start_ns": like * start_ns, "end_ns": like * end_ns,
        "state": like * RUNNING, "cpu": np.arange(len(threads)), "waker": like * 0,
        "in_driver": like == 0, "listens": like == 0,
    }  # fmt: skip


def _segments(
    trace: Trace, start_ns: int, end_ns: int, running: Iterable[int]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return the segments within that run, and those that sleep, cut at its ends.

    running: threads without states that count as running.
    """
    trace.connection.register("_whatif_stream", segments(trace, start_ns=start_ns, end_ns=end_ns))
    try:
        found = trace.connection.execute(
            "SELECT thread_id, start_ns, end_ns, path_id,"
            " if(list_contains($4, thread_id), $1, state) AS state FROM _whatif_stream"
            " WHERE (state IN ($1, $2, $3) OR list_contains($4, thread_id)) AND end_ns > start_ns",
            [RUNNING, *_ASLEEP, [int(thread) for thread in running]],
        ).fetchnumpy()
    finally:
        trace.connection.unregister("_whatif_stream")
    columns = {name: np.ma.getdata(column) for name, column in found.items()}
    order = np.lexsort((columns["start_ns"], columns["thread_id"]))
    runs = order[columns["state"][order] == RUNNING]
    sleeps = order[columns["state"][order] != RUNNING]
    return (
        {name: column[runs] for name, column in columns.items()},
        {name: column[sleeps] for name, column in columns.items()},
    )


def _most_typical(
    rows: list[tuple[Any, ...]], durations_ns: Column, most: int | None
) -> list[tuple[Any, ...]]:
    """Return so many iterations in a row whose mean duration is closest to that of all."""
    if most is None or most >= len(rows):
        return rows
    means = np.convolve(durations_ns, np.ones(most) / most, mode="valid")
    first = int(np.argmin(np.abs(means - durations_ns.mean())))
    return rows[first : first + most]


def _cpu_quota(trace: Trace) -> float:
    """Return how many CPUs the cgroups of the target leave it; inf: as many as there are."""
    query = "SELECT value FROM meta WHERE key = 'environment'"
    try:
        ((facts,),) = trace.connection.execute(query).fetchall()
        quota = json.loads(facts)["cpu_quota"]
        return float(quota) if quota > 0 else math.inf
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return math.inf
