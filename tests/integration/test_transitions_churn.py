"""Targets that load, unload, fork, exec and crash while they are probed: none is changed by it."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload, in_matrix
from native_programs import build_extension, build_library
from native_recording import Launch, Launched, probed_sites, python_program, until_used
from recording import Recorder, assert_conserved, query, until
from rl_programs import require_modules

pytestmark = [pytest.mark.root, pytest.mark.slow]

OPTIONS = ("--simulator=native_cartpole", "--simulator=native_throw", "--simulator=copy")
KINDS = ("forked again", "replaced", "segv", "abort", "stepped")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_modules("nvtx")
    folder = tmp_path_factory.mktemp("modules")
    build_extension("native_throw", folder)
    return build_extension("native_cartpole", folder)


@pytest.fixture
def command(tmp_path: Path, modules: Path) -> list[str]:
    """Return the command of churn.py, with libraries of its own to open and close."""
    libraries = [build_library("gil_holder", tmp_path)]
    for module in modules.glob("native_*.so"):
        libraries.append(tmp_path / f"copy-{module.name}")
        shutil.copy(module, libraries[-1])
    return python_program("churn", "--wait", "--libraries=" + ":".join(map(str, libraries)))


def check(truth: dict[str, Any]) -> None:
    """Every result was right, and every child ended as it was meant to."""
    assert truth["wrong"] == 0
    assert set(truth["children"]) == set(KINDS), truth["children"]
    assert len(set(truth["children"].values())) == 1
    assert truth["opened"] > 0


@pytest.mark.parametrize("transitions", ["all", *in_matrix("simulator")])
def test_a_target_that_never_rests(
    tmp_path: Path, modules: Path, command: list[str], launch: Launch, transitions: str
) -> None:
    trace = tmp_path / "trace.duckdb"
    options = (*OPTIONS, f"--transitions={transitions}", "--gil=full", "--probe-budget=1000")
    program: Launched = launch(trace, command, options, modules).ready().probed("native_cartpole")
    truth = program.finished()
    check(truth)
    assert_conserved(trace)
    ((calls,),) = query(
        trace,
        "SELECT count(*) FROM native_call AS c JOIN site AS s USING (site_id)"
        " WHERE s.symbol = 'step'",
    )
    assert calls >= truth["steps"]


@pytest.mark.matrix
def test_a_recorder_that_comes_and_goes(
    tmp_path: Path, modules: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is killed: the OS kernel takes its probes away, the program never notices."""
    monkeypatch.setenv("PYTHONPATH", str(modules), prepend=":")
    target = Workload([*command, "--seconds=0"])
    try:
        assert target.readline() == f"ready {target.pid}"
        target.go()
        for round_number in range(4):
            trace = tmp_path / f"{round_number}.duckdb"
            recorder = Recorder(trace, f"--pid={target.pid}", *OPTIONS, "--probe-budget=1000")
            recorder.live()
            until(lambda made=recorder: probed_sites(made.spool, "native_cartpole"), what="probes")
            # One of its threads opens libraries, the other one steps: both get to run.
            until_used(target.pid, 0.5)
            if round_number % 2:
                recorder.signal(signal.SIGKILL)
                recorder.process.wait()
            else:
                assert recorder.stop() == 0, recorder.words()
                assert query(trace, "SELECT count(*) > 0 FROM native_call") == [(True,)]
        target.go()
        check(target.truth(deadline_s=120))
        assert target.wait() == 0
    finally:
        target.close()
