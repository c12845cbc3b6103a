"""Where things lie, and how programs are run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
WORK = REPOSITORY / "build" / "release"


class ReleaseError(Exception):
    """Something that ends the script, in a sentence."""


def only_one(folder: Path, pattern: str) -> Path:
    """Return the file of a folder that is called so; ReleaseError where it is not just one."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ReleaseError(
            f"{len(found)} of {folder.name}/{pattern}: scripts/release build --testing makes them"
        )
    return found[0]


def say(text: str, *, stream: TextIO | None = None) -> None:
    """Write a line at once."""
    print(text, file=stream or sys.stdout, flush=True)


def run(
    *command: object, log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Run a program with its output in a file; raise with the end of that where it fails."""
    words = [str(word) for word in command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as out:
        out.write(f"$ {shlex.join(words)}\n")
        out.flush()
        done = subprocess.run(
            words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd,
            env=None if env is None else {**os.environ, **env}, check=False,
        )  # fmt: skip
    if done.returncode:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise ReleaseError(f"exit code {done.returncode}, the end of {log}:\n{end}")


def output_of(*command: object) -> str:
    """Return what a program prints."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    if done.returncode:
        raise ReleaseError(f"{shlex.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()
