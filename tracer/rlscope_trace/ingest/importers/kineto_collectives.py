"""Which kernels of several ranks are one collective: same process group, same sequence number."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace.ingest.importers.kineto_file import Columns, KinetoFile
from rlscope_trace.ingest.writer.trace_stats import TraceStat

# Those in which no rank ends before all have begun. Of the others all wait for one, or one for all
# (broadcast, reduce, gather, scatter: traces do not tell the root), or each for those that send it
# something (all_to_allv). send and recv are numbered by each rank as it comes to them: the numbers
# of two ranks have nothing to do with each other.
_WAIT_FOR_ALL = frozenset(
    (
        "allreduce", "allreduce_sparse", "allreduce_coalesced", "all_gather", "_allgather_base",
        "allgather_into_tensor_coalesced", "reduce_scatter", "_reduce_scatter_base",
        "reduce_scatter_tensor_coalesced", "all_to_all", "barrier",
    )
)  # fmt: skip
_NONE = -1
_TAKEN = (
    "process_id", "device", "stream", "start_ns", "end_ns", "correlation", "sequence", "group_size",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankActivities:
    """The GPU activities of one file, with process_id, on the clock of the trace."""

    file: KinetoFile
    activities: Columns
    has_clock: bool
    """Whether its times fit to those of other files."""


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of a trace whose ranks are all there, and how many were left out."""

    rows: Columns
    """Columns of GPU activities, collective_id from 1, name and group: places in the two lists."""
    names: list[str]
    groups: list[str]
    losses: list[TraceStat]


def find_collectives(ranks: Sequence[RankActivities]) -> Collectives | None:
    """Find which kernels are one collective; None: no file tells of any."""
    numbered = _Numbered()
    parts = [part for rank in ranks if (part := numbered.part(rank)) is not None]
    if not parts:
        return None
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((rows["process_id"], rows["sequence"], rows["group"]))
    calls = _Calls({name: column[order] for name, column in rows.items()})
    # The other ranks of a single one are elsewhere: nothing is lost by that.
    has_several = len(np.unique(rows["process_id"])) > 1
    return Collectives(
        calls.whole(),
        numbered.names(),
        numbered.groups(),
        list(calls.losses()) if has_several else [],
    )


class _Numbered:
    """Numbers what identifies collectives, the same in all files."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._groups: dict[tuple[str, str, int], int] = {}
        self._clocks: dict[str | int, int] = {}

    def part(self, rank: RankActivities) -> dict[str, NDArray[Any]] | None:
        """Return the collectives of one file as columns; None: it has none."""
        activities = rank.activities
        texts = rank.file.collectives
        names = np.array([self._name(name) for name, _, _ in texts] or [_NONE])
        is_call = (
            (activities["collective"] != _NONE)
            & (names[activities["collective"]] != _NONE)
            & (activities["sequence"] >= 0)
            & (activities["group_size"] > 1)
        )
        if not is_call.any():
            return None
        columns = {name: activities[name][is_call] for name in _TAKEN}
        which = activities["collective"][is_call]
        groups = [
            self._groups.setdefault((*texts[text][1:], size), len(self._groups))
            for text, size in zip(which.tolist(), columns["group_size"].tolist(), strict=True)
        ]
        # Who does not know its host, or the time of day, has a clock of its own.
        host = rank.file.host if rank.has_clock else None
        clock = self._clocks.setdefault(host or len(self._clocks), len(self._clocks))
        return {
            **columns,
            "name": names[which],
            "group": np.array(groups),
            "clock": np.full(len(which), clock),
        }

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names)) if name in _WAIT_FOR_ALL else _NONE

    def names(self) -> list[str]:
        return list(self._names)

    def groups(self) -> list[str]:
        """Return the names of the process groups; those with other ranks may be called the same."""
        return [name for name, _, _ in self._groups]


class _Calls:
    """Kernels in the order of group, sequence number, process: those of one call are together."""

    def __init__(self, rows: dict[str, NDArray[Any]]) -> None:
        self._rows = rows
        changes = _differs(rows["group"]) | _differs(rows["sequence"])
        self._first = np.flatnonzero(changes)
        self._ids = np.cumsum(changes)
        self._losses = self._find_losses()

    def whole(self) -> dict[str, NDArray[Any]]:
        """Return the kernels of calls of which nothing speaks against that they are one."""
        left_out = np.logical_or.reduce([is_lost for _, is_lost in self._losses])
        is_whole = ~left_out[self._ids - 1]
        rows = {**self._rows, "collective_id": self._ids}
        return {name: column[is_whole] for name, column in rows.items()}

    def _find_losses(self) -> list[tuple[str, NDArray[np.bool_]]]:
        rows, first = self._rows, self._first
        count = np.diff(np.append(first, len(self._ids)))
        # Coalesced calls, graphs that run again, groups that were made anew.
        again = ~(_differs(rows["process_id"]) | _differs(self._ids))
        repeated = np.logical_or.reduceat(again, first)
        size = rows["group_size"][first]
        ambiguous = repeated | (count > size) | self._varies("name")
        incomplete = ~ambiguous & (count < size)
        clocks = ~ambiguous & ~incomplete & self._varies("clock")
        begun = np.maximum.reduceat(rows["start_ns"], first)
        ended = np.minimum.reduceat(rows["end_ns"], first)
        backward = ~ambiguous & ~incomplete & ~clocks & (begun > ended)
        return [
            ("kineto_collective_ambiguous", ambiguous),
            ("kineto_collective_incomplete", incomplete),
            ("kineto_collective_clocks", clocks),
            ("kineto_collective_backward", backward),
        ]

    def _varies(self, name: str) -> NDArray[np.bool_]:
        column = self._rows[name]
        is_like_first = column == column[self._first][self._ids - 1]
        return ~np.logical_and.reduceat(is_like_first, self._first)

    def losses(self) -> Iterator[TraceStat]:
        """Yield how many calls were left out, and why."""
        starts_ns = np.minimum.reduceat(self._rows["start_ns"], self._first)
        for code, is_lost in self._losses:
            if is_lost.any():
                yield TraceStat(code, int(is_lost.sum()), int(starts_ns[is_lost].min()))


def _differs(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell of each row whether it differs from the one before; the first does."""
    return np.append(True, column[1:] != column[:-1])
