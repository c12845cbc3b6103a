"""Probes of single sites are dropped: the calls of the others are seen by one link or the next."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from conftest import Workload
from native_harness import (
    MODES,
    SIMULATOR,
    code_differs,
    entry_offsets,
    finish,
    mode_of,
    probing,
)

pytestmark = pytest.mark.root

OUTER, MIDDLE, INNER, OTHER = range(4)
NESTED = ("outer", "middle", "inner")


@pytest.fixture(params=["session", "multi"])
def mode(request: pytest.FixtureRequest) -> str:
    """Return each way to probe many points at once that this kernel has."""
    return mode_of(request)


@pytest.mark.parametrize("mode", MODES, indirect=True)
def test_a_dropped_site_leaves_the_others_of_its_file(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("halves", 200, 2)
    offsets = entry_offsets(nesting)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, NESTED)
        program.go()
        assert program.readline() == "half"
        run.probes.drop([MIDDLE, 63])
        assert code_differs(program.pid, nesting, [offsets[name] for name in NESTED]) == [
            offsets["outer"],
            offsets["inner"],
        ]
        _, recorded = finish(run, program)
        assert run.probes.abandoned == run.probes.unmatched == 0
    assert recorded.per_thread(OUTER) == recorded.per_thread(INNER) == [200] * 4
    assert recorded.per_thread(MIDDLE) == [200] * 2
    depths = [call.depth for call in recorded.of_site(INNER)]
    assert sorted(depths) == [1] * 400 + [2] * 400


def test_a_call_under_way_when_its_link_is_replaced_is_counted_not_invented(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("halves", 7)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, [*NESTED, "hold"])
        program.go()
        assert program.readline() == "half"
        run.probes.drop([MIDDLE])
        _, recorded = finish(run, program)
        assert (run.probes.abandoned, run.probes.unmatched) == (1, 0)
    assert recorded.of_site(OTHER, flags=0) == []
    assert recorded.per_thread(INNER) == [7, 7]


def test_no_call_is_missed_while_links_are_replaced(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path
) -> None:
    program = start("nest", 30_000, 2)
    with probing(tmp_path / "spool", program.pid, sites=64) as run:
        run.probe(nesting, ["outer", "inner", "hold", "recurse", "jump_out", "jump_on"])
        program.go()
        for site in (2, 3, 4, 5):
            run.probes.drop([site])
        program.truth(deadline_s=120)
        recorded = run.finish()
        abandoned = run.probes.abandoned
    calls = sum(len(recorded.of_site(site)) for site in (0, 1))
    assert calls + abandoned + recorded.lost == 120_000
    assert abandoned <= 4 * 2 * 2
    assert {call.flags for call in recorded.calls} == {0}


def test_every_call_is_seen_by_the_replaced_link_or_by_the_new_one(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    rounds, crowd = 6, 500
    program = start("until_told", 1, 2)
    entry = entry_offsets(nesting)["inner"]
    with (
        probing(tmp_path / "spool", program.pid, mode=mode) as run,
        probing(tmp_path / "crowd", sites=rounds * crowd) as other,
    ):
        # Probed last, and so served while no thread waits for the OS kernel to put a probe.
        run.probe(nesting, [*["hold"] * rounds, "inner"])
        program.go()
        for step in range(rounds):
            # They run between the new link and the old one: wherever a thread is when the one takes
            # over from the other, it is most likely on its way between them.
            sites = range(step * crowd, (step + 1) * crowd)
            other.probes.attach(str(nesting), [(entry, site, SIMULATOR) for site in sites])
            run.probes.drop([step])
            other.probes.drop([site - crowd for site in sites if step])
        program.go()
        truth = program.truth()
        recorded = run.finish()
        abandoned = run.probes.abandoned
        assert (run.probes.unmatched, run.probes.missed()) == (0, 0)
    calls = recorded.of_site(rounds)
    # Two threads that do nothing else fill a ring faster than a machine with other work empties it.
    assert len(calls) + abandoned + recorded.lost == truth["sink"]
    assert abandoned <= rounds * 2
    assert {(call.depth, call.flags) for call in calls} == {(0, 0)}
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(calls) if a.thread_id == b.thread_id)
