"""NVTX ranges of Nsight Systems exports."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace.ingest.importers.nsys_owners import without_tid
from rlscope_trace.ingest.importers.nsys_source import Names, Source, distinct_rows, filled, missing
from rlscope_trace.ingest.importers.nsys_sqlite import Columns

TABLE = "NVTX_EVENTS"
# NVTX_EVENTS.eventType; those from 64 on come from NVTX text files imported into the report.
_CATEGORY, _DOMAIN = 33, 75
_PUSH_POP = (59, 70)
_START_END = (60, 71)
_MARKS = (34, 65)
# Names of threads, devices, contexts and streams, ends of domains, and the like: no events.
_NAMINGS = (32, 33, 39, 64, 72, 73, 74, 75, 76, 97, 98, 99)
_COLUMNS = ("eventType", "globalTid", "domainId", "category", "textId")


@dataclass
class NvtxNames:
    """What the ranges of all files are called."""

    texts: Names = field(default_factory=Names)
    domains: Names = field(default_factory=Names)
    categories: Names = field(default_factory=Names)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Equally long columns; an end may be missing."""

    owner: NDArray[np.int32]
    """Thread of a push/pop range, process of a start/end range, as Owners numbers them."""
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    is_open: NDArray[np.bool_]
    """Which had no end when the recording ended."""
    text: NDArray[np.int32]
    domain: NDArray[np.int32]
    category: NDArray[np.int32]
    """Numbers in NvtxNames; 0: none."""

    def ended(self, end_ns: int) -> "Ranges":
        """Return them with an end for the open ones."""
        return replace(self, end_ns=np.where(self.is_open, end_ns, self.end_ns))


def read_ranges(source: Source, names: NvtxNames) -> tuple[Ranges | None, Ranges | None]:
    """Read the push/pop ranges and the start/end ranges of an export; count the rest."""
    read = source.read_times(TABLE, _COLUMNS)
    if read is None:
        return None, None
    rows = len(read["start"])
    read["text"] = _texts(source, read, names.texts)
    types = filled(read.get("eventType"), _PUSH_POP[0], rows)
    read["tid"] = filled(read.pop("globalTid", None), rows=rows)
    read["domain"], read["category"] = _domains_and_categories(read, types, names)
    _count_others(source, types, np.ma.getdata(read["start"]))
    return (
        _ranges(source, read, np.isin(types, _PUSH_POP), threads=True),
        _ranges(source, read, np.isin(types, _START_END), threads=False),
    )


def _ranges(source: Source, read: Columns, wanted: NDArray[Any], *, threads: bool) -> Ranges | None:
    ends = read.get("end")
    no_end = missing(ends) if ends is not None else np.ones(len(wanted), dtype=bool)
    starts = np.ma.getdata(read["start"])
    end_values = starts if ends is None else np.ma.getdata(ends)
    half = wanted & (missing(read["start"]) | (~no_end & (end_values < starts)))
    if half.any():
        source.losses.add_half(TABLE, int(half.sum()), int(starts[half].min()))
        wanted = wanted & ~half
    if not wanted.any():
        return None
    starts, end_values, is_open = starts[wanted], end_values[wanted], no_end[wanted]
    last = np.where(is_open, starts, end_values)
    find = source.owners.threads_at if threads else source.owners.processes_at
    return Ranges(
        owner=find(source.index, read["tid"][wanted], starts, last),
        start_ns=starts,
        end_ns=last,
        is_open=is_open,
        text=read["text"][wanted],
        domain=read["domain"][wanted],
        category=read["category"][wanted],
    )


def _texts(source: Source, read: Columns, texts: Names) -> NDArray[np.int32]:
    """Return the number of the text of each row: its own, or the registered one."""
    rows = len(read["start"])
    numbers = np.zeros(rows, dtype=np.int32)
    if "textId" in read:
        keys, place = np.unique(filled(read["textId"]), return_inverse=True)
        strings = source.file.strings(keys.tolist())
        registered = [texts.number(strings.get(key)) for key in keys.tolist()]
        numbers = np.array(registered, dtype=np.int32)[place]
    if "text" in source.file.tables[TABLE]:
        own = (texts.number(text) for text in source.file.read_texts(TABLE, "text"))
        own_numbers = np.fromiter(chain(own, repeat(0)), dtype=np.int32, count=rows)
        numbers = np.where(own_numbers, own_numbers, numbers)
    return numbers


def _domains_and_categories(
    read: Columns, types: NDArray[Any], names: NvtxNames
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the numbers of the domain and of the category of each row.

    Both are ids of a process, named by rows of their own: 0 is the default domain, and no category.
    """
    rows = len(types)
    domains = filled(read.pop("domainId", None), 0, rows)
    categories = filled(read.pop("category", None), 0, rows)
    processes = without_tid(read["tid"])
    text_of = ["", *names.texts.values()]

    def named(keys: tuple[NDArray[Any], ...], kind: int, what: str, to: Names) -> NDArray[np.int32]:
        first, place = distinct_rows(keys)
        reported = np.flatnonzero(types == kind)
        # The first of several names of one id counts.
        known = dict(zip(place[reported].tolist()[::-1], reported.tolist()[::-1], strict=True))
        numbers = np.zeros(len(first), dtype=np.int32)
        for number, row in enumerate(first.tolist()):
            if identity := int(keys[-1][row]):
                text = text_of[read["text"][known[number]]] if number in known else ""
                numbers[number] = to.number(text or f"{what} {identity}")
        return numbers[place]

    return (
        named((processes, domains), _DOMAIN, "domain", names.domains),
        named((processes, domains, categories), _CATEGORY, "category", names.categories),
    )


def _count_others(source: Source, types: NDArray[Any], starts: NDArray[Any]) -> None:
    """Count the events that are neither a range nor the name of something."""
    others = ~np.isin(types, (*_PUSH_POP, *_START_END, *_NAMINGS))
    counts = Counter(types[others].tolist())
    marks = sum(counts.pop(kind, 0) for kind in _MARKS)
    is_mark = np.isin(types, _MARKS)
    source.losses.add(
        "nsys_marks_skipped", marks, first_ns=int(starts[is_mark].min()) if marks else None
    )
    for kind, count in sorted(counts.items()):
        first_ns = int(starts[types == kind].min())
        source.losses.add("nsys_events_skipped", count, first_ns=first_ns, record=str(kind))
