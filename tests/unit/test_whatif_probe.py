"""`whatif --replace`: what a probe measures, and as whom it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from recording import rlscope
from rlscope_trace.cli.probing import probe
from rlscope_trace.errors import TracerError
from rlscope_trace.privileges import invoking_identity
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
ROUNDS = 8
ENVIRONMENTS = """
import os, pathlib

class Busy:
    class action_space:
        sample = staticmethod(lambda: 0)
    def __init__(self, rounds): self.rounds = rounds
    def reset(self): return 0, {}
    def step(self, action):
        state = 1
        for _ in range(self.rounds):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        return 0, 0.0, False, False, {}

def once(): return Busy(2000)
def twice(): return Busy(4000)
def broken(): raise ValueError("no \\x1b[31m environment")
def nothing(): return 3
def gone(): os._exit(7)
def told():
    pathlib.Path("uid").write_text(str(os.geteuid()))
    print("it prints")
    return Busy(10)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "made_here.py").write_text(ENVIRONMENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trace_of(path: Path) -> Path:
    """Make rounds of two steps of 1 ms and 2 ms of something else."""
    builder = TraceBuilder(path)
    process = builder.process(pid=7, name="python")
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start, start + 1 * MS, "simulate")
        builder.operation(1, start + 2 * MS, start + 3 * MS, "simulate")
    builder.thread(process, states=[run(ROUNDS * 4 * MS), run(10)])
    return builder.write()


def test_it_measures_a_step() -> None:
    """Twice the work is about twice the time, of the CPU: others on the machine hardly matter."""
    once, error = probe("made_here", "once", None)
    twice, _ = probe("made_here", "twice", None)
    assert 1.5 < twice / once < 2.7
    assert 0 < error < once


def test_each_step_is_replaced(place: Path) -> None:
    path = trace_of(place / "steps.duckdb")
    asked = ["--replace", "simulate=probe:made_here:told", "--format", "json"]
    found = json.loads(rlscope("whatif", str(path), *asked).stdout)
    # Next to nothing is left of two of the four ms.
    assert found["duration_ratio"] == pytest.approx(0.5, abs=0.02)
    assert "probed" in found["reasons"]
    assert (place / "uid").read_text() == str(os.geteuid())


@pytest.mark.parametrize(
    ("factory", "why"),
    [("broken", r"ValueError: no \\x1b\[31m env"), ("nothing", "neither"), ("gone", "no answer"),
     ("missing", "AttributeError")],
)  # fmt: skip
def test_a_probe_that_fails_says_why(factory: str, why: str) -> None:
    with pytest.raises(TracerError, match=why):
        probe("made_here", factory, None)


def test_it_does_not_run_as_root_for_another_user(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("root only")
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    place.chmod(0o777)
    with pytest.raises(TracerError, match="runs as the user who asks for it"):
        probe("made_here", "told", invoking_identity())
    path = trace_of(place / "steps.duckdb")
    path.chmod(0o644)
    # The command itself has become that user before: it may find no Python, but is never root.
    command = [sys.executable, "-m", "rlscope_trace", "whatif", str(path), "--replace",
               "simulate=probe:made_here:told"]  # fmt: skip
    subprocess.run(command, check=False, capture_output=True)
    uid = place / "uid"
    assert not uid.exists() or uid.read_text() == "65534"


def test_what_is_no_replacement(place: Path) -> None:
    path = trace_of(place / "steps.duckdb")
    for wrong in ("simulate=made_here:once", "simulate=probe:made_here"):
        shown = rlscope("whatif", str(path), "--replace", wrong)
        assert shown.returncode == 2
        assert "OPERATION=probe:MODULE:FACTORY" in shown.stderr
