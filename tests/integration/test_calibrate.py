"""Costs of events, measured by the recorder's own parts on this machine."""

import os
import signal
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import WORKLOADS, Workload
from native_harness import build, probing
from recording import COMMAND, DEADLINE_S, assert_whole, query, rlscope, until
from rlscope_trace.record.calibrate.cache import (
    DIRECTORY_VARIABLE,
    Calibration,
    cache_file,
    machine_key,
    save,
)
from rlscope_trace.record.calibrate.measure import CUDA_EVENTS, Plan, measure
from rlscope_trace.record.calibrate.scheduling import SwitchLoops
from rlscope_trace.record.calibrate.traced import CAPTURES
from rlscope_trace.spool.costs import Cost

pytestmark = pytest.mark.root

# As short as it can be: the fewest measurements that give an interval, which take 8 s or more.
SHORTEST = Plan(8.0, (), 6, tuple(CAPTURES))
SPLIT = ("call", "call_expensive", "range", "range_auto")
WHOLE = ("switch", "wakeup", "bystander_call", "gil_release", "sample")


@pytest.fixture(scope="module")
def all_costs() -> list[Cost]:
    """Return what the shortest calibration gives."""
    return measure(SHORTEST, lambda _done, _total: None)


@pytest.fixture(scope="module")
def costs(all_costs: list[Cost]) -> list[Cost]:
    """Return what it gives for the best capture."""
    return [cost for cost in all_costs if cost.how != "tracefs"]


def of(costs: list[Cost], event: str, part: str | None) -> Cost:
    (found,) = [cost for cost in costs if (cost.event, cost.part) == (event, part)]
    return found


def test_every_row_has_a_cost_with_its_spread_or_says_why_not(costs: list[Cost]) -> None:
    measured = [cost for cost in costs if cost.mean_ns is not None]
    for cost in measured:
        assert cost.n >= 6, cost
        assert cost.stddev_ns is not None
        assert cost.low_ns is not None
        assert cost.high_ns is not None
        assert cost.low_ns <= cost.mean_ns <= cost.high_ns, cost
    for cost in costs:
        assert (cost.mean_ns is None) == (cost.quality.grade == "not_measured"), cost
    assert {cost.event for cost in costs if cost.mean_ns is None} >= set(CUDA_EVENTS)
    assert {cost.event for cost in measured} >= {*SPLIT, *WHOLE}


def test_each_capture_has_costs_of_its_own(all_costs: list[Cost], costs: list[Cost]) -> None:
    tracefs = [cost for cost in all_costs if cost.how == "tracefs"]
    switches = [cost.event for cost in costs if cost.how == "btf"]
    assert sorted(switches) == sorted(SwitchLoops.events)
    assert sorted(cost.event for cost in tracefs) == sorted(switches)


def test_a_traced_thread_pays_more_than_a_bystander(costs: list[Cost]) -> None:
    """Its program writes a record, that of another ends at once."""
    switch, call = (
        [
            sum(cost.mean_ns or 0.0 for cost in costs if cost.event == name)
            for name in (event, f"bystander_{event}")
        ]
        for event in ("switch", "call")
    )
    assert switch[0] > switch[1]
    assert call[0] > call[1]


def test_a_call_costs_something_inside_and_outside(costs: list[Cost]) -> None:
    for part in ("inside", "outside"):
        cost = of(costs, "call", part)
        assert cost.how in ("session", "multi", "perf")
        assert cost.low_ns is not None
        assert cost.low_ns > 0, cost


CALLER = """
import ctypes, sys, time
leaf = ctypes.CDLL(sys.argv[1]).native_leaf
def turn():
    begin = time.thread_time_ns()
    for _ in range(500):
        leaf(7)
    return (time.thread_time_ns() - begin) / 500
print("ready", flush=True)
for line in sys.stdin:
    print(min(turn() for _ in range(20)), flush=True)
"""


def test_a_call_of_another_program_costs_about_as_much(
    costs: list[Cost], tmp_path: Path, program: Callable[..., Workload]
) -> None:
    """Another function, another loop, another estimator: the fastest of many turns."""
    library = build(WORKLOADS / "native_leaf.c", tmp_path / "leaf.so", "-shared", "-fPIC")
    caller = program(CALLER, str(library))
    assert caller.readline() == "ready"

    def turn() -> float:
        caller.go()
        return float(caller.readline())

    added = []
    with probing(tmp_path / "spool", caller.pid) as made:
        for site in range(5):
            plain = turn()
            made.probe(library, ["native_leaf"], first_site=site)
            added.append(turn() - plain)
            made.probes.detach()
        assert sum(hits for hits, _ in made.probes.counters().values()) == 5 * 20 * 500
    parts = [of(costs, "call", part).mean_ns for part in ("inside", "outside")]
    total = sum(part for part in parts if part is not None)
    assert total / 3 < statistics.median(added) < total * 3


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return `start("record", ...)`: the command, with an empty cache and scratch folder."""
    started = []
    (tmp_path / "scratch").mkdir()
    environment = {
        **os.environ, DIRECTORY_VARIABLE: str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "scratch"),
    }  # fmt: skip

    def begin(*arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "words").open("wb") as words:
            made = subprocess.Popen(
                [*COMMAND, *arguments], env=environment | variables,
                stdout=subprocess.DEVNULL, stderr=words,
                # It may be ignored here, as in a job in the background.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )  # fmt: skip
        started.append(made)
        return made

    yield begin
    for made in started:
        if made.poll() is None:
            made.kill()
        made.wait()


def loops_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes that it measures."""
    reported = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(word) for word in reported.split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_half_file_and_no_process(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, number: signal.Signals
) -> None:
    process = start("calibrate")
    loops = until(lambda: loops_of(process), what="the loops are running")
    assert isinstance(loops, list)
    process.send_signal(number)
    assert process.wait(timeout=DEADLINE_S) == 128 + signal.SIGINT
    assert "Traceback" not in (tmp_path / "words").read_text()
    assert not (tmp_path / "cache").exists()
    assert list((tmp_path / "scratch").iterdir()) == []
    # One that had just been started ends with its stdin.
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in loops), what="all have ended")


def test_ctrl_c_skips_the_calibration_after_a_recording_and_saves_it(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.duckdb"
    process = start("record", "-o", str(trace), "--", "true", RLSCOPE_CALIBRATE="1")
    words = tmp_path / "words"
    until(lambda: "measuring what recording costs" in words.read_text(), what="it measures")
    until(lambda: loops_of(process), what="the loops are running")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=DEADLINE_S) == 0, words.read_text()
    assert "note: calibration skipped" in words.read_text()
    assert_whole(words.read_text())
    reasons = query(trace, "SELECT DISTINCT mean_ns, quality = 'not_measured' FROM calibration")
    assert reasons == [(None, True)]
    assert not (tmp_path / "cache").exists()


def test_without_privilege_it_says_what_is_missing_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    damaged = cache_file(tmp_path, machine_key())
    damaged.write_text("{")
    done = rlscope("calibrate", prefix=["setpriv", "--bounding-set=-all", "--inh-caps=-all"])
    assert done.returncode == 1
    assert f"note: {damaged} is damaged" in done.stderr
    assert "error: tracing needs CAP_BPF" in done.stderr
    assert "\nhint: " in done.stderr
    assert damaged.read_text() == "{"


def test_a_calibration_far_off_is_a_finding_of_the_next_trace(
    costs: list[Cost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("RLSCOPE_CALIBRATE", "1")
    facts: dict[str, object] = {"key": machine_key(), "extent": "full"}
    save(tmp_path / "cache", Calibration([far_off(cost) for cost in costs], facts))
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, "--", "true")
    assert done.returncode == 0, done.stderr
    assert "warning: the calibration contradicts other measurements: " in done.stderr
    reported = rlscope("summarize", trace, "--all").stdout
    assert "the overhead of call is doubtful: the calibration says " in reported


def far_off(cost: Cost) -> Cost:
    """Return the cost as of a machine so slow that no load of this one makes it true."""
    times = {
        name: None if (time_ns := getattr(cost, name)) is None else 20 * time_ns
        for name in ("mean_ns", "stddev_ns", "low_ns", "high_ns")
    }
    return replace(cost, **times)
