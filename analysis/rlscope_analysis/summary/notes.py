"""What limits the numbers of a trace: the same in every summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.query import run_records
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.sentences import coverage_sentence, facts_of, is_lack, site_sentence
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
    found = []
    for row in run_records(trace, queries.NOT_MEASURED_SQL):
        facts = facts_of(row["facts"])
        if (kinds is None or row["kind"] in kinds) and is_lack(facts):
            reason = coverage_sentence(facts, measured=row["is_measured"], origin_ns=first_ns)
            order = (str(row["kind"]), not row["of_all"], row["is_measured"], reason)
            found.append((order, note("not_measured", origin_ns=first_ns, **row)))
    return [reported for _, reported in sorted(found, key=lambda pair: pair[0])]


def site_notes(trace: Trace) -> Iterable[Note]:
    """Tell which functions were not, or not to the end, probed, and why."""
    rows = sorted(run_records(trace, queries.SITES_SQL), key=_site_order)
    yield from (note("sites", **row) for row in rows[:_SITE_LINES])
    if len(rows) > _SITE_LINES:
        yield note("more_sites", count=sum(row["count"] for row in rows[_SITE_LINES:]))
    first_ns = origin_ns(trace.connection)
    for row in run_records(trace, queries.LATE_PROBES_SQL):
        yield note("late_probes", origin_ns=first_ns, **row)


def _site_order(row: dict[str, Any]) -> tuple[Any, ...]:
    words = site_sentence(row["state"], row["code"], row["detail"], row["numbers"])
    return -row["count"], words, row["layer"] or "", row["symbol"] or ""


def fault_notes(trace: Trace, relations: Collection[str] | None = None) -> Iterable[Note]:
    """Tell of rows that are not as the schema promises. relations: tell of these only."""
    for row in run_records(trace, queries.FAULTS_SQL):
        if relations is None or row["relation"] in relations:
            yield note("faulty_rows", **row | {"fault": row["fault"].replace("_", " ")})
