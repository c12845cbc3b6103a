"""Critical path: what held each iteration up, at every instant (docs/critical_path.md)."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def relations_sql() -> str:
    """Return the statements that create and comment the relations of the critical path."""
    return resources.files(__name__).joinpath("relations.sql").read_text(encoding="utf-8")
