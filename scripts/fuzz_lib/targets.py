"""Which fuzz targets there are, what each needs, and how one is built."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "tests" / "fuzz"
BUILD = REPOSITORY / "build" / "fuzz"

_FUZZER_RUNTIME = f"libclang_rt.fuzzer-{os.uname().machine}.a"
_LAUNCHER = "ccache"


class FuzzError(Exception):
    """Fuzzing cannot begin; `hint` mends it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Target:
    """One program that reads bytes as the product would."""

    name: str
    reads: str
    is_python: bool = False
    largest_input: int = 1 << 16

    @property
    def command(self) -> list[str]:
        """What runs it; files to read, or options of libFuzzer, follow."""
        if self.is_python:
            return [sys.executable, str(SOURCES / f"{self.name}.py")]
        return [str(BUILD / "native" / self.name)]


TARGETS = {
    target.name: target
    for target in (
        Target("shim_memory", "the memory that a target shares with the recorder"),
        Target("shim_spool", "shim.bin: ranges, GPU records, phases"),
        Target("spool_records", "records.bin, and that the states of a thread tile its life"),
        Target("elf", "files of code that a target has mapped: symbols, functions, sites"),
        Target("process", "memory of a target: its interpreter, objects, names, stacks"),
        Target("text", "/proc, decimal numbers, names of functions, machine code"),
        Target("kineto", "files of the PyTorch profiler, plain and gzipped"),
        Target("tables", "columns of a trace, by the engines of reports and exports"),
        Target("sidecars", "the other files of a spool, and /proc, in Python", is_python=True),
        Target("imports", "files of Kineto and nsys, and spools, to the trace", is_python=True),
        Target("traces", "trace databases: opened, summarized, queried", is_python=True),
    )
}


def build(targets: list[Target], jobs: int) -> None:
    """Make what the targets need; FuzzError where it cannot be."""
    native = [target.name for target in targets if not target.is_python]
    if len(native) < len(targets):
        _check_atheris()
    if native:
        _check_clang()
        _configure()
        _run(["ninja", "-C", str(BUILD / "native"), f"-j{jobs}", *native])


def _check_atheris() -> None:
    if importlib.util.find_spec("atheris") is None:
        raise FuzzError(
            f"Atheris is not installed in {sys.prefix}",
            f"{sys.executable} -m pip install --group fuzz",
        )


def _check_clang() -> None:
    """Without its runtime, linking a target fails with a page of text that names no package."""
    try:
        reported = subprocess.run(
            ["clang", f"--print-file-name={_FUZZER_RUNTIME}"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        version = subprocess.run(
            ["clang", "-dumpversion"], capture_output=True, text=True, check=True
        ).stdout.partition(".")[0]
    except FileNotFoundError:
        raise FuzzError("clang is not installed", "sudo apt-get install clang") from None
    if not Path(reported).is_absolute():
        raise FuzzError(
            f"clang {version} has no {_FUZZER_RUNTIME}, the runtime of its fuzzer",
            f"sudo apt-get install libclang-rt-{version}-dev",
        )


def _configure() -> None:
    folder = BUILD / "native"
    if (folder / "build.ninja").exists():
        return  # it configures itself again where CMakeLists.txt changed
    launcher = []
    if any((Path(entry) / _LAUNCHER).exists() for entry in os.get_exec_path()):
        launcher = [
            f"-DCMAKE_{language}_COMPILER_LAUNCHER={_LAUNCHER}" for language in ("C", "CXX")
        ]
    _run(
        ["cmake", "-S", str(SOURCES), "-B", str(folder), "-G", "Ninja",
         "-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++", *launcher]
    )  # fmt: skip


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise FuzzError(f"{command[0]} is not installed", "sudo scripts/test installs it") from None
    if done.returncode != 0:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise FuzzError(f"{command[0]} failed:\n{end}", " ".join(command))
