"""Runs `scripts/demo --wheel` where neither a compiler nor a header is."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from release_lib import building, checking, in_root, roots
from release_lib.running import DIST, WORK, say

if TYPE_CHECKING:
    from collections.abc import Sequence

_MADE = ("demo.duckdb", "demo.html")


def check(names: Sequence[str]) -> int:
    """Try it in a copy of each of the roots; returns 1 where one fails."""
    checking.require_one_source()
    failed = [name for name in names if not _works(name)]
    return 1 if failed else 0


def _works(name: str) -> bool:
    root = roots.copy_of(roots.make(name), "demo")
    # It would install them itself, but knows nothing of RLSCOPE_APT.
    roots.install(root, "python3", "python3-venv", log=WORK / f"logs/demo-{name}.log")
    building.check_out(root / "demo")
    shutil.copytree(DIST, root / "demo/dist")
    begun = time.monotonic()
    words = roots.entering(root, "/demo/scripts/demo", "--wheel", "--seconds", "10")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    took = time.monotonic() - begun
    works = done.returncode == 0 and all((root / "demo" / made).exists() for made in _MADE)
    installed = [tool for tool in in_root.COMPILERS if (root / "usr/bin" / tool).exists()]
    said = f"{done.stdout[-1000:]}{done.stderr[-1000:]}"
    outcome = f"failed: {said}" if not works else f"it installed {installed}" if installed else "ok"
    say(f"scripts/demo --wheel, {roots.ROOTS[name].shown}: {took:.0f} s, {outcome}")
    return outcome == "ok"
