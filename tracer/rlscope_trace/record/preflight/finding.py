"""What a check found: one line for the user, with its remedy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `error` means tracing cannot work until it is mended."""

    name: str
    level: Level
    what: str
    remedy: str | None = None


def sudo_command(argv: Sequence[str]) -> str:
    """Return the user's own command line, to be pasted, with the privilege it lacks.

    `env "PATH=$PATH"` keeps a virtual environment on the PATH, which sudo's secure_path drops.
    """
    return f'sudo env "PATH=$PATH" {shlex.join(["rlscope-trace", *argv])}'
