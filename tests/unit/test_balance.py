"""`balance`: demands and bounds of traces whose answer is known by construction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pytest

import rlscope_analysis
from recording import rlscope
from rlscope_analysis.balance.demand import Demand, demand_of
from rlscope_analysis.balance.energy import Energy, energy_of
from rlscope_analysis.balance.sweep import Point, swept
from rlscope_analysis.errors import TraceError
from rlscope_analysis.renderers import text
from rlscope_trace.record.package_energy import PackageEnergy
from trace_builder import TIMER, TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
ROUNDS = 8


@pytest.fixture
def one_worker(tmp_path: Path) -> Path:
    """Make a leader that runs for 1 ms of each step, and a worker that runs 2 and sleeps 1 ms."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.meta["cpus_allowed"] = "0-3"
    lead, worker = (builder.process(pid=pid, name="python") for pid in (7, 8))
    leads, works = [], [sleep(1 * MS - 1)]
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start + 1 * MS, start + 4 * MS, "simulation", steps=1)
        leads += [run(1 * MS), sleep(3 * MS - 1), woken(1, by=2)]
        works += [
            woken(1, by=1), run(1 * MS, cpu=1), sleep(1 * MS - 1), woken(1, by=TIMER),
            run(1 * MS, cpu=1), sleep(1 * MS - 1),
        ]  # fmt: skip
    builder.thread(lead, states=[*leads, run(10)])
    builder.thread(worker, states=works[:-1])
    return builder.write()


def test_demands(one_worker: Path) -> None:
    with rlscope_analysis.open(one_worker) as trace:
        found = demand_of(trace)
    assert (found.actors, found.cpus) == (1, 4)
    assert found.cpu_ns == pytest.approx(3 * MS, rel=1e-3)
    assert found.actor_cpu_ns == pytest.approx(2 * MS, rel=1e-3)
    assert found.actor_wait_ns == pytest.approx(1 * MS, rel=1e-3)
    assert found.thread_ns == pytest.approx(1 * MS, rel=1e-3)
    assert found.gpu_ns is None
    # 3 ms of a worker and the limit of 1 ms of the leader.
    assert found.knee == pytest.approx(3, rel=1e-3)
    assert found.most_steps_per_s(1) == pytest.approx(1000 / 3, rel=1e-3)
    assert found.most_steps_per_s(8) == pytest.approx(1000, rel=1e-3)
    assert found.steps_per_s <= found.most_steps_per_s(1)


def test_the_command(one_worker: Path) -> None:
    found = json.loads(rlscope("balance", str(one_worker), "--format", "json").stdout)
    assert found["limit"] == "thread"
    assert found["joules_per_step"] is None
    assert [row["actors"] for row in found["bounds"]] == [1, 2, 4, 8, 16]


def test_without_steps_it_is_refused(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=7, name="python"), states=[run(10), run(10)])
    with (
        rlscope_analysis.open(builder.write()) as trace,
        pytest.raises(TraceError, match="environment steps"),
    ):
        demand_of(trace)


def test_a_quota_leaves_a_part_of_a_cpu(one_worker: Path) -> None:
    with duckdb.connect(str(one_worker)) as connection:
        connection.execute("""INSERT INTO meta VALUES ('environment', '{"cpu_quota": 0.8}')""")
    with rlscope_analysis.open(one_worker) as trace:
        found = demand_of(trace)
    assert found.cpus == 0.8
    # 3 ms of CPU time for a step.
    assert found.most_steps_per_s(8) == pytest.approx(800 / 3, rel=1e-3)
    assert "of 0.8 CPUs used" in rlscope("balance", str(one_worker)).stdout


def test_a_quota_that_was_exceeded_is_no_bound(one_worker: Path) -> None:
    with duckdb.connect(str(one_worker)) as connection:
        connection.execute("""INSERT INTO meta VALUES ('environment', '{"cpu_quota": 0.5}')""")
    with rlscope_analysis.open(one_worker) as trace:
        found = demand_of(trace)
    assert found.cpus == found.cpus_used == pytest.approx(0.75, rel=1e-3)
    assert found.most_steps_per_s(8) == pytest.approx(found.steps_per_s)


def test_threads_that_idle_are_no_demand_of_a_worker(tmp_path: Path) -> None:
    """A worker runs 2 of 4 ms; it and nine of its threads look once a ms for what there is to do.

    Another process runs for as long and simulates nothing: it is no worker.
    """
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.meta["cpus_allowed"] = "0-3"
    lead, worker, other = (builder.process(pid=pid, name="python") for pid in (7, 8, 9))
    leads, works = [], [sleep(1 * MS - 1)]
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start + 1 * MS, start + 4 * MS, "rollout")
        builder.operation(2, start + 1 * MS, start + 3 * MS, "simulation", steps=1)
        leads += [run(1 * MS), sleep(3 * MS - 1), woken(1, by=2)]
        works += [
            woken(1, by=1), run(2 * MS, cpu=1), sleep(1 * MS - 1), woken(1, by=TIMER),
            run(10, cpu=1), sleep(1 * MS - 11),
        ]  # fmt: skip
        builder.wait(2, start + 3 * MS, start + 4 * MS - 1, "poll")
    builder.thread(lead, states=[*leads, run(10)])
    builder.thread(worker, states=works[:-1])
    idles = [sleep(1 * MS - 11), woken(1, by=TIMER), run(10, cpu=2)]
    for thread in range(3, 12):
        builder.thread(worker, states=idles * 4 * ROUNDS)
        for at in range(4 * ROUNDS):
            builder.wait(thread, at * MS, (at + 1) * MS - 11, "lock")
    builder.thread(other, states=[run(2 * MS, cpu=3), sleep(2 * MS)] * ROUNDS)
    with rlscope_analysis.open(builder.write()) as trace:
        found = demand_of(trace)
    assert found.actors == 1
    assert found.cycle_ns == pytest.approx(2 * MS, rel=1e-3)
    assert found.most_steps_per_s(1) == pytest.approx(500, rel=1e-3)
    assert found.steps_per_s == pytest.approx(250, rel=1e-3)


def test_energy_of_a_step(tmp_path: Path) -> None:
    """A machine of 100 W and a GPU of 50 W, for steps of 4 ms; readings are around them."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    lead = builder.process(pid=7, name="python")
    states = []
    for at in range(ROUNDS):
        start = at * 4 * MS
        builder.operation(1, start, start + 4 * MS, "update")
        builder.operation(1, start, start + 1 * MS, "simulation", steps=1)
        states += [run(3 * MS), sleep(1 * MS - 10), woken(10, by=TIMER)]
    builder.thread(lead, states=[*states, run(10)])
    builder.device(0, uuid="GPU-a")
    builder.counter(-1000 * MS, 7_000.0, name="energy")
    builder.counter(1000 * MS, 7_100.0, name="energy")
    # Of a GPU that the program cannot use.
    builder.counter(-1000 * MS, 0.0, name="energy", uuid="GPU-b")
    builder.counter(1000 * MS, 9_000.0, name="energy", uuid="GPU-b")
    builder.os_counter("package_energy", (-1000 * MS, 0), (1000 * MS, 200_000_000))
    with rlscope_analysis.open(builder.write()) as trace:
        found = energy_of(trace.connection, 4 * MS, ROUNDS * 4 * MS)
        assert found.gpus == pytest.approx(50 * 0.028)
        assert found.packages == pytest.approx(100 * 0.028)
        assert found.per_step(7, uses_gpu=True) == pytest.approx(150 * 0.004)
        assert Energy(None, 1.0).per_step(7, uses_gpu=True) is None
        # Readings that leave half of the time out tell nothing of it.
        assert energy_of(trace.connection, 0, 2000 * MS) == Energy(None, None)
        # The program used no GPU.
        assert demand_of(trace).joules == pytest.approx(100 * 0.004)


def demand(actors: int, steps_per_s: float, *, is_idle_beside: bool = False) -> Demand:
    """Return what a step demands: 1 ms of a worker, and half of that of the leading thread."""
    steps = 1000
    return Demand(
        steps, round(steps / steps_per_s * 1e9), 2, actors, cpu_ns=1.0 * MS, actor_cpu_ns=0.5 * MS,
        actor_wait_ns=0.5 * MS, thread_ns=0.5 * MS, runnable_ns=0.0, gpu_ns=None,
        multiprocessors=None, joules=None, is_idle_beside=is_idle_beside,
    )  # fmt: skip


def test_a_sweep_holds_rates_to_the_bound_of_one_run() -> None:
    points = [
        Point("one", demand(1, 920)),
        Point("two", demand(2, 1520)),
        Point("bad", None),
        Point("many", demand(8, 1800)),
    ]
    answer = swept("actors", points)
    rows = {row["value"]: row for row in answer.data.records()}
    assert answer.facts["base"] == "two"
    # A worker takes 1 ms; from two on one thread allows no more than 2,000 steps a second.
    assert rows["one"]["most_steps_per_s"] == pytest.approx(1000)
    assert rows["many"]["most_steps_per_s"] == pytest.approx(2000)
    assert rows["many"]["bound_share"] == pytest.approx(0.9)
    assert rows["bad"]["steps_per_s"] is None
    shown = "".join(text.render(answer, limit=None))
    assert "most steps/s with actors=many: 1,800" in shown
    assert "runs without numbers" in shown
    bars = [line for line in shown.splitlines() if "█" in line]
    assert [bar.count("█") for bar in bars] == [23, 38, 45]


def test_a_sweep_beside_idle_cpus_shows_no_bound() -> None:
    answer = swept("actors", [Point("2", demand(2, 100, is_idle_beside=True))])
    assert answer.facts["base"] is None
    assert next(answer.data.records())["most_steps_per_s"] is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--sweep", "actors", "--", "true", "{actors}"], "names no values"),
        (["--sweep", "actors=1,,2", "--", "true", "{actors}"], "names no values"),
        (["--sweep", "actors=1,2", "--", "true"], "does not take {actors}"),
        (["--sweep", "actors=1,2"], "no program to run"),
        (["--sweep", "actors=1,2", "x.duckdb", "--", "true", "{actors}"], "traces of its own"),
        ([], "a trace is missing"),
        (["x.duckdb", "--", "true"], "is for --sweep"),
    ],
)
def test_what_a_sweep_refuses(words: list[str], why: str) -> None:
    done = rlscope("balance", *words)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_energy_of_packages_goes_on_where_their_counters_begin_again(tmp_path: Path) -> None:
    def zone(name: str, what: str, energy_uj: int) -> None:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "name").write_text(f"{what}\n")
        (folder / "max_energy_range_uj").write_text("1000\n")
        (folder / "energy_uj").write_text(f"{energy_uj}\n")

    zone("intel-rapl:0", "package-0", 900)
    zone("intel-rapl:1", "package-1", 100)
    zone("intel-rapl:0:0", "core", 5)
    zone("intel-rapl:2", "psys", 5)
    energy = PackageEnergy(tmp_path)
    assert energy.read() == {"package_energy": 0}
    zone("intel-rapl:0", "package-0", 50)
    zone("intel-rapl:1", "package-1", 300)
    assert energy.read() == {"package_energy": 150 + 200}
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert energy.read() == {}
    assert PackageEnergy(tmp_path / "missing").read() == {}
