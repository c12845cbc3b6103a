"""`balance`: demands and bounds of traces whose answer is known by construction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from recording import rlscope
from rlscope_analysis.balance.demand import demand_of
from rlscope_analysis.errors import TraceError
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
