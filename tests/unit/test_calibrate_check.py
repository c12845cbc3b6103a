"""A calibration is held to short ones of now: what contradicts it is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from known_costs import COSTS, KEY, add, calibration, measured
from rlscope_trace.cli import calibrating
from rlscope_trace.record.calibrate import cache
from rlscope_trace.record.calibrate.cache import Calibration
from rlscope_trace.spool.costs import Cost, read_costs
from rlscope_trace.spool.directory import CALIBRATION_FILE


def scaled(factor: float) -> list[Cost]:
    """Return the costs as if the machine had been slower when they were taken."""
    return [
        replace(
            cost, mean_ns=factor * (cost.mean_ns or 0.0), low_ns=factor * (cost.low_ns or 0.0),
            high_ns=factor * (cost.high_ns or 0.0),
        )
        for cost in COSTS
    ]  # fmt: skip


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_calibration_off_by_two_is_told_each_time_until_it_is_taken_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    factor: float,
) -> None:
    directory = tmp_path / "cache"
    cache.save(directory, Calibration(scaled(factor), {"key": KEY, "extent": "full"}))
    measured(monkeypatch, COSTS)
    for wanted in (True, True, False):
        add(tmp_path, directory, monkeypatch, wanted=wanted)
        # Looked at once: what agrees by chance later takes nothing back.
        measured(monkeypatch, scaled(factor))
        words = capsys.readouterr().err
        assert "contradicts other measurements: switch, call, range\nhint: " in words
        found, _ = read_costs(tmp_path / CALIBRATION_FILE)
        doubts = [cost.event for cost in found if cost.quality.is_doubtful]
        assert doubts == [cost.event for cost in COSTS]
        (tmp_path / CALIBRATION_FILE).unlink()


def test_what_agrees_is_checked_once_for_a_boot_and_one_disturbance_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "cache"
    cache.save(directory, calibration())
    answers = [scaled(3.0), COSTS]
    monkeypatch.setattr(
        calibrating, "_measure", lambda *_arguments: Calibration(answers.pop(0), {})
    )
    for said in (True, False):
        add(tmp_path, directory, monkeypatch, wanted=True)
        words = capsys.readouterr().err
        assert ("checking the calibration" in words) == said
        assert "contradicts" not in words
        assert read_costs(tmp_path / CALIBRATION_FILE)[0] == COSTS
    assert answers == []
    assert cache.checked(directory, Calibration(scaled(2.0), calibration().facts)) is None


def test_one_event_that_is_measured_otherwise_is_no_contradiction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So short a measurement of one may be off by more than the machine is."""
    directory = tmp_path / "cache"
    cache.save(directory, calibration())
    again = [
        scale if cost.event == "range" else cost
        for cost, scale in zip(COSTS, scaled(3.0), strict=True)
    ]
    measured(monkeypatch, again)
    add(tmp_path, directory, monkeypatch, wanted=True)
    assert "contradicts" not in capsys.readouterr().err
    assert cache.checked(directory, calibration()) == calibration()


def test_a_check_without_most_of_the_events_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "cache"
    cache.save(directory, calibration())
    measured(monkeypatch, [cost for cost in scaled(3.0) if cost.event == "range"])
    add(tmp_path, directory, monkeypatch, wanted=True)
    assert "not checked: too little could be measured again\n" in capsys.readouterr().err
    assert cache.checked(directory, calibration()) is None
    # Two of three will do, and other ways to probe are no part of it.
    some = [cost for cost in COSTS if cost.event != "range" and cost.how != "multi"]
    measured(monkeypatch, some)
    add(tmp_path, directory, monkeypatch, wanted=True)
    assert cache.checked(directory, calibration()) == calibration()


def test_what_was_just_taken_is_checked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "cache"
    taken = Calibration(scaled(2.0), {"key": KEY, "extent": "short"})
    answers = [taken, calibration(), calibration()]
    monkeypatch.setattr(calibrating, "_measure", lambda *_arguments: answers.pop(0))
    add(tmp_path, directory, monkeypatch, wanted=True)
    assert "contradicts other measurements: switch, call, range\n" in capsys.readouterr().err
    assert cache.load(directory, KEY)[0] == taken
    assert cache.checked(directory, taken) not in (None, taken)


@pytest.mark.parametrize("damage", ["", "[]", "7", '{"of": 1}', '{"qualities": []}'])
def test_an_outcome_that_is_damaged_is_none(tmp_path: Path, damage: str) -> None:
    known = calibration()
    cache.save(tmp_path, known)
    cache.note_checked(tmp_path, known, COSTS)
    (path,) = tmp_path.glob("*.checked")
    assert cache.checked(tmp_path, known) == known
    path.write_text(damage)
    assert cache.checked(tmp_path, known) is None


@pytest.mark.parametrize("failure", [OSError(24, "Too many open files"), ValueError("no answer")])
def test_a_check_that_fails_leaves_what_is_known(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: Exception,
) -> None:
    def fail(*_arguments: object) -> None:
        raise failure

    cache.save(tmp_path / "cache", calibration())
    monkeypatch.setattr(calibrating, "_measure", fail)
    add(tmp_path, tmp_path / "cache", monkeypatch, wanted=True)
    assert read_costs(tmp_path / CALIBRATION_FILE)[0] == COSTS
    # In words, without the number of the system.
    reason = str(failure.args[-1])
    assert f"note: the calibration was not checked: {reason}\n" in capsys.readouterr().err
    assert cache.checked(tmp_path / "cache", calibration()) is None


def test_a_check_that_cannot_be_kept_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "cache"
    cache.save(directory, calibration())
    measured(monkeypatch, COSTS)

    def full(*_arguments: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(cache, "note_checked", full)
    add(tmp_path, directory, monkeypatch, wanted=True)
    assert read_costs(tmp_path / CALIBRATION_FILE)[0] == COSTS
    words = capsys.readouterr().err
    assert "warning: each recording checks the calibration again: " in words
    assert f"{directory}: Read-only file system\nhint: {cache.DIRECTORY_VARIABLE}=FOLDER" in words
