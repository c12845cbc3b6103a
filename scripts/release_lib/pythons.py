"""Which CPythons there are to build for."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from release_lib import roots
from release_lib.running import WORK, ReleaseError, output_of, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
_ASSEMBLER = ("HAVE_GCC_ASM_FOR_X64", "HAVE_GCC_ASM_FOR_X87")
_PROBE = """
import pathlib, sys, sysconfig
version = ".".join(map(str, sys.version_info[:2]))
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
import ensurepip, venv
print(version, sys.implementation.name == "cpython" and not free and header.exists())
"""


def find(*, testing: bool, only: Sequence[str] | None = None) -> dict[str, Path]:
    """Return a CPython with its headers for each version that this machine has one of."""
    wanted = only or VERSIONS
    found: dict[str, Path] = {}
    for path in _candidates(wanted):
        version = _version(path)
        if version in wanted:
            found.setdefault(version, path)
    if testing:
        for version in [name for name in wanted if name not in found]:
            path = _of_testing(version)
            if path is not None:
                found[version] = path
    if only and (absent := [version for version in only if version not in found]):
        raise ReleaseError(f"no CPython {', '.join(absent)} with its headers was found")
    return dict(sorted(found.items(), key=lambda entry: VERSIONS.index(entry[0])))


def _candidates(versions: Sequence[str]) -> Iterator[Path]:
    for version in versions:
        pyenv = (Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}")
        on_path = shutil.which(f"python{version}")
        yield from sorted(pyenv)
        if on_path:
            yield Path(on_path)


def movable(versions: Sequence[str], folder: Path) -> Path | None:
    """Copy a CPython that no distribution packaged, to run in that folder; None: there is none.

    As conda's it finds its libraries beside it; of what was installed in it pip comes along.
    """
    for found in _candidates(versions):
        version, home = _version(found), found.resolve().parents[1]
        library = home / f"lib/python{version}"
        if version not in versions or home == Path("/usr") or not library.is_dir():
            continue
        shutil.copytree(home, folder, symlinks=True, ignore=_without_packages)
        (folder / "conda-meta").mkdir()
        (folder / "conda-meta/history").touch()
        python = folder / f"bin/python{version}"
        run("patchelf", "--set-rpath", "$ORIGIN/../lib", python, log=WORK / "logs/movable.log")
        return python
    return None


def _without_packages(folder: str, names: Sequence[str]) -> list[str]:
    if Path(folder).name == "site-packages":
        return [name for name in names if not name.startswith("pip")]
    return [name for name in names if name in ("__pycache__", "test")]


def _version(python: Path) -> str | None:
    done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    version, _, is_usable = done.stdout.strip().partition(" ")
    return version if is_usable == "True" else None


def _of_testing(version: str) -> Path | None:
    """Return a Python of Debian testing that runs here, with the C library of its own root."""
    root = roots.make("testing", use="-python")
    log = WORK / "logs/testing-pythons.log"
    python = root / f"usr/bin/python{version}"
    here = root / f"usr/bin/python{version}-here"
    if not python.exists() or not (root / f"usr/include/python{version}/Python.h").exists():
        try:
            roots.install(root, f"python{version}-dev", f"python{version}-venv", log=log)
        except ReleaseError:
            return None
    machine = "x86_64-linux-gnu"
    shutil.copy2(python, here)
    run("patchelf", "--set-interpreter", root / "lib64/ld-linux-x86-64.so.2", "--force-rpath",
        "--set-rpath", root / "usr/lib" / machine, here, log=log)  # fmt: skip
    # It does not stand among those of the C library here.
    header = root / f"usr/include/python{version}/pyconfig.h"
    header.write_text(_of_machine(header))
    output_of(here, "-c", "import ssl")
    return here


def headers(python: Path, version: str) -> Path:
    """Return a folder with the headers of a CPython, to compile for another machine with.

    They are those of any 64-bit Linux: pyconfig.h differs in what only CPython's own sources read,
    but for assembler (docs/release.md).
    """
    found = Path(output_of(python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"))
    folder = WORK / f"headers/python{version}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(found, folder)
    text = _of_machine(found / "pyconfig.h")
    (folder / "pyconfig.h").write_text(text + "".join(f"#undef {name}\n" for name in _ASSEMBLER))
    return folder


def _of_machine(header: Path) -> str:
    """Return pyconfig.h; Debian's only includes that of the machine."""
    text = header.read_text()
    inside = re.search(r"# *include +<(x86_64-linux-gnu/.*)>", text)
    return (header.parents[1] / inside[1]).read_text() if inside else text
