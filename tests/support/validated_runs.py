"""Makes what runs a program as `rlscope-trace validate` does, for tests without a recorder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rlscope_trace.record.validate.runs import Runner

if TYPE_CHECKING:
    from pathlib import Path


def runner(tmp_path: Path, program: str, *, timers: Path | None = None) -> Runner:
    """Return the runner of a Python program, with a folder for what its runs leave."""
    directory = tmp_path / "run"
    directory.mkdir()
    return Runner([sys.executable, "-c", program], (), directory, timers)
