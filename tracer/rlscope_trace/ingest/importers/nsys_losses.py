"""What an import of Nsight Systems exports leaves out, or cannot tell: counted by what it is."""

from dataclasses import dataclass, field

from rlscope_trace.ingest.writer.trace_stats import TraceStat

_Key = tuple[str, str | None]


@dataclass
class Losses:
    """Counts of losses, over all files."""

    _counts: dict[_Key, int] = field(default_factory=dict)
    _firsts: dict[_Key, int] = field(default_factory=dict)

    def add(
        self, code: str, count: int, *, first_ns: int | None = None, record: str | None = None
    ) -> None:
        """Count `count` more of a kind; first_ns in the time of the trace."""
        if not count:
            return
        key = (code, record)
        self._counts[key] = self._counts.get(key, 0) + count
        if first_ns is not None:
            self._firsts[key] = min(first_ns, self._firsts.get(key, first_ns))

    def add_half(self, table: str, count: int, first_ns: int | None) -> None:
        """Count rows whose end is missing, or lies before their start."""
        self.add("nsys_half", count, first_ns=first_ns, record=table)

    def stats(self) -> list[TraceStat]:
        """Return the rows of trace_stat."""
        return [
            TraceStat(code, count, self._firsts.get((code, record)), record=record)
            for (code, record), count in self._counts.items()
        ]
