"""What went on while the leading process iterated: its phases, and the other processes."""

from __future__ import annotations

from functools import cache
from importlib import resources

RELATIONS = ("training_phase", "training_process")
"""What `relations.add_training` makes."""


@cache
def relations_sql() -> str:
    """Return the statements that make and comment them, out of the table _lead_segment."""
    files = resources.files(__name__)
    return "\n".join(
        files.joinpath(f"{name}.sql").read_text(encoding="utf-8")
        for name in ("phases", "processes")
    )
