"""What was active at once, against a count of instants; windows change nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlscope_analysis.sweep import active_set, active_set_rows
from trace_builder import TraceBuilder, run, sleep

NOWHERE = Path("in-memory")
LENGTH = 40


def stored(builder: TraceBuilder) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    builder.fill(connection)
    active_set.store(connection)
    return connection


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut after every few rows, as a long trace is."""
    monkeypatch.setattr(active_set, "_WINDOW_ROWS", 2)


def two_processes() -> TraceBuilder:
    """Return process 1 with an operation, a call and a kernel, and process 2 that only runs."""
    builder = TraceBuilder(NOWHERE)
    first = builder.process(pid=10, end_ns=100)
    thread = builder.thread(first, states=[run(60), sleep(40)])
    builder.operation(thread, 0, 80, "iteration")
    builder.operation(thread, 20, 50, "learn")
    builder.native_call(thread, 25, 40, "backend")
    builder.cuda_call(thread, 30, 35)
    builder.gpu_activity(first, 35, 70)
    second = builder.process(pid=20, end_ns=100)
    builder.thread(second, states=[sleep(50), run(50)])
    return builder


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def check_two_processes(connection: duckdb.DuckDBPyConnection) -> None:
    assert rows(
        connection,
        "SELECT operation, resources, time_ns, count, first_ns, last_ns FROM resource_overlap"
        " WHERE process_id = 1 ORDER BY first_ns",
    ) == [
        ("iteration", ["cpu"], 20, 1, 0, 20),
        ("learn", ["cpu"], 5, 1, 20, 25),
        ("learn", ["backend", "cpu"], 5, 1, 25, 30),
        ("learn", ["backend", "cpu", "cuda_api"], 5, 1, 30, 35),
        ("learn", ["backend", "cpu", "gpu"], 5, 1, 35, 40),
        ("learn", ["cpu", "gpu"], 10, 1, 40, 50),
        ("iteration", ["cpu", "gpu"], 10, 1, 50, 60),
        ("iteration", ["gpu"], 10, 1, 60, 70),
        ("iteration", [], 10, 1, 70, 80),
        ("(unannotated)", [], 20, 1, 80, 100),
    ]
    assert rows(
        connection, "SELECT process_ids, time_ns, count FROM process_overlap ORDER BY first_ns"
    ) == [([1], 50, 1), ([1, 2], 20, 1), ([2], 30, 1)]
    assert rows(
        connection, "SELECT operations, time_ns, count FROM operation_overlap ORDER BY first_ns"
    ) == [(["iteration"], 50, 2), (["learn"], 30, 1)]


def test_resources_operations_and_processes_at_once() -> None:
    check_two_processes(stored(two_processes()))


@pytest.mark.usefixtures("small_windows")
def test_windows_change_nothing() -> None:
    check_two_processes(stored(two_processes()))


@pytest.mark.usefixtures("small_windows")
def test_badly_nested_operations_survive_a_cut() -> None:
    builder = TraceBuilder(NOWHERE)
    thread = builder.thread(builder.process(pid=1, end_ns=100), states=[run(50), sleep(50)])
    builder.operation(thread, 0, 60, "a")
    builder.operation(thread, 40, 100, "b")
    assert rows(
        stored(builder), "SELECT operations, time_ns, count FROM operation_overlap ORDER BY ALL"
    ) == [(["a"], 40, 1), (["b"], 60, 1)]


def test_the_sets_that_are_not_listed_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_set_rows, "_MAX_SETS", 1)
    connection = stored(two_processes())
    assert rows(connection, "SELECT process_ids, time_ns, count FROM process_overlap") == [
        ([1], 50, 1),
        (None, 50, None),
    ]


@pytest.mark.usefixtures("small_windows")
def test_time_of_too_many_processes_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the trace with more processes than are told apart count as other sets."""
    monkeypatch.setattr(active_set, "_MAX_PROCESSES", 1)
    connection = stored(two_processes())
    reported = rows(connection, "SELECT process_ids, time_ns FROM process_overlap ORDER BY ALL")
    assert None in [members for members, _ in reported]
    assert sum(time_ns for _, time_ns in reported) == 100


@pytest.mark.usefixtures("small_windows")
def test_too_many_sets_of_operations_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_set, "_MAX_KNOWN_SETS", 1)
    connection = stored(two_processes())
    assert rows(connection, "SELECT operations, time_ns, count FROM operation_overlap") == [
        (None, 80, None)
    ]


def test_operations_without_a_name_are_sets_too() -> None:
    builder = TraceBuilder(NOWHERE)
    thread = builder.thread(builder.process(pid=1, end_ns=100), states=[run(100)])
    builder.operation(thread, 0, 60, "")
    connection = duckdb.connect()
    builder.fill(connection)
    connection.execute("INSERT INTO operation_path (path_id, depth) VALUES (9, 0)")
    connection.execute("INSERT INTO operation_coded VALUES (1, 70, 80, 9, NULL)")
    active_set.store(connection)
    assert rows(connection, "SELECT operations, time_ns FROM operation_overlap") == [([""], 70)]


def test_a_thread_that_began_after_a_child_process_has_operations_of_its_own() -> None:
    # Its number is above that of the child's, so the threads of its process are not in one row.
    builder = TraceBuilder(NOWHERE)
    first, second = builder.process(pid=10, end_ns=100), builder.process(pid=20, end_ns=100)
    threads = [builder.thread(process, states=[run(100)]) for process in (first, second, first)]
    assert sorted(threads) == threads
    for at, thread in enumerate(threads):
        builder.operation(thread, 10 * at, 60, f"operation {at}")
    assert rows(
        stored(builder),
        "SELECT operations, time_ns, count, first_ns FROM operation_overlap ORDER BY first_ns",
    ) == [
        (["operation 0"], 10, 1, 0),
        (["operation 0", "operation 1"], 10, 1, 10),
        (["operation 0", "operation 1", "operation 2"], 40, 1, 20),
    ]


def test_an_empty_trace_has_no_sets() -> None:
    assert rows(stored(TraceBuilder(NOWHERE)), "SELECT count(*) FROM active_set") == [(0,)]


Span = tuple[int, int]
spans = st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(lambda s: (min(s), max(s)))
layers = st.sampled_from(["python", "simulator", "backend"])


@dataclass
class World:
    """Processes of one thread each, and what is active at every instant."""

    builder: TraceBuilder = field(default_factory=lambda: TraceBuilder(NOWHERE))
    active: dict[tuple[int, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, running: list[Span], calls: list[tuple[Span, str]], gpu: list[Span]) -> None:
        process = self.builder.process(pid=1, end_ns=LENGTH)
        on_cpu = {instant for span in running for instant in range(*span)}
        states = [run(1) if instant in on_cpu else sleep(1) for instant in range(LENGTH)]
        thread = self.builder.thread(process, states=states)
        for (start, end), layer in calls:
            self.builder.native_call(thread, start, end, layer)
        for start, end in gpu:
            self.builder.gpu_activity(process, start, end)
        named = [(span, "cpu") for span in running] + calls + [(span, "gpu") for span in gpu]
        for instant in range(LENGTH):
            self.active[process, instant] = {
                name for (start, end), name in named if start <= instant < end
            }

    def resources(self) -> Counter[tuple[int, tuple[str, ...]]]:
        return Counter((process, tuple(sorted(on))) for (process, _), on in self.active.items())

    def processes(self) -> Counter[tuple[int, ...]]:
        working: dict[int, list[int]] = defaultdict(list)
        for (process, instant), names in self.active.items():
            if names & {"cpu", "gpu"}:
                working[instant].append(process)
        return Counter(tuple(sorted(members)) for members in working.values())


@pytest.mark.usefixtures("small_windows")
# The fixture only sets a constant; a database with every view takes a while to make.
@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.lists(spans, max_size=3),
            st.lists(st.tuples(spans, layers), max_size=3),
            st.lists(spans, max_size=3),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_sets_equal_a_count_of_instants(
    processes: list[tuple[list[Span], list[tuple[Span, str]], list[Span]]],
) -> None:
    world = World()
    for running, calls, gpu in processes:
        world.add(running, calls, gpu)
    connection = stored(world.builder)
    resources = rows(connection, "SELECT process_id, resources, time_ns FROM resource_overlap")
    assert {(process, tuple(names)): ns for process, names, ns in resources} == world.resources()
    together = rows(connection, "SELECT process_ids, time_ns FROM process_overlap")
    assert {tuple(members): ns for members, ns in together} == world.processes()
