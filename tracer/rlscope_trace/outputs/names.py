"""Which names a file of ours may have."""

import os
from pathlib import Path

from rlscope_trace.errors import UsageError


def require_utf8(path: Path) -> None:
    """Refuse a name that DuckDB could not open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"the name {os.fsencode(path)!r} is not UTF-8, which DuckDB needs",
            hint="-o OTHER.duckdb",
        ) from None
