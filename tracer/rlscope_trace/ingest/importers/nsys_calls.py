"""CUDA calls of Nsight Systems exports, and which GPU activity has none."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace.cuda_names import cuda_call_kind
from rlscope_trace.ingest.importers.nsys_gpu import Activities
from rlscope_trace.ingest.importers.nsys_source import Source, filled, missing
from rlscope_trace.ingest.importers.nsys_sqlite import Columns

# The runtime's table holds the calls of the driver too; a table of their own is an old form.
CALL_TABLES = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")


@dataclass(frozen=True, slots=True)
class Calls:
    """Equally long columns as in cuda_call_coded; masked where NULL."""

    thread: NDArray[np.int32]
    """As Owners numbers them."""
    columns: Columns


def read_calls(source: Source) -> Iterator[Calls]:
    """Read the calls of the CUDA runtime and driver; those that nest in another are kept."""
    for table in CALL_TABLES:
        read = source.read_intervals(table, ("globalTid", "correlationId", "nameId"))
        if read is None:
            continue
        rows = len(read["start"])
        names = source.numbered(read.get("nameId"), rows)
        correlations = filled(read.get("correlationId"), 0, rows)
        tids = filled(read.get("globalTid"), rows=rows)
        yield Calls(
            thread=source.owners.threads_at(source.index, tids, read["start"], read["end"]),
            columns={
                "start_ns": read["start"],
                "end_ns": read["end"],
                "kind": _kinds(source, names),
                "name_id": np.ma.MaskedArray(names, mask=names == 0),
                "correlation_id": np.ma.MaskedArray(correlations, mask=correlations == 0),
            },
        )


def _kinds(source: Source, names: NDArray[np.int32]) -> NDArray[np.uint8]:
    kinds = [cuda_call_kind(""), *(cuda_call_kind(name) for name in source.names.values())]
    return np.array(kinds, dtype=np.uint8)[names]


def count_orphans(
    source: Source, activities: list[Activities], calls: list[Calls]
) -> tuple[int, int | None]:
    """Count GPU activities whose call is not in the export; returns when the first began, too."""
    caused = _correlations_by_process(source, calls)
    count, first_ns = 0, None
    for part in activities:
        correlations = part.columns["correlation_id"]
        orphan = missing(correlations) & ~part.unasked
        for process in np.unique(part.process).tolist():
            here = (part.process == process) & ~missing(correlations)
            known = caused.get(process, np.empty(0, dtype=np.int64))
            orphan[here] = ~np.isin(np.ma.getdata(correlations)[here], known)
        if orphan.any():
            count += int(orphan.sum())
            began_ns = int(part.columns["start_ns"][orphan].min())
            first_ns = began_ns if first_ns is None else min(first_ns, began_ns)
    return count, first_ns


def _correlations_by_process(source: Source, calls: list[Calls]) -> dict[int, NDArray[Any]]:
    process_of = np.array(source.owners.process_of, dtype=np.int32)
    found: dict[int, list[NDArray[Any]]] = {}
    for part in calls:
        processes = process_of[part.thread]
        correlations = part.columns["correlation_id"]
        for process in np.unique(processes).tolist():
            here = (processes == process) & ~missing(correlations)
            found.setdefault(process, []).append(np.ma.getdata(correlations)[here])
    return {process: np.concatenate(parts) for process, parts in found.items()}
