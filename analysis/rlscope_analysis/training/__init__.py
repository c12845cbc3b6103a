"""What went on while the leading process iterated: its phases, and the other processes."""

from __future__ import annotations

RELATIONS = ("training_phase", "training_process")
"""What `relations.add_training` makes."""
