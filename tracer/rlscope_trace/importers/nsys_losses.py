"""What an import of Nsight Systems exports leaves out, or cannot tell: counted by what it is."""

from dataclasses import dataclass, field

from rlscope_trace.store.stats import TraceStat

_MAKE_AGAIN = "export it once more, or record it once more"


@dataclass
class Losses:
    """Counts of losses, over all files."""

    _counts: dict[tuple[str, str], int] = field(default_factory=dict)
    _firsts: dict[tuple[str, str], int] = field(default_factory=dict)
    _remedies: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        source: str,
        count: int,
        *,
        first_ns: int | None = None,
        remedy: str | None = None,
    ) -> None:
        """Count `count` more of a kind; first_ns in the time of the trace."""
        if not count:
            return
        key = (kind, source)
        self._counts[key] = self._counts.get(key, 0) + count
        self._remedies[key] = remedy
        if first_ns is not None:
            self._firsts[key] = min(first_ns, self._firsts.get(key, first_ns))

    def add_half(self, table: str, count: int, first_ns: int | None) -> None:
        """Count rows whose end is missing, or lies before their start."""
        self.add(
            "unmatched", f"rows of {table} without an end after their start: left out", count,
            first_ns=first_ns, remedy=_MAKE_AGAIN,
        )  # fmt: skip

    def stats(self) -> list[TraceStat]:
        """Return the rows of trace_stat."""
        return [
            TraceStat(kind, source, count, self._firsts.get((kind, source)), remedy)
            for (kind, source), count in self._counts.items()
            for remedy in [self._remedies[kind, source]]
        ]
