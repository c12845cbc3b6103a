"""Where a soak runs: the command under test, the programs it traces, a folder for all of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[2]
_PROGRAMS = Path(__file__).with_name("programs")
_CARTPOLE = _REPOSITORY / "tests/workloads/native_cartpole.c"
_FLAGS = ("-O2", "-fno-omit-frame-pointer", "-fPIC", "-shared")
MODULE = "native_cartpole"


class SoakError(Exception):
    """It cannot run here; the hint says what would help."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class FailureError(Exception):
    """The product did what it must not do."""


@dataclass(frozen=True, slots=True)
class Home:
    """The command under test, and a folder for what is written."""

    recorder: str
    folder: Path
    modules: Path = field(init=False)

    def __post_init__(self) -> None:
        """Build what the programs load."""
        object.__setattr__(self, "modules", self.folder / "modules")
        self.modules.mkdir()
        compile_module(self.modules)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of programs and recorders."""
        # What events cost is measured once per machine, and is none of what is looked at here.
        quiet = {"RLSCOPE_CALIBRATE": "0", "RLSCOPE_CALIBRATION_DIR": str(self.folder / "none")}
        paths = [str(self.modules), *filter(None, [os.environ.get("PYTHONPATH")])]
        ours = {"PYTHONPATH": os.pathsep.join(paths), "RLSCOPE_SOAK_FOLDER": str(self.folder)}
        return {**os.environ, **quiet, **ours, **more}

    def program(self, name: str, *options: object) -> list[str]:
        """Return the command that runs a program of ours."""
        return [sys.executable, str(_PROGRAMS / f"{name}.py"), *map(str, options)]

    def run(self, *arguments: object, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run the command under test to its end."""
        return subprocess.run(
            [self.recorder, *map(str, arguments)],
            env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip


def compile_module(folder: Path) -> Path:
    """Compile the simulator whose calls are recorded; return its file."""
    include = sysconfig.get_path("include")
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None or not Path(include, "Python.h").exists():
        raise SoakError("no C compiler, or no headers of Python", "apt-get install gcc python3-dev")
    made = folder / f"{MODULE}{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [compiler, *_FLAGS, f"-I{include}", str(_CARTPOLE), "-lm", "-o", str(made)]
    subprocess.run(command, check=True)
    return made


def read_truth(path: Path) -> dict[str, int]:
    """Return what a program counted of its own work; FailureError where it was disturbed."""
    if not path.exists():
        raise FailureError("the program ended before its work was done")
    truth: dict[str, int] = json.loads(path.read_text())
    is_right = truth["steps"] == truth["entered"] and not truth["wrong"]
    if not is_right or truth["failed_children"]:
        raise FailureError(f"the program counted wrong: {truth}")
    return truth
