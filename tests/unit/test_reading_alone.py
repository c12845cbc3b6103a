"""Traces are made and read where nothing can be recorded: without the part that does, and bcc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

import pytest

from damaged_spool import build
from kineto_builder import kernel, write_kineto
from rlscope_trace.errors import NoRecorderError
from rlscope_trace.installed import PACKAGE, require_recorder

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


# What macOS has not: in os, in its C library, among the rights of a process, and /proc.
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
import pathlib
import rlscope_trace.outputs.trusted as trusted
trusted._DESCRIPTORS = pathlib.Path("/nowhere")
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


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """Return a folder by a link, as /tmp and /var are of macOS."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    return tmp_path / "link"


@pytest.mark.parametrize("words", ["export chrome", "export perfetto", "report"])
def test_files_are_written_on_other_systems(recovered: Path, linked: Path, words: str) -> None:
    written = []
    for name, program in (("here", WITHOUT), ("there", ELSEWHERE)):
        output = linked / name
        output.write_text("older")
        asked = (*words.split(), recovered, "-o", output)
        refused = command(*asked, program=program)
        assert "hint: overwrite it with --force" in refused.stderr
        done = command(*asked, "--force", program=program)
        assert done.returncode == 0, done.stderr
        written.append(output.read_bytes())
    assert written[0] == written[1]
    assert {path.name for path in linked.iterdir()} == {"here", "there"}


def test_other_profilers_are_imported_on_other_systems(linked: Path) -> None:
    made = write_kineto(linked / "a.json", [kernel("k", 1, 2)])
    done = command("import", "kineto", made, "-o", linked / "a.duckdb", program=ELSEWHERE)
    assert done.returncode == 0, done.stderr
    asked = command("sql", linked / "a.duckdb", "SELECT name FROM gpu_kernel", "--format", "csv")
    assert asked.stdout.split() == ["name", "k"]


def test_nothing_is_written_where_others_could_change_it(recovered: Path, linked: Path) -> None:
    linked.chmod(0o777)
    done = command("report", recovered, "-o", linked / "a.html", program=ELSEWHERE)
    assert done.returncode == 1
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: other users can change ")
    assert hint == "hint: -o names a file in a folder of your own"
    assert not [*linked.iterdir()]


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


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an installation whose native module that records does not load."""
    folder = tmp_path_factory.mktemp("damaged")
    for name in ("rlscope_trace", "rlscope_analysis"):
        shutil.copytree(PACKAGE.parent / name, folder / name)
    for path in (folder / "rlscope_trace").glob("_capture*.so"):
        path.write_bytes(b"cut off")
    return folder


@pytest.mark.root
@pytest.mark.parametrize("words", ["record -- true", "top --pid 1", "doctor"])
def test_a_module_that_does_not_load_is_one_error_with_what_mends_it(
    damaged: Path, words: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rlscope_trace", *words.split()], cwd=damaged, check=False,
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(damaged)},
    )  # fmt: skip
    assert done.returncode == 1
    said = (done.stdout if words == "doctor" else done.stderr).splitlines()
    assert sum("the native module cannot be loaded: " in line for line in said) == 1
    assert "Traceback" not in done.stderr
    assert any("pip install --force-reinstall --no-deps WHEEL" in line for line in said)


@pytest.mark.root
@pytest.mark.parametrize("words", ["summarize", "report -o a.html", "record -- true", "doctor"])
def test_without_proc_there_is_one_error(tmp_path: Path, words: str) -> None:
    """As in a plain chroot."""
    script = 'mount -t tmpfs none /proc && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
         sys.executable, "-m", "rlscope_trace", *words.split()],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: there is no /proc here")
    assert hint == "hint: mount -t proc proc /proc"


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
