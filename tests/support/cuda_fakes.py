"""Compiles tests/fakes, once per session, and says how programs come to use them."""

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conftest import REPOSITORY
from nvtx_client import nvtx_include
from phases_harness import WARNINGS, compiler

FAKES = REPOSITORY / "tests" / "fakes"
_CUDA = ("fake_libcuda.c", "fake_streams.c", "fake_launches.c", "fake_truth.c")
_CUPTI = (
    "fake_libcupti.c", "fake_clock.c", "fake_buffers.c", "fake_records.c", "fake_inject.c",
    "fake_replay.c", "fake_subscriber.c",
)  # fmt: skip
_FLAGS = ("-O0", "-D_GNU_SOURCE", "-fvisibility=hidden", *WARNINGS)


@dataclass(frozen=True)
class Release:
    """A release of CUDA: how its libraries are called, and how its CUPTI calls itself."""

    api: int
    cupti: str
    cudart: str


RELEASES = {
    "11.8": Release(18, "libcupti.so.11.8", "libcudart.so.11.0"),
    "12.4": Release(22, "libcupti.so.12", "libcudart.so.12"),
    "12.9": Release(28, "libcupti.so.12", "libcudart.so.12"),
    "13.0": Release(130001, "libcupti.so.13", "libcudart.so.13"),
    "13.4": Release(130401, "libcupti.so.13", "libcudart.so.13"),
}


@cache
def session_folder() -> Path:
    """Return a folder for what is built in this session, which goes with it."""
    made = Path(tempfile.mkdtemp(prefix="rlscope-fakes-"))
    made.chmod(0o755)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _library(output: Path, soname: str, sources: tuple[str, ...], *flags: str) -> None:
    subprocess.run(
        [compiler(), *_FLAGS, *flags, "-fPIC", "-shared", f"-Wl,-soname,{soname}",
         *(str(FAKES / source) for source in sources), "-o", str(output), "-ldl", "-lpthread"],
        check=True,
    )  # fmt: skip


@cache
def driver() -> Path:
    """Return the folder that holds the fake libcuda.so.1."""
    folder = session_folder() / "driver"
    folder.mkdir()
    _library(folder / "libcuda.so.1", "libcuda.so.1", _CUDA)
    return folder


@cache
def toolkit(release: str = "13.0") -> Path:
    """Return the folder that holds the fake libcudart and libcupti of a release."""
    made = RELEASES[release]
    folder = session_folder() / f"cuda-{release}"
    folder.mkdir()
    _library(folder / made.cudart, made.cudart, ("fake_libcudart.c",))
    _library(folder / made.cupti, made.cupti, _CUPTI, f"-DFAKECUPTI_BUILD={made.api}")
    return folder


@cache
def shim_decoder(level: str = "-O0") -> Path:
    """Return the shim's decoder of CUPTI's records, compiled with tests/fakes/cupti_harness.c.

    `level`: of optimisation.
    """
    made = session_folder() / f"cupti_harness{level}.so"
    shim = REPOSITORY / "cupti"
    sources = sorted(shim.glob("cupti_*.c"))
    sources += [
        shim / f"{room}.c" for room in ("names", "process", "ring", "thread", "seccomp_filters")
    ]
    sources.append(FAKES / "cupti_harness.c")
    subprocess.run(
        [compiler(), *_FLAGS, level, "-fPIC", "-shared", f"-I{shim}",
         *map(str, sources), "-o", str(made), "-ldl", "-lpthread"],
        check=True,
    )  # fmt: skip
    return made


@cache
def calls_program() -> Path:
    """Return the compiled tests/workloads/cuda_calls.c."""
    program = session_folder() / "cuda_calls"
    source = REPOSITORY / "tests" / "workloads" / "cuda_calls.c"
    subprocess.run(
        [compiler(), *_FLAGS, f"-I{FAKES / 'include'}", "-isystem", str(nvtx_include()),
         str(source), "-o", str(program), "-lpthread", "-ldl"],
        check=True,
    )  # fmt: skip
    return program


def environment(release: str | None = "13.0", **variables: str) -> dict[str, str]:
    """Return what makes a program find the fakes; release None: a driver without a toolkit."""
    folders = [str(driver())]
    if release is not None:
        folders.append(str(toolkit(release)))
    folders += filter(None, [os.environ.get("LD_LIBRARY_PATH")])
    reported = {"LD_LIBRARY_PATH": ":".join(folders), **variables}
    if release is not None:
        reported["RLSCOPE_TEST_CUDART"] = RELEASES[release].cudart
    return reported


def run_calls(
    *arguments: str, environment: dict[str, str], deadline_s: float = 30
) -> tuple[dict[str, Any], int]:
    """Run cuda_calls to its end; return its truth (empty: it did not get so far) and its code."""
    done = subprocess.run(
        [str(calls_program()), *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return (json.loads(lines[-1]) if lines else {}), done.returncode
