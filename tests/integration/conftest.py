"""Fixtures of the tests that trace: recorders that end with the test, programs of their own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from conftest import WORKLOADS, Workload
from native_harness import build
from native_recording import Launched, end
from nvtx_client import compiled
from recording import USER, Recorder, keep_to_cpu, orphaned_programs, until


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a program of ours in the OS kernel without a process holding it."""
    yield
    if request.node.get_closest_marker("root") and os.geteuid() == 0:
        until(lambda: not orphaned_programs(), what="nothing of ours is left", deadline_s=10)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder of a user of no account, which every user can get to."""
    made = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    made.chmod(0o755)
    os.chown(made, USER, USER)
    yield made
    subprocess.run(["rm", "-r", str(made)], check=True)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the NVTX client in C, compiled."""
    return compiled(tmp_path_factory.mktemp("client") / "nvtx_client")


@pytest.fixture(scope="session")
def nesting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program whose calls nest in known ways, compiled."""
    return build(
        WORKLOADS / "native_nesting.c", tmp_path_factory.mktemp("native") / "native_nesting"
    )


@pytest.fixture
def ready() -> Iterator[Callable[..., Workload]]:
    """Return `ready(program, *words)`: it has said that it is ready, and waits to be let go."""
    started: list[Workload] = []

    def run(program: Path, *words: object) -> Workload:
        made = Workload([str(program), *map(str, words)])
        started.append(made)
        assert made.readline() == f"ready {made.pid}"
        return made

    yield run
    for made in started:
        made.close()


@pytest.fixture
def start(nesting: Path, ready: Callable[..., Workload]) -> Callable[..., Workload]:
    """Return `start("nest", 1000)`: the program, waiting to be let go."""
    return partial(ready, nesting)


@pytest.fixture
def record() -> Iterator[Callable[..., Recorder]]:
    """Return `record(output, "--pid=4242")`: a recorder in the background."""
    started: list[Recorder] = []

    def start(
        output: Path,
        *arguments: str | Path,
        words: Path | None = None,
        stdin: int | None = None,
    ) -> Recorder:
        made = Recorder(output, *arguments, words=words, stdin=stdin)
        started.append(made)
        return made

    yield start
    for made in started:
        made.close()


@pytest.fixture
def program() -> Iterator[Callable[..., Workload]]:
    """Return `program(source, "argument")`: a Python program of the test's own, running."""
    started: list[Workload] = []

    def start(source: str, *arguments: str) -> Workload:
        made = Workload([sys.executable, "-c", source, *arguments])
        started.append(made)
        return made

    yield start
    for made in started:
        made.close()


BUSY = """
import os, sys, time
sys.stdin.readline()
end_ns = time.monotonic_ns() + 800_000_000
while time.monotonic_ns() < end_ns and os.getppid() != 1:
    pass
"""


@pytest.fixture
def busy_cpu(program: Callable[..., Workload]) -> Callable[[], int]:
    """Return `busy_cpu()`: the number of a CPU on which for 0.8 s only real-time threads run.

    What a test then runs there by keep_to_cpu() goes first, and has that CPU for itself.
    """

    def begin() -> int:
        cpu = max(os.sched_getaffinity(0))
        busy = program(BUSY)
        keep_to_cpu(busy.pid, cpu, priority=1)
        busy.go()
        return cpu

    return begin


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return `small_disk("2m")`: a file system of its own of that size."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        point = tmp_path / f"disk-{len(mounted)}"
        point.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(point)], check=True
        )
        mounted.append(point)
        return point

    yield mount
    for point in mounted:
        subprocess.run(["umount", "--lazy", str(point)], check=True)


@pytest.fixture
def launch() -> Iterator[Callable[..., Launched]]:
    """Return `launch(trace, command, options, modules)`: a program launched by the recorder."""
    started: list[Launched] = []

    def start(*arguments: object) -> Launched:
        made = Launched(*arguments)  # type: ignore[arg-type]
        started.append(made)
        return made

    yield start
    end(started)
