"""Which functions of a file are calls of the CUDA API that are worth a probe: rules over names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS
from rlscope_trace.cuda_names import cuda_call_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.probes.calls import Point

# libcuda.so.1, libcudart.so.13, and libcudart-d0da41ae.so.11.0 as wheels carry it.
_LIBRARY = re.compile(r"(?:.*/)?lib(cuda|cudart)(-[0-9a-f]+)?\.so(\.[\w.]+)?")
_DRIVER_NAME = re.compile(r"cu[A-Z]\w*")
_RUNTIME_NAME = re.compile(r"cuda[A-Z]\w*")
# What a program has that the runtime library is linked into.
_SIGNS = frozenset({"cudaGetDeviceCount", "cudaLaunchKernel", "cudaMalloc"})
# In this order where the OS kernel takes a few probes only; a launch goes before a copy.
_ORDER = ("launch", "graph", "sync", "memcpy", "memset", "memory")
# The code of kernels, in the file of whoever has some; strip leaves it.
_DEVICE_CODE = ".nv_fatbin"


class Functions(Protocol):
    """A file of code: _capture.FunctionFile."""

    def names(self, prefix: str) -> list[str]:
        """Return the names of its functions that begin so."""

    def sites(self, names: Sequence[str]) -> dict[str, tuple[int, int, bool] | str]:
        """Return offset to probe, offset of the function, whether expensive; or why not."""

    def imports(self, prefix: str) -> bool:
        """Tell whether it asks other files for a symbol that begins so."""

    def has_section(self, name: str) -> bool:
        """Tell whether it has a section of this name."""


@dataclass(frozen=True, slots=True)
class CudaFunctions:
    """What a file has of the CUDA API."""

    points: list[Point] = field(default_factory=list)
    """In the order in which they matter."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Name -> why it cannot be probed."""
    is_blind: bool = False
    """The runtime library is linked into it, it seems, but its names were stripped."""


def library_of(path: str) -> str | None:
    """Return "cuda" for the driver library, "cudart" for the runtime, None for another file."""
    found = _LIBRARY.fullmatch(path.removesuffix(" (deleted)"))
    return found[1] if found else None


def kind_of(name: str) -> str | None:
    """Return the kind of a call that is worth a probe, None for a function that is not.

    Worth it is what launches, copies, sets, waits, and what allocates or frees; with any version
    and stream mode (`_v2`, `_ptsz`, `_ptds`). Names with underscores before them are the same
    functions once more: they jump to those without.
    """
    kind = CUDA_CALL_KINDS[cuda_call_kind(name)]
    return kind if kind in _ORDER else None


def functions_of(file: Functions, path: str) -> CudaFunctions:
    """Return what a file has: exported functions of the libraries, else those linked into it."""
    library = library_of(path)
    if library is None:
        return _linked_in(file, path)
    pattern = _DRIVER_NAME if library == "cuda" else _RUNTIME_NAME
    return _chosen(file, path, [name for name in file.names("cu") if pattern.fullmatch(name)])


def _linked_in(file: Functions, path: str) -> CudaFunctions:
    if file.imports("cuda"):
        return CudaFunctions()
    names = file.names("cuda")
    if _SIGNS.isdisjoint(names):
        return CudaFunctions(is_blind=not names and file.has_section(_DEVICE_CODE))
    return _chosen(file, path, [name for name in names if _RUNTIME_NAME.fullmatch(name)])


def _chosen(file: Functions, path: str, names: Sequence[str]) -> CudaFunctions:
    kinds = {name: kind for name in names if (kind := kind_of(name))}
    found = CudaFunctions()
    # One function may have several names: the shortest is the plain one.
    taken: set[int] = set()
    sites = file.sites(list(kinds))
    for name in sorted(sites, key=lambda name: (len(name), name)):
        site = sites[name]
        if isinstance(site, str):
            found.rejected[name] = site
        elif site[0] not in taken:
            taken.add(site[0])
            found.points.append((path, site[0], name, kinds[name], site[1], site[2]))
    found.points.sort(key=lambda point: (_ORDER.index(point[3]), len(point[2]), point[2]))
    return found
