"""What a program calls its GPUs, contexts and streams, by NVTX, is told with CUPTI's numbers."""

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import DEADLINE_S, WORKLOADS
from cuda_fakes import FAKES, calls_program, environment
from cupti_programs import record, run_python
from cupti_ring import KERNEL, NAMED, GpuRecords, Memory
from nvtx_client import nvtx_include
from phases_harness import compiler
from rlscope_trace.record import shims

NOWHERE = 2**32 - 1
NVTX = {"NVTX_INJECTION64_PATH": str(shims.LIBRARY)}


def given(records: GpuRecords) -> list[tuple[tuple[int, ...], str]]:
    """Return (is_stream, device, context, stream) and name of what has one, as they were told."""
    found = []
    for memory, _, cell in records.cells(NAMED):
        *place, name = struct.unpack("<xxHIIIQ40x", cell)
        if name:
            found.append((tuple(place), memory.texts[name]))
    return found


def test_names_of_the_driver_have_the_numbers_of_its_kernels() -> None:
    records, _ = record("--launches=2", "--names", **NVTX)
    (kernel, _) = records.activities(KERNEL)
    names = given(records)
    assert [name for place, name in names if place == (1, 0, kernel.context, kernel.stream)] == [
        "draft", "compute",
    ]  # fmt: skip
    last = dict(names)
    assert last.pop((1, 0, kernel.context, kernel.stream)) == "compute"
    assert last.pop((0, 0, kernel.context, 0)) == "main"
    assert last.pop((0, 0, NOWHERE, 0)) == "GPU 0"
    ((place, name),) = last.items()
    assert (place[:3], name) == ((1, 0, kernel.context), "default")


def test_the_runtime_names_the_same_streams() -> None:
    records, _ = record("--api=runtime", "--launches=2", "--names", **NVTX)
    (kernel, _) = records.activities(KERNEL)
    last = dict(given(records))
    assert last[1, 0, kernel.context, kernel.stream] == "compute"
    assert sorted(last.values()) == ["GPU 0", "compute", "default"]


@pytest.mark.parametrize(
    ("failing", "left"),
    [
        ("cuptiGetStreamIdEx", {"GPU 0", "main"}),
        ("cuptiGetContextId", {"GPU 0"}),
        ("cuptiGetDeviceId", {"GPU 0", "main", "compute", "default"}),
    ],
)
def test_what_cupti_does_not_know_gets_no_name(failing: str, left: set[str]) -> None:
    records, _ = record("--launches=3", "--names", FAKECUPTI_FAIL=f"{failing}:999", **NVTX)
    assert set(dict(given(records)).values()) == left
    devices = {place[1] for place, name in given(records) if name == "main"}
    assert devices <= ({NOWHERE} if failing == "cuptiGetDeviceId" else {0})
    assert len(records.activities(KERNEL)) == 3
    assert records.status().why == 0


def test_where_cupti_is_off_there_are_no_names(tmp_path: Path) -> None:
    log = tmp_path / "log"
    records, _ = record("--names", RLSCOPE_CUPTI="yield", FAKECUPTI_LOG=str(log), **NVTX)
    assert given(records) == []
    assert not log.exists()


def test_another_reader_is_told_all_names_again(poll_until: Callable[..., Any]) -> None:
    with GpuRecords() as records:
        reported = {**environment("13.0"), **records.environment(**NVTX)}
        program = subprocess.Popen(
            [str(calls_program()), "--launches=1", "--names", "--hold"], env=reported, stdin=-1,
            stdout=-1, text=True,
        )  # fmt: skip
        assert program.stdout is not None
        program.stdout.readline()
        first = poll_until(lambda: _complete(records, 1), what="the names")
        records.set_reader(7)
        poll_until(lambda: _complete(records, 2), what="the names for another reader")
        program.communicate("\n", timeout=DEADLINE_S)
    # Only what it is called in the end: what it was called before was for the first reader.
    again = given(records)[len(first) :]
    assert sorted(again) == sorted(dict(first).items())


LATE = """
import ctypes, struct, sys, time
cuda, library, shim = (ctypes.CDLL(path) for path in ("libcuda.so.1", sys.argv[2], sys.argv[1]))
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuStreamCreate(ctypes.byref(stream), 0)
# NVTX has been used before: without a tool.
library.name_all(sys.argv[3] == "runtime", context, stream)
request = ctypes.create_string_buffer(struct.pack("<II2048s", 1, 0, b"RLSCOPE_CUPTI=on\\0"))
assert shim.rlscope_shim_inject(request) == 0
status = (ctypes.c_uint32 * 8).in_dll(shim, "rlscope_shim_inject_status")
while status[1] == 1:
    time.sleep(0.001)
library.name_all(sys.argv[3] == "runtime", context, stream)
"""
NAMES = """
#include "cuda_names.h"
void name_gpu(int device, const char* name) { nvtxNameCudaDeviceA(device, name); }
void name_all(int is_runtime, void* context, void* stream) {
  name_device(is_runtime, 0, context);
  name_stream(is_runtime, stream);
}
"""


# Names GPU 0 so many times, and only then starts the driver: in a child too, if it forks.
EARLY = """
import ctypes, os, sys
cuda, library = (ctypes.CDLL(path) for path in ("libcuda.so.1", sys.argv[1]))
for index in range(int(sys.argv[2])):
    library.name_gpu(0, b"early %d" % index)
child = os.fork() if sys.argv[3:] == ["fork"] else 0
library.name_gpu(1, b"late")
assert cuda.cuInit(0) == 0
assert child == 0 or os.waitpid(child, 0)[1] == 0
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what gives names, as a library."""
    folder = tmp_path_factory.mktemp("names")
    (folder / "names.c").write_text(NAMES)
    folders = [f"-I{FAKES / 'include'}", f"-I{WORKLOADS}", "-isystem", str(nvtx_include())]
    subprocess.run(
        [compiler(), *folders, "-shared", "-fPIC", str(folder / "names.c"),
         "-o", str(folder / "names.so")],
        check=True,
    )  # fmt: skip
    return str(folder / "names.so")


@pytest.mark.parametrize("api", ["driver", "runtime"])
def test_a_program_that_runs_gives_names_from_the_attach_on(library: str, api: str) -> None:
    records, _ = run_python(LATE, str(shims.LIBRARY), library, api)
    names = [name for _, name in given(records)]
    assert sorted(names) == sorted(
        ["GPU 0", "draft", "compute", "default", *(["main"] if api == "driver" else [])]
    )
    # Each by the number of the stream, which is not that of the default one.
    places = {place for place, name in given(records) if name in ("compute", "default")}
    assert len(places) == 2


INJECTED = {"CUDA_INJECTION64_PATH": str(shims.LIBRARY), **NVTX}


@pytest.mark.parametrize(("count", "kept"), [(2, 2), (70, 64)])
def test_a_gpu_may_be_named_before_the_driver_is_started(
    library: str, count: int, kept: int
) -> None:
    records, _ = run_python(EARLY, library, str(count), **INJECTED)
    first = [((0, 0, NOWHERE, 0), f"early {index}") for index in range(kept)]
    last = [((0, 1, NOWHERE, 0), "late")] if kept == count else []
    assert given(records) == [*first, *last]
    (memory,) = records.memories
    assert memory.dropped_names() == count + 1 - len(first) - len(last)


def test_a_forked_child_that_starts_the_driver_has_the_names_too(library: str) -> None:
    records, _ = run_python(EARLY, library, "1", "fork", **INJECTED)
    names = {memory.pid: [] for memory in records.memories}
    for memory, _, cell in records.cells(NAMED):
        names[memory.pid].append(memory.texts[struct.unpack_from("<Q", cell, 16)[0]])
    assert list(names.values()) == [["early 0", "late"]] * 2


def _complete(records: GpuRecords, readers: int) -> list[tuple[tuple[int, ...], str]]:
    memories: list[Memory] = records.memories
    names = given(records) if memories else []
    finals = [name for _, name in names if name != "draft"]
    return names if len(finals) == 4 * readers else []
