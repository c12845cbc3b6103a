"""For the programs: the CUDA driver, from the sources beside scripts/, and the last line."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

# Behind everything else: it holds modules with common names.
sys.path.append(str(Path(__file__).resolve().parents[3] / "tracer/rlscope_trace/record/calibrate"))

from cuda_driver import CudaDriver, CudaError

__all__ = ["CudaDriver", "CudaError", "finish", "paced", "tid", "wait_for_word"]


def tid() -> int:
    """Return the id that the OS kernel gave the calling thread."""
    return threading.get_native_id()


def finish(**reported: object) -> None:
    """Print what the program did, as its last line."""
    print(json.dumps(reported), flush=True)  # noqa: T201 - this is how it is reported


def wait_for_word() -> None:
    """Say that we are ready, and wait for a line on stdin."""
    print("ready", flush=True)  # noqa: T201 - this is how it is reported
    sys.stdin.readline()


def paced(count: int, rate: float) -> object:
    """Yield 0, 1, ... at so many per second; as fast as it goes where rate is 0."""
    began_s = time.monotonic()
    for number in range(count):
        if rate:
            ahead_s = began_s + number / rate - time.monotonic()
            if ahead_s > 0:
                time.sleep(ahead_s)
        yield number
