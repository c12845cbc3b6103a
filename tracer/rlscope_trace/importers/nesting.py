"""The paths of operations: which stacks of ranges occur."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace._import import intern_paths
from rlscope_trace.importers.columns import Table
from rlscope_trace.store.nested_ranges import NestedRanges


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
    """Return the tables operation_path and operation_coded.

    key: per row of `ranges`, in their order, its place in `names`.
    """
    paths, parents, keys, depths = intern_paths(
        ranges.parent, np.ascontiguousarray(key, dtype=np.int64)
    )
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
            "thread_id": ranges.thread_id,
            "start_ns": ranges.start_ns,
            "end_ns": ranges.end_ns,
            "path_id": paths,
        },
    }
