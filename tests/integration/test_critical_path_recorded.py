"""The critical path of real programs of which it is known what holds an iteration up.

Shares are by thread: who has a CPU at which instant depends on what else the machine does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from known_paths import Recorded

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root


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
    # Half of the time the one that leads waits for it; the other half it runs code of its own.
    assert found.share("c.cause = 'gil'") == pytest.approx(0.5, abs=0.2)


def test_of_three_threads_that_need_the_gil_each_has_the_path_while_it_has_the_gil(
    tmp_path: Path,
) -> None:
    found = Recorded(tmp_path, "three", 12)
    cpu_ns = found.truth["cpu_ns"]
    # Who waits for a CPU has the path, too; the longest one is alone at the end of a round.
    one, other, longest = (
        found.share(f"t.tid = {tid}") for tid in sorted(cpu_ns, key=cpu_ns.__getitem__)
    )
    assert one == pytest.approx(other, abs=0.12)
    assert 0.4 < longest < 0.8
    assert one + other + longest > 0.9
    # Without --gil full: whose release ended a wait is known by whom it woke.
    waited = found.part_ns("c.cause = 'gil'")
    assert found.part_ns("c.cause = 'gil' AND c.waiter_thread_id <> c.thread_id") > 0.9 * waited
    assert waited > 0.1 * found.time_ns


def test_a_timer(tmp_path: Path) -> None:
    found = Recorded(tmp_path, "timer", 60)
    slept_ns = found.part_ns("c.cause = 'timer'")
    assert 60 * 2_000_000 * 0.99 < slept_ns <= found.truth["slept_ns"]


def test_a_lock_that_another_process_keeps(tmp_path: Path) -> None:
    found = Recorded(tmp_path, "lock", 60)
    held = f"p.pid = {found.truth['holder']} AND c.wait = 'lock'"
    assert found.share(held) > 0.7
    assert found.share(f"p.pid = {found.truth['pid']}") < 0.25


@pytest.mark.parametrize("kind", ["mutex", "semaphore"])
def test_what_the_holder_of_a_lock_did_before_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    found = Recorded(tmp_path, kind, 80)
    waited = found.truth["waited_ns"] / found.truth["took_ns"]
    assert waited > 0.1
    assert found.share("c.wait = 'lock'") == pytest.approx(waited, abs=0.05)
    # It sleeps when it does not have it.
    assert found.share("c.cause = 'timer'") < 0.02
