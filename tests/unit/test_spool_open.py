"""What a spool directory says of itself, and what is refused."""

import json
import os
import struct
import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from damaged_spool import FILES, build
from finalising import finalise
from rlscope_trace import __version__, _ingest
from rlscope_trace.errors import SpoolError
from rlscope_trace.spool.directory import WIRE_VERSION, Loss, open_spool
from spool_builder import CYCLE, HEADER, THREAD, VERSION, SpoolBuilder


@pytest.fixture
def spool() -> SpoolBuilder:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    return spool


def test_both_halves_read_the_same_version() -> None:
    assert WIRE_VERSION == _ingest.WIRE_VERSION


def test_session_and_counters_are_read(spool: SpoolBuilder, tmp_path: Path) -> None:
    directory = spool.write(
        tmp_path / "spool",
        end_ns=200,
        ring_losses={(0, THREAD): (2, 150), (3, CYCLE): (7, 160)},
        spool_losses={CYCLE: (5, 170)},
        missed_runs=3,
        failed_updates=4,
    )
    opened = open_spool(directory)
    assert opened.session == {"host": "box", "argv": ["train"]}
    assert opened.end_ns == 200
    assert opened.progress is not None
    assert opened.progress.records[THREAD] == 1
    assert opened.progress.whole_bytes == len(spool.records())
    assert opened.progress.ring_losses == (Loss("thread", 2, 150, 0), Loss("cycle", 7, 160, 3))
    assert opened.progress.spool_losses == (Loss("cycle", 5, 170),)
    assert (opened.progress.missed_runs, opened.progress.failed_updates) == (3, 4)


def test_a_session_nested_too_deeply_is_not_known(spool: SpoolBuilder, tmp_path: Path) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=200)
    (directory / "session.json").write_bytes(b'{"a":' * 100_000)
    assert open_spool(directory).session == {}


@pytest.mark.parametrize(
    "pid", [10**5000, -1, 0, True, "self"], ids=["huge", "negative", "zero", "true", "text"]
)
def test_an_odd_recorder_does_not_run(spool: SpoolBuilder, tmp_path: Path, pid: object) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=200)
    opened = replace(open_spool(directory), session={"recorder_pid": pid, "recorder_starttime": 1})
    assert not opened.is_live()


def test_an_ordinary_directory_is_no_spool(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match=r"is not a spool: it has no records\.bin") as caught:
        open_spool(tmp_path)
    assert caught.value.hint


def test_a_file_is_no_spool(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError, match="is not a spool"):
        open_spool(tmp_path / "file")


@pytest.mark.parametrize("content", [b"SQLite format 3\0" + bytes(100), b"abc"])
def test_other_content_is_no_spool(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "records.bin").write_bytes(content)
    with pytest.raises(SpoolError, match=r"is not a spool: .* does not start like one|holds no"):
        open_spool(tmp_path)


@pytest.mark.parametrize("content", [b"", HEADER])
def test_an_empty_spool_says_that_it_can_go(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "records.bin").write_bytes(content)
    with pytest.raises(SpoolError, match="holds no record") as caught:
        open_spool(tmp_path)
    assert caught.value.hint == f"rm -r {tmp_path}"


@pytest.mark.parametrize(("recorder", "hint"), [("0.9", "0.9"), (__version__, "damaged")])
def test_another_wire_version_is_named(
    spool: SpoolBuilder, tmp_path: Path, recorder: str, hint: str
) -> None:
    directory = spool.write(
        tmp_path / "spool", end_ns=200, session={"tool_version": recorder},
        records=struct.pack("<8sII", b"LSSPOOL1", VERSION + 1, 16) + spool.records()[16:],
    )  # fmt: skip
    progress = directory / "progress.bin"
    counters = progress.read_bytes()
    progress.write_bytes(counters[:8] + struct.pack("<I", VERSION + 1) + counters[12:])
    with pytest.raises(
        SpoolError, match="has wire version 7, this rlscope-trace reads 6"
    ) as caught:
        open_spool(directory)
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@pytest.mark.parametrize("at", range(16))
def test_a_damaged_header_costs_nothing_else(spool: SpoolBuilder, tmp_path: Path, at: int) -> None:
    records = bytearray(spool.records())
    records[at] ^= 1 << at % 8
    opened = open_spool(spool.write(tmp_path / "spool", end_ns=200, records=bytes(records)))
    assert opened.damaged_facts == 1
    assert opened.end_ns == 200


@pytest.mark.parametrize("damage", ["missing", "short", "foreign"])
def test_lost_counters_do_not_cost_the_records(
    spool: SpoolBuilder, tmp_path: Path, damage: str
) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=200)
    if damage == "missing":
        (directory / "progress.bin").unlink()
    else:
        content = bytes(100) if damage == "short" else bytes(4096)
        (directory / "progress.bin").write_bytes(content)
    opened = open_spool(directory)
    assert opened.progress is None
    assert opened.end_ns == 0


def test_a_broken_session_does_not_cost_the_records(spool: SpoolBuilder, tmp_path: Path) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=200)
    (directory / "session.json").write_text('{"host": "bo')
    assert open_spool(directory).session == {}


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_spool_is_live_while_its_recorder_runs(spool: SpoolBuilder, tmp_path: Path) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=0)
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as recorder:
        session = {"recorder_pid": recorder.pid, "recorder_starttime": start_time(recorder.pid)}
        (directory / "session.json").write_text(json.dumps(session))
        assert open_spool(directory).is_live()
        session["recorder_starttime"] += 1  # the pid was reused
        (directory / "session.json").write_text(json.dumps(session))
        assert not open_spool(directory).is_live()
        session["recorder_starttime"] -= 1
        (directory / "session.json").write_text(json.dumps(session))
        recorder.kill()
        # It is listed until somebody waits for it.
        os.waitid(os.P_PID, recorder.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(recorder.pid) == session["recorder_starttime"]
        assert not open_spool(directory).is_live()
    assert not open_spool(directory).is_live()


@pytest.mark.parametrize("plant", ["link", "pipe"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_exchanged_once_it_was_looked_at_is_not_read(
    tmp_path: Path, name: str, plant: str
) -> None:
    """By the owner of the folder: a link would lead anywhere, a pipe never ends."""
    opened = open_spool(build(tmp_path / "spool"))
    (tmp_path / "spool" / name).rename(tmp_path / "elsewhere")
    if plant == "link":
        (tmp_path / "spool" / name).symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(tmp_path / "spool" / name)
    # Not so where open_spool() itself has read it, or where the costs alone are missing then.
    is_needed = name not in ("progress.bin", "session.json", "calibration.json")
    with pytest.raises(SpoolError) if is_needed else nullcontext():
        finalise(opened, tmp_path / "trace.duckdb")
    assert (tmp_path / "elsewhere").exists()
    assert (tmp_path / "trace.duckdb").exists() != is_needed


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    path = build(tmp_path / "spool") / name
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(SpoolError, match=f"{name} is no regular file") as caught:
        open_spool(tmp_path / "spool")
    assert caught.value.hint


def test_removal_spares_what_others_put_there(spool: SpoolBuilder, tmp_path: Path) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=200)
    (directory / "notes.txt").touch()
    open_spool(directory).remove()
    assert list(directory.iterdir()) == [directory / "notes.txt"]
    (directory / "notes.txt").unlink()
    directory.rmdir()
    open_spool(spool.write(directory, end_ns=200)).remove()
    assert not directory.exists()


def test_a_deletion_that_was_cut_off_leaves_a_spool_or_nothing(
    spool: SpoolBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink
    files = len(list(spool.write(tmp_path / "whole", end_ns=200).iterdir()))
    for count in range(files + 1):
        directory = spool.write(tmp_path / f"spool-{count}", end_ns=200)
        left = count

        def killed(path: Path, *, missing_ok: bool = False) -> None:
            nonlocal left
            if path.exists():
                if not left:
                    raise KeyboardInterrupt
                left -= 1
            unlink(path, missing_ok=missing_ok)

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(Path, "unlink", killed)
            open_spool(directory).remove()
        if count < files:
            assert open_spool(directory).records_path.exists()
            open_spool(directory).remove()
        assert not directory.exists()
