"""What a check found: one line for the user, with its remedy."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = "rlscope-trace"
# Where this installation is: the folder that holds the package.
_SITE = Path(__file__).resolve().parents[3]

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

    `env "PATH=$PATH"` keeps a virtual environment on the PATH, which sudo's secure_path drops, for
    the program to launch. The command itself is named in full: what ran it may have made a PATH
    for this command only, as `uv run`, `conda run` and others do.
    """
    return f'sudo env "PATH=$PATH" {shell_line([*_where_it_lies(), *_itself(), *argv])}'


def _itself() -> list[str]:
    """Return the command that runs, in full where that is known."""
    program = Path(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - links stay
    if _NAME in (program.name, Path(os.path.realpath(program)).name):
        return [str(program)]
    # Not `python -m`, which root would run with the modules of the current folder.
    beside = (Path(sys.executable).with_name(_NAME), _SITE / "bin" / _NAME)
    is_module = program.parts[-2:] == (_NAME.replace("-", "_"), "__main__.py")
    return [next((str(path) for path in beside if is_module and path.exists()), _NAME)]


def _where_it_lies() -> list[str]:
    """Return the variable by which Python finds this installation, as of `pip install --target`."""
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return [f"PYTHONPATH={_SITE}"] if str(_SITE) in map(os.path.realpath, folders) else []
