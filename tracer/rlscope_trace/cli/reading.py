"""What commands that read traces give up before they open one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.spill import spill_directory
from rlscope_trace.outputs.place import PRIVATE_MODE
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.rights import become_invoker, become_saver

if TYPE_CHECKING:
    from pathlib import Path


def write_nothing_but(*outputs: Path, mode: int = PRIVATE_MODE) -> None:
    """Keep the right to read, and to write these: a trace may be anybody's, and any bytes."""
    # Before anything is made that the user is to write to.
    become_invoker(invoking_identity())
    become_saver(None, *outputs, mode=mode, scratch=spill_directory())
