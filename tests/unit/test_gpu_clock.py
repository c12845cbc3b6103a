"""Times of the GPU on another clock than that of the trace are converted, or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_spool import (
    ACTIVITIES,
    CALLS,
    EPOCH,
    cupti_thread,
    kernel_half,
    losses,
    rows,
    saved,
)
from shim_builder import SYNC, ShimBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shim() -> ShimBuilder:
    return cupti_thread()


def test_other_clocks_are_converted_between_readings(tmp_path: Path, shim: ShimBuilder) -> None:
    # The wall clock runs fast: it gains 100 ns in the 1,000 ns between the readings.
    shim.clock(1000, EPOCH + 1000, width_ns=40)
    shim.clock(2000, EPOCH + 2100, width_ns=60)
    shim.clock(3000, EPOCH + 3300, width_ns=50)
    shim.status(has_clock=0)
    shim.call(10, EPOCH + 1550, EPOCH + 1770, correlation=1)
    shim.activity(EPOCH + 900, EPOCH + 950, "before the first", correlation=1)
    shim.activity(EPOCH + 3500, EPOCH + 3510, "after the last", correlation=1)
    shim.activity(4000, 4010, "on the clock of the trace", correlation=1)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, CALLS) == [(1, 1500, 1700, "launch", "cudaLaunchKernel", 1)]
    assert rows(path, ACTIVITIES) == [
        (900, 950, "kernel", "before the first", 1),
        (3200, 3210, "kernel", "after the last", 1),
        (4000, 4010, "kernel", "on the clock of the trace", 1),
    ]
    assert rows(path, "SELECT clock FROM gpu_status") == [("converted",)]
    # Half of the widest reading, and 50 ns by which the second is off the line of its neighbours.
    query = "SELECT duration_ns FROM coverage WHERE code = 'gpu_clock_converted'"
    assert rows(path, query + " AND kind = 'gpu_activity'") == [(80,)]
    assert losses(path) == {}


def test_a_clock_of_its_own_goes_before_the_wall_clock(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.clock(1000, EPOCH, EPOCH + 77_000)
    shim.clock(2000, EPOCH + 1000, EPOCH + 78_000)
    shim.status(has_clock=0)
    shim.activity(EPOCH + 77_500, EPOCH + 77_600, "k", work=SYNC)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT start_ns, end_ns FROM gpu_activity") == [(1500, 1600)]


@pytest.mark.parametrize("step_ns", [-5_000_000, 5_000_000])
def test_what_lies_around_a_clock_that_was_set_is_lost(
    tmp_path: Path, shim: ShimBuilder, step_ns: int
) -> None:
    for at_ns in (1000, 2000):
        shim.clock(at_ns, EPOCH + at_ns)
    for at_ns in (3000, 4000):
        shim.clock(at_ns, EPOCH + at_ns + step_ns)
    shim.status(has_clock=0)
    shim.activity(EPOCH + 1500, EPOCH + 1600, work=SYNC)
    shim.activity(EPOCH + 3500 + step_ns, EPOCH + 3600 + step_ns, work=SYNC)
    # Set ahead, this is nobody's time. Set back, it comes long after the last reading, and the
    # other two may each be two instants.
    shim.activity(EPOCH + 2500, EPOCH + 2501, work=SYNC)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    kept = [(1500, 1600), (3500, 3600)] if step_ns > 0 else []
    assert [row[:2] for row in rows(path, ACTIVITIES)] == kept
    lost = 1 if step_ns > 0 else 2
    assert losses(path) == {"gpu_clock_unknown": ("dropped", lost)}
    query = "SELECT kind FROM coverage WHERE code = 'gpu_clock_set'"
    assert rows(path, query) == [("gpu_activity",)]
