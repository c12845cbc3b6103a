"""What a build lacks, told without CMake; dependencies.cmake has the same packages."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Need(NamedTuple):
    """Something that a build needs, and Debian's package that holds it."""

    what: str
    package: str
    programs: tuple[str, ...] = ()
    """One of them is enough."""
    header: str = ""
    variable: str = ""
    """The environment variable that may name another program."""


_COMPILERS = (
    Need("a C++ compiler", "g++", ("c++", "g++", "clang++"), variable="CXX"),
    Need("a C++ compiler", "g++", ("cc", "gcc", "clang"), variable="CC"),
)
_FOR_BPF = (
    Need("clang, which compiles for BPF", "clang", ("clang",)),
    Need("llvm-strip", "llvm", ("llvm-strip", "llvm-strip-14")),
)
_FOR_RECORDER = (Need("libbpf and its headers", "libbpf-dev", header="bpf/bpf_helpers.h"),)
_FOR_X86_64 = (Need("Zydis and its headers", "libzydis-dev", header="Zydis/Zydis.h"),)
_FOR_ALL = (
    Need("RapidJSON's headers", "rapidjson-dev", header="rapidjson/reader.h"),
    Need("zlib and its headers", "zlib1g-dev", header="zlib.h"),
    Need("Python and its headers", "python3-dev", header="Python.h"),
)
ALL = (*_COMPILERS, *_FOR_BPF, *_FOR_RECORDER, *_FOR_X86_64, *_FOR_ALL)
_LESS = "hint: RLSCOPE_RECORDER=off pip install ... builds only what reads traces, and needs less"


def message(environment: Mapping[str, str], *, elsewhere: bool = False) -> str:
    """Return all that is missing and what installs it; nothing where all was found.

    elsewhere: CMake was told where to look, so that it alone knows which headers are there, unless
    a program is missing. A variable whose value cannot be comes first.
    """
    asked = environment.get("RLSCOPE_RECORDER", "").upper()
    if asked not in ("", "AUTO", "ON", "OFF"):
        said = f"RLSCOPE_RECORDER is {environment['RLSCOPE_RECORDER']}"
        return f"{said}\nhint: RLSCOPE_RECORDER=on, off or auto"
    for need in _COMPILERS:
        for own in _own(need, environment):
            if not shutil.which(own):
                said = f"{need.variable} is {own}, which is no program here"
                return f"{said}\nhint: unset {need.variable}"
    records = asked == "ON" or (asked in ("", "AUTO") and _can_record())
    programs = [*_COMPILERS, *(_FOR_BPF if records else ())]
    missing = [need for need in programs if _program(need, environment) is None]
    if not missing and (elsewhere or _is_told_where(environment)):
        return ""
    libraries = [
        *(_FOR_RECORDER if records else ()),
        *(_FOR_X86_64 if records and platform.machine() == "x86_64" else ()),
        *_FOR_ALL,
    ]
    missing += [need for need in libraries if not _is_header(need.header, environment)]
    return "\n".join(_lines(missing, records=records)) if missing else ""


def _lines(missing: Iterable[Need], *, records: bool) -> list[str]:
    packages = {need.package: need.what for need in missing}
    return [
        "missing, with the Debian package that holds it:",
        *(f"  {what}: {package}" for package, what in packages.items()),
        f"hint: sudo apt-get install {' '.join(packages)}",
        *([_LESS] if records else []),
    ]


def _can_record() -> bool:
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


def _is_told_where(environment: Mapping[str, str]) -> bool:
    """Tell whether CMake looks where only it knows; outside Linux there are more such folders."""
    told = ("CMAKE_", "SKBUILD_", "PKG_CONFIG_", "ZLIB_", "CONDA_PREFIX")
    return sys.platform != "linux" or any(name.startswith(told) for name in environment)


def _own(need: Need, environment: Mapping[str, str]) -> list[str]:
    """Return the program that the environment names, if it names one."""
    return environment.get(need.variable, "").split()[:1]


def _program(need: Need, environment: Mapping[str, str]) -> str | None:
    """Return the first that is there, the environment's before others; None: there is none."""
    names = (*_own(need, environment), *need.programs)
    return next(filter(None, map(shutil.which, names)), None)


def _is_header(name: str, environment: Mapping[str, str]) -> bool:
    """Tell whether CMake would find it: beside a folder of PATH, or as the compiler does."""
    roots = (sys.prefix, "/usr/local", "/usr", *map(os.path.dirname, os.get_exec_path(environment)))
    folders = [sysconfig.get_path("include"), *(f"{root}/include" for root in roots)]
    return any(Path(folder, name).exists() for folder in folders) or _compiles(name, environment)


def _compiles(header: str, environment: Mapping[str, str]) -> bool:
    """Tell whether a compiler finds a header where its machine has some of its own."""
    program = _program(_COMPILERS[0], environment)
    if program is None:
        return False
    text = f"#if !__has_include(<{header}>)\n#error\n#endif\n"
    command = [program, "-E", "-x", "c++", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True).returncode == 0
