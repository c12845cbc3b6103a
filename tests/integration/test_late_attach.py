"""Late attach: ranges of processes that were started without us, and that go on undisturbed."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import late_programs
from conftest import in_matrix
from late_programs import Program, wait_for_syscall
from late_ring import LateRing, find_memfd
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.record import inject
from rlscope_trace.record.inject import LateResult

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(late_programs.compiler() is None, reason="needs a C compiler"),
]

SHIM = SHIM_FOLDER / "librlscope_shim.so"
# Computes without ever waiting, and imports nothing that starts threads.
BUSY_PYTHON = """
import time
print("ready", flush=True)
end = time.monotonic() + {seconds}
total = count = 0
while time.monotonic() < end:
    total += sum(range(1000))
    count += 1
print("right" if total == 499500 * count else "wrong")
"""
JOINING_PYTHON = """
import threading, time
def work():
    end = time.monotonic() + 2
    while time.monotonic() < end:
        sum(range(1000))
workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers:
    worker.start()
print("ready", flush=True)
for worker in workers:
    worker.join()
print("joined", threading.active_count(), len(threading.enumerate()))
"""


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return late_programs.compile_c(
        late_programs.SOURCE, tmp_path_factory.mktemp("late") / "late_target", "-O3"
    )


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    """Return `start(*command)`: the program has said that it is ready."""
    started: list[Program] = []

    def start_one(*command: str | Path, **options: object) -> Program:
        started.append(Program(*command, **options))
        assert started[-1].readline() == "ready"
        return started[-1]

    yield start_one
    for program in started:
        program.close()


@pytest.fixture
def start_python(start: Callable[..., Program]) -> Callable[[str], Program]:
    return lambda text: start(sys.executable, "-c", text)


def attach(program: Program, *, auto: bool = False) -> LateResult:
    result = inject.inject_shim(program.pid, SHIM, auto=auto)
    assert inject.shim_is_loaded(program.pid)
    assert result.stopped_ns is not None
    return result


def listen(program: Program) -> LateRing:
    path = find_memfd(program.pid)
    assert path is not None, "the shim has made no memory to share"
    ring = LateRing(path)
    ring.listen()
    return ring


def test_instances_used_and_unused_before_are_filled(
    start: Callable[..., Program], target: Path
) -> None:
    program = start(target, "nvtx")
    result = attach(program)
    assert Fact("late_ranges", count=2) in result.captured
    ring = listen(program)
    program.go()
    # No slot of the unused one still starts the initialisation, and none of the decoy changed.
    assert program.end() == "stubs 0 0 64 states 2 2 0"
    assert ring.ranges() == {("", "used"): 100, ("", "unused"): 50}
    ring.close()


@pytest.mark.parametrize(
    "kind", ["clock_nanosleep", "poll", "semaphore", *in_matrix("nanosleep", "ppoll", "select")]
)
def test_a_wait_goes_on_for_the_time_that_was_left(
    start: Callable[..., Program], target: Path, kind: str
) -> None:
    program = start(target, "wait", kind, "1.5")
    wait_for_syscall(program.pid)
    attach(program)
    reported = re.fullmatch(r"answer 0 errno (\d+) took (.*)", program.end())
    assert reported is not None, "the wait was cut short"
    # Begun anew it would have taken longer by what had passed: only a bound from below is sure.
    assert float(reported[2]) >= 1.49


def test_a_wait_that_the_os_does_not_restart_is_restarted(
    start: Callable[..., Program], target: Path
) -> None:
    program = start(target, "wait", "epoll", "1.0")
    wait_for_syscall(program.pid)
    attach(program)
    assert program.end().startswith("answer 0 errno 0 ")


def test_a_program_that_never_waits_computes_on(
    start: Callable[..., Program], target: Path
) -> None:
    program = start(target, "busy")
    attach(program)
    program.go()
    assert program.end() == "wrong 0"


def test_threads_compute_on(start: Callable[..., Program], target: Path) -> None:
    program = start(target, "threads")
    attach(program)
    assert program.end() == "wrong 0"


def test_python_that_never_waits(start_python: Callable[[str], Program]) -> None:
    program = start_python(BUSY_PYTHON.format(seconds=1.5))
    result = attach(program)
    assert Fact("late_later_ranges") in result.captured
    assert program.end() == "right"


def test_python_whose_main_thread_waits_for_workers(
    start_python: Callable[[str], Program],
) -> None:
    program = start_python(JOINING_PYTHON)
    result = attach(program)
    # The pending call of the main thread would come after the end of the workers only.
    assert Fact("late_later_ranges") in result.captured
    assert program.end() == "joined 1 1"


def test_python_that_sleeps_is_reached_at_once(start_python: Callable[[str], Program]) -> None:
    program = start_python(
        "import sys, time\nprint('ready', flush=True)\nt = time.monotonic()\ntime.sleep(2)\n"
        "print(time.monotonic() - t >= 2, sys.exc_info())"
    )
    result = attach(program)
    assert Fact("late_later_ranges") in result.captured
    assert program.end() == "True (None, None, None)"


def test_what_python_loads_later_is_captured(start_python: Callable[[str], Program]) -> None:
    program = start_python(
        "import os, subprocess, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "show = 'import os; print(os.environ[\"NVTX_INJECTION64_PATH\"])'\n"
        "print('NVTX_INJECTION64_PATH' in os.environ,"
        " subprocess.check_output([sys.executable, '-c', show], text=True).strip())"
    )
    attach(program)
    program.go()
    # The program's own view of its environment is as it was; what it executes sees the shim.
    assert program.end() == f"False {SHIM}"


def test_a_second_attach_finds_the_shim(start: Callable[..., Program], target: Path) -> None:
    program = start(target, "idle")
    attach(program)
    again = inject.inject_shim(program.pid, SHIM, auto=False)
    assert again.stopped_ns is None
    assert again.missing == ()
    program.go()
    assert program.end() == "ended"


@pytest.mark.slow
@pytest.mark.parametrize("programs", [12, pytest.param(50, marks=pytest.mark.matrix)])
def test_busy_programs_survive(start: Callable[..., Program], target: Path, programs: int) -> None:
    for _ in range(programs):
        program = start(target, "busy")
        attach(program)
        program.go()
        assert program.end() == "wrong 0"


def test_nothing_stays_behind_in_the_recorder(
    start: Callable[..., Program], target: Path, poll_until: Callable[..., object]
) -> None:
    def used() -> list[int]:
        return [len(list(Path(f"/proc/self/{kind}").iterdir())) for kind in ("fd", "task")]

    before = used()
    program = start(target, "idle")
    attach(program)
    program.go()
    assert program.end() == "ended"
    program.close()
    # What tests before left may go meanwhile: a thread is listed for a while after it has ended.
    poll_until(
        lambda: all(now <= then for now, then in zip(used(), before, strict=True)),
        what="as few files and threads as before",
    )
