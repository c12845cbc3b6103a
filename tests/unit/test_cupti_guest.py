"""The GPU half of the shim as a guest: its thread, forks, a CUPTI that hangs, attaches, pauses."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import DEADLINE_S
from cuda_fakes import calls_program, environment
from cupti_programs import KINDS, run_python, status
from cupti_ring import KERNEL, ON, GpuRecords
from phases_harness import compiler
from rlscope_trace import shims


def test_its_thread_has_a_name_and_takes_no_signals() -> None:
    with GpuRecords() as records:
        told = {**os.environ, **environment("13.0"), **records.environment()}
        program = subprocess.Popen(
            [str(calls_program()), "--hold"], env=told, stdin=-1, stdout=-1, text=True
        )
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdout.readline()
        threads = {}
        for task in Path(f"/proc/{program.pid}/task").iterdir():
            lines = (task / "status").read_text().splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            threads[fields["Name"]] = int(fields["SigBlk"], 16)
        program.communicate("\n", timeout=DEADLINE_S)
    # All but KILL, STOP, and the two that glibc keeps for itself.
    unblockable = sum(1 << number - 1 for number in (9, 19, 32, 33))
    assert threads["rls-cupti"] | unblockable == (1 << 64) - 1
    assert program.returncode == 0


FORKS = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
child = os.fork()
if child == 0:
    # Runs the handlers of exit(), as the child of a program in C does.
    ctypes.CDLL(None).exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_inherits_nothing_and_ends() -> None:
    # A flush in the child would never return: nobody is there to answer it.
    records, output = run_python(FORKS, CUDA_INJECTION64_PATH=str(shims.LIBRARY))
    assert output == "7\n"
    assert [told.state for told in records.statuses()] == [ON]
    assert len(records.memories) == 1


HANGS = """
#include <unistd.h>
int cuptiSubscribe(void** s, void* c, void* d) { *s = c; (void)d; return 0; }
int cuptiActivityRegisterCallbacks(void* r, void* c) { (void)r, (void)c; return 0; }
int cuptiActivityEnable(int kind) { (void)kind; return 0; }
int cuptiActivityFlushAll(int flag) { while (flag) pause(); return 0; }
int cuptiActivityGetNextRecord(void* b, unsigned long n, void* r) { (void)b, (void)n, (void)r;
  return 12; }
"""


def test_a_cupti_that_hangs_does_not_keep_the_program(tmp_path: Path) -> None:
    (tmp_path / "hangs.c").write_text(HANGS)
    path = str(tmp_path / "libcupti.so.13")
    subprocess.run(
        [compiler(), "-shared", "-fPIC", str(tmp_path / "hangs.c"), "-o", path], check=True
    )
    told = status(RLSCOPE_CUPTI_LIBRARY=path)
    assert (told.state, told.library) == (ON, path)


# --- into a process that runs ---

LATE = """
import ctypes, json, os, struct, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
if sys.argv[2] == "started":
    assert cuda.cuInit(0) == 0
shim = ctypes.CDLL(sys.argv[1])
block = b"".join(entry.encode() + b"\\0" for entry in sys.argv[3:])
request = ctypes.create_string_buffer(struct.pack("<II2048s", 1, 0, block))
assert shim.rlscope_shim_late_attach(request) == 0
state = ctypes.c_uint32.in_dll(shim, "rlscope_shim_late_status")
status = (ctypes.c_uint32 * 8).in_dll(shim, "rlscope_shim_late_status")
while status[1] == 1:
    time.sleep(0.001)
function, context = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuModuleGetFunction(ctypes.byref(function), None, b"late_1us")
for _ in range(5):
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
cuda.cuCtxSynchronize()
"""


def attach(driver_is: str, *entries: str) -> GpuRecords:
    return run_python(LATE, str(shims.LIBRARY), driver_is, *entries)[0]


def test_a_late_attach_starts_cupti_where_it_is_asked_to() -> None:
    records = attach("started", "A=b", "RLSCOPE_CUPTI=on", "RLSCOPE_CUDA_GRAPHS=node")
    told = records.status()
    assert (told.state, told.is_late, told.recorded) == (ON, True, KINDS - {51})
    assert [kernel.name for kernel in records.activities(KERNEL)] == ["late_1us"] * 5


@pytest.mark.parametrize(
    ("driver_is", "entries"),
    [("started", ["RLSCOPE_CUPTI=yield"]), ("started", []), ("idle", ["RLSCOPE_CUPTI=on"])],
)
def test_a_late_attach_leaves_cuda_alone_otherwise(driver_is: str, entries: list[str]) -> None:
    records = attach(driver_is, *entries)
    assert len(records.memories) == 1
    assert records.statuses() == []


# --- a recorder that leaves, and another that comes ---

LAUNCHES = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
function, context = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuModuleGetFunction(ctypes.byref(function), None, b"step_1us")
for line in sys.stdin:
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    cuda.cuCtxSynchronize()
    print(line, end="", flush=True)
"""


def test_nothing_is_recorded_while_nobody_reads(
    tmp_path: Path, poll_until: Callable[..., object]
) -> None:
    log = tmp_path / "log"

    def calls(name: str) -> int:
        return sum(line.split()[1:3] == [name, "10"] for line in log.read_text().splitlines())

    with GpuRecords() as records:
        told = {**os.environ, **environment("13.0"), **records.environment(FAKECUPTI_LOG=str(log))}
        program = subprocess.Popen(
            [sys.executable, "-c", LAUNCHES], env=told, stdin=-1, stdout=-1, text=True
        )
        assert program.stdin is not None
        assert program.stdout is not None

        def launch() -> None:
            program.stdin.write("launch\n")
            program.stdin.flush()
            assert program.stdout.readline() == "launch\n"

        launch()
        poll_until(lambda: records.memories, what="the memory of the program")
        records.set_reader(0)
        poll_until(lambda: calls("cuptiActivityDisable") == 1, what="the pause")
        launch()
        launch()
        records.set_reader(2)
        poll_until(lambda: calls("cuptiActivityEnable") == 2, what="the end of the pause")
        launch()
        program.communicate(timeout=DEADLINE_S)
    # The one of the first reader may have been fetched when it had gone.
    assert len(records.activities(KERNEL)) in (1, 2)
    assert [told.state for told in records.statuses()] == [ON, ON]
