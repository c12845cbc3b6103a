"""scripts/bench step-cost: what is planted in windows is what comes out of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.record.medians import median_interval

if TYPE_CHECKING:
    from types import ModuleType

MS = 10**6


@pytest.fixture
def arithmetic(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    from bench_lib import windows as module

    return module


@pytest.fixture
def step_cost(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    from bench_lib import step_cost as module

    return module


def chunks_and_windows(
    added: float, *, drift: float = 0.0, slow_window: int | None = None
) -> tuple[list[tuple[int, int, int]], list[tuple[bool, int, int]]]:
    """Return what a target of 5 ms per chunk and a switch every 250 ms would tell."""
    source = random.Random(5)
    windows = [(bool(n % 2), n * 250 * MS, (n + 1) * 250 * MS - 10 * MS) for n in range(200)]
    chunks = []
    now_ns = 0
    while now_ns < windows[-1][2]:
        number = now_ns // (250 * MS)
        cost_ns = 5 * MS * (1 + drift * number / 200) * source.gauss(1, 0.05)
        cost_ns *= 1 + added if windows[number][0] else 1
        cost_ns *= 3 if number == slow_window else 1
        chunks.append((now_ns, now_ns + int(cost_ns), int(cost_ns)))
        now_ns += int(cost_ns)
    return chunks, windows


@pytest.mark.parametrize("added", [0.0, 0.03, 0.2])
def test_a_planted_cost_is_found_whatever_the_machine_does(
    arithmetic: ModuleType, added: float
) -> None:
    # It gets slower by half meanwhile, and one window was disturbed.
    chunks, windows = chunks_and_windows(added, drift=0.5, slow_window=60)
    means = arithmetic.window_means(chunks, windows)
    found = arithmetic.added_percent(means)
    assert len(found) > 90
    low, high = median_interval(found) or (0, 0)
    assert low <= 100 * added <= high
    assert high - low < 2
    control = arithmetic.control_percent(means)
    low, high = median_interval(control) or (1, 1)
    assert low <= 0 <= high


def test_chunks_that_reach_out_of_a_window_count_nowhere(arithmetic: ModuleType) -> None:
    windows = [(True, 0, 100 * MS), (False, 110 * MS, 200 * MS)]
    inside = [(n * 10 * MS, (n + 1) * 10 * MS, 7) for n in range(20)]
    across = [(95 * MS, 105 * MS, 10**9), (111 * MS, 121 * MS, 10**9), (195 * MS, 205 * MS, 10**9)]
    chunks = sorted(inside + across)
    # The first chunk of each begins within the guard after the switch.
    assert arithmetic.window_means(chunks, windows) == [(True, 7), (False, 7)]


def test_windows_are_between_the_changes(arithmetic: ModuleType) -> None:
    rows = [
        {"probes": probes, "start_ns": start_ns, "end_ns": end_ns}
        for probes, start_ns, end_ns in (
            ("all", 100, 200), ("changing", 100, 110), ("changing", 195, 200), ("calls", 101, 199),
            ("all", 300, 400), ("changing", 300, 320), ("changing", 390, 400),
        )
    ]  # fmt: skip
    assert arithmetic.windows_of(rows) == [
        (False, 110, 195), (True, 200, 300), (False, 320, 390),
    ]  # fmt: skip
    assert arithmetic.windows_of([]) == []


def test_a_window_with_few_chunks_is_left_out(arithmetic: ModuleType) -> None:
    means = [(True, 10.0), (False, None), (True, 10.0), (False, 8.0), (True, 12.0), (False, 8.0)]
    assert arithmetic.added_percent(means) == pytest.approx([100 * (11 / 8 - 1)])
    assert arithmetic.control_percent(means) == ()
    assert arithmetic.control_percent([(False, 9.0), (False, 10.0), (False, 11.0)]) == (0.0,)


def test_what_the_trace_tells_is_taken_off_the_windows_with_instruments(
    arithmetic: ModuleType,
) -> None:
    means = arithmetic.window_means(*chunks_and_windows(0.03))
    left = arithmetic.added_percent(means, less_ns=0.03 * 5 * MS)
    low, high = median_interval(left) or (1, 1)
    assert low <= 0 <= high
    assert high - low < 2


def test_one_event_takes_what_those_of_other_kinds_did_not(step_cost: ModuleType) -> None:
    means = [(True, 13_000.0), (False, 10_000.0), (True, 11_000.0)]
    events = {"call": (2.0, 500.0), "call_dear": (1.0, 900.0), "switch": (1.0, 500.0)}
    (figure,) = step_cost.per_event("mlp", events, "call", means)
    assert figure.values == pytest.approx([(12_000 - 500 - 10_000) / 3 / 1e3])
    assert list(step_cost.per_event("mlp", events, "sample", means)) == []
    assert list(step_cost.per_event("mlp", events, None, means)) == []
