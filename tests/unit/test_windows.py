"""The windows of in-run calibration: when they come, and that each is closed again."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlscope_trace.record.instruments import windows as windows_module
from rlscope_trace.record.instruments.log import ProbeLog
from rlscope_trace.record.instruments.windows import (
    KINDS,
    CalibrationWindow,
    CalibrationWindows,
    Kind,
    next_window,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECOND_NS = 1_000_000_000
DEADLINE_S = 60
LONG_NS = 3600 * SECOND_NS


def windows_of(seed: int, kinds: tuple[Kind, ...], length_ns: int) -> Iterator[CalibrationWindow]:
    """Yield the windows of a recording of this length."""
    chance = random.Random(seed)
    now_ns = age_ns = 0
    while True:
        window = next_window(chance, kinds, now_ns=now_ns, age_ns=age_ns)
        if window.end_ns > length_ns:
            return
        yield window
        now_ns = age_ns = window.end_ns


@given(seed=st.integers(0, 2**32), level=st.sampled_from(["light", "full"]))
def test_windows_follow_each_other_with_a_gap(seed: int, level: str) -> None:
    made = list(windows_of(seed, KINDS[level], 60 * SECOND_NS))  # type: ignore[index]
    ends = [0, *(window.end_ns for window in made)]
    gaps = [window.start_ns - end_ns for window, end_ns in zip(made, ends, strict=False)]
    assert min(gaps) >= 50_000_000
    # However chance falls, none is waited for for long.
    assert max(gaps) < 5 * SECOND_NS
    assert {window.end_ns - window.start_ns for window in made} <= {200_000_000, 250_000_000}
    assert made[0].kind == "account"
    assert {window.kind for window in made} <= set(KINDS[level])  # type: ignore[index]


def test_windows_come_as_often_as_is_said() -> None:
    light = Counter(window.kind for window in windows_of(1, KINDS["light"], 4000 * SECOND_NS))
    assert set(light) == {"account", "samples"}
    # Every 0.8 s and every 4 s, and the windows themselves take time.
    assert 3300 < light["account"] < 3900
    assert 600 < light["samples"] < 850
    full = Counter(window.kind for window in windows_of(1, KINDS["full"], 4000 * SECOND_NS))
    assert 750 < full["calls"] < 1050


def test_a_short_recording_has_windows_too() -> None:
    counts = [len(list(windows_of(seed, KINDS["light"], 3 * SECOND_NS))) for seed in range(200)]
    assert min(counts) >= 1
    later = [
        sum(window.start_ns > 57 * SECOND_NS
            for window in windows_of(seed, KINDS["light"], 60 * SECOND_NS))
        for seed in range(200)
    ]  # fmt: skip
    assert sum(counts) > 1.3 * sum(later)


def test_the_same_seed_gives_the_same_windows() -> None:
    first, second, other = (list(windows_of(seed, KINDS["full"], LONG_NS)) for seed in (7, 7, 8))
    assert first == second != other


class Fake:
    """A group that tells what is done to it; `refuses`: the OS kernel does not want to."""

    def __init__(self, *, is_ready: bool = True, refuses: bool = False) -> None:
        self.is_ready = is_ready
        self.refuses = refuses
        self.done: list[str] = []
        self.begun = threading.Event()

    def begin(self) -> None:
        self.done.append("begin")
        self.begun.set()
        if self.refuses:
            raise PermissionError(1, "Operation not permitted")

    def end(self) -> None:
        self.done.append("end")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what lets windows of some length follow each other without gaps, each kind in turn."""

    def use(length_ns: int) -> None:
        turns = iter(range(10**9))

        def decide(_: random.Random, kinds: dict[Kind, object], *, now_ns: int,
                   age_ns: int) -> CalibrationWindow:  # fmt: skip
            del age_ns
            kind = list(kinds)[next(turns) % len(kinds)]
            return CalibrationWindow(kind, now_ns, now_ns + length_ns)

        monkeypatch.setattr(windows_module, "next_window", decide)

    return use


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ProbeLog]:
    made = ProbeLog(tmp_path)
    yield made
    made.close()


def test_a_window_that_is_open_is_closed_at_the_stop(
    log: ProbeLog, at_once: Callable[[int], None]
) -> None:
    at_once(LONG_NS)
    group = Fake()
    windows = CalibrationWindows({"calls": group}, log)
    windows.start()
    assert group.begun.wait(DEADLINE_S)
    windows.stop()
    assert group.done == ["begin", "end"]


def test_one_that_is_not_ready_is_left_alone(log: ProbeLog, at_once: Callable[[int], None]) -> None:
    at_once(1)
    idle, ready = Fake(is_ready=False), Fake()
    windows = CalibrationWindows({"calls": idle, "samples": ready}, log)
    windows.start()
    assert ready.begun.wait(DEADLINE_S)
    windows.stop()
    assert idle.done == []


def test_what_the_os_kernel_refuses_is_not_tried_again(
    log: ProbeLog, at_once: Callable[[int], None], tmp_path: Path
) -> None:
    at_once(1)
    refusing, other = Fake(refuses=True), Fake()
    windows = CalibrationWindows({"account": refusing, "samples": other}, log)
    windows.start()
    assert refusing.begun.wait(DEADLINE_S)
    other.begun.clear()
    assert other.begun.wait(DEADLINE_S)
    windows.stop()
    assert refusing.done == ["begin", "end"]
    (line,) = (tmp_path / "probes.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "event": "no_windows", "kind": "account", "reason": "Operation not permitted",
    }  # fmt: skip


def test_with_nothing_to_do_there_is_no_thread(log: ProbeLog) -> None:
    windows = CalibrationWindows({}, log)
    before = threading.active_count()
    windows.start()
    assert threading.active_count() == before
    windows.stop()
