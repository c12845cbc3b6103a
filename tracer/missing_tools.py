"""Which tools a build lacks, told without CMake; dependencies.cmake has the same packages."""

from __future__ import annotations

import platform
import shutil
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


def message(environment: Mapping[str, str]) -> str:
    """Return all that is missing and what installs it; nothing where no program is missing.

    Of programs it is known that they are missing; headers may be where only CMake looks. A word
    that does not say what to build comes first.
    """
    asked = environment.get("RLSCOPE_RECORDER", "").upper()
    if asked not in ("", "AUTO", "ON", "OFF"):
        said = f"RLSCOPE_RECORDER is {environment['RLSCOPE_RECORDER']}"
        return f"{said}\nhint: RLSCOPE_RECORDER=on, off or auto"
    records = asked == "ON" or (asked in ("", "AUTO") and _can_record())
    programs = [*_COMPILERS, *(_FOR_BPF if records else ())]
    missing = [need for need in programs if not _is_program(need, environment)]
    if not missing:
        return ""
    libraries = [
        *(_FOR_RECORDER if records else ()),
        *(_FOR_X86_64 if records and platform.machine() == "x86_64" else ()),
        *_FOR_ALL,
    ]
    missing += [need for need in libraries if not _is_header(need.header)]
    return "\n".join(_lines(missing, records=records))


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


def _is_program(need: Need, environment: Mapping[str, str]) -> bool:
    own = environment.get(need.variable, "").split()[:1]
    return any(map(shutil.which, (*own, *need.programs)))


def _is_header(name: str) -> bool:
    roots = (sys.prefix, "/usr/local", "/usr")
    folders = [sysconfig.get_path("include"), *(f"{root}/include" for root in roots)]
    return any(Path(folder, name).exists() for folder in folders)
