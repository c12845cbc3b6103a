"""The options of what a command writes: who may read it, and whether it replaces a file."""

from typing import Annotated

import typer

from rlscope_trace.errors import UsageError
from rlscope_trace.outputs.place import PRIVATE_MODE

ModeOption = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="OCTAL",
        help="Permissions of the file: it holds command lines and paths of the program.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the output.")]
DEFAULT_MODE = f"{PRIVATE_MODE:o}"


def parse_mode(text: str) -> int:
    """Return the permissions; UsageError unless they are, and let the owner read and write."""
    is_octal = 1 <= len(text) <= 4 and all(digit in "01234567" for digit in text)
    mode = int(text, 8) if is_octal else 0
    if mode & ~0o666 or mode & PRIVATE_MODE != PRIVATE_MODE:
        raise UsageError(
            f"--mode {text!r} are no permissions of a trace", hint="--mode 640, or 644, or 600"
        )
    return mode
