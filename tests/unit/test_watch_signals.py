"""Signals while something is saved: what ends it in order, and what is ignored."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.cli.interrupts import second_interrupt_stops
from rlscope_trace.signals import signals_interrupt, signals_wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def under_nohup() -> Iterator[None]:
    """Ignore HUP, as nohup(1) does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_is_under_way_is_interrupted(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), signals_interrupt():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_what_waits_is_interrupted_when_it_is_done() -> None:
    done = []

    def work() -> None:
        with signals_wait():
            signal.raise_signal(signal.SIGTERM)
            done.append("import")

    with signals_interrupt(), pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["import"]


@pytest.mark.usefixtures("under_nohup")
def test_a_closed_terminal_ends_nothing_under_nohup() -> None:
    with signals_interrupt():
        signal.raise_signal(signal.SIGHUP)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.usefixtures("under_nohup")
def test_a_closed_terminal_does_not_stop_saving_under_nohup(tmp_path: Path) -> None:
    with second_interrupt_stops(tmp_path):
        signal.raise_signal(signal.SIGHUP)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_thesecond_interrupt_stops_saving(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with second_interrupt_stops(tmp_path):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert f"leaves the spool {tmp_path}" in capsys.readouterr().err.replace("\n", "")
