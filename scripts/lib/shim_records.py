"""The numbers of cupti/records.h, for what builds or reads records without the product's code."""

from __future__ import annotations

import re
from pathlib import Path

_HEADER = Path(__file__).resolve().parents[2] / "cupti/records.h"
_NUMBER = re.compile(r"^(?:#define| )\s*RLS_SHIM_(\w+)\s*=?\s*(\d+)\b", re.MULTILINE)
_KNOWN = {name: int(digits) for name, digits in _NUMBER.findall(_HEADER.read_text())}


def numbers(*names: str) -> list[int]:
    """Return the numbers of macros and enumerators, by their names without RLS_SHIM_."""
    return [_KNOWN[name] for name in names]
