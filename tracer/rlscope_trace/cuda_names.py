"""How calls and GPU activities of CUDA and HIP are called, and what kind of call a function is."""

import functools
import re

from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS

# cudaLaunchKernel_v7000, cuMemAlloc_v2_ptsz: the version and the stream mode are not the name.
_SUFFIX = re.compile(r"(_v\d+)?(_ptsz|_ptds)?(_v\d+)?$")
_API = re.compile(r"(?:cuda|cu|hip)(?=[A-Z])")
_RULES = (
    # Before launch: it launches a graph, not a kernel.
    ("graph", re.compile(r"GraphLaunch$")),
    (
        "launch",
        re.compile(r"\w*Launch(Kernel|Cooperative|Grid|ByPtr|MultiKernel)|Launch(Async)?$"),
    ),
    ("memcpy", re.compile(r"Memcpy")),
    ("memset", re.compile(r"Memset")),
    # It waits for the GPU; cudaStreamWaitEvent makes a stream wait, not the CPU.
    ("sync", re.compile(r"(Device|Stream|Event|Ctx|Context|Thread)Synchronize$")),
    (
        "memory",
        re.compile(
            r"(Ext|Host|Pitch)?Malloc|Free|Mem(Alloc|Free|Host|Create|Release|Map$|Unmap|Address)"
            r"|Host(Alloc|Free|Malloc)|Array3?D?(Create|Destroy)"
        ),
    ),
)

# By CUPTI's copy kind; the driver moves pages of unified memory when they are touched.
COPY_NAMES = {
    0: "Memcpy (unknown)", 1: "Memcpy HtoD", 2: "Memcpy DtoH", 3: "Memcpy HtoA",
    4: "Memcpy AtoH", 5: "Memcpy AtoA", 6: "Memcpy AtoD", 7: "Memcpy DtoA", 8: "Memcpy DtoD",
    9: "Memcpy HtoH", 10: "Memcpy PtoP", 11: "Memcpy HtoD (unified memory)",
    12: "Memcpy DtoH (unified memory)", 13: "Memcpy DtoD (unified memory)",
}  # fmt: skip
# By CUPTI's type of synchronisation.
SYNC_NAMES = {
    0: "Sync (unknown)",
    1: "Event sync",
    2: "Stream wait sync",
    3: "Stream sync",
    4: "Context sync",
}
SET_NAME = "Memset"


@functools.lru_cache(maxsize=4096)
def cuda_call_kind(name: str) -> int:
    """Return the code of cuda_call_coded.kind for a function, with or without its version."""
    short = _SUFFIX.sub("", name)
    api = _API.match(short)
    if api is None:
        return CUDA_CALL_KINDS.index("other")
    function = short[api.end() :]
    kinds = (kind for kind, rule in _RULES if rule.match(function))
    return CUDA_CALL_KINDS.index(next(kinds, "other"))


def graph_name(graph: int | None) -> str:
    """Return what a graph is called that was recorded as one; None: its number is not known."""
    return "CUDA graph" if graph is None else f"CUDA graph {graph}"
