"""Runs Python programs with automatic phases, and a tool of ours in the place of the shim.

The tool (phases_listener.c) writes each closed range to a file. Nothing here needs a recorder.
"""

import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import rlscope_trace

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "cupti" / "python"
WORKLOADS = REPOSITORY / "tests" / "workloads"
# Where the reinforcement-learning libraries are, if not here.
RL_PYTHON = os.environ.get("RLSCOPE_RL_PYTHON", sys.executable)
PHASES = ("simulation", "inference", "backpropagation", "data")

HEADER = struct.Struct("4Q96x")
RECORD = struct.Struct("QQIi40s64s")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")


@dataclass(frozen=True)
class Range:
    """One closed range; times in ns of CLOCK_MONOTONIC."""

    pid: int
    tid: int
    name: str
    start_ns: int
    end_ns: int
    steps: int | None
    """Steps of environments; None: not told."""
    label: str = ""
    """What the framework calls it."""


@dataclass
class Recording:
    """What a program wrote to stdout, and the ranges of it and its children."""

    stdout: str
    stderr: str
    exit_code: int
    ranges: list[Range] = field(default_factory=list)
    unmatched: int = 0
    nested: int = 0
    open: int = 0

    def names(self) -> list[str]:
        """Return the phases in the order in which they ended."""
        return [made.name for made in sorted(self.ranges, key=lambda made: made.end_ns)]

    def counts(self, pid: int | None = None) -> Counter[str]:
        """Return how many ranges there are by phase, in one process or all."""
        return Counter(made.name for made in self.ranges if pid in (None, made.pid))

    def check_nesting(self) -> None:
        """At most one range is open per thread at a time, and each was closed."""
        assert (self.unmatched, self.nested, self.open) == (0, 0, 0)


def phase_ns(ranges: list[Range], start_ns: int, end_ns: int) -> Counter[str]:
    """Return the time of each phase inside [start_ns, end_ns)."""
    found: Counter[str] = Counter()
    for made in ranges:
        inside = min(made.end_ns, end_ns) - max(made.start_ns, start_ns)
        found[made.name] += max(0, inside)
    return found


@cache
def compiler() -> str:
    """Return a C compiler; skip where there is none."""
    found = shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler (cc)")
    return found


def build(output: Path, *sources: Path, options: tuple[str, ...] = ()) -> Path:
    """Build a shared library."""
    includes = (f"-I{REPOSITORY / 'cupti'}", f"-I{SOURCES}")
    command = [compiler(), "-shared", "-fPIC", "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-o"]
    subprocess.run([*command, output, *includes, *options, *sources], check=True)
    return output


def python_folder(scratch: Path) -> Path:
    """Return the folder for PYTHONPATH: the installed one, else one made of the sources."""
    installed = Path(rlscope_trace.__file__).parent / "shim" / "python"
    if any((installed / "rlscope_phases").glob("_nvtx*.so")):
        return installed
    folder = scratch / "python"
    shutil.copytree(SOURCES / "rlscope_phases", folder / "rlscope_phases")
    shutil.copy(SOURCES / "sitecustomize.py", folder)
    headers = f"-I{sysconfig.get_path('include')}"
    build(
        folder / "rlscope_phases" / "_nvtx.abi3.so",
        *SOURCES.glob("*.c"),
        options=(*WARNINGS, "-fvisibility=hidden", "-DPy_LIMITED_API=0x03080000", headers),
    )
    return folder


@dataclass(frozen=True)
class Harness:
    """Where the two halves are."""

    folder: Path
    listener: Path
    scratch: Path

    def environment(self, ranges: Path | None, *paths: Path) -> dict[str, str]:
        """Return what the launcher would set; `ranges` None: no tool."""
        made = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        made["RLSCOPE_AUTO"] = "1"
        made["PYTHONPATH"] = os.pathsep.join(map(str, (self.folder, *paths)))
        if ranges is not None:
            made["NVTX_INJECTION64_PATH"] = str(self.listener)
            made["RLSCOPE_TEST_RANGES"] = str(ranges)
        return made

    def run(
        self,
        *command: str | Path,
        python: str = sys.executable,
        paths: tuple[Path, ...] = (),
        check: bool = True,
        timeout_s: float = 120,
    ) -> Recording:
        """Run `python COMMAND` with phases and return what came of it."""
        ranges = self.scratch / f"ranges-{len(list(self.scratch.iterdir()))}"
        ranges.mkdir()
        done = subprocess.run(
            [python, *command],
            env=self.environment(ranges, *paths),
            # Some libraries leave logs where they are.
            cwd=self.scratch,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert not check or done.returncode == 0, done.stderr
        made = Recording(done.stdout, done.stderr, done.returncode)
        for path in ranges.iterdir():
            _read(path, made)
        return made

    def script(self, text: str, *paths: Path, check: bool = True) -> Recording:
        """Run a program given as text."""
        program = self.scratch / f"program_{len(list(self.scratch.iterdir()))}.py"
        program.write_text(text)
        return self.run(program, paths=paths, check=check)


def _read(path: Path, made: Recording) -> None:
    content = path.read_bytes()
    count, unmatched, nested, opened = HEADER.unpack_from(content)
    made.unmatched += unmatched
    made.nested += nested
    made.open += opened - count
    for index in range(1, count + 1):
        start_ns, end_ns, tid, steps, name, label = RECORD.unpack_from(content, index * RECORD.size)
        domain, _, phase = name.rstrip(b"\0").decode().partition("/")
        assert domain == "rlscope"
        steps_or_none = steps if steps >= 0 else None
        framework_name = label.rstrip(b"\0").decode()
        made.ranges.append(
            Range(int(path.name), tid, phase, start_ns, end_ns, steps_or_none, framework_name)
        )


def make(scratch: Path) -> Harness:
    """Build what is not built yet."""
    runs = scratch / "runs"
    runs.mkdir()
    source = Path(__file__).with_name("phases_listener.c")
    listener = build(scratch / "listener.so", source)
    return Harness(python_folder(scratch), listener, runs)
