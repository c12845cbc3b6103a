"""Answers every line on stdin with what some calls cost now, under so many kinds of CUPTI.

A process per way, all alive at once: so they can be asked in turn. The kinds are enabled here and
not by the shim: this is what CUPTI costs by itself. Answers are JSON, times in ns of CPU time.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from pathlib import Path

from gpu import CudaDriver, CudaError, finish

_BUFFER_BYTES = 4 << 20
_ALIGNMENT = 8
_REQUESTED = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_COMPLETED = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


# A wait for a stream that has nothing to do, and a call that does nothing: it frees no memory.
FUNCTIONS = ("cuLaunchKernel", "cuStreamSynchronize", "cuMemFree")


class Cupti:
    """CUPTI with some kinds of records, which are thrown away."""

    def __init__(self, path: str, kinds: list[int]) -> None:
        self._library = ctypes.CDLL(path)
        self._buffers: list[ctypes.Array[ctypes.c_char]] = []
        self._free: list[int] = []
        self.bytes = 0
        self._requested, self._completed = _REQUESTED(self._give), _COMPLETED(self._take)
        self._call("cuptiActivityRegisterCallbacks", self._requested, self._completed)
        for kind in kinds:
            self._call("cuptiActivityEnable", ctypes.c_int(kind))

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name} -> {code}", "cuda_call_failed", name, code)

    def _give(self, buffer: object, size: object, records: object) -> None:
        if not self._free:
            made = ctypes.create_string_buffer(_BUFFER_BYTES + _ALIGNMENT)
            self._buffers.append(made)
            self._free.append(-(-ctypes.addressof(made) // _ALIGNMENT) * _ALIGNMENT)
        buffer[0], size[0], records[0] = self._free.pop(), _BUFFER_BYTES, 0

    def _take(self, _context: int, _stream: int, buffer: int, _size: int, valid: int) -> None:
        self.bytes += valid
        self._free.append(buffer)

    def flush(self) -> None:
        """Have everything delivered, so that the next batch finds empty buffers."""
        self._call("cuptiActivityFlushAll", ctypes.c_uint32(0))


def main() -> None:
    """Answer until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=Path, required=True, help="librlscope_loops.so")
    parser.add_argument("--cupti", help="the libcupti to use; left out: none")
    parser.add_argument("--kinds", default="", help="numbers of CUPTI's kinds, with commas")
    options = parser.parse_args()
    try:
        driver = CudaDriver()
        kinds = [int(kind) for kind in options.kinds.split(",") if kind]
        cupti = Cupti(options.cupti, kinds) if options.cupti else None
        loops = ctypes.CDLL(str(options.loops))
        loops.rls_time_launches.restype = loops.rls_time_unary.restype = ctypes.c_double
        answer(driver, cupti, loops)
    except (CudaError, OSError) as error:
        sys.exit(str(error))


def answer(driver: CudaDriver, cupti: Cupti | None, loops: ctypes.CDLL) -> None:
    """Measure for every line of stdin, which says how many calls, and how often."""
    stream = driver.stream()
    finish(ready=True)
    for line in sys.stdin:
        count, batches = json.loads(line)
        launch, wait, free = map(driver.function, FUNCTIONS)
        launches, waits, frees = [], [], []
        for _ in range(batches):
            number = ctypes.c_long(count)
            launches.append(loops.rls_time_launches(launch, driver.nothing, stream, number))
            driver.synchronize(stream)
            waits.append(loops.rls_time_unary(wait, stream, number))
            frees.append(loops.rls_time_unary(free, None, number))
            if cupti is not None:
                cupti.flush()
        finish(launch=launches, wait=waits, free=frees, bytes=cupti.bytes if cupti else 0)


if __name__ == "__main__":
    main()
