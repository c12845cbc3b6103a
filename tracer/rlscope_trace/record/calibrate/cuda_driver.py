"""The CUDA driver by ctypes: as much of it as a program needs that does nothing but be measured.

No toolkit, no PyTorch, and nothing of this package: it is also loaded by its path alone.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

LIBRARY = "libcuda.so.1"
# Compiled by the driver when it is loaded. `nothing` ends at once, `spin` after so many ns.
KERNELS = b"""
.version 6.4
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry spin(.param .u64 length_ns) {
  .reg .pred %again;
  .reg .u64 %start, %now, %length;
  ld.param.u64 %length, [length_ns];
  mov.u64 %start, %globaltimer;
loop:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %again, %now, %length;
  @%again bra loop;
  ret;
}
"""
# Of these the driver has an older version under the plain name. Others too may have a second one,
# with other arguments: what is called is what is named.
_SECOND_VERSION = {
    "cuMemAlloc", "cuMemFree", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamBeginCapture",
}  # fmt: skip
_NON_BLOCKING = 1
_CAPTURE_RELAXED = 2


class CudaError(Exception):
    """A call of the driver failed, or there is no driver; the message says which and why."""

    def __init__(self, words: str, code: str, subject: str, *numbers: int) -> None:
        """code, subject, numbers: the same as calibration has it."""
        super().__init__(words)
        self.why = {"code": code, "subject": subject, "numbers": numbers}


@dataclass(slots=True)
class Graph:
    """A graph that can be launched."""

    handle: Any
    nodes: int


class CudaDriver:
    """The first GPU with its primary context, which is current on the thread that made this."""

    def __init__(self) -> None:
        """Raise CudaError where there is no driver or no GPU."""
        try:
            self.library = ctypes.CDLL(LIBRARY)
        except OSError:
            words = f"no NVIDIA driver: {LIBRARY} was not found"
            raise CudaError(words, "no_nvidia_driver", LIBRARY) from None
        self._functions: dict[str, Any] = {}
        code = self.function("cuInit")(ctypes.c_uint(0))
        if code != 0:
            raise CudaError(
                f"no GPU that works: cuInit -> {code}", "no_working_gpu", "cuInit", code
            )
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self._context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.enter()
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), KERNELS)
        self.nothing = self._kernel(module, b"nothing")
        self.spin = self._kernel(module, b"spin")

    def _kernel(self, module: ctypes.c_void_p, name: bytes) -> ctypes.c_void_p:
        kernel = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, name)
        return kernel

    def function(self, name: str) -> Any:  # noqa: ANN401 - ctypes says no more
        """Return a function of the driver, in the version whose arguments we give."""
        if name not in self._functions:
            exported = f"{name}_v2" if name in _SECOND_VERSION else name
            found = getattr(self.library, exported, None)
            if found is None:
                raise CudaError(f"{LIBRARY} has no {name}", "cuda_function_missing", name)
            self._functions[name] = found
        return self._functions[name]

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver; CudaError where it fails."""
        code = self.function(name)(*arguments)
        if code != 0:
            raise CudaError(f"{name} -> {code}", "cuda_call_failed", name, code)

    def enter(self) -> None:
        """Make the context that of the calling thread."""
        self.call("cuCtxSetCurrent", self._context)

    def stream(self) -> ctypes.c_void_p:
        """Return a new stream."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        return stream

    def launch(self, stream: ctypes.c_void_p | None = None, spin_ns: int | None = None) -> None:
        """Launch a kernel that ends at once, or after so many ns."""
        kernel, arguments = self.nothing, None
        if spin_ns is not None:
            length_ns = ctypes.c_uint64(spin_ns)
            kernel = self.spin
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(length_ns))
        self.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None)

    def synchronize(self, stream: ctypes.c_void_p | None = None) -> None:
        """Wait until all that was launched is done."""
        self.call("cuStreamSynchronize", stream)

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Return memory of the GPU."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def copy(self, memory: ctypes.c_uint64, host: Any, stream: ctypes.c_void_p | None) -> None:  # noqa: ANN401
        """Copy a buffer of ctypes to the GPU, and back."""
        size = ctypes.c_size_t(ctypes.sizeof(host))
        self.call("cuMemcpyHtoDAsync", memory, host, size, stream)
        self.call("cuMemcpyDtoHAsync", host, memory, size, stream)

    def clear(self, memory: ctypes.c_uint64, size: int, stream: ctypes.c_void_p | None) -> None:
        """Set memory of the GPU to zero."""
        self.call("cuMemsetD8Async", memory, ctypes.c_ubyte(0), ctypes.c_size_t(size), stream)

    def graph(self, stream: ctypes.c_void_p, nodes: int) -> Graph:
        """Return a graph of so many kernels, one after the other."""
        self.call("cuStreamBeginCapture", stream, _CAPTURE_RELAXED)
        for _ in range(nodes):
            self.launch(stream)
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        flags = ctypes.c_ulonglong(0)
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, flags)
        return Graph(executable, nodes)

    def replay(self, graph: Graph, stream: ctypes.c_void_p) -> None:
        """Launch a graph."""
        self.call("cuGraphLaunch", graph.handle, stream)
