"""Probes that are taken away for a while: nothing is left meanwhile, and nothing is invented."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Workload
from native_harness import SIMULATOR, code_differs, entry_offsets, mode_of, probing
from recording import until

pytestmark = pytest.mark.root

OUTER, MIDDLE, INNER, HOLD = range(4)
NESTED = ("outer", "middle", "inner")


@pytest.fixture(params=["session", "multi"])
def mode(request: pytest.FixtureRequest) -> str:
    """Return each way to probe that can be taken away."""
    return mode_of(request)


def test_probes_go_and_come_back_without_those_dropped_meanwhile(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("halves", 200, 2)
    offsets = {name: entry_offsets(nesting)[name] for name in (*NESTED, "hold")}
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, [*offsets])
        program.go()
        assert program.readline() == "half"
        run.probes.suspend()
        assert code_differs(program.pid, nesting, [*offsets.values()]) == []
        with pytest.raises(OSError, match="away") as refused:
            run.probes.attach(str(nesting), [(offsets["inner"], 9, SIMULATOR)])
        assert refused.value.errno == errno.EBUSY
        run.probes.drop([MIDDLE])
        times = run.probes.resume()
        assert times is not None
        assert list(times) == sorted(times)
        assert run.probes.resume() is None
        del offsets["middle"]
        assert code_differs(program.pid, nesting, [*offsets.values()]) == [*offsets.values()]
        program.go()
        program.truth()
        recorded = run.finish()
        # One call lasted over the pause: its end was not seen, and none is made up.
        assert run.probes.abandoned <= 1
        assert code_differs(program.pid, nesting, [*offsets.values()]) == []
    assert recorded.of_site(HOLD) == []
    assert recorded.per_thread(OUTER) == recorded.per_thread(INNER) == [200] * 4
    assert recorded.per_thread(MIDDLE) == [200] * 2
    assert {call.depth for call in recorded.of_site(OUTER)} == {0}
    assert sorted(call.depth for call in recorded.of_site(INNER)) == [1] * 400 + [2] * 400
    assert {call.flags for call in recorded.calls} == {0}


def test_no_call_begins_in_a_pause_and_none_is_missing_elsewhere(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("nest", 100_000, 2)
    pauses = []
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, NESTED)
        program.go()
        # While the probes are away, what is left of the program may take no longer than a pause.
        until(lambda: any(hits for hits, _ in run.probes.counters().values()), what="a call")
        for _ in range(5):
            run.probes.suspend()
            pauses.append(run.probes.resume())
        program.truth(deadline_s=120)
        recorded = run.finish()
        abandoned = run.probes.abandoned
        counted = sum(hits for hits, _ in run.probes.counters().values())
    assert recorded.lost == 0
    assert 0 < len(recorded.calls) == counted < 600_000
    for call in recorded.calls:
        assert not any(pause and pause[0] <= call.start_ns < pause[3] for pause in pauses)
    # Each of two threads is in three calls at most when a pause begins.
    assert abandoned <= 5 * 2 * 3
    assert {call.flags for call in recorded.calls} == {0}


def test_a_recording_may_end_in_a_pause(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("halves", 5)
    offsets = entry_offsets(nesting)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, [*NESTED, "hold"])
        program.go()
        assert program.readline() == "half"
        run.probes.suspend()
        recorded = run.finish()
        assert run.probes.resume() is None
        assert code_differs(program.pid, nesting, [offsets[name] for name in NESTED]) == []
        program.go()
        program.truth()
    # The call that was under way may have ended since: nobody saw it.
    assert recorded.of_site(HOLD) == []
    assert recorded.per_thread(INNER) == [5]


def test_single_probes_stay(nesting: Path, tmp_path: Path) -> None:
    with probing(tmp_path / "spool", mode="perf") as run:
        run.probe(nesting, ["inner"])
        with pytest.raises(OSError, match="takes seconds") as refused:
            run.probes.suspend()
        assert refused.value.errno == errno.EOPNOTSUPP
        assert run.probes.resume() is None
