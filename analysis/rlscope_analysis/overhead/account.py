"""What one run of a program in the OS kernel took while the trace was recorded: method in_run.

The OS kernel accounts for all runs. Those that a traced thread caused are known from the trace; the
others are cheap misses. What both take in a loop is known: all of them together take so many times
as long in the recording.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.overhead.cost import Cost, Z, ratio, t_quantile
from rlscope_analysis.overhead.place import PROBED_CUDA_SQL
from rlscope_analysis.schema.facts.qualities import quality

if TYPE_CHECKING:
    import duckdb

    from rlscope_analysis.schema.facts.qualities import Quality

# Fewer than so many windows with events, or events in them, tell nothing.
FEWEST_WINDOWS = 4
_FEWEST_RUNS = 30
# Of an event that the trace has none of, or one for so many runs: so many times as long as a miss
# takes in a loop tells that it was recorded. Where runs are rare a miss is cold, and takes four or
# five times that.
_FEWEST_PART = 10
# So many times as long as in a loop a run takes in a program at most.
_DEAREST = 10
_RECORDED, _RECORDED_RARELY = 3, 6
_FEWEST_IN_A_WINDOW = 100
# Of what a miss costs, relative to itself: it was measured in a loop too.
_MISS_ERROR = 0.25
# More runs in the trace than the OS kernel counted, by this part: one of the two is wrong.
_TOLERANCE = 0.1
_MISSES = {
    "switch": "bystander_switch",
    "wakeup": "bystander_wakeup",
    "call": "bystander_call",
    "sample": "bystander_switch",
    "gil_release": "bystander_call",
}
# Time is cut into bins of 2^23 ns (8 ms), so that an instant finds its window by equality.
_BIN = 23
# The runs that a traced thread caused. Both threads of a switch note one and the same instant.
_RUNS_SQL = {
    "switch": "SELECT start_ns AS ts_ns, cpu FROM thread_state_coded WHERE state = 0"
    " UNION ALL SELECT end_ns, cpu FROM thread_state_coded WHERE state = 0",
    "wakeup": "SELECT start_ns AS ts_ns FROM thread_state_coded WHERE state = 1 AND waker <> 0",
    "call": "SELECT start_ns AS ts_ns FROM native_call_coded"  # noqa: S608 - a query of our own
    " UNION ALL SELECT end_ns FROM native_call_coded"
    f" UNION ALL SELECT unnest([start_ns, end_ns]) FROM ({PROBED_CUDA_SQL})",
    "sample": "SELECT ts_ns FROM cpu_sample_coded",
    "gil_release": "SELECT start_ns AS ts_ns FROM gil_release"
    " UNION ALL SELECT end_ns FROM gil_release",
}
_COUNT_SQL = """
WITH bin AS (
  SELECT start_ns, end_ns, unnest(range(start_ns >> {bin}, (end_ns >> {bin}) + 1)) AS number
  FROM (SELECT DISTINCT start_ns, end_ns FROM program_time WHERE event = '{event}')
), inside AS (
  SELECT {distinct} r.*, b.start_ns, b.end_ns
  FROM ({runs}) AS r JOIN bin AS b ON b.number = r.ts_ns >> {bin}
  WHERE r.ts_ns >= b.start_ns AND r.ts_ns < b.end_ns
)
SELECT start_ns, count(*) FROM inside GROUP BY start_ns
"""
# A program may have several parts, for entry and return.
_ACCOUNT_SQL = """
SELECT event, start_ns, sum(runs)::BIGINT, sum(time_ns)::BIGINT
FROM program_time
WHERE event IS NOT NULL AND start_ns >= $1 AND end_ns <= $2 AND end_ns > start_ns AND runs > 0
GROUP BY event, start_ns ORDER BY event, start_ns
"""
# A recorder that was killed in a quiet moment leaves windows that end after its last record.
_OUTSIDE_SQL = """
SELECT count(DISTINCT start_ns) FROM program_time
WHERE start_ns < $1 OR end_ns <= start_ns OR (
  end_ns > $2 AND NOT EXISTS (FROM meta WHERE key = 'ended_cleanly' AND value = 'false')
)
"""
# The recorder and the processes do not begin at the same instant.
_MARGIN_NS = 10**9


@dataclass(frozen=True, slots=True)
class _Window:
    """The account of one window: what the OS kernel counted, and the runs known from the trace."""

    runs: int
    time_ns: int
    known: int


def in_run(
    connection: duckdb.DuckDBPyConnection,
    span: tuple[int, int],
    programs: dict[str, Cost],
    misses: dict[str, Cost],
) -> list[Cost]:
    """Return a row for each event that the OS kernel accounts for, the mean that of one run.

    span: first and last instant of the trace. programs, misses: what one run takes in a loop, for a
    traced thread and for a bystander, by event of the calibration; without the first a miss costs
    what it does in the loop, without the second up to a run.
    """
    first_ns, last_ns = span[0] - _MARGIN_NS, span[1] + _MARGIN_NS
    ((outside,),) = connection.execute(_OUTSIDE_SQL, [first_ns, last_ns]).fetchall()
    windows: dict[str, dict[int, tuple[int, int]]] = {}
    for event, start_ns, runs, time_ns in connection.execute(
        _ACCOUNT_SQL, [first_ns, last_ns]
    ).fetchall():
        windows.setdefault(event, {})[start_ns] = (runs, time_ns)
    found = []
    for event in _RUNS_SQL:
        known = _known(connection, event) if event in windows else {}
        listed = [
            _Window(*account, known.get(start_ns, 0))
            for start_ns, account in windows.get(event, {}).items()
        ]
        if listed or outside:
            loops = programs.get(event), misses.get(_MISSES[event])
            found.append(_judged(event, listed, loops, outside))
    return found


def _known(connection: duckdb.DuckDBPyConnection, event: str) -> dict[int, int]:
    query = _COUNT_SQL.format(
        bin=_BIN, event=event, runs=_RUNS_SQL[event],
        distinct="DISTINCT" if event == "switch" else "",
    )  # fmt: skip
    return dict(connection.execute(query).fetchall())


def _judged(
    event: str, windows: list[_Window], loops: tuple[Cost | None, Cost | None], outside: int
) -> Cost:
    known, runs = sum(w.known for w in windows), sum(w.runs for w in windows)
    with_events = [w for w in windows if w.known]
    if outside:
        why = quality("windows_outside", outside)
    elif known > runs * (1 + _TOLERANCE) + 1:
        why = quality("more_runs_in_trace", known, runs)
    elif len(with_events) < FEWEST_WINDOWS or known < _FEWEST_RUNS:
        if _FEWEST_PART * known < runs and _looks_recorded(windows, *loops):
            return Cost(event, None, "in_run", quality=_dropped(event, runs, known))
        why = quality("few_windows", len(with_events), known)
    else:
        return _estimated(event, with_events, *loops)
    return Cost(event, None, "in_run", n=len(with_events), quality=why)


def _looks_recorded(windows: list[_Window], program: Cost | None, miss: Cost | None) -> bool:
    """Whether runs of which the trace has no event took longer than misses do."""
    known = sum(w.known for w in windows)
    runs, time_ns = sum(w.runs for w in windows) - known, sum(w.time_ns for w in windows)
    if known:
        if program is None or not program.mean_ns:
            return False
        time_ns -= round(known * _DEAREST * program.mean_ns)
    if miss is None or not miss.mean_ns or runs < _FEWEST_RUNS:
        return False
    is_rare = runs < _FEWEST_IN_A_WINDOW * len(windows)
    times = _RECORDED_RARELY if is_rare else _RECORDED
    return time_ns > times * runs * max(miss.mean_ns, 0.0)


def _dropped(event: str, runs: int, known: int) -> Quality:
    if known:
        return quality("runs_missing", runs, known, subject=event)
    return quality("no_event_then", runs, subject=event)


def _estimated(event: str, windows: list[_Window], program: Cost | None, miss: Cost | None) -> Cost:
    missed = [max(w.runs - w.known, 0) for w in windows]
    all_ns, all_runs = sum(w.time_ns for w in windows), sum(w.runs for w in windows)
    # Not known: anything from nothing to as much as all others.
    miss_ns, miss_error_ns = all_ns / all_runs / 2, all_ns / all_runs / 4
    if miss is not None and miss.mean_ns is not None:
        miss_ns = min(max(miss.mean_ns, 0.0), all_ns / all_runs)
        miss_error_ns = max(_MISS_ERROR * miss_ns, miss.stderr_ns)
    if miss is not None and program is not None and program.mean_ns:
        # In units of a run for a traced thread: as much dearer as that is, a miss is too.
        weight = miss_ns / program.mean_ns
        runs = [w.known + m * weight for w, m in zip(windows, missed, strict=True)]
        mean_ns, stderr_ns = ratio([float(w.time_ns) for w in windows], runs)
        of_misses_ns = mean_ns * miss_error_ns / program.mean_ns * sum(missed) / sum(runs)
    else:
        times = [w.time_ns - m * miss_ns for w, m in zip(windows, missed, strict=True)]
        mean_ns, stderr_ns = ratio(times, [float(w.known) for w in windows])
        of_misses_ns = miss_error_ns * sum(missed) / sum(w.known for w in windows)
    half_ns = math.hypot(t_quantile(len(windows) - 1) * stderr_ns, Z * of_misses_ns)
    return Cost(
        event, None, "in_run", mean_ns, stderr_ns * math.sqrt(len(windows)), len(windows),
        mean_ns - half_ns, mean_ns + half_ns,
    )  # fmt: skip
