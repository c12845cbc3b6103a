"""Critical path: what held each iteration up, at every instant (docs/critical_path.md)."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def relations_sql() -> str:
    """Return the statements that create and comment the relations of the critical path."""
    return resources.files(__name__).joinpath("relations.sql").read_text(encoding="utf-8")


@cache
def holders_sql() -> str:
    """Return what makes the table of waits for locks, which the path and the findings ask."""
    return resources.files(__name__).joinpath("holders.sql").read_text(encoding="utf-8")
