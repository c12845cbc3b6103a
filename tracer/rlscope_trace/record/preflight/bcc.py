"""Checks of what only `--loader bcc` needs: all optional."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from rlscope_trace.record.preflight.finding import Finding

# Debian's package lands here, which a virtual environment does not see: the loader adds it.
DEBIAN_PACKAGES = Path("/usr/lib/python3/dist-packages")


def find_bcc(packages: Path = DEBIAN_PACKAGES) -> Path | None:
    """Return the folder of the BPF compiler collection, or None; does not import it.

    `bcc` on PyPI is another thing: only the real one has libbcc.py.
    """
    folders: list[Path] = []
    spec = importlib.util.find_spec("bcc")
    if spec and spec.origin:
        folders.append(Path(spec.origin).parent)
    folders.append(packages / "bcc")
    return next((folder for folder in folders if (folder / "libbcc.py").exists()), None)


def check_bcc(folder: Path | None) -> Finding:
    """Check that python3-bpfcc is installed."""
    if folder:
        return Finding("bcc", "ok", f"{folder} is there for --loader bcc")
    what = "python3-bpfcc is not installed: --loader bcc is not available (it is optional)"
    return Finding("bcc", "note", what, "sudo apt-get install python3-bpfcc")


def check_kernel_headers(release: str, root: Path = Path("/")) -> Finding:
    """Check for kernel headers, which bcc compiles against on every start."""
    name = "kernel_headers"
    exact = (root / "lib/modules" / release / "build", root / "sys/kernel/kheaders.tar.xz")
    for path in exact:
        if path.exists():
            return Finding(name, "ok", f"{path} is there for --loader bcc")
    others = sorted(root.glob("usr/src/linux-headers-*"))
    remedy = f"sudo apt-get install linux-headers-{release}"
    if others:
        what = f"no headers of {release}, only {others[-1]}: --loader bcc may not find them"
        return Finding(name, "note", what, remedy)
    what = f"no headers of {release}: --loader bcc is not available (it is optional)"
    return Finding(name, "note", what, remedy)
