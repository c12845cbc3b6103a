"""Which libcupti is there: by the path of the library."""

from __future__ import annotations

import re
from pathlib import Path


def major_of(path: str) -> int | None:
    """Return the CUDA major of a libcupti by its name; None where that does not tell."""
    found = re.search(r"libcupti\.so\.(\d+)", Path(path).name)
    return int(found[1]) if found else None


def nearest(paths: list[str], cuda_major: int) -> str | None:
    """Return the libcupti of a CUDA major, None where there is none."""
    return next((path for path in paths if major_of(path) == cuda_major), None)
