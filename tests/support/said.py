"""What a trace says of what was measured and lost, in the words that a user reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.sentences import coverage_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COLUMNS = "process_id, kind, measured, code, subject, detail, count, ts_ns, duration_ns"
Said = tuple[int | None, str, bool, str | None]


def said(ask: Callable[[str], Sequence[Sequence[Any]]], where: str = "TRUE") -> list[Said]:
    """Return process, kind, whether it was measured, and the sentence; None: there is none.

    ask: runs a query on the trace. where: of which rows of coverage.
    """
    (((origin_ns,)),) = ask("SELECT coalesce(min(start_ns), 0) FROM thread")
    facts: dict[tuple[int | None, str, bool], list[Fact]] = {}
    for process_id, kind, measured, code, *rest in ask(
        f"SELECT {_COLUMNS} FROM coverage WHERE {where}"
    ):
        found = facts.setdefault((process_id, kind, measured), [])
        if code is not None:
            found.append(Fact(code, *rest))
    rows = [
        (*key, coverage_sentence(found, measured=key[2], origin_ns=origin_ns) or None)
        for key, found in facts.items()
    ]
    return sorted(rows, key=lambda row: (row[0] is None, row[0] or 0, row[1]))
