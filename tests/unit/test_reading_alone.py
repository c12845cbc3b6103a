"""Traces are made and read where nothing can be recorded: without the part that does, and bcc."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

import pytest

from damaged_spool import build
from kineto_builder import kernel, write_kineto
from rlscope_trace.errors import NoRecorderError
from rlscope_trace.installed import require_recorder

if TYPE_CHECKING:
    from pathlib import Path

REFUSING = """
import sys
import rlscope_trace.installed as installed

installed.EXTENSION_SUFFIXES = []

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("rlscope_trace.record", "rlscope_trace._capture", "bcc")):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refusing())
from rlscope_trace.cli import main
main(sys.argv[1:])
"""


# The modules of Python are there, and the native one is not, as in a build without the recorder.
WITHOUT = """
import sys
import rlscope_trace.installed as installed

installed.EXTENSION_SUFFIXES = []
from rlscope_trace.cli import main
main(sys.argv[1:])
"""


# What macOS has not: in os, in its C library, and among the rights of a process.
ELSEWHERE = (
    """
import ctypes, os, sys
for name in ("O_PATH", "O_TMPFILE", "sched_getaffinity", "pidfd_open", "setresuid", "setresgid"):
    delattr(os, name)
known = os.uname()
os.uname = lambda: type(known)(("Darwin", *known[1:4], "arm64"))
made = ctypes.CDLL
class Library:
    def __init__(self, *names, **options): self.made = made(*names, **options)
    def __getattr__(self, name):
        if name in ("prctl", "capset", "syscall"): raise AttributeError(name)
        return getattr(self.made, name)
ctypes.CDLL = Library
import rlscope_trace.rights as rights
class Other: platform = "darwin"
rights.sys = Other
"""
    + WITHOUT
)


def command(*arguments: object, program: str = REFUSING) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    build(folder / "a.duckdb.spool")
    done = command("recover", folder / "a.duckdb.spool")
    assert done.returncode == 0, done.stderr
    return folder / "a.duckdb"


@pytest.mark.parametrize(
    "words",
    ["fleet serve --user 0", "fleet doctor", "fleet launch -o a -- true", "top --pid 1",
     "record -- true", "record --help", "--pid 1", "doctor", "calibrate", "validate -- true",
     "gate --save a.json -- true", "balance --sweep n=1,2 -- true {n}"],
)  # fmt: skip
@pytest.mark.parametrize("program", [REFUSING, WITHOUT], ids=["no modules", "no native one"])
def test_what_records_says_in_one_error_why_not(words: str, program: str) -> None:
    done = command(*words.split(), program=program)
    assert done.returncode == 1
    assert done.stdout == ""
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: this installation reads traces and cannot record: ")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    "words",
    ["summarize", "summarize --view limits", "sql", "explain", "compare", "whatif", "balance"],
)
def test_traces_are_read_on_other_systems(recovered: Path, words: str) -> None:
    name, *options = words.split()
    asked = {"sql": ["SELECT 1"], "compare": [recovered]}.get(name, [])
    here, there = (
        command(name, recovered, *asked, *options, program=program)
        for program in (WITHOUT, ELSEWHERE)
    )
    assert (there.returncode, there.stdout, there.stderr) == (
        here.returncode, here.stdout, here.stderr
    )  # fmt: skip
    assert "Traceback" not in here.stderr


def test_on_other_systems_the_reason_is_said() -> None:
    done = command("record", "--", "true", program=ELSEWHERE)
    assert "eBPF is of Linux, not of Darwin" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("system", "machine", "reason"),
    [
        ("Darwin", "arm64", "eBPF is of Linux, not of Darwin"),
        ("Linux", "riscv64", "not for riscv64"),
        ("Linux", "aarch64", "built without the recorder"),
        ("Linux", "x86_64", "built without the recorder"),
    ],
)
def test_the_reason_is_that_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, reason: str
) -> None:
    (tmp_path / "_capture.pyi").touch()
    reported = os.uname_result((system, "host", "6.1", "#1", machine))
    monkeypatch.setattr(os, "uname", lambda: reported)
    with pytest.raises(NoRecorderError, match=reason):
        require_recorder(tmp_path)
    (tmp_path / f"_capture{EXTENSION_SUFFIXES[0]}").touch()
    require_recorder(tmp_path)


def test_other_profilers_are_imported(tmp_path: Path) -> None:
    made = write_kineto(tmp_path / "a.json", [kernel("k", 1, 2)])
    done = command("import", "kineto", made, "-o", tmp_path / "a.duckdb")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.duckdb").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("summarize",), ("summarize", "--by", "operation"), ("summarize", "--view", "thread"),
        ("sql", "FROM process"), ("export chrome", "-o", "-"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_traces_are_read(recovered: Path, words: tuple[str, ...]) -> None:
    name, *rest = words
    done = command(*name.split(), recovered, *rest)
    assert done.returncode == 0, done.stderr
    assert done.stdout
