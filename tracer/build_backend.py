"""The build backend: scikit-build-core, which first sees whether all is there that a build needs.

pip fetches CMake for a build, and what the package needs to run. What is missing is said
before that, by missing_tools.py; what only CMake can tell by dependencies.cmake, once there is one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403 - the hooks that stay as they are

import missing_tools

_DEPENDENCIES = Path(__file__).resolve().parent / "dependencies.cmake"
_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(dependencies LANGUAGES NONE)
include("{dependencies}")
"""


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:  # noqa: ANN401
    """Return what pip fetches for a build, or exit where something is missing."""
    _require_tools(config_settings)
    return list(build.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:  # noqa: ANN401
    """Return what pip fetches for a build, or exit where something is missing."""
    _require_tools(config_settings)
    return list(build.get_requires_for_build_editable(config_settings))


def prepare_metadata_for_build_wheel(*arguments: Any, **named: Any) -> str:  # noqa: ANN401
    """Return the metadata, or exit where the build would fail."""
    _require_dependencies()
    return build.prepare_metadata_for_build_wheel(*arguments, **named)


def prepare_metadata_for_build_editable(*arguments: Any, **named: Any) -> str:  # noqa: ANN401
    """Return the metadata, or exit where the build would fail."""
    _require_dependencies()
    return build.prepare_metadata_for_build_editable(*arguments, **named)


def _require_tools(settings: Any) -> None:  # noqa: ANN401
    if said := missing_tools.message(os.environ, elsewhere=bool(settings)):
        raise SystemExit(f"\n{said}\n")


def _require_dependencies() -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        return
    recorder = os.environ.get("RLSCOPE_RECORDER", "AUTO")
    options = [f"-DRLSCOPE_RECORDER={recorder}", f"-DPython_EXECUTABLE={sys.executable}"]
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = _PROJECT.format(dependencies=_DEPENDENCIES.as_posix())
        (folder / "CMakeLists.txt").write_text(text, encoding="utf-8")
        command = [cmake, "-S", folder, "-B", folder / "build", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        # What dependencies.cmake says, without where it says it.
        head, _, said = done.stderr.partition("dependencies.cmake:")
        said = said.partition("(message):")[2].partition("Call Stack")[0]
        raise SystemExit(f"\n{(said or head).strip()}\n")
