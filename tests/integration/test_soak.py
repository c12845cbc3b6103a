"""The long runs, cut short: scripts/soak finds nothing, says what it looked at, leaves nothing."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import REPOSITORY
from recording import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

DEADLINE_S = 300


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Return `soak("kills", ...)`: it runs, and writes into a folder of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(REPOSITORY / "scripts/soak"), *arguments]
        made = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path), "RLSCOPE_VENV": sys.prefix},
        )
        started.append(made)
        return made

    yield start
    for made in started:
        if made.poll() is None:
            made.send_signal(signal.SIGINT)
        made.communicate(timeout=DEADLINE_S)


def said(made: "subprocess.Popen[str]", folder: Path) -> str:
    """Return what it said, if it found nothing to say against the recorder."""
    out, err = made.communicate(timeout=DEADLINE_S)
    assert made.returncode == 0, out + err
    assert err == ""
    assert [*folder.iterdir()] == []
    return out


def test_recorders_killed_at_random_moments(
    soak: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    reported = said(soak("kills", "--runs", "6", "--seed", "7"), tmp_path)
    assert "kills (seed 7): 6 of 6 in " in reported
    recovered = re.search(r"([\d,]+) records recovered, none missing", reported)
    assert recovered is not None
    assert recovered[1] != "0"


def test_attached_again_and_again(
    soak: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    reported = said(soak("attach", "--cycles", "5"), tmp_path)
    assert "attach: 5 of 5 in " in reported
    assert "attach: the program at the end: " in reported


def test_one_recording_of_a_program_that_changes_all_the_time(
    soak: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    reported = said(soak("run", "--minutes", "0.1"), tmp_path)
    assert "as many processes, threads and ranges in the trace as the program counted" in reported
    assert "run: the recorder: " in reported


def test_ctrl_c_says_what_there_is(
    soak: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    made = soak("kills", "--runs", "1000")
    until(lambda: [*tmp_path.glob("*/kill-0")], what="it has begun")
    made.send_signal(signal.SIGINT)
    out, err = made.communicate(timeout=DEADLINE_S)
    assert made.returncode == 130, out + err
    assert re.search(r"kills \(seed 1\): \d+ of 1,000 in ", out)
    assert "Traceback" not in err
    assert [*tmp_path.iterdir()] == []


# Bounds the CPU time of each command, which a busy machine takes longer for.
@pytest.mark.matrix
def test_files_of_every_kind_with_some_bits_changed(
    soak: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    reported = said(soak("flips", "--runs", "2"), tmp_path)
    for kind in ("spool", "trace", "kineto", "nsys"):
        assert f"flips of {kind} (seed 1): 2 of 2 in " in reported
