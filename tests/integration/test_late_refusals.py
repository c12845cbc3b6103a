"""Where late attach is refused or fails: with a reason, and with the program unharmed."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import late_programs
from late_programs import Program, wait_for_syscall
from rlscope_analysis.sentences import coverage_sentence
from rlscope_trace import _capture
from rlscope_trace.errors import TargetGoneError
from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.record import inject
from rlscope_trace.record.inject import InjectionError

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(late_programs.compiler() is None, reason="needs a C compiler"),
]

SHIM = SHIM_FOLDER / "librlscope_shim.so"
NOBODY = 65534
PTRACE_SEIZE = 0x4206

# Libraries whose entry does what ours must never do.
CRASHING = "#include <stdlib.h>\nint entry(const void* data) { return *(volatile int*)8; }\n"
ABORTING = "#include <stdlib.h>\nint entry(const void* data) { abort(); }\n"
LOCKED = """
#include <pthread.h>
int entry(const void* data) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  return pthread_mutex_lock(&mutex);
}
"""
SLOW = """
#include <time.h>
int entry(const void* data) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_sec - begin.tv_sec < 2);
  return 0;
}
"""
DOOMED_RECORDER = """
import sys
from pathlib import Path
from rlscope_trace.record import inject
print("go", flush=True)
inject.inject_shim(int(sys.argv[1]), Path(sys.argv[2]), auto=False)
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("late")


@pytest.fixture(scope="session")
def target(folder: Path) -> Path:
    return late_programs.compile_c(late_programs.SOURCE, folder / "late_target", "-O3")


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start_one(*command: str | Path, user: int = 0) -> Program:
        started.append(Program(*command, user=user))
        assert started[-1].readline() == "ready"
        return started[-1]

    yield start_one
    for program in started:
        program.close()


def assert_refused(program: Program, words: str, *, shim: Path = SHIM) -> None:
    """Late attach is refused with these words, and the program does not notice."""
    with pytest.raises(InjectionError) as caught:
        inject.inject_shim(program.pid, shim, auto=False)
    assert words in coverage_sentence(caught.value.facts, measured=False)
    assert caught.value.hint
    assert not inject.shim_is_loaded(program.pid, name=shim.name)


def test_static_program(start: Callable[..., Program], folder: Path) -> None:
    program = start(
        late_programs.compile_c(late_programs.SOURCE, folder / "static", "-static"), "idle"
    )
    assert_refused(program, "statically linked")
    program.go()
    assert program.end() == "ended"


def test_program_under_a_filter_of_its_own(start: Callable[..., Program], target: Path) -> None:
    program = start(target, "filtered")
    assert_refused(program, "seccomp")
    program.go()
    assert program.end() == "ended"


def test_program_that_another_traces(start: Callable[..., Program], target: Path) -> None:
    program = start(target, "idle")
    libc = ctypes.CDLL(None, use_errno=True)
    # As long as this thread of ours lives, it is the tracer.
    assert libc.ptrace(PTRACE_SEIZE, program.pid, None, None) == 0
    assert_refused(program, f"pid {os.getpid()} traces it already")
    assert libc.ptrace(17, program.pid, None, None) != 0, "only a stopped thread is let go"
    program.process.send_signal(signal.SIGKILL)


def test_stopped_program(start: Callable[..., Program], target: Path) -> None:
    program = start(target, "idle")
    program.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
    assert_refused(program, "is stopped")
    program.process.send_signal(signal.SIGCONT)
    program.go()
    assert program.end() == "ended"


def test_ancestor_of_the_recorder() -> None:
    with pytest.raises(InjectionError, match="late_ourselves"):
        inject.inject_shim(os.getppid(), SHIM, auto=False)


def test_program_that_is_gone(start: Callable[..., Program], target: Path) -> None:
    program = start(target, "idle")
    program.process.kill()
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(TargetGoneError, match="ended"):
        inject.inject_shim(program.pid, SHIM, auto=False)
    program.close()
    with pytest.raises(TargetGoneError, match="no process"):
        inject.inject_shim(program.pid, SHIM, auto=False)


def test_library_that_the_programs_user_may_not_read(
    start: Callable[..., Program], tmp_path: Path, target: Path
) -> None:
    open_copy = Path("/usr/local/bin") if os.access("/usr/local/bin", os.W_OK) else tmp_path
    program_copy = shutil.copy(target, open_copy / "rlscope-late-target")
    try:
        program = start(program_copy, "idle", user=NOBODY)
        hidden = tmp_path / "hidden"
        hidden.mkdir(mode=0o700)
        shutil.copy(SHIM, hidden)
        assert_refused(program, "may not read", shim=hidden / SHIM.name)
        program.go()
        assert program.end() == "ended"
    finally:
        Path(program_copy).unlink()


def test_library_that_is_not_visible_to_the_program(target: Path, tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    shutil.copy(SHIM, tmp_path)
    hide = f"mount -t tmpfs none {tmp_path} && exec {sys.executable} -c '{{}}'".format(
        'print("ready", flush=True); input(); print("ended")'
    )
    program = Program("unshare", "-m", "sh", "-c", hide)
    try:
        assert program.readline() == "ready"
        assert_refused(program, "file system of its own", shim=tmp_path / SHIM.name)
        program.go()
        assert program.end() == "ended"
    finally:
        program.close()


def test_file_that_is_no_library(
    start: Callable[..., Program], target: Path, tmp_path: Path
) -> None:
    program = start(target, "wait", "nanosleep", "1.0")
    wait_for_syscall(program.pid)
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF nothing more")
    assert_refused(program, "loader refused", shim=broken)
    assert program.end().startswith("answer 0 errno 0")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (CRASHING, "fatal signal, which was taken back"),
        (ABORTING, "fatal signal, which was taken back"),
        (LOCKED, "waited for a lock"),
        (SLOW, "goes on by itself"),
    ],
    ids=["crashing", "aborting", "locked", "slow"],
)
def test_entry_that_does_not_return(
    start: Callable[..., Program], target: Path, tmp_path: Path, source: str, words: str
) -> None:
    text = tmp_path / "entry.c"
    text.write_text(source)
    library = late_programs.compile_c(text, tmp_path / "entry.so", "-shared", "-fPIC", "-w")
    program = start(target, "wait", "poll", "3.0")
    wait_for_syscall(program.pid)
    with pytest.raises(_capture.InjectError, match=words):
        _capture.inject(program.pid, str(library), "entry", b"", timeout_ns=500_000_000)
    reported = program.end()
    # Left alone in a call of ours, it comes back to its own by the frame: poll then begins anew
    # or ends with EINTR, as after any signal.
    is_left = source is SLOW
    assert reported.startswith("answer 0 errno 0") or (
        is_left and reported.startswith("answer -1 errno 4")
    )


def test_recorder_killed_in_the_middle(start: Callable[..., Program], target: Path) -> None:
    for wait_lines in range(20):
        program = start(target, "busy") if wait_lines % 2 else start(target, "idle")
        recorder = subprocess.Popen(
            [sys.executable, "-c", DOOMED_RECORDER, str(program.pid), str(SHIM)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == b"go\n"
        # At whatever moment it has come to when the loop is over: more each time.
        for _ in range(wait_lines * 20000):
            pass
        recorder.kill()
        recorder.wait()
        recorder.stdout.close()
        program.go()
        assert program.end() in ("wrong 0", "ended")
