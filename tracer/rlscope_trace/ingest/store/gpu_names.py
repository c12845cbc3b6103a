"""What the calls and activities of a GPU are called, as numbers of the table string."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.schema.vocabulary import GPU_ACTIVITY_KINDS, NAME_LOST
from rlscope_trace.cuda_names import (
    COPY_NAMES,
    SET_NAME,
    SYNC_NAMES,
    cuda_call_kind,
    graph_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rlscope_trace.ingest.store.strings import Strings

    Columns = dict[str, NDArray[Any]]

# Of rls_shim_gpu_call.api: CUPTI's activity kinds.
_APIS = {4: "driver", 5: "runtime"}
_KERNEL, _MEMCPY, _MEMSET, _GRAPH, _SYNC = (
    GPU_ACTIVITY_KINDS.index(kind) for kind in ("kernel", "memcpy", "memset", "graph", "sync")
)


class GpuNames:
    """The names of one spool."""

    def __init__(self, texts: Sequence[str | None], strings: Strings) -> None:
        """`texts`: by the index that records name them by; None: the text was lost."""
        self._texts = [NAME_LOST if text is None else text for text in texts]
        self._strings = strings
        # By index; 0: not used so far. The last entry is of records without a name.
        self._ids = np.zeros(len(texts) + 1, dtype=np.int32)
        self._kinds: dict[int, int] = {}

    def calls(self, calls: Columns) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the name and kind of each call, as cuda_call_coded holds them."""
        ids = self._of_texts(calls["name"])
        unnamed = ids == 0
        if unnamed.any():
            keys = calls["api"][unnamed].astype(np.int64) << 32 | calls["function"][unnamed]
            used, place = np.unique(keys, return_inverse=True)
            ids[unnamed] = self._numbers(
                f"{_APIS.get(key >> 32, 'CUDA')} function {key & 0xFFFFFFFF}"
                for key in used.tolist()
            )[place]
        used, place = np.unique(ids, return_inverse=True)
        kinds = [self._kind(string_id) for string_id in used.tolist()]
        return ids, np.array(kinds, dtype=np.uint8)[place]

    def activities(self, activities: Columns) -> NDArray[np.int32]:
        """Return the name of each activity; 0: it has none."""
        work = activities["work"]
        ids = np.where(work == _KERNEL, self._of_texts(activities["name"]), 0).astype(np.int32)
        self._fill(ids, work == _MEMCPY, activities["detail"], COPY_NAMES, "Memcpy")
        self._fill(ids, work == _SYNC, activities["detail"], SYNC_NAMES, "Sync")
        if (work == _MEMSET).any():
            ids[work == _MEMSET] = self._strings.number(SET_NAME)
        is_graph = work == _GRAPH
        used, place = np.unique(activities["graph"][is_graph], return_inverse=True)
        ids[is_graph] = self._numbers(graph_name(graph or None) for graph in used.tolist())[place]
        return ids

    def _fill(
        self,
        ids: NDArray[np.int32],
        chosen: NDArray[np.bool_],
        codes: NDArray[Any],
        known: dict[int, str],
        what: str,
    ) -> None:
        used, place = np.unique(codes[chosen], return_inverse=True)
        names = (known.get(code) or f"{what} ({code})" for code in used.tolist())
        ids[chosen] = self._numbers(names)[place]

    def _of_texts(self, index: NDArray[np.int32]) -> NDArray[np.int32]:
        for place in np.unique(index).tolist():
            if place >= 0 and not self._ids[place]:
                self._ids[place] = self._strings.number(self._texts[place])
        return self._ids[index]

    def _numbers(self, names: Any) -> NDArray[np.int32]:  # noqa: ANN401 - any iterable of str
        return np.array([self._strings.number(name) for name in names], dtype=np.int32)

    def _kind(self, string_id: int) -> int:
        if string_id not in self._kinds:
            self._kinds[string_id] = cuda_call_kind(self._strings.value(string_id))
        return self._kinds[string_id]
