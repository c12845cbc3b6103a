"""A build that cannot work names every package that it lacks, and README.md names them all."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DEPENDENCIES = REPOSITORY / "tracer" / "dependencies.cmake"
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(dependencies LANGUAGES C)
include("{DEPENDENCIES}")
"""
# A variable that is set, to nothing: CMake does not look again.
PACKAGES = {
    "CLANG": "clang",
    "LLVM_STRIP": "llvm",
    "LIBBPF_INCLUDE_DIR": "libbpf-dev",
    "LIBBPF": "libbpf-dev",
    "ZYDIS_INCLUDE_DIR": "libzydis-dev",
    "LIBZYDIS": "libzydis-dev",
    "RAPIDJSON_INCLUDE_DIR": "rapidjson-dev",
}
# What is found by a module of CMake's.
MODULES = {"ZLIB": "zlib1g-dev", "Python": "python3-dev"}


def configure(folder: Path, *absent: str) -> tuple[int, list[str]]:
    """Configure without these; return the exit code and the packages that are named."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("needs cmake")
    (folder / "CMakeLists.txt").write_text(PROJECT)
    done = subprocess.run(
        [cmake, "-S", folder, "-B", folder / "build", *absent],
        capture_output=True,
        text=True,
        check=False,
    )
    named = re.findall(r"hint: sudo apt-get install (.*)", " ".join(done.stderr.split()))
    assert len(named) <= 1, done.stderr
    return done.returncode, named[0].partition(" Call Stack")[0].split() if named else []


@pytest.mark.parametrize("absent", ["RAPIDJSON_INCLUDE_DIR", "LIBBPF", "ZYDIS_INCLUDE_DIR"])
def test_what_is_missing_is_named_with_its_package(tmp_path: Path, absent: str) -> None:
    code, named = configure(tmp_path, f"-D{absent}=")
    assert code != 0
    assert named == [PACKAGES[absent]]


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    modules = (f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in MODULES)
    code, named = configure(tmp_path, *(f"-D{name}=" for name in PACKAGES), *modules)
    assert code != 0
    assert named == [*dict.fromkeys(PACKAGES.values()), *MODULES.values()]


def test_the_readme_names_every_package() -> None:
    (line,) = re.findall(r"sudo apt-get install (.*)", (REPOSITORY / "README.md").read_text())
    packages = {*PACKAGES.values(), *MODULES.values()}
    assert set(line.split()) == {"g++", *packages}
    used = set(re.findall(r"^ *need\(.* (\S+)\)$", DEPENDENCIES.read_text(), re.MULTILINE))
    assert used == packages
