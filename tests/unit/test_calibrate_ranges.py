"""What a range costs: measured in rings whose memory is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.record.calibrate import ranges
from rlscope_trace.record.calibrate.children import Child

if TYPE_CHECKING:
    import pytest

BATCHES = 8
# Without, the OS kernel gives a page for each 64 ranges: more than a hundred in a measurement.
FEW_PAGES = 20


def minor_faults(child: Child) -> int:
    """Return how many pages the OS kernel gave a process so far."""
    after_name = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[7])


def test_no_memory_is_waited_for_from_the_first_measurement_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[Child] = []

    def noted(*args: int, environment: dict[str, str]) -> Child:
        children.append(Child(*args, environment=environment))
        return children[-1]

    monkeypatch.setattr(ranges, "Child", noted)
    loops = ranges.RangeLoops(tmp_path, BATCHES)
    try:
        recorded, _, hooked = children
        before = [minor_faults(child) for child in (recorded, hooked)]
        loops.visit()
        after = [minor_faults(child) for child in (recorded, hooked)]
        loops.finish()
    finally:
        loops.close()
    assert loops.lost == 0
    assert {cost.event for cost in loops.costs() if cost.mean_ns is not None} >= {
        "range",
        "range_auto",
    }
    for begun, ended in zip(before, after, strict=True):
        assert ended - begun < FEW_PAGES
