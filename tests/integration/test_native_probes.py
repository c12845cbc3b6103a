"""Exact calls: number, nesting and time of calls that are known, in every way to probe."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from conftest import Workload
from native_harness import (
    MODES,
    OPEN,
    SIMULATOR,
    UNWOUND,
    code_differs,
    entry_offsets,
    finish,
    mode_of,
    probing,
    works,
)

pytestmark = pytest.mark.root

OUTER, MIDDLE, INNER, OTHER = range(4)
NESTED = ("outer", "middle", "inner")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Return each way to probe that this kernel has."""
    return mode_of(request)


def test_every_call_of_every_thread_is_there_and_nested(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("nest", 500, 4)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, NESTED)
        _, recorded = finish(run, program)
        counters = run.probes.counters()
    for site, depth, parent in ((OUTER, 0, 0), (MIDDLE, 1, SIMULATOR), (INNER, 2, SIMULATOR)):
        calls = recorded.of_site(site)
        assert recorded.per_thread(site) == [500] * 4
        assert {(c.depth, c.parent_layer, c.layer, c.flags) for c in calls} == {
            (depth, parent, SIMULATOR, 0)
        }
        assert counters[site] == (2000, sum(c.end_ns - c.start_ns for c in calls))
    triples = zip(*(recorded.of_site(site) for site in (OUTER, MIDDLE, INNER)), strict=True)
    for around, between, within in triples:
        assert around.thread_id == between.thread_id == within.thread_id
        assert around.start_ns <= between.start_ns <= within.start_ns
        assert within.start_ns < within.end_ns <= between.end_ns <= around.end_ns


def test_a_call_takes_as_long_as_it_says(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("nest", 50, 1, 2_000_000)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, NESTED)
        truth, recorded = finish(run, program)
    inner = [c.end_ns - c.start_ns for c in recorded.of_site(INNER)]
    assert min(inner) >= 2_000_000
    assert sum(inner) <= int(str(truth["took_ns"]))


def test_a_program_that_is_not_traced_leaves_no_record(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    traced, bystander = start("nest", 3), start("nest", 700)
    with probing(tmp_path / "spool", traced.pid, mode=mode) as run:
        run.probe(nesting, NESTED)
        bystander.go()
        assert bystander.truth()["sink"] == 2100
        _, recorded = finish(run, traced)
        assert run.probes.counters()[INNER][0] == 3
        assert run.probes.unmatched == 0
    assert len(recorded.calls) == 9


def test_deep_recursion_is_counted_where_it_is_not_recorded(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("recurse", 40)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["recurse"])
        _, recorded = finish(run, program)
        assert run.probes.too_deep == 24
        assert run.probes.unmatched == 0
        assert run.probes.counters()[0][0] == 40
    calls = recorded.of_site(0)
    assert [call.depth for call in calls] == list(range(16))
    assert {call.flags for call in calls} == {0}


def test_a_call_left_by_longjmp_ends_when_that_is_noticed(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("jump", 100)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["jump_out", "inner"])
        _, recorded = finish(run, program)
        assert run.probes.unmatched == 0
    jumps = recorded.of_site(0)
    assert len(jumps) == 100
    assert {(call.flags, call.depth) for call in jumps} == {(UNWOUND, 0)}
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(jumps))
    (after,) = recorded.of_site(1)
    assert (after.flags, after.depth, after.parent_layer) == (0, 0, 0)
    assert jumps[-1].end_ns <= after.start_ns


def test_longjmp_leaves_all_calls_in_between(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("jump_far", 100)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["jump_out_below", "jump_out", "inner"])
        _, recorded = finish(run, program)
    assert {(c.flags, c.depth) for c in recorded.of_site(0)} == {(UNWOUND, 0)}
    assert {(c.flags, c.depth) for c in recorded.of_site(1)} == {(UNWOUND, 1)}
    assert [len(recorded.of_site(site)) for site in range(3)] == [100, 100, 1]
    assert recorded.of_site(2)[0].depth == 0


def test_a_function_reached_by_a_jump_returns_with_the_one_that_jumped(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("tail", 100)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["jump_on", "inner"])
        _, recorded = finish(run, program)
    assert {(c.flags, c.depth) for c in recorded.of_site(0)} == {(0, 0)}
    assert {(c.flags, c.depth) for c in recorded.of_site(1)} == {(0, 1)}
    assert [len(recorded.of_site(site)) for site in range(2)] == [100, 100]


def test_the_child_of_a_fork_inside_a_call(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("fork", 20)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["fork_inside", "inner"])
        truth, recorded = finish(run, program)
        assert run.probes.unmatched == 1
    assert truth["answer"] == 3
    assert len(recorded.of_site(0)) == 1
    assert recorded.per_thread(1) == [20, 20]
    assert {call.depth for call in recorded.of_site(1)} == {0}


def test_exec_ends_the_calls_of_the_program_before(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("exec")
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["exec_inside", "inner"])
        program.go()
        assert program.readline() == f"ready {program.pid}"
        _, recorded = finish(run, program)
    (left,) = recorded.of_site(0)
    assert left.flags == UNWOUND
    later = recorded.of_site(1)
    assert len(later) == 5
    assert {call.depth for call in later} == {0}
    assert left.end_ns <= later[0].start_ns


def test_a_thread_that_ends_inside_a_call(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("leave_thread", 1, 5)
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["leave_thread"])
        _, recorded = finish(run, program)
    assert [call.flags for call in recorded.of_site(0)] == [UNWOUND] * 5


def test_a_process_that_ends_inside_a_call(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("leave_process")
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["leave_process"])
        program.go()
        assert program.wait() == 7
        recorded = run.finish()
    assert [call.flags for call in recorded.of_site(0)] == [UNWOUND]


def test_a_call_under_way_at_the_end_is_open(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("hold")
    with probing(tmp_path / "spool", program.pid, mode=mode) as run:
        run.probe(nesting, ["hold"])
        program.go()
        assert program.readline() == "half"
        recorded = run.finish()
        program.go()
        assert program.truth()["answer"] == 0
    (call,) = recorded.of_site(0)
    assert call.flags == OPEN
    assert call.end_ns > call.start_ns


def test_a_return_whose_entry_was_not_probed_is_counted(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path
) -> None:
    program = start("halves", 4)
    with probing(tmp_path / "spool", program.pid) as run:
        program.go()
        assert program.readline() == "half"
        run.probe(nesting, [*NESTED, "hold"])
        _, recorded = finish(run, program)
    # The OS kernel arms a return at the entry: nothing is even seen of this one.
    assert recorded.of_site(OTHER) == []
    assert recorded.per_thread(OUTER) == [4]
    assert {call.depth for call in recorded.of_site(OUTER)} == {0}


@pytest.mark.parametrize("where", ["signal", "signal_above"])
def test_a_signal_handler_with_a_stack_of_its_own(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, where: str
) -> None:
    if where == "signal_above" and not works("session"):
        pytest.skip("without session probes the OS kernel itself ends such a program")
    program = start(where, 10)
    with probing(tmp_path / "spool", program.pid) as run:
        run.probe(nesting, ["raise_inside", "inner"])
        _, recorded = finish(run, program)
        declined = run.probes.declined
        assert run.probes.unmatched == 0
    assert [call.flags for call in recorded.of_site(0)] == [0] * 10
    # One is called after all handlers.
    assert len(recorded.of_site(1)) + declined == 11
    assert declined == (10 if where == "signal_above" else 0)
    assert recorded.of_site(1)[-1].depth == 0


def test_points_are_attached_together_or_not_at_all(
    start: Callable[..., Workload], nesting: Path, tmp_path: Path, mode: str
) -> None:
    program = start("nest", 5)
    good = entry_offsets(nesting)["inner"]
    with probing(tmp_path / "spool", program.pid, mode=mode, sites=8) as run:
        with pytest.raises(OSError, match="probing"):
            run.probes.attach(str(nesting), [(good, 0, SIMULATOR), (1 << 40, 1, SIMULATOR)])
        with pytest.raises(OSError, match="not below 8"):
            run.probes.attach(str(nesting), [(good, 8, SIMULATOR)])
        with pytest.raises(OSError, match="nowhere"):
            run.probes.attach(str(tmp_path / "nowhere"), [(good, 0, SIMULATOR)])
        assert code_differs(program.pid, nesting, [good]) == []
        run.probe(nesting, ["inner"])
        with pytest.raises(OSError, match="probed already"):
            run.probe(nesting, ["inner"])
        _, recorded = finish(run, program)
    assert len(recorded.of_site(0)) == 5


def test_only_so_many_points_one_by_one(nesting: Path, tmp_path: Path) -> None:
    with probing(tmp_path / "spool", mode="perf", sites=64) as run:
        assert run.probes.limit == 20
        offset = entry_offsets(nesting)["inner"]
        with pytest.raises(OSError, match="more than 20"):
            run.probes.attach(str(nesting), [(offset, site, SIMULATOR) for site in range(21)])


def test_a_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="no mode is called magic"),
        probing(tmp_path / "spool", mode="magic"),
    ):
        pass


def test_the_program_says_json(start: Callable[..., Workload]) -> None:
    program = start("quick", 3)
    program.go()
    assert json.loads(program.readline())["sink"] == 3
