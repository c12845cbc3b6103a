"""What charts show: rows of the views, as few as a chart can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from rlscope_analysis.errors import TraceError
from rlscope_analysis.page.iterations import iteration_bars
from rlscope_analysis.page.run_queue import queues
from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlscope_analysis.trace import Trace

US, MS, S = 1e3, 1e6, 1e9
LEAD = "leading process"
QUEUE, WAITS, LOST = "waits for a CPU", "waits", "lost"
UNKNOWN = "not measured"
# More cannot be read, and a chart must stay small whatever the trace.
_MOST_PHASES, _MOST_PROCESSES, _MOST_LIMITS = 12, 40, 20

_PHASE_SQL = f"""
SELECT
  operation, time_ns, python_share, native_share, queue_share, waits_share, lost_share,
  1 - queue_share - waits_share - lost_share AS cpu_share
FROM training_phase ORDER BY time_ns DESC, operation LIMIT {_MOST_PHASES}
"""  # noqa: S608 - a number of our own
_PROCESS_SQL = f"""
SELECT name, pid, role, number, cpu_share, queue_share, waits_share
FROM training_process ORDER BY is_lead DESC, running_ns DESC NULLS LAST, process_id
LIMIT {_MOST_PROCESSES}
"""  # noqa: S608 - a number of our own
_LIMIT_SQL = f"""
SELECT code, share, low_share, high_share, time_ns / {MS} AS time_ms
FROM limit_share ORDER BY time_ns DESC, code LIMIT {_MOST_LIMITS}
"""  # noqa: S608 - numbers of our own


def iteration_rows(trace: Trace) -> pd.DataFrame:
    """Return a row per bar and phase: iterations, or means of some that follow each other.

    first_id, last_id: which; start_s, end_s: since the first one began; phase; time_ms: of the
    leading thread, and per iteration; from_ms, to_ms: where it is in the bar. Raises TraceError
    where there is no iteration.
    """
    ((count,),) = run_query(trace, "SELECT count(*) FROM iteration").rows
    if not count:
        raise _nothing("it has no iterations", trace)
    bars = iteration_bars(trace, ())
    rows = [
        (
            bar.first_id,
            bar.last_id,
            bar.start_ns / S,
            bar.end_ns / S,
            _name(phase),
            time_ns / MS,
        )
        for bar in bars.bars
        for phase, time_ns in zip(bars.phases, bar.parts_ns, strict=True)
    ]
    columns = ["first_id", "last_id", "start_s", "end_s", "phase", "time_ms"]
    return _stacked(pd.DataFrame(rows, columns=columns), "first_id")


def phase_rows(trace: Trace) -> pd.DataFrame:
    """Return a row per phase and what the leading thread did in it: phase, part, time_ms, share.

    time_ms of the parts of a phase add up to its time; share is a part of the phase.
    """
    rows = [
        (_name(row["operation"]), part, share * row["time_ns"] / MS, share)
        for row in run_records(trace, _PHASE_SQL)
        for part, share in _parts(row)
    ]
    if not rows:
        raise _nothing("it has no phases", trace)
    return pd.DataFrame(rows, columns=["phase", "part", "time_ms", "share"])


def process_rows(trace: Trace) -> pd.DataFrame:
    """Return a row per process and figure: process, part, share of the iterations.

    CPU time is that of all threads: 1 is one CPU. What was not measured has no row.
    """
    rows = [
        (_process(row), part, row[column])
        for row in run_records(trace, _PROCESS_SQL)
        for part, column in (("CPU time", "cpu_share"), (QUEUE, "queue_share"),
                             ("waits for a process", "waits_share"))
        if row[column] is not None
    ]  # fmt: skip
    if not rows:
        raise _nothing("nothing of its processes was measured", trace)
    return pd.DataFrame(rows, columns=["process", "part", "share"])


def limit_rows(trace: Trace) -> pd.DataFrame:
    """Return what limits the iterations: code, share, low_share, high_share, time_ms."""
    return _frame(trace, _LIMIT_SQL, "it has no iterations")


def run_queue_rows(trace: Trace) -> pd.DataFrame:
    """Return a row per length of waits for a CPU: who, from_us, to_us, waits, time_ms.

    from_ms, to_ms: where it is in the bar of that length.
    """
    rows = sorted(
        (LEAD if queue.who == "lead" else queue.who, 2 ** (place / 2) / US,
         2 ** ((place + 1) / 2) / US, waits, time_ns / MS)
        for queue in queues(trace)
        for place, waits, time_ns in queue.bins
    )  # fmt: skip
    if not rows:
        raise _nothing("no wait for a CPU was recorded", trace)
    columns = ["who", "from_us", "to_us", "waits", "time_ms"]
    return _stacked(pd.DataFrame(rows, columns=columns), "from_us")


def _stacked(rows: pd.DataFrame, bar: str) -> pd.DataFrame:
    """Return rows with from_ms and to_ms: Vega-Lite stacks no bars that have two ends already."""
    to_ms = rows.groupby(bar)["time_ms"].cumsum()
    return rows.assign(from_ms=to_ms - rows["time_ms"], to_ms=to_ms)


def _frame(trace: Trace, query: str, nothing: str) -> pd.DataFrame:
    found = run_query(trace, query)
    rows = list(found.rows)
    if not rows:
        raise _nothing(nothing, trace)
    return pd.DataFrame(rows, columns=list(found.columns))


def _parts(row: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    if row["queue_share"] is None:
        return [(UNKNOWN, 1.0)]
    waiting = [(QUEUE, row["queue_share"]), (WAITS, row["waits_share"])]
    if row["lost_share"]:
        waiting.append((LOST, row["lost_share"]))
    if row["python_share"] is None:
        # No sample fell into it: what it ran is not known.
        return [("on a CPU", row["cpu_share"]), *waiting]
    return [("Python", row["python_share"]), ("native code", row["native_share"]), *waiting]


def _process(row: Mapping[str, Any]) -> str:
    number = "" if row["number"] is None else f" {row['number']}"
    return f"{row['role']}{number} ({_name(row['name'])}, pid {row['pid']})"


def _name(text: str | None) -> str:
    """Return a name that is harmless on a page: Altair writes it between <script> and </script>."""
    return printable(text or "").replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}")


def _nothing(why: str, trace: Trace) -> TraceError:
    return TraceError(f"{trace.path}: nothing to plot: {why}", hint="rlscope-trace summarize TRACE")
