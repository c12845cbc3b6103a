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
from cupti_ring import KERNEL, NOT_STARTED, OFF, ON, GpuRecords
from phases_harness import compiler
from rlscope_trace.record import shims


def test_its_thread_has_a_name_and_takes_no_signals(poll_until: Callable[..., object]) -> None:
    with GpuRecords() as records:
        reported = {**os.environ, **environment("13.0"), **records.environment()}
        program = subprocess.Popen(
            [str(calls_program()), "--hold"], env=reported, stdin=-1, stdout=-1, text=True
        )
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdout.readline()

        def threads() -> dict[str, int]:
            found = {}
            for task in Path(f"/proc/{program.pid}/task").iterdir():
                lines = (task / "status").read_text().splitlines()
                fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
                found[fields["Name"]] = int(fields["SigBlk"], 16)
            return found

        # It names itself, when it runs.
        poll_until(lambda: "rls-cupti" in threads(), what="the thread")
        blocked = threads()["rls-cupti"]
        program.communicate("\n", timeout=DEADLINE_S)
    # All but KILL, STOP, and the two that glibc keeps for itself.
    unblockable = sum(1 << number - 1 for number in (9, 19, 32, 33))
    assert blocked | unblockable == (1 << 64) - 1
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
    assert [reported.state for reported in records.statuses()] == [ON]
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
    reported = status(RLSCOPE_CUPTI_LIBRARY=path)
    assert (reported.state, reported.library) == (ON, path)


# --- into a process that runs ---

LATE = """
import ctypes, json, os, struct, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
if sys.argv[2] == "started":
    assert cuda.cuInit(0) == 0
shim = ctypes.CDLL(sys.argv[1])
block = b"".join(entry.encode() + b"\\0" for entry in sys.argv[3:])
request = ctypes.create_string_buffer(struct.pack("<II2048s", 1, 0, block))
assert shim.rlscope_shim_inject(request) == 0
state = ctypes.c_uint32.in_dll(shim, "rlscope_shim_inject_status")
status = (ctypes.c_uint32 * 8).in_dll(shim, "rlscope_shim_inject_status")
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
    reported = records.status()
    assert (reported.state, reported.is_late, reported.recorded) == (ON, True, KINDS - {51})
    assert [kernel.name for kernel in records.activities(KERNEL)] == ["late_1us"] * 5


@pytest.mark.parametrize(
    "entries",
    [["RLSCOPE_CUPTI=yield"], []],
)
def test_a_late_attach_leaves_cuda_alone_otherwise(entries: list[str]) -> None:
    records = attach("started", *entries)
    assert len(records.memories) == 1
    assert records.statuses() == []


def test_a_late_attach_before_the_driver_has_started_says_so() -> None:
    reported = attach("idle", "RLSCOPE_CUPTI=on").status()
    assert (reported.state, reported.is_late, reported.why) == (OFF, True, NOT_STARTED)


def test_a_driver_that_starts_after_a_late_attach_starts_cupti() -> None:
    # What the attach leaves in the environment of a Python program.
    records = attach(
        "idle", "RLSCOPE_CUPTI=on", f"CUDA_INJECTION64_PATH={shims.LIBRARY}", "RLSCOPE_SESSION=any"
    )
    assert [reported.state for reported in records.statuses()] == [OFF, ON]
    assert [kernel.name for kernel in records.activities(KERNEL)] == ["late_1us"] * 5


# --- a recorder that leaves, and another that comes ---

LAUNCHES = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
function, context = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
for line in sys.stdin:
    cuda.cuModuleGetFunction(ctypes.byref(function), None, line.strip().encode())
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    if not line.startswith("stray"):
        cuda.cuCtxSynchronize()
    print(line, end="", flush=True)
"""


class Program:
    """Launches kernels by name, with a GpuRecords in the recorder's place."""

    def __init__(self, log: Path, text: str = LAUNCHES, **variables: str) -> None:
        self._log = log
        reported = {**os.environ, **environment("13.0"), **variables, "FAKECUPTI_LOG": str(log)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", text, str(shims.LIBRARY)], env=reported, stdin=-1, stdout=-1,
            text=True,
        )  # fmt: skip
        self.pid = self._process.pid

    def launch(self, name: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == f"{name}\n"

    def end(self) -> None:
        self._process.communicate(timeout=DEADLINE_S)
        assert self._process.returncode == 0

    def calls(self, name: str) -> int:
        """Return how often CUPTI was called so for kernels."""
        return sum(line.split()[1:3] == [name, "10"] for line in self._log.read_text().splitlines())

    def is_paused(self) -> bool:
        return self.calls("cuptiActivityDisable") == self.calls("cuptiActivityEnable")


def test_nothing_is_recorded_while_nobody_reads(
    tmp_path: Path, poll_until: Callable[..., object]
) -> None:
    with GpuRecords() as records:
        program = Program(tmp_path / "log", **records.environment())
        program.launch("step_1us")
        poll_until(lambda: records.memories, what="the memory of the program")
        # CUPTI has it when it has ended, which is for nobody any more, or not yet for the next.
        program.launch("stray_500000us")
        records.set_reader(0)
        poll_until(program.is_paused, what="the pause")
        program.launch("step_1us")
        program.launch("step_1us")
        records.set_reader(2)
        poll_until(lambda: not program.is_paused(), what="the end of the pause")
        poll_until(lambda: len(records.statuses()) == 2, what="the status for the next reader")
        program.launch("last_1us")
        program.end()
    names = [kernel.name for kernel in records.activities(KERNEL)]
    # The one of the first reader may have been fetched when it had gone.
    assert names in (["last_1us"], ["step_1us", "last_1us"])
    assert [reported.state for reported in records.statuses()] == [ON, ON]


def test_a_reader_that_is_killed_is_missed(
    tmp_path: Path, poll_until: Callable[..., object]
) -> None:
    with GpuRecords() as records:
        program = Program(tmp_path / "log", **records.environment())
        program.launch("step_1us")
        poll_until(lambda: records.memories, what="the memory of the program")
        assert not program.is_paused()
        records.memories[0].be_killed()
        poll_until(program.is_paused, what="the pause")
        program.end()


def test_a_program_of_a_recording_that_is_over_is_left_alone(tmp_path: Path) -> None:
    with GpuRecords() as records:
        reported = records.environment()
    program = Program(tmp_path / "log", **reported)
    program.launch("step_1us")
    assert program.is_paused()
    assert program.calls("cuptiActivityFlushAll") == 0
    program.end()


# The memory is there before CUDA starts, and a thread that can own rings.
PREPARED = """
import ctypes, struct, sys, threading, time
threading.Thread(target=threading.Event().wait, daemon=True).start()
shim = ctypes.CDLL(sys.argv[1])
request = ctypes.create_string_buffer(struct.pack("<II2048s", 1, 0, b""))
assert shim.rlscope_shim_inject(request) == 0
status = (ctypes.c_uint32 * 8).in_dll(shim, "rlscope_shim_inject_status")
while status[1] == 1:
    time.sleep(0.001)
for _ in range(2):
    print(sys.stdin.readline(), end="", flush=True)
"""


def test_without_a_ring_losses_are_counted_until_there_is_one(
    tmp_path: Path, poll_until: Callable[..., object]
) -> None:
    with GpuRecords() as records:
        program = Program(tmp_path / "log", PREPARED + LAUNCHES, **records.environment())
        program.launch("ready")
        poll_until(lambda: records.memories, what="the memory of the program")
        (memory,) = records.memories
        tids = {int(task.name) for task in Path(f"/proc/{program.pid}/task").iterdir()}
        memory.set_owners(min(tids - {program.pid}))
        program.launch("start")
        program.launch("step_1us")
        poll_until(lambda: memory.lost() > 0, what="the count of what found no ring")
        assert records.statuses() == []
        memory.set_owners(0)
        poll_until(records.statuses, what="the status")
        program.launch("last_1us")
        program.end()
    assert [kernel.name for kernel in records.activities(KERNEL)] == ["last_1us"]
    assert records.status().state == ON
