"""The critical path of real programs of which it is known what holds an iteration up.

Shares are by thread: who has a CPU at which instant depends on what else the machine does.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from recording import rlscope

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root


class Recorded:
    """The path of a program, and what the program says of itself."""

    def __init__(self, folder: Path, program: str, rounds: int) -> None:
        trace = folder / "trace.duckdb"
        done = rlscope(
            "-o", trace, "--", sys.executable, WORKLOADS / "known_path.py", program, str(rounds)
        )
        assert done.returncode == 0, done.stderr
        self.truth: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        self._trace = rlscope_analysis.open(trace)
        self._trace.critical_path(per="iteration")
        counted = "SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM iteration"
        ((self.iterations, self.time_ns),) = self._trace.sql(counted).fetchall()
        told = "SELECT sum(duration_ns)::BIGINT FROM critical_path"
        assert self._trace.sql(told).fetchall() == [(self.time_ns,)]

    def part_ns(self, where: str) -> int:
        """Return how much of the path is so."""
        ((time_ns,),) = self._trace.sql(
            "SELECT coalesce(sum(c.duration_ns), 0)::BIGINT FROM critical_path AS c"
            " LEFT JOIN thread AS t ON t.thread_id = c.thread_id"
            f" LEFT JOIN process AS p ON p.process_id = t.process_id WHERE {where}"
        ).fetchall()
        return int(time_ns)

    def share(self, where: str) -> float:
        return self.part_ns(where) / self.time_ns


def test_the_slower_of_two_workers(tmp_path: Path) -> None:
    found = Recorded(tmp_path, "workers", 60)
    assert found.iterations == 60
    slow, fast = found.truth["slow"], found.truth["fast"]
    own = found.share(f"p.pid = {found.truth['pid']}")
    assert found.share(f"p.pid = {slow}") == pytest.approx(0.75, abs=0.12)
    assert own == pytest.approx(0.25, abs=0.12)
    assert found.share(f"p.pid = {fast}") < 0.05
    # From when the answer of the fast one is there.
    assert found.share(f"p.pid = {slow} AND c.wait IN ('pipe', 'socket', 'poll')") > 0.25


def test_the_slowest_stage_of_a_pipeline(tmp_path: Path) -> None:
    found = Recorded(tmp_path, "pipeline", 60)
    assert found.share(f"p.pid = {found.truth['last']}") > 0.8
    assert found.share(f"p.pid = {found.truth['first']}") < 0.15


def test_two_threads_that_need_the_gil(tmp_path: Path) -> None:
    found = Recorded(tmp_path, "gil", 200)
    one, other = (found.share(f"t.tid = {tid}") for tid in found.truth["tids"])
    assert one == pytest.approx(0.5, abs=0.2)
    assert other == pytest.approx(0.5, abs=0.2)
    assert one + other > 0.9
    # Whoever has the GIL is what the other waits for: nearly always somebody does.
    assert found.share("c.cause = 'gil'") > 0.5


def test_a_timer(tmp_path: Path) -> None:
    found = Recorded(tmp_path, "timer", 60)
    slept_ns = found.part_ns("c.cause = 'timer'")
    assert 60 * 2_000_000 * 0.99 < slept_ns <= found.truth["slept_ns"]


def test_a_lock_that_another_process_keeps(tmp_path: Path) -> None:
    found = Recorded(tmp_path, "lock", 60)
    held = f"p.pid = {found.truth['holder']} AND c.wait = 'lock'"
    assert found.share(held) > 0.7
    assert found.share(f"p.pid = {found.truth['pid']}") < 0.25
