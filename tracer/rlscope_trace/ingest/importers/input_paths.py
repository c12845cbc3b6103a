"""Which files an import may name."""

import os
from collections.abc import Sequence
from pathlib import Path

from rlscope_trace.errors import UsageError
from rlscope_trace.outputs.place import is_one_of


def check_paths(files: Sequence[Path], output: Path) -> None:
    """Raise UsageError unless there are files, each named once, and none of them is the output."""
    if not files:
        raise UsageError("no file to import was named")
    seen: set[str] = set()
    for path in files:
        # Not Path.resolve, which fails at links that go in a circle.
        real = os.path.realpath(path)
        if real in seen:
            raise UsageError(f"{path} was named twice", hint="name each file once")
        seen.add(real)
    if is_one_of(output, files):
        raise UsageError(
            f"{output} is one of the files to import", hint="choose another output with -o"
        )
