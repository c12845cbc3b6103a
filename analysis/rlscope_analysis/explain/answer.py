"""Explains one iteration: two tables over its critical path, and which iteration it is."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import QuestionError, TraceError
from rlscope_analysis.query import run_query
from rlscope_analysis.result.column import Column, Role, Said, unit_of
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import Answer, Table, total_of
from rlscope_analysis.window import asked_window

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

# What can be asked for beside a number: the quantile of the durations.
QUANTILES = {"fastest": 0.0, "median": 0.5, "p90": 0.9, "p99": 0.99, "slowest": 1.0}
_ADDITIVE = ("time_ns", "share", "typical_ns", "difference_ns")
# Of the number of an iteration.
_MOST_DIGITS = 9
_HIDDEN = ("process_id", "device_id", "start_ns", "thread_id")
_SAID = {"process": Said("process_or_gpu", ("device_id",))}


def explain(trace: Trace, which: str, *, per: str | None = None, keep: bool = False) -> Answer:
    """Explain an iteration of an open trace: its number, or one of QUANTILES.

    per: the range that counts as an iteration. keep: ask the critical path that was worked out last
    instead. Raises TraceError where there is no such iteration, or no range is called so.
    """
    if not keep:
        trace.critical_path(per=per)
    iteration = chosen_iteration(trace, which)
    number = iteration["iteration_id"]
    title = "what it spent its time on, and in what it differs from typical iterations (their mean)"
    parts = _table(trace, number, "parts", title)
    title = "its longest steps, in the order of time"
    steps = _table(trace, number, "steps", title, rank="duration_ns")
    title = "the Python functions that most of it is in, by samples: the innermost first"
    functions = _table(trace, number, "functions", title)
    window = asked_window(trace.connection)
    return Answer(
        tables=(parts, functions, steps) if functions.rows else (parts, steps),
        data=steps,
        facts={
            "trace": str(trace.path),
            "window": window,
            "iteration": iteration,
            "parts": list(parts.records()),
            "functions": list(functions.records()),
        },
        head=(
            ("trace", str(trace.path)),
            *((("window", str(window)),) if window else ()),
            ("iteration", note("explained_iteration", **iteration)),
        ),
    )


def chosen_iteration(trace: Trace, which: str) -> dict[str, Any]:
    """Return what is known of an iteration: its number, or one of QUANTILES.

    The relations of `Trace.critical_path` are there. Raises QuestionError where it is neither,
    TraceError where there is none such.
    """
    if which in QUANTILES:
        query = _sql("chosen", number="NULL::BIGINT", quantile=QUANTILES[which])
    elif which.isascii() and which.isdigit() and len(which) <= _MOST_DIGITS:
        query = _sql("chosen", number=int(which), quantile=0.5)
    else:
        raise QuestionError(
            f"{which!r} is no iteration", hint=f"a number, or one of: {', '.join(QUANTILES)}"
        )
    found = run_query(trace, query)
    rows = list(found.rows)
    if not rows:
        ((count,),) = run_query(trace, "SELECT count(*) FROM iteration").rows
        raise TraceError(
            f"{trace.path} has no iteration {which}" if count else f"{trace.path} has no iteration",
            hint=f"it has 1 to {count}" if count else "it holds no thread: rlscope-trace summarize",
        )
    return dict(zip(found.columns, rows[0], strict=True))


def _sql(name: str, **values: object) -> str:
    """Return the query in the .sql file of this name, with numbers in its places."""
    query = resources.files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return query.format(**values)


def _table(
    trace: Trace, iteration_id: int, name: str, title: str, *, rank: str | None = None
) -> Table:
    """Return what a query tells of an iteration; rank: of many rows those with most are shown."""
    result = run_query(trace, _sql(name, iteration_id=iteration_id))
    rows = list(result.rows)
    columns = tuple(
        Column(
            column,
            unit_of(column, type_name),
            Role.HIDDEN if column in _HIDDEN else Role.SHOWN,
            additive=column in _ADDITIVE,
            said=_SAID.get(column),
        )
        for column, type_name in zip(result.columns, result.types, strict=True)
    )
    return Table(name, title, columns, rows, total=total_of(columns, rows), rank=rank)
