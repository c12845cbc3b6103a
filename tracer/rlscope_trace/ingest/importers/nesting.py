"""The paths of operations: which stacks of ranges occur."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace._ingest import intern_paths
from rlscope_trace.ingest.store.nested_ranges import NestedRanges
from rlscope_trace.ingest.writer.columns import Table
from rlscope_trace.ingest.writer.trace_stats import TraceStat

# Of one trace. Every further one would cost memory here and in everything that reads the trace.
_MAX_PATHS = 30_000
_MAX_DEPTH = 1_000


@dataclass(frozen=True, slots=True)
class OperationNames:
    """What tells operations apart, by the key that their ranges carry: equally long columns."""

    name: Sequence[str | None]
    domain: Sequence[str | None]
    category: Sequence[str | None]
    source: Sequence[str | None]


def operation_tables(
    ranges: NestedRanges, key: NDArray[Any], names: OperationNames
) -> dict[str, Table]:
    """Return the tables operation_path and operation_coded, without lost_operations().

    key: per row of `ranges`, in their order, its place in `names`.
    """
    paths, parents, keys, depths = intern_paths(
        ranges.parent, np.ascontiguousarray(key, dtype=np.int64), _MAX_PATHS, _MAX_DEPTH
    )
    kept = paths > 0
    return {
        "operation_path": {
            "path_id": list(range(1, len(keys) + 1)),
            "parent_path_id": [parent or None for parent in parents.tolist()],
            "name": [names.name[index] for index in keys],
            "domain": [names.domain[index] for index in keys],
            "category": [names.category[index] for index in keys],
            "source": [names.source[index] for index in keys],
            "depth": depths.tolist(),
        },
        "operation_coded": {
            "thread_id": ranges.thread_id[kept],
            "start_ns": ranges.start_ns[kept],
            "end_ns": ranges.end_ns[kept],
            "path_id": paths[kept],
        },
    }


def lost_operations(ranges: NestedRanges, tables: dict[str, Table], record: str) -> list[TraceStat]:
    """Return what trace_stat has to say of ranges that are not in the tables made of them."""
    count = len(ranges.thread_id) - len(tables["operation_coded"]["thread_id"])
    return [TraceStat("stacks_too_many", count, record=record)] if count else []
