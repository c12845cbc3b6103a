"""The simulator's share of the CPU time, against a clock inside the program around every call.

Within 2 percentage points on real simulators, whichever way the recorder got it: from exact calls
where these are cheap enough, from samples where the governor dropped the probes. What samples add
is statistical: two standard errors of them are granted on top.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import in_matrix
from native_programs import build_extension
from native_recording import (
    Launch,
    Launched,
    buckets,
    error_points,
    python_program,
    running_ns,
    sampled,
    until_used,
)
from recording import TICK_NS, assert_conserved, query, until
from rl_programs import require_modules

pytestmark = [pytest.mark.root, pytest.mark.slow]

POINTS = 2.0
# More often than by default, so that seconds of a test tell what minutes of a user's run do.
SAMPLING = "--sample-hz=999"
# Nothing is dropped, so there is no decision to wait for.
EXACT = ("--probe-budget=1000", "--sample-hz=0")
MODULES = {"halfcheetah": "mujoco", "humanoid": "mujoco", "pong": "ale_py", "cartpole": "nvtx"}
FILES = {
    "halfcheetah": "_functions",
    "humanoid": "_functions",
    "pong": "ale",
    "cartpole": "native_cartpole",
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the compiled modules."""
    require_modules("numpy, nvtx, torch, gymnasium")
    folder = tmp_path_factory.mktemp("modules")
    build_extension("native_cartpole", folder)
    return build_extension("layer_clock", folder)


@pytest.fixture
def share(tmp_path: Path, modules: Path, launch: Launch) -> Callable[..., dict[str, Any]]:
    """Return `share("pong", "--policy=torch", options=[...])`: a recording and its truth."""

    def run(
        env: str, *arguments: str, options: tuple[str, ...] = (), settled: bool = True
    ) -> dict[str, Any]:
        require_modules(MODULES[env])
        command = python_program("sim_share", "--wait", f"--env={env}", *arguments)
        trace = tmp_path / "trace.duckdb"
        program = launch(trace, command, options, modules).ready().probed(FILES[env])
        if settled:
            settle(program)
        truth = program.finished()
        assert_conserved(trace)
        return {"trace": trace, **truth}

    return run


def settle(program: Launched) -> None:
    """Wait until the governor has had its trial of everything that is called."""
    seen = -1

    def is_quiet() -> bool:
        nonlocal seen
        before, seen = seen, len(program.events("site")) + len(program.events("dropped"))
        return before == seen

    # No threshold of a time that is judged: the truth is only taken afterwards.
    for _ in range(3):
        until_used(program.child(), 1.0)
        until(is_quiet, what="the probes are settled")


def compare(reported: dict[str, Any]) -> None:
    """Hold the share in the trace to the clock's, and the running time to the thread's."""
    trace, pid = reported["trace"], reported["pid"]
    found = buckets(trace, pid, "window")
    whole_ns = running_ns(found)
    # Its last step of a tick may have been counted a little later.
    least_ns, most_ns = (
        0.98 * reported["cpu_ns"],
        1.02 * reported["cpu_ns"] + reported["stolen_ns"] + TICK_NS,
    )
    assert least_ns <= whole_ns <= most_ns, reported
    share = found["simulator"] / whole_ns
    true_share = reported["simulator_ns"] / reported["cpu_ns"]
    # An attribute of MuJoCo's objects is read by its module, but most of that makes an array in
    # NumPy and Python: samples find it there, and exact calls inside the simulator.
    least_share = true_share - reported["attributes_ns"] / reported["cpu_ns"]
    samples = sampled(trace, reported["start_ns"], reported["end_ns"], f"t.tid = {pid}").total()
    granted = POINTS + 2 * error_points(true_share, samples)
    assert 100 * least_share - granted <= 100 * share <= 100 * true_share + granted, (
        found,
        reported,
    )
    # One thread, which has nobody to wait for.
    assert found["spin"] <= 0.002 * whole_ns


@pytest.mark.parametrize("env", ["cartpole", *in_matrix("halfcheetah", "humanoid", "pong")])
def test_share_within_two_points(env: str, share: Callable[..., dict[str, Any]]) -> None:
    mine = ("--simulator=native_cartpole",) if env == "cartpole" else ()
    reported = share(env, "--seconds=5", "--substeps=4000", options=(SAMPLING, *mine))
    compare(reported)
    # What is in none of the layers was still measured; few samples cannot be told: a page that was
    # not there, at that instant.
    found = buckets(reported["trace"], reported["pid"], "window")
    assert found["running"] <= 0.002 * running_ns(found)


def test_share_beside_pytorch(share: Callable[..., dict[str, Any]]) -> None:
    options = (SAMPLING, "--simulator=native_cartpole")
    arguments = ("--policy=torch", "--substeps=4000", "--seconds=5")
    compare(share("cartpole", *arguments, options=options))


def test_long_calls_stay_exact_without_samples(share: Callable[..., dict[str, Any]]) -> None:
    """Calls of a quarter of a millisecond cost less than the budget: no probe is dropped."""
    options = ("--sample-hz=0", "--simulator=native_cartpole")
    reported = share("cartpole", "--substeps=20000", "--seconds=2", options=options)
    trace, pid = reported["trace"], reported["pid"]
    found = buckets(trace, pid, "window")
    share_found = found["simulator"] / running_ns(found)
    assert abs(share_found - reported["simulator_ns"] / reported["cpu_ns"]) <= POINTS / 100
    assert (
        dict(
            query(
                trace,
                "SELECT s.symbol, count(*) FROM native_call AS c JOIN site AS s USING (site_id)"
                " WHERE c.start_ns BETWEEN ? AND ? GROUP BY 1",
                [reported["start_ns"], reported["end_ns"]],
            )
        )
        == reported["calls"]
    )
    # What is not the simulator's was not told apart: that is said, and no layer gets it.
    assert set(found) <= {"simulator", "running", "runnable", "sleeping", "io_wait"}


@pytest.mark.parametrize(
    ("env", "least"),
    [
        ("halfcheetah", 2.0), ("pong", 9.0),
        pytest.param("humanoid", 2.0, marks=pytest.mark.matrix),
    ],
)  # fmt: skip
def test_calls_of_real_simulators_are_exact(
    env: str, least: float, share: Callable[..., dict[str, Any]]
) -> None:
    """Bindings enter through one function per module: its calls are all calls together."""
    reported = share(env, "--seconds=1", options=EXACT, settled=False)
    ((found,),) = query(
        reported["trace"],
        "SELECT count(*) FROM native_call AS c JOIN thread AS t USING (thread_id)"
        " WHERE c.layer = 'simulator' AND c.depth = 0 AND t.tid = ? AND c.start_ns >= ?"
        " AND c.end_ns <= ?",
        [reported["pid"], reported["start_ns"], reported["end_ns"]],
    )
    assert query(reported["trace"], "SELECT count(*) FROM site WHERE state LIKE 'dropped%'") == [
        (0,)
    ]
    assert found == sum(reported["calls"].values())
    assert found / reported["steps"] >= least
