"""The machines that wheels are made for: this one, and another that is compiled for here."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from release_lib import pythons, roots
from release_lib.running import REPOSITORY, ReleaseError

HERE = "x86_64"
NAMES = (HERE, "aarch64")
_COMPILER = "aarch64-linux-gnu-g++"
# What the recorder is made of, as docs/release.md lists it for this machine.
_LIBRARIES = ("libbpf-dev", "libelf-dev", "zlib1g-dev", "rapidjson-dev")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: its name, and where its libraries are."""

    name: str
    root: Path = Path("/")

    @property
    def is_foreign(self) -> bool:
        """Whether this one cannot run its programs by itself."""
        return self.name != HERE

    @property
    def platform(self) -> str:
        """The oldest C library that has all that GCC 12 of Debian 12 asks of it.

        That of RHEL 9 and of Ubuntu 22.04, which is what GPU containers have.
        """
        return f"manylinux_2_34_{self.name}"

    def environment(self, version: str, python: Path) -> dict[str, str]:
        """Return what a build for it has to know; python: of that version, and of this machine."""
        if not self.is_foreign:
            return {}
        libraries = self.root / f"usr/lib/{self.name}-linux-gnu"
        return {
            "CMAKE_TOOLCHAIN_FILE": str(REPOSITORY / f"scripts/release_lib/{self.name}.cmake"),
            "RLSCOPE_SYSROOT": str(self.root),
            "RLSCOPE_PYTHON_HEADERS": str(pythons.headers(python, version)),
            # How Python says which machine its modules are for: in their names, and in the wheel's.
            "_PYTHON_HOST_PLATFORM": f"linux-{self.name}",
            "SETUPTOOLS_EXT_SUFFIX":
                f".cpython-{version.replace('.', '')}-{self.name}-linux-gnu.so",
            "AUDITWHEEL_LD_LIBRARY_PATH": str(libraries),
        }  # fmt: skip


def machine(name: str) -> Machine:
    """Return a machine by name, with a root of libraries where it is not this one."""
    if name == HERE:
        return Machine(name)
    if shutil.which(_COMPILER) is None:
        raise ReleaseError(f"no {_COMPILER}: sudo apt-get install crossbuild-essential-arm64")
    return Machine(name, roots.libraries(root_of(name), *_LIBRARIES))


def root_of(name: str) -> str:
    """Return the name of the root of Debian 12 on that machine."""
    return "bookworm" if name == HERE else f"bookworm-{name}"
