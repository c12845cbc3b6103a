"""What the shim takes to read a record of CUPTI's and to tell it: this needs no GPU.

It takes a checkout, a compiler and NVIDIA's libraries, which walk a buffer without a driver. In a
program this CPU time is that of the shim's own thread, and no part of a call.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import sys
from typing import TYPE_CHECKING

from gpu_check_lib.fixtures import FixtureError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDS, ROUNDS, RUNS = 5000, 20, 9
# As many as a training step has, again and again.
_NAMES = [f"void at::native::kernel_{number}<float>(int, float*)".encode() for number in range(40)]
_RUNTIME, _KERNEL = 5, 10


def measure(repository: Path, say: Callable[[str], None]) -> int:
    """Tell it for each release whose library is there: median and range of runs, ns of CPU time.

    FixtureError where none is.
    """
    sys.path[:0] = [str(repository / "tests"), str(repository / "tests/support")]
    try:
        import cuda_fakes
        import cupti_wheels
    except ImportError as error:
        raise FixtureError(
            f"what builds the shim's decoder is not there: {error}",
            hint="run it with the Python of scripts/test, in a checkout",
        ) from None
    releases = [name for name in cupti_wheels.WALKERS if cupti_wheels.is_there(name)]
    if not releases:
        raise FixtureError("none of NVIDIA's libcupti is there", hint="scripts/test fetches them")
    decoder = ctypes.CDLL(str(cuda_fakes.shim_decoder("-O2")))
    decoder.harness_cost.restype = ctypes.c_uint64
    for release in releases:
        buffer = _buffer(release)
        cupti = cupti_wheels.library(release)
        found = sorted(
            decoder.harness_cost(
                ctypes.cast(cupti.cuptiActivityGetNextRecord, ctypes.c_void_p),
                ctypes.cast(cupti.cuptiGetCallbackName, ctypes.c_void_p),
                ctypes.c_uint32(cuda_fakes.RELEASES[release].api),
                buffer, ctypes.c_uint64(len(buffer)), ROUNDS,
            )
            / (ROUNDS * RECORDS)
            for _ in range(RUNS)
        )  # fmt: skip
        say(
            f"CUDA {release}: {statistics.median(found):.1f} ns a record"
            f" ({found[0]:.1f} to {found[-1]:.1f}, {RUNS} runs, calls and kernels in turn)"
        )
    return 0


def _buffer(release: str) -> bytes:
    """Return records of calls and of the kernels that they launched, as the release writes them."""
    import cuda_fakes
    from cupti_events import random_event

    fake = ctypes.CDLL(str(cuda_fakes.toolkit(release) / cuda_fakes.RELEASES[release].cupti))
    fake.fakecupti_record.restype = ctypes.c_size_t
    dice = random.Random(1)
    record = (ctypes.c_uint8 * 256)()
    buffer = b""
    for number in range(RECORDS):
        event = random_event(dice, _KERNEL if number % 2 else _RUNTIME)
        event.name = _NAMES[number % len(_NAMES)]
        size = fake.fakecupti_record(
            ctypes.c_uint32(cuda_fakes.RELEASES[release].api), ctypes.byref(event),
            ctypes.c_uint64(1), record,
        )  # fmt: skip
        buffer += bytes(record)[:size]
    return buffer
