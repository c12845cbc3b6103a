"""Exact native calls: each call of a known program is recorded once, where it belongs."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from native_programs import build_extension
from native_recording import Launch, Launched, calls_by_symbol, end, python_program
from recording import assert_conserved, assert_whole, query
from rl_programs import require_modules

pytestmark = [pytest.mark.root, pytest.mark.slow]

OPTIONS = (
    "--simulator=native_cartpole",
    "--simulator=native_throw",
    # Nothing may be dropped: the counts are the subject.
    "--probe-budget=1000",
    "--sample-hz=0",
)
IN_OPERATION = """
EXISTS (FROM operation AS o WHERE o.thread_id = c.thread_id AND o.name = $1
        AND c.start_ns >= o.start_ns AND c.end_ns <= o.end_ns)
"""
FUNCTIONS = 7 + 3


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_modules("nvtx")
    folder = tmp_path_factory.mktemp("modules")
    build_extension("native_throw", folder)
    return build_extension("native_cartpole", folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, modules: Path) -> dict[str, Any]:
    """Return the truth of native_calls.py, and the trace of it."""
    trace = tmp_path_factory.mktemp("recorded") / "trace.duckdb"
    program = Launched(trace, python_program("native_calls", "--wait"), OPTIONS, modules)
    try:
        program.ready().probed("native_cartpole", FUNCTIONS - 3).probed("native_throw", 3)
        truth = program.finished()
        assert_whole(program.words())
    finally:
        end([program])
    return {"trace": trace, **truth}


# What cannot be probed is missing, and said to be: test_what_cannot_be_probed_is_said.
OPERATIONS = ("rollout", "nested", "failing", "leaving", "throwing", "thread", "fork", "idle")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_is_recorded_once_in_its_operation(
    recorded: dict[str, Any], operation: str
) -> None:
    found = calls_by_symbol(recorded["trace"], IN_OPERATION, [operation])
    assert found == Counter(recorded["operations"][operation]["calls"])


def test_all_calls_are_what_the_modules_counted(recorded: dict[str, Any]) -> None:
    found = calls_by_symbol(
        recorded["trace"],
        "p.pid = $1 AND c.start_ns >= $2 AND c.end_ns <= $3",
        [recorded["pid"], recorded["start_ns"], recorded["end_ns"]],
    )
    assert found == Counter(recorded["entered"])


def test_forked_children_are_counted_each(recorded: dict[str, Any]) -> None:
    assert len(recorded["children"]) == 9
    for child in recorded["children"]:
        found = calls_by_symbol(recorded["trace"], "p.pid = $1", [child["pid"]])
        # Asked for before and after.
        assert found.pop("counts") == 2
        assert found == Counter({name: count for name, count in child["entered"].items() if count})


# How often each operation enters the simulator from Python: the calls that no other one is around.
def test_transitions_are_the_outermost_calls(recorded: dict[str, Any]) -> None:
    rows = query(
        recorded["trace"],
        "SELECT operation, sum(count)::BIGINT FROM transitions WHERE to_layer = 'simulator'"
        " AND coalesce(from_layer, 'python') = 'python' AND operation <> '(unannotated)'"
        " GROUP BY 1",
    )
    calls = {name: Counter(entry["calls"]) for name, entry in recorded["operations"].items()}
    inner = {"nested": "observe", "leaving": "left", "throwing": "fail"}
    expected = {name: found.total() - found[inner.get(name, "")] for name, found in calls.items()}
    del expected["idle"]
    assert dict(rows) == expected


def test_transitions_per_instance(recorded: dict[str, Any]) -> None:
    rows = query(
        recorded["trace"],
        "SELECT operation, instances, per_instance FROM transitions WHERE operation = 'rollout'"
        " AND to_layer = 'simulator'",
    )
    assert rows == [("rollout", 3, 220.0)]


def test_calls_nest(recorded: dict[str, Any]) -> None:
    rows = query(
        recorded["trace"],
        "SELECT DISTINCT s.symbol, c.depth, c.parent_layer FROM native_call AS c"
        f" JOIN site AS s USING (site_id) WHERE {IN_OPERATION} ORDER BY 1",
        ["nested"],
    )
    assert rows == [("drive", 0, None), ("observe", 1, "simulator")]
    # Whatever left a call, the depth of the ones after it is right.
    rows = query(
        recorded["trace"],
        "SELECT DISTINCT s.symbol, c.depth FROM native_call AS c"
        f" JOIN site AS s USING (site_id) WHERE {IN_OPERATION} ORDER BY 1",
        ["leaving"],
    )
    assert rows == [("leave", 0), ("left", 1), ("observe", 0)]
    crossing = query(
        recorded["trace"],
        "SELECT count(*) FROM native_call AS a JOIN native_call AS b ON a.thread_id = b.thread_id"
        " AND a.start_ns < b.start_ns AND b.start_ns < a.end_ns AND a.end_ns < b.end_ns",
    )
    assert crossing == [(0,)]


def test_a_call_that_was_left_is_told_from_one_that_returned(recorded: dict[str, Any]) -> None:
    rows = query(
        recorded["trace"],
        "SELECT s.symbol, c.outcome, count(*) FROM native_call AS c JOIN site AS s USING (site_id)"
        f" WHERE {IN_OPERATION} GROUP BY ALL ORDER BY 1",
        ["leaving"],
    )
    assert rows == [
        ("leave", "returned", 600),
        ("left", "unwound", 600),
        ("observe", "returned", 600),
    ]
    # Exceptions of Python and of C++ leave no call: the function returns, with an error set.
    failed = query(
        recorded["trace"],
        f"SELECT DISTINCT c.outcome FROM native_call AS c WHERE {IN_OPERATION}",
        ["throwing"],
    )
    assert failed == [("returned",)]


def test_threads_are_told_apart(recorded: dict[str, Any]) -> None:
    rows = query(
        recorded["trace"],
        "SELECT c.thread_id, count(*) FROM native_call AS c"
        f" WHERE c.pid = $2 AND {IN_OPERATION} GROUP BY 1",
        ["thread", recorded["pid"]],
    )
    assert [count for _, count in rows] == [200] * 9


def test_a_function_without_a_cheap_instruction_is_recorded_too(recorded: dict[str, Any]) -> None:
    trace = recorded["trace"]
    rows = query(trace, "SELECT state FROM site WHERE symbol = 'blunt'")
    assert rows == [("probed",)]
    assert calls_by_symbol(trace, IN_OPERATION, ["blunt"]) == Counter(blunt=600, observe=600)


def test_the_trace_is_whole(recorded: dict[str, Any]) -> None:
    trace = recorded["trace"]
    assert_conserved(trace)
    assert query(trace, "SELECT count(*) FROM trace_stat WHERE kind = 'dropped'") == [(0,)]
    assert query(trace, "SELECT * FROM overlap_fault") == []
    assert query(
        trace, "SELECT DISTINCT measured FROM coverage WHERE kind LIKE 'native_call:simulator'"
    ) == [(True,)]


def test_a_module_that_is_imported_after_the_attach(
    tmp_path: Path, modules: Path, launch: Launch
) -> None:
    trace = tmp_path / "trace.duckdb"
    command = python_program("native_calls", "--wait", "--late", "--only=rollout,nested")
    program = launch(trace, command, OPTIONS, modules)
    assert program.readline().startswith("started ")
    program.go()
    program.ready().probed("native_cartpole", FUNCTIONS - 3)
    truth = program.finished()
    for operation in ("rollout", "nested"):
        found = calls_by_symbol(trace, IN_OPERATION, [operation])
        assert found == Counter(truth["operations"][operation]["calls"])
