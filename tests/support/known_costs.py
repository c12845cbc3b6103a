"""A calibration that nobody measured, and recordings that hold it to what others measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace import __version__
from rlscope_trace.cli import calibrating
from rlscope_trace.record.calibrate import cache
from rlscope_trace.record.calibrate.cache import Calibration
from rlscope_trace.spool.costs import Cost

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

KEY = {"machine": "m", "cpu": "c", "kernel": "6.1", "tool_version": __version__}
COSTS = [
    Cost("switch", "outside", "btf", 400.0, 20.0, 9, 380.0, 420.0),
    Cost("call", "inside", "session", 500.0, 20.0, 9, 480.0, 520.0),
    Cost("call", "outside", "session", 700.0, 20.0, 9, 680.0, 720.0),
    Cost("call", "inside", "multi", 550.0, 20.0, 9, 530.0, 570.0),
    Cost("call", "outside", "multi", 800.0, 20.0, 9, 780.0, 820.0),
    Cost("range", "inside", "", 30.0, 1.0, 9, 29.0, 31.0),
]


def calibration(key: dict[str, str] = KEY) -> Calibration:
    return Calibration(COSTS, {"key": key, "extent": "full"})


def add(spool: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, *, wanted: bool) -> None:
    monkeypatch.setenv(cache.DIRECTORY_VARIABLE, str(directory))
    monkeypatch.setattr(cache, "machine_key", lambda: KEY)
    calibrating.add_to_spool(spool, wanted=wanted, target_runs=lambda: False)


def measured(monkeypatch: pytest.MonkeyPatch, costs: list[Cost]) -> None:
    """Let every measurement give these costs."""
    taken = Calibration(costs, {"key": KEY, "extent": "short"})
    monkeypatch.setattr(calibrating, "_measure", lambda *_arguments: taken)
