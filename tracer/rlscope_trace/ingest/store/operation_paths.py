"""The paths of operations: which operation was around which, in bounded number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlscope_trace._ingest import intern_paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlscope_trace.ingest.store.nested_ranges import NestedRanges

# The shim keeps 64 open ranges per thread; phases come between them.
MAX_DEPTH = 128
# What is worked out per path takes some two kilobytes of memory.
MAX_PATHS = 36_000
# Of operations that are kept outside of the others when there are so many.
_MAX_ROOTS = 4_000


@dataclass(slots=True)
class OperationPaths:
    """The paths met so far; ids count from 1."""

    lost_key: int
    """The key of operations without a name."""
    ids: dict[tuple[int, int], int] = field(default_factory=dict)
    """By parent path (0: none) and key."""
    depths: list[int] = field(default_factory=list)
    misplaced_count: int = 0
    """Operations that are kept outside of those that were around them."""

    def intern(self, nested: NestedRanges, key: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the path of each range."""
        local, parents, keys, _ = intern_paths(nested.parent, key)
        mine = np.zeros(len(keys) + 1, dtype=np.int32)
        misplaced = np.zeros(len(keys) + 1, dtype=bool)
        for index, (parent, own) in enumerate(zip(parents.tolist(), keys, strict=True), 1):
            around = int(mine[parent])
            mine[index] = self._intern(around, int(own))
            misplaced[index] = around and not self._is_in(int(mine[index]), around, int(own))
        self.misplaced_count += int(np.count_nonzero(misplaced[local]))
        return np.asarray(mine[local])

    def _is_in(self, path_id: int, around: int, key: int) -> bool:
        return self.ids.get((around, key)) == path_id

    def _intern(self, around: int, key: int) -> int:
        found = self.ids.get((around, key))
        if found is not None:
            return found
        depth = self.depths[around - 1] + 1 if around else 0
        if depth < MAX_DEPTH and len(self.ids) < MAX_PATHS:
            return self._add(around, key, depth)
        for own in (key, self.lost_key):
            found = self.ids.get((0, own))
            if found is not None:
                return found
            if len(self.ids) < MAX_PATHS + _MAX_ROOTS or own == self.lost_key:
                return self._add(0, own, 0)
        raise AssertionError("the last key is always taken")

    def _add(self, around: int, key: int, depth: int) -> int:
        self.ids[around, key] = len(self.ids) + 1
        self.depths.append(depth)
        return len(self.ids)
