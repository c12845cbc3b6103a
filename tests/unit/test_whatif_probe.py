"""`whatif --replace`: what a probe measures, and as whom it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from recording import rlscope
from rlscope_analysis.errors import TraceError
from rlscope_analysis.whatif.answer import what_if
from rlscope_analysis.whatif.changes import Changes
from rlscope_analysis.whatif.vectorised import fitted, sizes_up_to
from rlscope_trace import cold_probe as step_probe
from rlscope_trace.cli.probing import probe
from rlscope_trace.errors import TracerError
from rlscope_trace.privileges import invoking_identity
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
ROUNDS = 8
ENVIRONMENTS = """
import os, pathlib, time

class Busy:
    # A step takes so many us of CPU time, on a CPU of whatever speed.
    class action_space:
        sample = staticmethod(lambda: 0)
    def __init__(self, us): self.ns = us * 1000
    def reset(self): return 0, {}
    def step(self, action):
        until = time.process_time_ns() + self.ns
        while time.process_time_ns() < until:
            pass
        return 0, 0.0, False, False, {}

class Counted(Busy):
    # Takes so many us by a clock that nothing else moves.
    now = 0
    def step(self, action):
        Counted.now += int(self.ns)
        time.process_time_ns = lambda: Counted.now
        return 0, 0.0, False, False, {}

def once(): return Busy(100)
def twice(): return Busy(200)
def line(envs): return Counted(100 + 0.5 * envs)
def step_up(envs): return Counted(10 if envs < 100 else 5000)
def broken(): raise ValueError("no \\x1b[31m environment")
def nothing(): return 3
def gone(): os._exit(7)
def told():
    pathlib.Path("uid").write_text(str(os.geteuid()))
    print("it prints")
    return Busy(0.5)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "made_here.py").write_text(ENVIRONMENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trace_of(path: Path, *, steps: int = 0) -> Path:
    """Make rounds of two calls of 1 ms and 2 ms of something else; steps of a round, if any."""
    builder = TraceBuilder(path)
    process = builder.process(pid=7, name="python")
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start, start + 1 * MS, "simulate", steps=steps // 2 or None)
        builder.operation(1, start + 2 * MS, start + 3 * MS, "simulate", steps=steps // 2 or None)
    builder.thread(process, states=[run(ROUNDS * 4 * MS), run(10)])
    return builder.write()


def test_it_measures_a_step() -> None:
    """By construction: 100 us of CPU time and 200, and what a busy machine adds to each."""
    ((once, error),) = probe("made_here", "once", None)
    ((twice, _),) = probe("made_here", "twice", None)
    assert 97_000 < once < 200_000
    assert 197_000 < twice < 400_000
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


def test_a_simulator_of_many_environments_has_a_cost_for_each(place: Path) -> None:
    """By construction: as much as 200 environments before the first one."""
    path = trace_of(place / "steps.duckdb", steps=16)
    command = ["whatif", str(path), "--vectorize", "simulate=probe:made_here:line", "--envs", "800"]
    shown = rlscope(*command)
    assert "with 800 environments" in shown.stdout, shown.stderr
    sizes = [12, 50, 200, 800]
    found = [ns for ns, _ in probe("made_here", "line", None, sizes)]
    one = fitted("simulate", "line", 800, list(zip(sizes, found, strict=True)), fused=4)
    assert one.alpha_ns / one.beta_ns == pytest.approx(200, rel=0.01)
    assert one.step_ns == pytest.approx(one.alpha_ns / 4 + 800 * one.beta_ns)
    refused = rlscope("whatif", str(path), "--vectorize", "simulate=probe:made_here:step_up",
                      "--envs", "800")  # fmt: skip
    assert refused.returncode == 1
    assert "does not grow evenly" in refused.stderr


def test_what_steps_cost_by_the_line(place: Path) -> None:
    """16 steps in each of 8 updates of 4 ms, by 64 environments that take 1 ms: 2 ms of 32."""
    path = trace_of(place / "steps.duckdb", steps=16)
    one = fitted("simulate", "by", 64, [(n, 360_000 + 10_000 * n) for n in (1, 4, 16, 64)])
    assert one.off == pytest.approx(0, abs=1e-9)
    with rlscope_analysis.open(path) as trace:
        answer = what_if(trace, Changes(vectorised=(one,)))
    # Half of each update is left alone; the first one is no iteration.
    assert answer.facts["duration_ratio"] == pytest.approx(0.5 + 16 / 64 / 4, rel=0.01)
    assert answer.facts["grade"] == "C"
    with (
        rlscope_analysis.open(trace_of(place / "none.duckdb")) as trace,
        pytest.raises(TraceError, match="environment steps"),
    ):
        what_if(trace, Changes(vectorised=(one,)))


def test_sizes_and_lines_that_are_none() -> None:
    assert sizes_up_to(512) == [8, 32, 128, 512]
    assert sizes_up_to(1) == [1, 2, 4]
    assert sizes_up_to(8) == [1, 2, 8]
    # Less for more environments: no cost for each.
    falling = fitted("simulate", "by", 8, [(1, 100.0), (2, 99.0), (8, 98.0)])
    assert (falling.beta_ns, falling.alpha_ns) == (0.0, pytest.approx(99, rel=0.01))
    proportional = fitted("simulate", "by", 8, [(1, 9.8), (2, 20.0), (8, 81.0)])
    assert proportional.alpha_ns == 0
    assert proportional.beta_ns == pytest.approx(10, rel=0.02)
    with pytest.raises(TraceError, match="evenly"):
        fitted("simulate", "by", 8, [(1, 10.0), (2, 100.0), (8, 11.0)])


def test_what_goes_with_what(place: Path) -> None:
    path = trace_of(place / "steps.duckdb")
    for words in (
        ["--envs", "8"],
        ["--fuse", "2"],
        ["--vectorize", "simulate=probe:made_here:line"],
    ):
        shown = rlscope("whatif", str(path), *words)
        assert shown.returncode == 2
        assert "go together" in shown.stderr


def test_a_step_on_a_gpu_takes_until_the_gpu_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that takes 2 ms for what is launched in no time; it is waited for by sleeping."""
    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=lambda: time.sleep(0.002))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(step_probe, "_SECONDS", 0.1)
    assert min(step_probe.measured(lambda: None, lambda: None)) >= 2 * MS
    cuda.is_initialized = lambda: False
    assert max(step_probe.measured(lambda: time.sleep(0.002), lambda: None)) < 1 * MS
