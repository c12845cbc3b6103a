"""The table coverage: what was measured of which process, collected before it is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.coverage import COVERAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlscope_analysis.schema.facts.fact import Fact
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

COVERAGE_COLUMNS = (
    "process_id", "kind", "measured", "part", "code", "subject", "detail", "count", "ts_ns",
    "duration_ns",
)  # fmt: skip
Row = tuple[int | str | bool | None, ...]


@dataclass(frozen=True, slots=True)
class KindCoverage:
    """Whether a kind of record of a process was measured, and what is to be said of that."""

    process_id: int | None
    """None: of every process of which nothing else is said of this kind."""
    kind: str
    measured: bool
    facts: tuple[Fact, ...] = ()

    @property
    def is_part(self) -> bool:
        """Whether it was measured, but not all of it."""
        return self.measured and any(COVERAGE[fact.code].is_part for fact in self.facts)

    def rows(self) -> Iterator[Row]:
        """Yield its rows of coverage: one for each fact, or one that says no more."""
        head = (self.process_id, self.kind, self.measured)
        if not self.facts:
            yield (*head, False, None, None, None, None, None, None)
        for fact in self.facts:
            is_part = self.measured and COVERAGE[fact.code].is_part
            yield (
                *head, is_part, fact.code, fact.subject, fact.detail, fact.count, fact.ts_ns,
                fact.duration_ns,
            )  # fmt: skip


class Coverages:
    """All of them, by process and kind: of each the one that was set last."""

    def __init__(self) -> None:
        self._found: dict[tuple[int | None, str], KindCoverage] = {}

    def set(self, *coverages: KindCoverage) -> None:
        """Set what is said of processes and kinds, in place of what was said before."""
        for coverage in coverages:
            self._found[coverage.process_id, coverage.kind] = coverage

    def get(self, process_id: int | None, kind: str) -> KindCoverage | None:
        """Return what was set for a process and a kind itself."""
        return self._found.get((process_id, kind))

    def add(self, process_id: int, kind: str, facts: Iterable[Fact]) -> None:
        """Say more of what was set already."""
        found = self._found[process_id, kind]
        self.set(replace(found, facts=(*found.facts, *facts)))

    def of_kind(self, kind: str) -> list[KindCoverage]:
        """Return what was set for a kind."""
        return [coverage for coverage in self._found.values() if coverage.kind == kind]

    def insert(self, trace: TraceWriter) -> None:
        """Write the table."""
        rows = [row for coverage in self._found.values() for row in coverage.rows()]
        trace.insert_rows("coverage", rows)
