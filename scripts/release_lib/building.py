"""Builds the source archive, and of it a wheel for each Python."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import time
from typing import TYPE_CHECKING

from release_lib import pythons
from release_lib.parts import sha256
from release_lib.running import DIST, REPOSITORY, WORK, ReleaseError, only_one, output_of, run, say
from release_lib.wheel_file import finish

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from release_lib.machines import Machine

MOST_BYTES = 15 << 20
_LAUNCHERS = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")
_CACHE = (
    {**dict.fromkeys(_LAUNCHERS, "ccache"), "CCACHE_DIR": str(WORK / "ccache")}
    if shutil.which("ccache")
    else {}
)
_REQUIREMENTS = REPOSITORY / "scripts/release_lib/requirements.txt"


def build(found: Mapping[str, Path], machine: Machine, wanted: Sequence[str]) -> bool:
    """Make dist/, or add to it the wheels of another machine; return whether none is missing.

    wanted: the versions of Python asked for; those not found are named.
    """
    begun = time.monotonic()
    if not machine.is_foreign:
        shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(exist_ok=True)
    for old in (*DIST.glob(f"*_{machine.name}.whl"), *DIST.glob("*.tar.gz")):
        old.unlink()
    archive = source_archive(DIST)
    say(f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB, sha256 {sha256(archive)}")
    absent = [version for version in wanted if version not in found]
    for version, python in found.items():
        started = time.monotonic()
        wheel = wheel_of(archive, python, version, WORK / "build", DIST, machine, cached=True)
        size = wheel.stat().st_size
        if size > MOST_BYTES:
            raise ReleaseError(f"{wheel.name} has {size} bytes: more than {MOST_BYTES}")
        took = time.monotonic() - started
        say(f"{wheel.name}: {size / 1e6:.1f} MB, {took:.0f} s, sha256 {sha256(wheel)}")
    if absent:
        say(f"no wheel for {', '.join(absent)}: no such CPython with its headers was found")
    say(f"dist/ took {time.monotonic() - begun:.0f} s")
    return not absent


def reproduce(version: str, machine: Machine) -> int:
    """Build a wheel of dist/ again in another folder; returns 1 where it is not the same."""
    archive = only_one(DIST, "*.tar.gz")
    wheel = only_one(DIST, f"*-cp{version.replace('.', '')}-*_{machine.name}.whl")
    elsewhere = WORK / "again" / "in" / "another-place"
    shutil.rmtree(elsewhere, ignore_errors=True)
    elsewhere.mkdir(parents=True)
    again = source_archive(elsewhere)
    found = pythons.find(testing=float(version[2:]) > 13, only=[version])
    wheel_again = wheel_of(again, found[version], version, elsewhere / "build", elsewhere, machine)
    same = True
    for first, second in ((archive, again), (wheel, wheel_again)):
        is_same = sha256(first) == sha256(second)
        say(f"{first.name}: {'the same bytes' if is_same else f'differs from {second}'}")
        same &= is_same
    return 0 if same else 1


def epoch_of(archive: Path) -> int:
    """Return the time that stands in a source archive, and in what is built of it."""
    with tarfile.open(archive) as tar:
        return max(int(member.mtime) for member in tar)


def source_archive(folder: Path) -> Path:
    """Make the source archive of what is committed."""
    log = WORK / "logs/sdist.log"
    checkout = WORK / "checkout"
    shutil.rmtree(checkout, ignore_errors=True)
    check_out(checkout)
    tools = _tools()
    script = (
        "from scikit_build_core.build import build_sdist as b; import sys; print(b(sys.argv[1]))"
    )
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "log", "-1", "--format=%ct")
    run(tools / "python", "-c", script, folder, log=log, cwd=checkout,
        env={"SOURCE_DATE_EPOCH": epoch})  # fmt: skip
    (made,) = folder.glob("*.tar.gz")
    return made


def check_out(folder: Path) -> None:
    """Put what is committed into a folder."""
    folder.mkdir(parents=True)
    output_of("git", "archive", "--output", WORK / "checkout.tar", "HEAD")
    with tarfile.open(WORK / "checkout.tar") as tar:
        tar.extractall(folder, filter="data")


def _tools() -> Path:
    """Return the bin/ of the environment whose tools are used, whatever is built."""
    return environment(pythons.find(testing=False, only=["3.11"])["3.11"], "tools")


def environment(python: Path, name: str) -> Path:
    """Return the bin/ of a virtual environment with what builds, made where it is not there yet."""
    folder = WORK / "environments" / name
    stamp = folder / ".complete"
    if not stamp.exists() or stamp.read_bytes() != _REQUIREMENTS.read_bytes():
        log = WORK / f"logs/environment-{name}.log"
        # Debian's Pythons take pip from a folder that another distribution does not have, and an
        # older pip does not run on a newer Python: it is the one that is pinned.
        run(python, "-m", "venv", "--clear", "--without-pip", folder, log=log)
        pip = sys.executable if name == "tools" else _tools() / "python"
        run(pip, "-m", "pip", "--python", folder / "bin/python",
            "--disable-pip-version-check", "install", "--requirement", _REQUIREMENTS,
            log=log)  # fmt: skip
        stamp.write_bytes(_REQUIREMENTS.read_bytes())
    return folder / "bin"


def wheel_of(  # noqa: PLR0913 - each is a place
    archive: Path,
    python: Path,
    version: str,
    folder: Path,
    out: Path,
    machine: Machine,
    *,
    cached: bool = False,
) -> Path:
    """Build the wheel of one Python from the source archive, with the libraries that it needs."""
    log = WORK / f"logs/wheel-{version}-{machine.name}.log"
    log.unlink(missing_ok=True)
    tools = environment(python, f"python{version}")
    # One path for all: what does not know of Python is the same to ccache.
    sources, made = folder / "sources", folder / f"wheels-{version}"
    for path in (sources, made):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(sources, filter="data")
    (unpacked,) = sources.iterdir()
    epoch = epoch_of(archive)
    env = {
        "SOURCE_DATE_EPOCH": str(epoch),
        "RLSCOPE_RECORDER": "on",
        **(_CACHE if cached else {}),
        **machine.environment(version, python),
    }
    run(tools / "python", "-m", "pip", "--disable-pip-version-check", "wheel", unpacked,
        "--no-build-isolation", "--no-deps", "--wheel-dir", made / "plain",
        "--config-settings", f"build-dir={sources}/cmake", log=log, env=env)  # fmt: skip
    (plain,) = (made / "plain").glob("*.whl")
    # patchelf is looked for on PATH; Debian 12's is too old for auditwheel.
    # By name auditwheel knows only the platforms of this machine.
    platform = "auto" if machine.is_foreign else machine.platform
    run(tools / "python", "-m", "auditwheel", "repair", "--plat", platform, "--only-plat",
        "--wheel-dir", made / "repaired", plain, log=log,
        env={**env, "PATH": f"{tools}:{os.environ['PATH']}"})  # fmt: skip
    (repaired,) = (made / "repaired").glob("*.whl")
    if not repaired.name.endswith(f"-{machine.platform}.whl"):
        raise ReleaseError(f"{repaired.name} is not for {machine.platform}")
    return finish(repaired, out, archive=archive, epoch=epoch, pybind11=tools, machine=machine)
