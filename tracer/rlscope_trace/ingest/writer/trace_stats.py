"""The rows of trace_stat: one for every loss."""

from dataclasses import dataclass

from rlscope_analysis.schema.facts.losses import LOSSES

# What a column of a count holds.
MOST = 2**63 - 1
STAT_COLUMNS = ("kind", "code", "count", "first_ns", "cpu", "record", "pid", "bytes", "detail")


@dataclass(frozen=True, slots=True)
class TraceStat:
    """One row of trace_stat. count and first_ns are None where they are not known."""

    code: str
    """Of rlscope_analysis.schema.facts.losses."""
    count: int | None
    first_ns: int | None = None
    cpu: int | None = None
    record: str | None = None
    pid: int | None = None
    bytes: int | None = None
    detail: str | None = None

    @property
    def kind(self) -> str:
        """How it was lost: as in trace_stat."""
        return LOSSES[self.code].kind

    @property
    def row(self) -> tuple[str | int | None, ...]:
        """All columns of trace_stat."""
        return tuple(getattr(self, name) for name in STAT_COLUMNS)
