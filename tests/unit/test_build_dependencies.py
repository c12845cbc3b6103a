"""A build that cannot work names every package that it lacks, and README.md names them all."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import in_matrix

REPOSITORY = Path(__file__).resolve().parents[2]
DEPENDENCIES = REPOSITORY / "tracer" / "dependencies.cmake"
# The folder is not on the path: the package in it has no native modules.
_SPEC = importlib.util.spec_from_file_location(
    "missing_tools", REPOSITORY / "tracer/missing_tools.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
missing_tools = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(missing_tools)
# A variable that is set, to nothing: CMake does not look again.
RECORDER_PACKAGES = {
    "CLANG": "clang",
    "LLVM_STRIP": "llvm",
    "LIBBPF_INCLUDE_DIR": "libbpf-dev",
    "LIBBPF": "libbpf-dev",
    "ZYDIS_INCLUDE_DIR": "libzydis-dev",
    "LIBZYDIS": "libzydis-dev",
}
PACKAGES = {
    "ANY_CC": "g++",
    "ANY_CXX": "g++",
    **RECORDER_PACKAGES,
    "RAPIDJSON_INCLUDE_DIR": "rapidjson-dev",
}
# What is found by a module of CMake's.
MODULES = {"ZLIB": "zlib1g-dev", "Python": "python3-dev"}
WITHOUT_RECORDER = [f"-D{name}=" for name in RECORDER_PACKAGES]


def cmake(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = shutil.which("cmake")
    if program is None:
        pytest.skip("needs cmake")
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def ask(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Configure a project that only looks for what is needed."""
    project = "cmake_minimum_required(VERSION 3.25)\nproject(dependencies LANGUAGES NONE)\n"
    (folder / "CMakeLists.txt").write_text(f'{project}include("{DEPENDENCIES}")\n')
    return cmake("-S", folder, "-B", folder / "build", "-G", "Unix Makefiles", *options)


def configure(folder: Path, *options: str) -> tuple[int, list[str]]:
    """Configure with these; return the exit code and the packages that are named."""
    done = ask(folder, *options)
    named = re.findall(r"hint: sudo apt-get install (.*)", done.stderr)
    assert len(named) <= 1, done.stderr
    return done.returncode, named[0].split() if named else []


@pytest.mark.parametrize(
    "absent", ["LIBBPF", *in_matrix("RAPIDJSON_INCLUDE_DIR", "ZYDIS_INCLUDE_DIR", "CLANG")]
)
def test_what_is_missing_is_named_with_its_package(tmp_path: Path, absent: str) -> None:
    code, named = configure(tmp_path, "-DRLSCOPE_RECORDER=ON", f"-D{absent}=")
    assert code != 0
    assert named == [PACKAGES[absent]]


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    modules = (f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in MODULES)
    absent = (f"-D{name}=" for name in (*PACKAGES, "ZLIB_FOUND"))
    code, named = configure(tmp_path, "-DRLSCOPE_RECORDER=on", *absent, *modules)
    assert code != 0
    assert named == [*dict.fromkeys(PACKAGES.values()), *MODULES.values()]


def test_without_a_compiler_nothing_that_is_there_is_called_missing(tmp_path: Path) -> None:
    code, named = configure(tmp_path, "-DRLSCOPE_RECORDER=ON", "-DANY_CXX=")
    assert code != 0
    assert named == ["g++"]


def test_a_word_that_is_none_is_refused(tmp_path: Path) -> None:
    done = prepare_metadata(tmp_path, ask(tmp_path, "-DRLSCOPE_RECORDER=maybe").stderr, 1)
    assert [line.strip() for line in done.stderr.split("\n")] == [
        "", "RLSCOPE_RECORDER is maybe", "hint: RLSCOPE_RECORDER=on, off or auto", "", ""
    ]  # fmt: skip


def test_what_reads_needs_nothing_of_what_records(tmp_path: Path) -> None:
    assert configure(tmp_path, "-DRLSCOPE_RECORDER=OFF", *WITHOUT_RECORDER) == (0, [])


@pytest.mark.parametrize(
    ("machine", "needed"),
    [
        ("x86_64", ["clang", "llvm", "libbpf-dev", "libzydis-dev"]),
        # Its instructions are read without a library.
        ("aarch64", ["clang", "llvm", "libbpf-dev"]),
        ("riscv64", []),
    ],
)
def test_by_itself_the_recorder_is_built_where_it_is_known_to_run(
    tmp_path: Path, machine: str, needed: list[str]
) -> None:
    code, named = configure(
        tmp_path, *WITHOUT_RECORDER, "-DCMAKE_SYSTEM_NAME=Linux",
        f"-DCMAKE_SYSTEM_PROCESSOR={machine}",
    )  # fmt: skip
    assert code == (1 if needed else 0)
    assert named == needed


def test_a_build_without_the_recorder_has_nothing_of_it(tmp_path: Path) -> None:
    """Only configured here; scripts/release builds it, where neither clang nor libbpf is."""
    # pip brings pybind11 for the time of a build; here only the names of targets matter.
    (tmp_path / "pybind11Config.cmake").write_text(
        "function(pybind11_add_module name kind)\n"
        "add_library(${name} ${kind} ${ARGN})\n"
        "endfunction()\n"
    )
    done = cmake(
        "-S", REPOSITORY / "tracer", "-B", tmp_path / "build", f"-Dpybind11_DIR={tmp_path}",
        f"-DPython_EXECUTABLE={sys.executable}", "-DSKBUILD_PLATLIB_DIR=.",
        "-DRLSCOPE_RECORDER=OFF", *WITHOUT_RECORDER,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    targets = cmake("--build", tmp_path / "build", "--target", "help").stdout
    assert {"_ingest", "_sweep", "_perfetto", "_critical_path"} <= set(re.findall(r"\w+", targets))
    assert not re.search("_capture|bpf|shim|loops|nvtx", targets)


def test_the_readme_names_every_package() -> None:
    (line,) = re.findall(r"sudo apt-get install (g.*)", (REPOSITORY / "README.md").read_text())
    packages = {*PACKAGES.values(), *MODULES.values()}
    assert set(line.split()) == packages
    used = set(re.findall(r"^ *need\(.* (\S+)\)$", DEPENDENCIES.read_text(), re.MULTILINE))
    assert used == packages
    assert {need.package for need in missing_tools.ALL} == packages
    told = re.findall(r'^ *need\(.* "(.*)" \S+\)$', DEPENDENCIES.read_text(), re.MULTILINE)
    assert {need.what for need in missing_tools.ALL} == set(told)


def lacking(monkeypatch: pytest.MonkeyPatch, *programs: str, **environment: str) -> list[str]:
    """Return what is said where these programs are missing, and all libraries but Python's."""
    there = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name in programs else there("sh"))
    monkeypatch.setattr(missing_tools, "_is_header", lambda name, _: name == "Python.h")
    monkeypatch.setattr(missing_tools.platform, "machine", lambda: "x86_64")
    return missing_tools.message(environment).splitlines()


@pytest.mark.parametrize("recorder", ["", "on", "auto"])
def test_a_tool_that_is_missing_is_told_without_cmake(
    monkeypatch: pytest.MonkeyPatch, recorder: str
) -> None:
    said = lacking(monkeypatch, "clang", "c++", "g++", "clang++", RLSCOPE_RECORDER=recorder)
    assert said[0] == "missing, with the Debian package that holds it:"
    assert (
        "hint: sudo apt-get install g++ clang libbpf-dev libzydis-dev rapidjson-dev zlib1g-dev"
        in said
    )
    assert said[-1].startswith("hint: RLSCOPE_RECORDER=off pip install ")


def test_a_word_that_is_none_is_refused_before_anything_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = lacking(monkeypatch, "clang", RLSCOPE_RECORDER="True")
    assert said == ["RLSCOPE_RECORDER is True", "hint: RLSCOPE_RECORDER=on, off or auto"]


def test_what_only_reads_needs_no_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    said = lacking(monkeypatch, "clang", "llvm-strip", "llvm-strip-14", RLSCOPE_RECORDER="off")
    assert said[-1] == "hint: sudo apt-get install rapidjson-dev zlib1g-dev"


def test_a_compiler_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"CMAKE_PREFIX_PATH": "/opt"}
    assert lacking(monkeypatch, "c++", "g++", "clang++", CXX="ccache /opt/c++", **told) == []
    for variable in ("CXX", "CC"):
        said = lacking(monkeypatch, "mine", **told, **{variable: "mine -O1"})
        assert said == [f"{variable} is mine, which is no program here", f"hint: unset {variable}"]


def test_where_only_headers_are_missing_it_is_said_unless_cmake_was_told_where_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install = "hint: sudo apt-get install libbpf-dev libzydis-dev rapidjson-dev zlib1g-dev"
    assert install in lacking(monkeypatch)
    assert lacking(monkeypatch, CMAKE_PREFIX_PATH="/opt") == []
    assert missing_tools.message({}, elsewhere=True) == ""


def test_headers_are_found_beside_programs_and_by_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/mine.h").touch()
    beside = {"PATH": f"{tmp_path}/bin:/usr/bin"}
    assert missing_tools._is_header("mine.h", beside)
    assert not missing_tools._is_header("mine.h", {"PATH": "/usr/bin"})
    assert missing_tools._is_header("cstdio", {"PATH": "/usr/bin"})


def prepare_metadata(folder: Path, cmake_says: str, code: int) -> subprocess.CompletedProcess[str]:
    """Ask the backend for metadata, where scikit-build-core and CMake are only played."""
    (folder / "scikit_build_core").mkdir()
    hook = "def prepare_metadata_for_build_wheel(folder):\n    return folder\n"
    (folder / "scikit_build_core/__init__.py").touch()
    (folder / "scikit_build_core/build.py").write_text(hook)
    (folder / "said").write_text(cmake_says)
    (folder / "cmake").write_text(f'#!/bin/sh\n/bin/cat "{folder}/said" >&2\nexit {code}\n')
    (folder / "cmake").chmod(0o755)
    program = "import build_backend; print(build_backend.prepare_metadata_for_build_wheel('a'))"
    places = f"{REPOSITORY / 'tracer'}:{folder}"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={"PATH": str(folder), "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


def test_what_is_missing_is_said_before_pip_fetches_anything(tmp_path: Path) -> None:
    said = cmake("-S", "/nonexistent", "-B", tmp_path / "b").stderr
    done = prepare_metadata(tmp_path, said, 1)
    assert done.returncode == 1
    assert done.stderr.strip() == said.strip()


def test_the_message_stands_alone(tmp_path: Path) -> None:
    said = (
        "CMake Error at dependencies.cmake:79 (message):\n"
        "    missing, with the Debian package that holds it:\n      zlib: zlib1g-dev\n"
        "    hint: sudo apt-get install zlib1g-dev\nCall Stack (most recent call first):\n  x\n"
    )
    done = prepare_metadata(tmp_path, said, 1)
    assert done.returncode == 1
    first, *_, last = done.stderr.strip().splitlines()
    assert first == "missing, with the Debian package that holds it:"
    assert last.strip() == "hint: sudo apt-get install zlib1g-dev"


def test_a_build_that_can_work_goes_on(tmp_path: Path) -> None:
    done = prepare_metadata(tmp_path, "a warning", 0)
    assert (done.returncode, done.stdout) == (0, "a\n")
