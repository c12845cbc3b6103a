"""What limits the numbers of a trace, in sentences: the same in every summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query
from rlscope_analysis.sentences import coverage_sentence, facts_of, is_lack, site_sentence
from rlscope_analysis.summary import queries
from rlscope_analysis.window import origin_ns
from rlscope_analysis.wording import count_of, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rlscope_analysis.trace import Trace

_SITE_LINES = 5


def unmeasured_notes(trace: Trace, kinds: Collection[str] | None = None) -> Iterable[str]:
    """Tell which kinds of record were not or not wholly measured, of whom and why: each once.

    kinds: tell of these only.
    """
    first_ns = origin_ns(trace.connection)
    found = []
    for kind, rows, of_all, *owners, is_measured in run_query(trace, queries.NOT_MEASURED_SQL).rows:
        facts = facts_of(rows)
        if (kinds is None or kind in kinds) and is_lack(facts):
            reason = coverage_sentence(facts, measured=is_measured, origin_ns=first_ns)
            found.append((kind, of_all, is_measured, reason, *owners))
    found.sort(key=lambda row: (str(row[0]), not row[1], row[2], row[3]))
    for kind, of_all, is_measured, reason, has_others, processes, pid, name in found:
        if of_all:
            whom = "all other processes" if has_others else "all processes"
        else:
            whom = _process(pid, name)
            whom += f" and {count_of(processes - 1, 'more process')}" if processes > 1 else ""
        why = f": {printable(reason)}" if reason else ""
        what = "measured" if is_measured else "not measured"
        yield f"{what}: {printable(kind)} of {whom}{why}"


def site_notes(trace: Trace) -> Iterable[str]:
    """Tell which functions were not, or not to the end, probed, and why."""
    found = run_query(trace, queries.SITES_SQL).rows
    rows = [(site_sentence(*row[:4]), *row[4:]) for row in found]
    rows.sort(key=lambda row: (-row[2], row[0], row[1] or "", row[3] or ""))
    for sentence, layer, count, symbol in rows[:_SITE_LINES]:
        example = "" if symbol is None else f", for example {printable(symbol)}"
        functions = f"{count_of(count, 'function')} of {printable(layer or 'no layer')}"
        yield f"{printable(sentence)}: {functions}{example}"
    if len(rows) > _SITE_LINES:
        rest = sum(count for _, _, count, _ in rows[_SITE_LINES:])
        yield f"{rest:,} more functions not probed to the end; see table site"
    yield from _late_notes(trace)


def _late_notes(trace: Trace) -> Iterable[str]:
    first_ns = origin_ns(trace.connection)
    for layer, since_ns in run_query(trace, queries.LATE_PROBES_SQL).rows:
        # Not a millisecond too early.
        from_s = f"{-((first_ns - since_ns) // 10**6) / 1000:.3f}"
        yield (
            f"calls into the {layer} were recorded from {from_s} s on: operations that began before"
            f" have no count of them, but their later instances do; --from {from_s} counts the rest"
        )


def _process(pid: int | None, name: str | None) -> str:
    return f"{printable(name or '(no name)')} (pid {'not known' if pid is None else pid})"


def fault_notes(trace: Trace, relations: Collection[str] | None = None) -> Iterable[str]:
    """Tell of rows that are not as the schema promises. relations: tell of these only."""
    for relation, fault, count in run_query(trace, queries.FAULTS_SQL).rows:
        if relations is None or relation in relations:
            what = fault.replace("_", " ")
            yield f"rows of {relation} that are {what}: {count:,}; see overlap_fault"
