"""The finder on every CPython of the machine: all it finds is real, and nothing real is missed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from finder_targets import extension, has_modules, running, truthful
from native_programs import pythons_of
from rlscope_trace._capture import PythonScan, cheap_site

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 only"),
]

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.15t")
STANDARD = ("_json", "_ctypes", "_asyncio", "_decimal")
# Objects of these types are not known to the collector of the target, which tells the truth.
UNTOLD = {"vectorcall"}


def builds(version: str) -> list[str]:
    """Return the interpreters of a version, each once."""
    return sorted({str(Path(path).resolve()) for path in pythons_of(version)})


def check(python: str, modules: tuple[str, ...], part: str) -> int:
    """Hold the finder to what a Python says of files whose path has `part`; count the points."""
    with truthful(python, *modules) as (target, truth):
        scan = PythonScan(target.pid)
        runtime = scan.runtime()
        paths = [path for path in truth if part in path]
        found = scan.entry_points(paths)
    assert runtime is not None
    assert runtime["implementation"] == "cpython"
    assert list(runtime["version"]) == version_of(python)
    assert runtime["interpreters"] == 1
    assert runtime["free_threaded"] is ("t" in Path(python).name.removeprefix("python"))
    for path in paths:
        code = Path(path).read_bytes()
        reported = {offset for offsets in truth[path].values() for offset in offsets}
        points = {point[4]: point for point in found["points"] if point[0] == path}
        strange = [points[offset] for offset in points.keys() - reported]
        assert [point for point in strange if point[3] not in UNTOLD] == []
        for offset in reported - points.keys():
            assert isinstance(cheap_site(code[offset : offset + 256]), str), (path, offset)
    return len(found["points"])


def version_of(python: str) -> list[int]:
    """Return major, minor and micro version."""
    command = [python, "-c", "import sys; print(*sys.version_info[:3])"]
    reported = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return [int(number) for number in reported.split()]


@pytest.mark.parametrize("version", VERSIONS)
def test_modules_of_the_standard_library(version: str) -> None:
    pythons = builds(version)
    if not pythons:
        pytest.skip(f"no python{version} is installed")
    for python in pythons:
        modules = tuple(name for name in STANDARD if has_modules(python, name))
        assert check(python, modules, "/lib-dynload/") > 50


@pytest.mark.parametrize("package", ["numpy", "mujoco", "ale_py", "torch"])
def test_packages(package: str) -> None:
    if not has_modules(sys.executable, package):
        pytest.skip(f"{package} is not installed")
    assert check(sys.executable, (package,), f"-packages/{package}/") > 5


LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_json", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_stripped_module_is_named_by_python(tmp_path: Path) -> None:
    if shutil.which("strip") is None:
        pytest.skip("strip is not installed")
    whole = extension("_json")
    file = Path(shutil.copy(whole, tmp_path / whole.name))
    subprocess.run(["strip", "--strip-all", file], check=True)
    with running(sys.executable, "-c", LOAD, str(file)) as target:
        assert target.readline() == "ready"
        points = PythonScan(target.pid).entry_points([str(file)])["points"]
    kinds = {symbol: kind for _, _, symbol, kind, *_ in points}
    assert kinds["_json.scanstring"] == "function"
    assert kinds["_json.Scanner.__call__"] == "slot"


SUBINTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
kept = [interpreters.create() for _ in range(2)]
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_interpreters_are_counted(version: str) -> None:
    pythons = builds(version)
    if not pythons:
        pytest.skip(f"no python{version} is installed")
    for python in pythons:
        with running(python, "-c", SUBINTERPRETERS) as target:
            assert target.readline() == "ready"
            runtime = PythonScan(target.pid).runtime()
        assert runtime is not None
        assert runtime["interpreters"] == 3
