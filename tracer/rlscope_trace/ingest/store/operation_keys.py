"""What is known of the ranges and marks that are called the same: a key, as the decoder says."""

from collections.abc import Iterable, Sequence

import numpy as np

from rlscope_analysis.schema.vocabulary import (
    LOST_OPERATION,
    LOST_SOURCE,
    NAME_LOST,
    RAY_DOMAIN,
    UNNAMED,
)
from rlscope_trace.ingest.store.operation_inserts import Columns, texts_column

# RLS_AUTO_DOMAIN of cupti/records.h.
_AUTO_DOMAIN = "rlscope"

# Name, domain, category, source, color, the framework's name of a key.
_Described = tuple[str, str | None, str | None, str, int | None, str | None]


class OperationKeys:
    """The keys of one recording, numbered as the decoder numbers them."""

    def __init__(self, names: Iterable[tuple[str | None, str | None, str | None, int]]) -> None:
        """names: name, domain, category ("": none, None: lost) and color of each key."""
        self._described = [_described(*name) for name in names]
        self.is_auto = np.array([key[3] == "auto" for key in self._described], dtype=np.uint8)
        """1 for those of phases that were found."""
        self.lost = len(self._described)
        """The key of operations whose name is not known."""
        self._described.append(_described(None, "", "", 0))
        self.dropped = len(self._described)
        """The key of time whose operations were dropped."""
        self._described.append((LOST_OPERATION, None, None, LOST_SOURCE, None, None))

    def add_tasks(self, names: Iterable[str]) -> int:
        """Add the names of tasks of Ray; return the key of the first one."""
        first = len(self._described)
        self._described += [(name, None, None, "ray", None, None) for name in names]
        return first

    def add_methods(self, names: Iterable[str]) -> dict[str, int]:
        """Add the names of methods of async actors; return the key of each."""
        first, distinct = len(self._described), dict.fromkeys(names)
        self._described += [(name, RAY_DOMAIN, None, "ray", None, None) for name in distinct]
        return {name: key for key, name in enumerate(distinct, first)}

    def name(self, key: int) -> str:
        """Return the name of a key."""
        return self._described[key][0]

    def columns(self, keys: Sequence[int]) -> Columns:
        """Return what is known of some keys as columns; "" and 0 where there is nothing."""
        found = [self._described[key] for key in keys]
        return {
            "name": texts_column([row[0] for row in found]),
            "domain": texts_column([row[1] for row in found]),
            "category": texts_column([row[2] for row in found]),
            "source": texts_column([row[3] for row in found]),
            "color": np.array([row[4] or 0 for row in found], dtype=np.uint32),
            "framework_name": texts_column([row[5] for row in found]),
        }


def _described(
    name: str | None, domain: str | None, category: str | None, color: int
) -> _Described:
    """Turn what the decoder knows of a key into the columns of operation_path."""
    if name is not None:
        name = name or UNNAMED
    is_auto = domain == _AUTO_DOMAIN
    said = NAME_LOST if category is None else category or None
    return (
        NAME_LOST if name is None else name,
        NAME_LOST if domain is None else domain or None,
        # What frameworks call a phase comes as its category.
        None if is_auto else said,
        "auto" if is_auto else "nvtx",
        color or None,
        said if is_auto else None,
    )
