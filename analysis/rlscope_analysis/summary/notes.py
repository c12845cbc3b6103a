"""What limits the numbers of a trace: the same in every summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_records
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.sentences import facts_of, is_lack
from rlscope_analysis.summary import queries
from rlscope_analysis.window import origin_ns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rlscope_analysis.trace import Trace

_SITE_LINES = 5


def unmeasured_notes(trace: Trace, kinds: Collection[str] | None = None) -> Iterable[Note]:
    """Tell which kinds of record were not or not wholly measured, of whom and why: each once.

    kinds: tell of these only.
    """
    first_ns = origin_ns(trace.connection)
    for row in run_records(trace, queries.NOT_MEASURED_SQL):
        if (kinds is None or row["kind"] in kinds) and is_lack(facts_of(row["facts"])):
            yield note("not_measured", origin_ns=first_ns, **row)


def site_notes(trace: Trace) -> Iterable[Note]:
    """Tell which functions were not, or not to the end, probed, and why."""
    rows = list(run_records(trace, queries.SITES_SQL))
    yield from (note("sites", **row) for row in rows[:_SITE_LINES])
    if len(rows) > _SITE_LINES:
        yield note("more_sites", count=sum(row["count"] for row in rows[_SITE_LINES:]))
    first_ns = origin_ns(trace.connection)
    for row in run_records(trace, queries.LATE_PROBES_SQL):
        yield note("late_probes", origin_ns=first_ns, **row)


def fault_notes(trace: Trace, relations: Collection[str] | None = None) -> Iterable[Note]:
    """Tell of rows that are not as the schema promises. relations: tell of these only."""
    for row in run_records(trace, queries.FAULTS_SQL):
        if relations is None or row["relation"] in relations:
            yield note("faulty_rows", **row | {"fault": row["fault"].replace("_", " ")})
