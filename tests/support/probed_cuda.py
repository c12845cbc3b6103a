"""Compiles a CUDA driver and runtimes without a GPU, and a program that calls them as told."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from conftest import WORKLOADS, Workload
from phases_harness import WARNINGS, compiler

_FLAGS = ("-O2", "-fno-omit-frame-pointer", "-pthread", *WARNINGS)
_LIBRARY = WORKLOADS / "probed_cuda_library.c"
_PROGRAM = WORKLOADS / "probed_cuda.c"
# What `work` calls in each runtime: N times, S times, once. The last is not worth a probe.
OFTEN = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync")
WAIT = "cudaStreamSynchronize"
ONCE = ("cudaMalloc", "cudaFree", "cudaGraphLaunch", "cudaLaunchKernel_ptsz")
DRIVER = {
    "cudaLaunchKernel": "cuLaunchKernel",
    "cudaMemcpyAsync": "cuMemcpyHtoDAsync_v2",
    "cudaMemsetAsync": "cuMemsetD8Async",
    "cudaStreamSynchronize": "cuStreamSynchronize",
    "cudaMalloc": "cuMemAlloc_v2",
    "cudaFree": "cuMemFree_v2",
    "cudaGraphLaunch": "cuGraphLaunch",
    "cudaLaunchKernel_ptsz": "cuLaunchKernel_ptsz",
}


def _compile(output: Path, *words: str | Path) -> Path:
    subprocess.run([compiler(), *_FLAGS, "-o", str(output), *map(str, words)], check=True)
    return output


def build_libraries(folder: Path) -> dict[str, Path]:
    """Return the driver, and two runtimes of different majors and one of the same name."""
    driver = _compile(
        folder / "libcuda.so.1", "-fPIC", "-shared", "-DDRIVER", "-Wl,-soname,libcuda.so.1",
        _LIBRARY,
    )  # fmt: skip
    made = {"driver": driver}
    for name, file in (("first", "libcudart.so.12"), ("second", "libcudart-d0da41ae.so.11.0"),
                       ("third", "other/libcudart.so.12")):  # fmt: skip
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        made[name] = _compile(
            path, "-fPIC", "-shared", f"-Wl,-soname,{name}", f"-Wl,-rpath,{folder}", _LIBRARY,
            driver,
        )  # fmt: skip
    return made


def build_program(folder: Path) -> Path:
    """Return the program, which loads runtimes when it is told to."""
    return _compile(folder / "probed_cuda", _PROGRAM, "-ldl")


def build_linked_in(folder: Path, driver: Path) -> Path:
    """Return the program with a runtime linked into it."""
    return _compile(
        folder / "linked_in", "-DLINKED_IN", _PROGRAM, _LIBRARY, driver, f"-Wl,-rpath,{folder}",
        "-ldl",
    )  # fmt: skip


def stripped(program: Path) -> Path:
    """Return a copy without names, but with the section that device code is in."""
    copy = program.with_name(f"{program.name}_stripped")
    code = program.with_name("code")
    code.write_bytes(b"code of kernels")
    subprocess.run(
        ["objcopy", "--strip-all", "--add-section", f".nv_fatbin={code}", program, copy], check=True
    )
    return copy


def tell(program: Workload, line: str) -> str:
    """Tell the program a line, and return its answer."""
    assert program.process.stdin is not None
    program.process.stdin.write(f"{line}\n".encode())
    program.process.stdin.flush()
    return program.readline()


def work(program: Workload, threads: int, calls: int, waits: int, wait_us: int) -> dict[int, int]:
    """Let it call; return how long each thread waited, in ns of its own clock, by tid."""
    reported: dict[str, Any] = json.loads(
        tell(program, f"work {threads} {calls} {waits} {wait_us}")
    )
    return {int(tid): waited_ns for tid, waited_ns in reported["threads"].items()}


def expected(calls: int, waits: int, *, runtimes: int = 1, own: int | None = None) -> Counter[str]:
    """Return the calls of one thread: those of each runtime, and what these do in the driver.

    own: how many of the runtimes are probed; None: all.
    """
    runtime = Counter(dict.fromkeys(OFTEN, calls)) + Counter({WAIT: waits})
    runtime += Counter(dict.fromkeys(ONCE, 1))
    made: Counter[str] = Counter()
    for name, count in runtime.items():
        made[name] = count * (runtimes if own is None else own)
        made[DRIVER[name]] = count * runtimes
    return +made
