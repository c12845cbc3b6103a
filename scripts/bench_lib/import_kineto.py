"""How fast a file of the PyTorch profiler becomes a trace, and in how much memory.

The file is made here: training steps of Python functions, operators, launches and kernels, with
the arguments that the profiler writes, of the size of a real one.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import time
from typing import IO, TYPE_CHECKING

from bench_lib.figure import BenchError, Figure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench_lib.recorder import Bench

EVENTS = 216_000
WALL_BUDGET_S = 2.0
MEMORY_BUDGET_MB = 300
_PID = 4242
_EVENTS_OF_AN_OPERATOR = 9
_HEADER = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85899345920, "computeMajor": 9,
     "computeMinor": 0, "numSms": 132}
  ],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "displayTimeUnit": "ms", "baseTimeNanoseconds": 1727743122000000000,
  "traceEvents": ["""


def measure(bench: Bench) -> list[Figure]:
    """Return wall time and memory of an import, plain and gzipped."""
    plain = bench.directory / "kineto.json"
    write_trace(plain, EVENTS)
    packed = bench.directory / "kineto.json.gz"
    with gzip.open(packed, "wb", compresslevel=4) as file:
        file.write(plain.read_bytes())
    figures = []
    for name, path in (("plain", plain), ("gzipped", packed)):
        runs = [_import(bench, path) for _ in range(bench.runs)]
        size = f"{EVENTS:,} events, {path.stat().st_size / 1e6:.0f} MB"
        figures += [
            Figure(
                f"import kineto, {name}",
                "s",
                tuple(wall_s for wall_s, _ in runs),
                WALL_BUDGET_S,
                note=f"{size}; the start of Python is included",
            ),
            Figure(
                f"import kineto, {name}: memory",
                "MB",
                tuple(peak_mb for _, peak_mb in runs),
                MEMORY_BUDGET_MB,
            ),
        ]
    return figures


def _import(bench: Bench, path: Path) -> tuple[float, float]:
    """Return wall seconds and peak memory of one import."""
    command = [bench.recorder, "import", "kineto", str(path), "-o", str(bench.trace("kineto"))]
    started_s = time.monotonic()
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.monotonic() - started_s
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise BenchError(f"import ended with {child.returncode}", hint=" ".join(command))
    return wall_s, usage.ru_maxrss / 1e3


def write_trace(path: Path, events: int) -> None:
    """Write a file of the profiler with so many events or a few more."""
    with path.open("w", encoding="utf-8") as file:
        file.write(_HEADER)
        written = 0
        for index in range(-(-events // _EVENTS_OF_AN_OPERATOR)):
            for event in _operator(index):
                file.write(("," if written else "") + event)
                written += 1
        _end(file)


def _end(file: IO[str]) -> None:
    file.write(
        ',\n  {"name": "process_name", "ph": "M", "ts": 0.0, "pid": 4242, "tid": 0,'
        ' "args": {"name": "python"}}\n  ],\n  "traceName": "bench.json"\n}\n'
    )


def _operator(index: int) -> Iterator[str]:
    """Make the events of one operator: Python around it, its launch, and its kernel."""
    start_ns = 2_413_669_096_090_100 + index * 60_123
    tid = _PID + index % 2
    depth = f"torch/nn/modules/module.py({1500 + index % 40}): _call_impl_{index % 300}"
    for level, name in enumerate((depth, f"nn.Module: Linear_{index % 64}")):
        yield _slice(
            "python_function", name, tid, start_ns + level * 100, 50_000 - level * 1000,
            f'"Python parent id": {index * 2}, "Python id": {index * 2 + 1}, "Ev Idx": {index}',
        )  # fmt: skip
    for level, name in enumerate(("aten::linear", "aten::addmm", "aten::empty")):
        yield _slice(
            "cpu_op", name, tid, start_ns + 1000 + level * 700, 40_000 - level * 9000,
            f'"External id": {index * 3 + level}, "Record function id": 0, "Concrete Inputs": ["",'
            ' "", "", "1", "1"], "Input type": ["float", "float", "float", "Scalar", "Scalar"],'
            f' "Input Strides": [[1], [512, 1], [1, 512], [], []], "Input Dims": [[512], [{index}'
            f', 512], [512, 512], [], []], "Ev Idx": {index * 7 + level}',
        )  # fmt: skip
    yield _slice(
        "cuda_runtime", "cudaLaunchKernel", tid, start_ns + 9000, 4123,
        f'"External id": {index}, "cbid": 211, "correlation": {index + 1}',
    )  # fmt: skip
    yield _flow("s", tid, index, start_ns + 9000)
    yield _slice(
        "kernel",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,"
        f" std::array<char*, {index % 90}ul> >(int, at::native::CUDAFunctor_add<float>)",
        7, start_ns + 30_000, 21_345,
        f'"External id": {index}, "queued": 0, "device": 0, "context": 1, "stream": 7,'
        f' "correlation": {index + 1}, "registers per thread": 32, "shared memory": 0,'
        ' "blocks per SM": 9.48148, "warps per SM": 37.92593, "grid": [1024, 1, 1],'
        ' "block": [128, 1, 1], "est. achieved occupancy %": 59, "graph id": 0',
        pid=0,
    )  # fmt: skip
    yield _flow("f", 7, index, start_ns + 30_000)


def _slice(  # noqa: PLR0913 - one parameter per field
    category: str, name: str, tid: int, ts_ns: int, dur_ns: int, args: str, *, pid: int = _PID
) -> str:
    return (
        f'\n  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid},'
        f' "tid": {tid},\n    "ts": {_us(ts_ns)}, "dur": {_us(dur_ns)},\n'
        f'    "args": {{\n      {args}\n    }}\n  }}'
    )


def _flow(phase: str, tid: int, index: int, ts_ns: int) -> str:
    return (
        f'\n  {{\n    "ph": "{phase}", "id": {index + 1}, "pid": {_PID}, "tid": {tid},'
        f' "ts": {_us(ts_ns)},\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }}'
    )


def _us(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03}"
