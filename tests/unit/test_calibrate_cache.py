"""The calibration of a machine: kept, found again, and never believed where it is not its own."""

import json
import os
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from known_costs import COSTS, KEY, add, calibration, measured
from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.vocabulary import BYSTANDER_EVENTS, EVENTS
from rlscope_trace import __version__
from rlscope_trace.cli import calibrating
from rlscope_trace.errors import TracerError
from rlscope_trace.ingest.writer.row_inserts import insert_rows
from rlscope_trace.record.calibrate import cache, children
from rlscope_trace.record.calibrate.cache import Calibration
from rlscope_trace.record.calibrate.results import failed
from rlscope_trace.spool.costs import (
    Cost,
    costs_of_spool,
    read_costs,
    rows_of,
)
from rlscope_trace.spool.directory import CALIBRATION_FILE, remove_files

SESSION: dict[str, object] = {"capture": "btf", "probe_settings": {"call_probes": "multi"}}


def test_what_was_saved_is_found_again(tmp_path: Path) -> None:
    path = cache.save(tmp_path / "new", calibration())
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == [path.name]
    found, reason = cache.load(tmp_path / "new", KEY)
    assert found == calibration()
    assert (found.is_full, reason) == (True, "")


@pytest.mark.root
def test_no_link_of_another_user_leads_to_where_it_is_kept(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("secret")
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    with pytest.raises(OSError, match="link of another user"):
        cache.save(tmp_path / "link/new", calibration())
    assert list((tmp_path / "secret").iterdir()) == []


@pytest.mark.parametrize("name", sorted(KEY))
def test_another_machine_kernel_or_version_finds_nothing(tmp_path: Path, name: str) -> None:
    cache.save(tmp_path, calibration())
    assert cache.load(tmp_path, {**KEY, name: "other"}) == (None, "")


def test_a_file_that_was_copied_from_another_machine_is_not_believed(tmp_path: Path) -> None:
    foreign = cache.save(tmp_path, calibration({**KEY, "machine": "other"}))
    foreign.rename(cache.cache_file(tmp_path, KEY))
    found, reason = cache.load(tmp_path, KEY)
    assert found is None
    assert "is of another machine" in reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mean_ns", "many"), ("mean_ns", float("nan")), ("mean_ns", 1e300), ("part", "beside"),
        ("n", 1.5), ("event", 7), ("stddev_ns", [1]), ("surprise", 1), ("n", -1), ("n", 10**30),
        ("mean_ns", True), ("mean_ns", None), ("low_ns", None), ("high_ns", 399.0),
        ("stddev_ns", -1.0), ("method", "combined"), ("quality", {"grade": "good"}),
    ],
)  # fmt: skip
def test_a_damaged_cost_damages_the_file(tmp_path: Path, name: str, value: object) -> None:
    path = cache.save(tmp_path, calibration())
    reported = json.loads(path.read_text())
    reported["costs"][0][name] = value
    path.write_text(json.dumps(reported))
    found, reason = cache.load(tmp_path, KEY)
    assert found is None
    assert "is damaged" in reason


def test_a_cost_that_is_there_twice_damages_the_file(tmp_path: Path) -> None:
    cache.save(tmp_path, Calibration([*COSTS, COSTS[0]], {"key": KEY}))
    assert "is damaged: a cost is there twice" in cache.load(tmp_path, KEY)[1]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 3}', '{"format": 2, "costs": []}', "[" * 100_000]
)
def test_what_is_no_calibration_is_damage(tmp_path: Path, text: str) -> None:
    cache.cache_file(tmp_path, KEY).write_text(text)
    found, reason = cache.load(tmp_path, KEY)
    assert found is None
    assert "is damaged" in reason


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_half_a_file_is_damage(tmp_path: Path, cut: float) -> None:
    path = cache.save(tmp_path, calibration())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    assert "is damaged" in cache.load(tmp_path, KEY)[1]


def test_an_interrupt_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_self: Path, _target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.save(tmp_path, calibration())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["fifo", "/dev/zero"])
def test_what_was_checked_is_read_from_a_file_only(tmp_path: Path, what: str) -> None:
    taken = calibration()
    cache.save(tmp_path, taken)
    cache.note_checked(tmp_path, taken, taken.costs)
    assert cache.checked(tmp_path, taken) is not None
    (path,) = tmp_path.glob("*.checked")
    path.unlink()
    os.mkfifo(path) if what == "fifo" else path.symlink_to(what)
    assert cache.checked(tmp_path, taken) is None


@pytest.mark.root
def test_costs_of_another_user_are_not_believed(tmp_path: Path) -> None:
    path = cache.save(tmp_path, calibration())
    os.chown(path, 12345, 12345)
    assert cache.load(tmp_path, KEY) == (None, f"{path} is no file of ours")
    path.unlink()
    os.mkfifo(path)
    assert cache.load(tmp_path, KEY) == (None, f"{path} is no file of ours")


@pytest.mark.root
@pytest.mark.parametrize("moment", [(Path, "stat"), (os, "fstat")])
def test_costs_that_another_user_swaps_in_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: tuple[object, str]
) -> None:
    path = cache.save(tmp_path, calibration())
    theirs = tmp_path / "theirs"
    ours = calibration()
    others = [replace(cost, n=8) for cost in ours.costs]
    theirs.write_text(replace(ours, costs=others).text())
    os.chown(theirs, 12345, 12345)
    looked = getattr(*moment)

    def swapped(*arguments: object, **named: object) -> os.stat_result:
        found: os.stat_result = looked(*arguments, **named)
        if os.path.lexists(theirs):
            os.replace(theirs, path)  # noqa: PTH105
        return found

    monkeypatch.setattr(*moment, swapped)
    found, _ = cache.load(tmp_path, KEY)
    assert found is None or found.costs == calibration().costs


def test_where_the_cache_is() -> None:
    user = {"HOME": "/users/ada", "XDG_CACHE_HOME": "/users/ada/cache"}
    assert cache.cache_directory(user, euid=1000) == Path("/users/ada/cache/rlscope-trace")
    relative = {**user, "XDG_CACHE_HOME": "cache"}
    assert cache.cache_directory(relative, euid=1000) == Path("/users/ada/.cache/rlscope-trace")
    for homeless in ({}, {"HOME": ""}, {"HOME": "here"}):
        kept = cache.cache_directory(homeless, euid=1000)
        assert kept == Path("/nonexistent/.cache/rlscope-trace")
    # Of root itself it is that of the machine.
    assert cache.cache_directory(user, euid=0) == Path("/var/cache/rlscope-trace")
    named = {**user, "RLSCOPE_CALIBRATION_DIR": "/elsewhere"}
    assert cache.cache_directory(named, euid=0) == Path("/elsewhere")


def test_the_key_names_kernel_and_version_but_not_the_machine_id() -> None:
    key = cache.machine_key()
    assert os.uname().release in key["kernel"]
    assert key["tool_version"] == __version__
    identity = Path("/etc/machine-id")
    if identity.exists() and identity.read_text().strip():
        assert identity.read_text().strip() not in json.dumps(key)


def spool_with(tmp_path: Path, text: str | None) -> Path:
    if text is not None:
        (tmp_path / CALIBRATION_FILE).write_text(text)
    return tmp_path


def test_of_several_ways_that_of_the_recording_counts(tmp_path: Path) -> None:
    spool = spool_with(tmp_path, calibration().text())
    rows = costs_of_spool(spool, SESSION)
    calls = {row.part: row.mean_ns for row in rows if row.event == "call"}
    assert calls == {"inside": 550.0, "outside": 800.0}
    perf = costs_of_spool(spool, {"capture": "tracefs", "probe_settings": {"call_probes": "perf"}})
    for event, known in (("call", "multi, session"), ("switch", "btf")):
        (row,) = [row for row in perf if row.event == event]
        assert row.mean_ns is None
        assert (row.quality.code, row.quality.subject) == ("other_way", known)


@pytest.mark.parametrize("loader", ["libbpf", "bcc"])
def test_both_loaders_of_a_capture_cost_the_same(tmp_path: Path, loader: str) -> None:
    switch = [Cost("switch", "outside", way, 400.0) for way in ("btf", "tracefs")]
    spool = spool_with(tmp_path, Calibration(switch, {}).text())
    rows = costs_of_spool(spool, {"capture": "tracefs", "loader": loader})
    assert [row for row in rows if row.event == "switch"] == switch[1:]


@pytest.mark.parametrize("text", [None, "{", calibration().text()])
def test_every_event_has_a_row_with_a_cost_or_a_reason(tmp_path: Path, text: str | None) -> None:
    with duckdb.connect() as con:
        create_tables(con)
        costs = costs_of_spool(spool_with(tmp_path, text), SESSION)
        count = insert_rows(con, "calibration_measured", rows_of(costs))
        rows = con.execute("SELECT event, mean_ns, used, quality FROM calibration").fetchall()
    assert len(rows) == count
    assert {row[0] for row in rows} >= {*EVENTS, *BYSTANDER_EVENTS}
    assert {row[2] for row in rows} == {False}
    for event, mean_ns, _, quality in rows:
        assert (mean_ns is None) == (quality == "not_measured"), event
        assert mean_ns != 0


def test_a_spool_takes_its_calibration_with_it(tmp_path: Path) -> None:
    spool = tmp_path / "trace.duckdb.spool"
    spool.mkdir()
    spool_with(spool, calibration().text())
    remove_files(spool)
    assert not spool.exists()


def test_known_costs_go_into_the_spool_without_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.save(tmp_path / "cache", calibration())
    cache.note_checked(tmp_path / "cache", calibration(), COSTS)
    for wanted in (False, True):
        spool = tmp_path / f"spool-{wanted}"
        spool.mkdir()
        add(spool, tmp_path / "cache", monkeypatch, wanted=wanted)
        assert read_costs(spool / CALIBRATION_FILE)[0] == COSTS


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt(), OSError(28, "No space left"), ZeroDivisionError()]
)
def test_a_failing_calibration_does_not_cost_the_recording(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: BaseException,
) -> None:
    def fail(*_arguments: object) -> None:
        raise failure

    monkeypatch.setattr(calibrating, "_measure", fail)
    add(tmp_path, tmp_path / "cache", monkeypatch, wanted=True)
    assert list(tmp_path.iterdir()) == []
    words = capsys.readouterr().err
    assert ("calibration skipped" in words) == isinstance(failure, KeyboardInterrupt)
    assert ("no calibration" in words) == isinstance(failure, Exception)


def test_where_nothing_could_be_measured_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "the process that is measured has ended: out of memory"
    costs = [Cost(event, None, quality=failed(reason)) for event in EVENTS]
    measured(monkeypatch, costs)
    monkeypatch.setattr(calibrating, "_require_tracing", lambda: None)
    directory = tmp_path / "cache"
    with pytest.raises(TracerError, match=r"no cost could be measured: .*out of memory"):
        calibrating.take(directory, KEY)
    spool = tmp_path / "spool"
    spool.mkdir()
    add(spool, directory, monkeypatch, wanted=True)
    assert f"no calibration: {reason}" in capsys.readouterr().err
    assert not directory.exists()
    # The trace has the reason all the same.
    assert read_costs(spool / CALIBRATION_FILE)[0] == costs


def test_a_cache_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(monkeypatch, COSTS)
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("")
    add(tmp_path, in_the_way, monkeypatch, wanted=True)
    assert read_costs(tmp_path / CALIBRATION_FILE)[0] == COSTS
    words = capsys.readouterr().err
    assert f"the calibration cannot be kept in {in_the_way}: " in words
    assert f"hint: {cache.DIRECTORY_VARIABLE}=FOLDER" in words


def test_a_child_that_ends_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "librlscope_loops.so"
    library.write_text("no library")
    monkeypatch.setattr(children, "LIBRARY", library)
    child = children.Child(children.measured_cpu())
    try:
        with pytest.raises(children.CalibrationError, match=r"has ended: OSError: .*librlscope"):
            child.ask("where")
    finally:
        child.close()
