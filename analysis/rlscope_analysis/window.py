"""Restricts a trace to an interval, for one connection, whatever is asked of it then."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.errors import QuestionError, TraceError
from rlscope_analysis.relations import WHOLE
from rlscope_analysis.schema import defined_views
from rlscope_analysis.views import view_sql

if TYPE_CHECKING:
    import duckdb

_UNITS_NS = {"": 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_INSTANT = re.compile(r"(?P<whole>\d*)(?:\.(?P<part>\d*))?\s*(?P<unit>s|ms|us|ns|)", re.ASCII)
# Far outside every trace, and far from where arithmetic on them would overflow.
EARLIEST_NS = -(2**62)
LATEST_NS = 2**62

# Since when and until when a trace lasts: of every process and thread.
SPAN_SQL = """
SELECT min(start_ns), max(end_ns)
FROM (SELECT start_ns, end_ns FROM thread UNION ALL SELECT start_ns, end_ns FROM process)
"""
# What ends where the window starts is outside, what takes no time at all and lies there is inside:
# of windows that follow each other, each interval without a length is in exactly one.
_INSIDE_SQL = (
    "start_ns < {to_ns} AND end_ns >= {from_ns} AND (end_ns > {from_ns} OR start_ns = {from_ns})"
)
# Tables of intervals, with what else than start_ns and end_ns changes inside a window. What crosses
# an edge of the window is cut there.
_INTERVAL_TABLES = {
    "process": "",
    # Steps are those of the window in which they end: of windows that follow each other, of one.
    "operation_coded": """, CASE
  WHEN end_ns <= {to_ns} THEN environment_steps WHEN environment_steps IS NOT NULL THEN 0
END AS environment_steps""",
    "async_range_coded": "",
    "native_call_coded": "",
    "wait_coded": "",
    "gil_release_coded": "",
    "other_run_coded": "",
    "cuda_call_coded": "",
    "gpu_activity_coded": "",
    "gpu_collective_coded": "",
    "gpu_overhead": "",
    # A wait for a CPU that began before the window is no whole one: nobody began it in the window.
    "thread_state_coded": """, CASE WHEN start_ns >= {from_ns} THEN waker_kind END AS waker_kind,
  CASE WHEN start_ns >= {from_ns} THEN waker_thread_id END AS waker_thread_id""",
}
# Tables of instants, which are in one window each.
_INSTANT_TABLES = (
    "mark_coded",
    "cpu_sample_coded",
    "gpu_memory",
    "counter",
    "os_counter",
    "cpu_quota_wait_coded",
)
# An edge is in a window with both of its ends.
_BOTH_SQL = "sent_ns >= {from_ns} AND read_ns < {to_ns}"
# Of a collective it is known of the whole trace only which process began it last.
_EDGE_SQL = "from_ns >= {from_ns} AND from_ns < {to_ns} AND to_ns <= {to_ns}"
# A number is attached to an instance: it is shown where that is, and begins where that does.
_PAYLOAD_SQL = """
CREATE OR REPLACE VIEW operation_payload AS
SELECT * REPLACE (greatest(start_ns, {from_ns}) AS start_ns)
FROM whole.operation_payload AS p
WHERE EXISTS (
  FROM whole.operation_coded AS o
  WHERE o.thread_id = p.thread_id AND o.start_ns = p.start_ns AND o.path_id = p.path_id
    AND {inside}
)
"""
# What was asked for, since the start of the trace; NULL: no bound was given. Only there if a window
# was asked for.
_ASKED_SQL = """
CREATE VIEW _window AS
SELECT {origin_ns}::BIGINT AS origin_ns, {from_ns}::BIGINT AS from_ns, {to_ns}::BIGINT AS to_ns
"""
# What was lost inside the window is what the states inside it leave uncovered.
_THREAD_SQL = """
SELECT
  t.thread_id, t.process_id, t.tid,
  greatest(t.start_ns, {from_ns}) AS start_ns,
  least(t.end_ns, {to_ns}) AS end_ns,
  t.name,
  t.ended AND t.end_ns <= {to_ns} AS ended,
  CASE WHEN t.lost_ns = 0 THEN 0 ELSE
    least(t.end_ns, {to_ns}) - greatest(t.start_ns, {from_ns}) - coalesce(s.known_ns, 0)
  END AS lost_ns,
  t.python_name
FROM whole.thread AS t
LEFT JOIN (
  SELECT thread_id, sum(end_ns - start_ns)::BIGINT AS known_ns FROM thread_state_coded GROUP BY ALL
) AS s ON s.thread_id = t.thread_id
WHERE t.start_ns < {to_ns} AND t.end_ns > {from_ns}
"""
# Which call launched what, and which samples fell into it, is asked of the whole trace: it may lie
# before the window. How long the GPU took to begin is known for what began in the window.
_LAUNCH_SQL = """
CREATE OR REPLACE VIEW launch AS
SELECT * REPLACE (
  greatest(start_ns, {from_ns}) AS start_ns,
  least(end_ns, {to_ns}) AS end_ns,
  least(end_ns, {to_ns}) - greatest(start_ns, {from_ns}) AS duration_ns,
  CASE WHEN start_ns >= {from_ns} THEN latency_ns END AS latency_ns,
  CASE WHEN start_ns >= {from_ns} THEN queue_ns END AS queue_ns
)
FROM whole.launch
WHERE {inside}
"""


@dataclass(frozen=True, slots=True)
class Window:
    """An interval [start_ns, end_ns) on the clock of the trace."""

    start_ns: int = EARLIEST_NS
    end_ns: int = LATEST_NS


@dataclass(frozen=True, slots=True)
class AskedWindow:
    """An interval as it was asked for: nanoseconds since the start of the trace."""

    from_ns: int | None
    """None: from the start."""
    to_ns: int | None
    """None: to the end."""

    def options(self) -> tuple[str, ...]:
        """Return it as a command is asked for it."""
        start = () if self.from_ns is None else ("--from", f"{self.from_ns}ns")
        end = () if self.to_ns is None else ("--to", f"{self.to_ns}ns")
        return start + end

    def __str__(self) -> str:
        """Write it for people, to the nanosecond."""
        start = "its start" if self.from_ns is None else _short_seconds(self.from_ns)
        end = "its end" if self.to_ns is None else _short_seconds(self.to_ns)
        return f"{start} to {end}, since the start of the trace"


def parse_instant(text: str) -> int:
    """Return the nanoseconds that `1.5`, `1.5s`, `200ms`, `7us` or `12ns` stand for, exactly.

    Raises QuestionError where the text is no such time.
    """
    found = _INSTANT.fullmatch(text.strip()) if isinstance(text, str) else None
    if not found or not (found["whole"] or found["part"]):
        raise QuestionError(
            f"{text!r} is no time",
            hint="seconds since the start of the trace, or with a unit, as text: 1.5, 200ms, 7us",
        )
    unit_ns = _UNITS_NS[found["unit"]]
    part = found["part"] or ""
    scaled = int((found["whole"] or "0") + part) * unit_ns
    return scaled // int("1" + "0" * len(part))


def window_of(
    connection: duckdb.DuckDBPyConnection, start: str | None, end: str | None
) -> Window | None:
    """Return the window between two times since the start of the trace; None: the whole trace.

    Raises QuestionError where nothing can be between them, TraceError where the trace has ended.
    """
    if start is None and end is None:
        return None
    ((first_ns, last_ns),) = connection.execute(SPAN_SQL).fetchall()
    origin_ns = first_ns or 0
    window = Window(
        EARLIEST_NS if start is None else min(origin_ns + parse_instant(start), LATEST_NS - 1),
        LATEST_NS if end is None else min(origin_ns + parse_instant(end), LATEST_NS),
    )
    if window.end_ns <= window.start_ns:
        raise QuestionError(
            f"the window ends at {end}, which is not after its start at {start or 0}",
            hint="give a later --to",
        )
    if last_ns is not None and window.start_ns >= last_ns > origin_ns:
        raise TraceError(
            f"the window starts at {start}, and the trace lasts {_seconds(last_ns - origin_ns)}",
            hint="give an earlier --from: times count from the start of the trace",
        )
    return window


def _seconds(time_ns: int) -> str:
    seconds, rest_ns = divmod(time_ns, 10**9)
    return f"{seconds}.{rest_ns:09} s"


def _short_seconds(time_ns: int) -> str:
    seconds, rest_ns = divmod(time_ns, 10**9)
    fraction = f"{rest_ns:09}"
    return f"{seconds:,}.{fraction[:3]}{fraction[3:].rstrip('0')} s"


def restrict(connection: duckdb.DuckDBPyConnection, window: Window) -> None:
    """Let every table of intervals show only what lies in the window, and so every view over them.

    The schema `whole` shows the tables as they are.
    """
    bounds = {"from_ns": window.start_ns, "to_ns": window.end_ns}
    inside = _INSIDE_SQL.format(**bounds)
    within = "ts_ns >= {from_ns} AND ts_ns < {to_ns}".format(**bounds)
    cut = "greatest(start_ns, {from_ns}) AS start_ns, least(end_ns, {to_ns}) AS end_ns"
    _note_window(connection, window)
    for table, changed in _INTERVAL_TABLES.items():
        _show(connection, table, f"* REPLACE ({cut}{changed})".format(**bounds), inside)
    for table in _INSTANT_TABLES:
        _show(connection, table, "*", within)
    _show(connection, "early_message", "*", _BOTH_SQL.format(**bounds))
    own = re.sub(r"\b(start_ns|end_ns)\b", r"o.\1", inside)
    connection.execute(_PAYLOAD_SQL.format(inside=own, **bounds))
    connection.execute("CREATE OR REPLACE VIEW thread AS" + _THREAD_SQL.format(**bounds))
    for view in defined_views(view_sql("launch")):
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS FROM {WHOLE}.{view}")
    connection.execute(_LAUNCH_SQL.format(inside=inside, **bounds))
    _show(connection, "_flow_collective", "*", _EDGE_SQL.format(**bounds))


def _show(connection: duckdb.DuckDBPyConnection, table: str, columns: str, condition: str) -> None:
    """Show some of the rows of a table."""
    connection.execute(
        f"CREATE OR REPLACE VIEW {table} AS SELECT {columns} FROM {WHOLE}.{table} WHERE {condition}"  # noqa: S608 - names and numbers of our own
    )


def _note_window(connection: duckdb.DuckDBPyConnection, window: Window) -> None:
    ((first_ns, _),) = connection.execute(SPAN_SQL).fetchall()
    bounds = {
        "origin_ns": first_ns or 0,
        "from_ns": "NULL" if window.start_ns == EARLIEST_NS else window.start_ns - (first_ns or 0),
        "to_ns": "NULL" if window.end_ns == LATEST_NS else window.end_ns - (first_ns or 0),
    }
    connection.execute(_ASKED_SQL.format(**bounds))


def asked_window(connection: duckdb.DuckDBPyConnection) -> AskedWindow | None:
    """Return the interval that this connection is restricted to; None: the whole trace."""
    if not _has_window(connection):
        return None
    ((from_ns, to_ns),) = connection.execute("SELECT from_ns, to_ns FROM _window").fetchall()
    return AskedWindow(from_ns, to_ns)


def origin_ns(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the instant from which --from and --to count, also where a window is shown."""
    sql = "SELECT origin_ns, 0 FROM _window" if _has_window(connection) else SPAN_SQL
    ((first_ns, _),) = connection.execute(sql).fetchall()
    return first_ns or 0


def _has_window(connection: duckdb.DuckDBPyConnection) -> bool:
    # What it is cut out of stands there with it, and there are few schemas to look at.
    asked = (
        "SELECT 1 FROM duckdb_schemas()"
        " WHERE schema_name = ? AND database_name = current_database()"
    )
    return bool(connection.execute(asked, [WHOLE]).fetchall())
