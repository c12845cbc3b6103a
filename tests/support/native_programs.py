"""Builds the native modules of tests/workloads, and finds the Pythons that use them."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from conftest import WORKLOADS
from phases_harness import RL_PYTHON, compiler

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
# With frame pointers every function begins with a push: no compiler decides which can be probed.
_FLAGS = ("-O2", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror")
_ASK = """
import json, os, sys, sysconfig
print(json.dumps([sysconfig.get_path("include"), sysconfig.get_config_var("EXT_SUFFIX"),
                  "%d.%d" % sys.version_info[:2]]))
"""


@cache
def _facts(python: str) -> tuple[str, str, str]:
    """Return where the headers of a Python are, how its extensions end, and its version."""
    done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=True)
    include, suffix, version = json.loads(done.stdout)
    return include, suffix, version


def build_extension(name: str, directory: Path, python: str = RL_PYTHON) -> Path:
    """Compile `name` for a Python into a folder, which is returned; skip without its headers."""
    include, suffix, version = _facts(python)
    if not Path(include, "Python.h").exists():
        pytest.skip(f"no headers of Python {version} at {include}")
    (source,) = (path for path in WORKLOADS.glob(f"{name}.c*") if path.suffix in (".c", ".cpp"))
    command = [compiler() if source.suffix == ".c" else cxx_compiler()]
    command += [*_FLAGS, "-fPIC", "-shared", f"-I{include}", str(source), "-lm"]
    subprocess.run([*command, "-o", str(directory / f"{name}{suffix}")], check=True)
    return directory


@cache
def cxx_compiler() -> str:
    """Return a C++ compiler; skip where there is none."""
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return found
    pytest.skip("no C++ compiler")


def build_library(name: str, directory: Path) -> Path:
    """Compile `name`.c as a library for ctypes."""
    made = directory / f"lib{name}.so"
    source = str(WORKLOADS / f"{name}.c")
    subprocess.run(
        [compiler(), *_FLAGS, "-fPIC", "-shared", source, "-o", str(made), "-lpthread"], check=True
    )
    return made


def build_program(name: str, directory: Path) -> Path:
    """Compile `name`.c as a program."""
    made = directory / name
    source = str(WORKLOADS / f"{name}.c")
    subprocess.run([compiler(), *_FLAGS, source, "-o", str(made), "-lpthread"], check=True)
    return made


def pythons_of(version: str) -> list[str]:
    """Return the Pythons of this version, those of pyenv before those on PATH."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    # A version manager's stand-in is no Python.
    folders = [Path(folder) for folder in os.get_exec_path() if "shims" not in folder]
    found = [*sorted(root.glob("*/bin")), *folders]
    return [
        str(path) for path in (folder / f"python{version}" for folder in found) if path.exists()
    ]


def python_of(version: str) -> str:
    """Return a Python of this version, from pyenv or PATH; skip where there is none."""
    for candidate in pythons_of(version):
        if _facts(candidate)[2] == version:
            return candidate
    pytest.skip(f"no Python {version} (pyenv install {version})")


def system_python() -> str:
    """Return the distribution's Python, which is built otherwise than those of pyenv."""
    if not Path("/usr/bin/python3").exists():
        return sys.executable
    return "/usr/bin/python3"
