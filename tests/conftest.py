"""What all tests share: which machine they need, and how they talk to a workload."""

import atexit
import ctypes
import importlib.util
import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, settings

import browser

REPOSITORY = Path(__file__).resolve().parent.parent
WORKLOADS = REPOSITORY / "tests" / "workloads"
DEADLINE_S = 30.0

# The first recording on a machine measures for ten seconds what events cost: those of tests do not,
# nor do they know what others measured. In the environment, which the commands that tests run
# inherit.
os.environ["RLSCOPE_CALIBRATE"] = "0"
os.environ["RLSCOPE_CALIBRATION_DIR"] = str(REPOSITORY / "tests/none")

# Making the example of a failure small can take five minutes, which would cost the results of all
# other tests: where nobody waits for it, it is told as it was found, with the way to find it again.
if os.environ.get("CI"):
    settings.register_profile("ci", phases=(Phase.explicit, Phase.reuse, Phase.generate))
    settings.load_profile("ci")

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
BPF_MAP_CREATE = 0
BPF_MAP_TYPE_ARRAY = 2


@cache
def lacking(need: str) -> str | None:
    """Return why this machine lacks `need`, None if it does not."""
    if need == "root":
        return None if os.geteuid() == 0 else "needs root"
    if need == "browser":
        return browser.lacking()
    if need == "bpf":
        if not Path("/sys/kernel/btf/vmlinux").exists():
            return "the running kernel has no BTF (/sys/kernel/btf/vmlinux)"
        return bpf_refused()
    if (
        importlib.util.find_spec("bcc") is None
        and not Path("/usr/lib/python3/dist-packages/bcc").is_dir()
    ):
        return "python3-bpfcc is not installed"
    headers = [Path("/lib/modules") / platform.release() / "build"]
    headers += Path("/usr/src").glob("linux-headers-*/include")
    if not any(path.exists() for path in [*headers, Path("/sys/kernel/kheaders.tar.xz")]):
        return "no kernel headers are installed"
    return None


def bpf_refused() -> str | None:
    """Return why the kernel would not create the smallest map, None if it did."""
    number = BPF_SYSCALL.get(platform.machine())
    if number is None:
        return f"bpf is not tested on {platform.machine()}"
    libc = ctypes.CDLL(None, use_errno=True)
    # type, key size, value size, entries; the kernel takes the rest of the attributes as zero.
    attributes = (ctypes.c_uint32 * 4)(BPF_MAP_TYPE_ARRAY, 4, 4, 1)
    fd = libc.syscall(number, BPF_MAP_CREATE, attributes, ctypes.sizeof(attributes))
    if fd < 0:
        return f"bpf(BPF_MAP_CREATE): {os.strerror(ctypes.get_errno())}"
    os.close(fd)
    return None


@atexit.register
def _end_quietly() -> None:
    """Keep the result the last that is read: DuckDB's bindings list at the end what they leak."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot do; fail instead where RLSCOPE_REQUIRE says it must."""
    required = os.environ.get("RLSCOPE_REQUIRE", "").split(",")
    for marker, needs in {
        "root": ("root", "bpf"),
        "bcc": ("bcc",),
        "browser": ("browser",),
    }.items():
        if item.get_closest_marker(marker) is None:
            continue
        for need in needs:
            reason = lacking(need)
            if reason is not None and need in required:
                pytest.fail(f"RLSCOPE_REQUIRE={','.join(required)}: {reason}", pytrace=False)
            if reason is not None:
                pytest.skip(reason)


def _poll_until(
    condition: Callable[[], object], *, what: str, deadline_s: float = DEADLINE_S
) -> object:
    """Ask `condition` until it is true and return its answer; fail at the deadline."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (answer := condition()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        pause.wait(0.01)
    return answer


def in_matrix(*values: object) -> list[object]:
    """Return parameters that only `-m matrix` tries."""
    return [pytest.param(value, marks=pytest.mark.matrix) for value in values]


@pytest.fixture
def poll_until() -> Callable[..., object]:
    """Return `poll_until(condition, what="...", deadline_s=30)`."""
    return _poll_until


class Workload:
    """A program from tests/workloads, running, with its stdin and stdout in our hands."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self._unread = b""

    def readline(self, *, deadline_s: float = DEADLINE_S) -> str:
        """Return the next line without its end; fail at the deadline or the end of the output."""
        assert self.process.stdout is not None
        end = time.monotonic() + deadline_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                ready = selector.select(max(0.0, end - time.monotonic()))
                assert ready, f"no line from pid {self.pid} within {deadline_s} s"
                chunk = os.read(self.process.stdout.fileno(), 65536)
                assert chunk, f"pid {self.pid} closed its output after {self._unread!r}"
                self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode()

    def go(self) -> None:
        """Let it work (after --wait), or end (after --hold)."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def truth(self, *, deadline_s: float = DEADLINE_S) -> dict[str, object]:
        """Read on to the JSON line in which it tells what it did."""
        while not (line := self.readline(deadline_s=deadline_s)).startswith("{"):
            pass
        reported: dict[str, object] = json.loads(line)
        return reported

    def wait(self, *, deadline_s: float = DEADLINE_S) -> int:
        """Wait for its end and return its exit code."""
        return self.process.wait(timeout=deadline_s)

    def close(self) -> None:
        """Kill what still runs and close the pipes."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def workload() -> Iterator[Callable[..., Workload]]:
    """Return `workload("sleeper", "--sleeps=3", wait=True)`; with `wait` it is ready and waits."""
    started: list[Workload] = []

    def start(name: str, *arguments: str, wait: bool = False, hold: bool = False) -> Workload:
        flags = [flag for flag, wanted in (("--wait", wait), ("--hold", hold)) if wanted]
        made = Workload([sys.executable, str(WORKLOADS / f"{name}.py"), *flags, *arguments])
        started.append(made)
        if wait:
            assert made.readline() == f"ready {made.pid}"
        return made

    yield start
    for made in started:
        made.close()
