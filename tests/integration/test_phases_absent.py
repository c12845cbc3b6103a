"""A program in which no phases can be looked for, recorded: the trace and the recorder say why."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_libraries import WHOLE, make_gymnasium
from recording import query
from rlscope_trace.record.shims import PYTHON_FOLDER

pytestmark = pytest.mark.root
ABSENCES = (
    "SELECT measured, part, code, subject, detail FROM coverage WHERE kind = 'operation:phases'"
)
IMPORTING = "import gymnasium.core; print('alive')"


def damaged_package(package: Path) -> None:
    (package / "__init__.py").write_text("raise RuntimeError('damaged')\n")


def damaged_start(package: Path) -> None:
    with (package / "finder.py").open("a") as file:
        file.write("\n\ndef insert():\n    raise OSError('no table')\n")


def damaged_listener(package: Path) -> None:
    (package / "listener.py").write_text("raise ValueError('listener')\n")


def damaged_native(package: Path) -> None:
    (library,) = package.glob("_nvtx*.so")
    library.write_bytes(b"not a library")


def other_python(package: Path) -> None:
    with (package / "starting.py").open("a") as file:
        file.write("\n\ndef _unsupported():\n    return 'other_python\\tpypy'\n")


def record(tmp_path: Path, package: Path, program: str) -> tuple[Path, str]:
    """Record a program with such a package; return the trace, and what the recorder said."""
    library = make_gymnasium(tmp_path / "library", WHOLE)
    trace = tmp_path / "trace.duckdb"
    paths = f"PYTHONPATH={package.parent}{os.pathsep}{library}"
    command = (
        "-o",
        str(trace),
        "--no-calibrate",
        "--",
        "env",
        paths,
        sys.executable,
        "-c",
        program,
    )
    done = subprocess.run(
        [sys.executable, "-m", "rlscope_trace", *command],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
    return trace, done.stderr


@pytest.mark.parametrize(
    ("damage", "code", "subject", "said"),
    [
        (damaged_package, "phases_not_started", None, "RuntimeError('damaged')"),
        (damaged_start, "phases_not_started", None, "OSError('no table')"),
        (damaged_listener, "phases_not_loaded", None, "ValueError('listener')"),
        (damaged_native, "phases_native_not_loaded", None, "file too short"),
        (other_python, "phases_other_python", "pypy", "Python is pypy, not CPython"),
    ],
)
def test_that_there_are_no_phases_is_said(
    tmp_path: Path, damage: Callable[[Path], None], code: str, subject: str | None, said: str
) -> None:
    folder = Path(shutil.copytree(PYTHON_FOLDER, tmp_path / "python"))
    damage(folder / "rlscope_phases")
    trace, words = record(tmp_path, folder / "rlscope_phases", IMPORTING)
    ((*row, detail),) = query(trace, ABSENCES)
    assert row == [False, False, code, subject]
    assert subject is not None or said in detail
    (warning,) = [line for line in words.splitlines() if "no automatic phases" in line]
    assert warning.startswith("warning: ")
    assert said in warning
    summary = subprocess.run(
        [sys.executable, "-m", "rlscope_trace", "summarize", str(trace), "--all"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (line,) = [line for line in summary.splitlines() if "no automatic phases" in line]
    assert "not measured: operation:phases of python" in line
    assert said in line


def test_a_program_that_imports_no_such_library_says_nothing(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(PYTHON_FOLDER, tmp_path / "python"))
    other_python(folder / "rlscope_phases")
    text = "import json, sys; assert 'ctypes' not in sys.modules; print('alive')"
    trace, words = record(tmp_path, folder / "rlscope_phases", text)
    assert query(trace, ABSENCES) == []
    assert "automatic phases" not in words
