"""What the targets in Python share: they run under Atheris, on the installed package."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(_ROOT / "tests/support"), str(_ROOT / "scripts")]

# No text of a stranger may move the cursor of a terminal, or colour it.
_ALLOWED = {"\n", "\t"}


def work_folder(name: str) -> Path:
    """Return an empty folder, where it was started: libFuzzer ends without cleaning up."""
    folder = Path.cwd() / f"work-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def run(target: Callable[[bytes], None]) -> None:
    """Feed a target as libFuzzer's options on the command line say."""
    # The functions of C libraries are not seen: what they do with an input only shows in its end.
    atheris.Setup(sys.argv, target, enable_python_coverage=True)
    atheris.Fuzz()


def claim_printable(text: str) -> None:
    """End the target where text has a control character in it."""
    for letter in text:
        if (ord(letter) < 32 or 127 <= ord(letter) < 160) and letter not in _ALLOWED:
            raise AssertionError(f"a control character is shown: {text!r:.200}")


def flipped(data: bytes, edits: bytes) -> bytes:
    """Change some bytes of a file: four of `edits` say where, and one what stands there."""
    changed = bytearray(data)
    for at in range(0, len(edits) - 4, 5):
        place = int.from_bytes(edits[at : at + 4], "little")
        changed[place % len(changed)] = edits[at + 4]
    return bytes(changed)
