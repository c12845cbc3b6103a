"""Which names a file of ours may have."""

import os
from pathlib import Path

from rlscope_trace.errors import UsageError

# What is unfinished has the name with this behind it, where another is taken.
_LONGEST_SUFFIX = len(".partial-") + 16
_MOST_BYTES = 255 - _LONGEST_SUFFIX


def require_possible(output: Path) -> None:
    """Refuse the name of an output that could not be written when all is recorded."""
    require_utf8(output)
    if not output.absolute().name:
        raise UsageError(f"{output} is a directory", hint="-o FILE.duckdb")
    if "?" in os.fspath(output.absolute()):
        raise UsageError(
            f"the name {output} has a ?, after which DuckDB expects parameters",
            hint="-o OTHER.duckdb",
        )
    length = len(os.fsencode(output.name))
    if length > _MOST_BYTES:
        raise UsageError(
            f"the name of the output has {length} bytes, and may have {_MOST_BYTES}",
            hint="-o OTHER.duckdb",
        )


def require_utf8(path: Path) -> None:
    """Refuse a name that DuckDB could not open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"the name {os.fsencode(path)!r} is not UTF-8, which DuckDB needs",
            hint="-o OTHER.duckdb",
        ) from None
