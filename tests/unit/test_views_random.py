"""Every view on random traces, against a count of instants: parts add up to their whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlscope_analysis.derive import derive
from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.vocabulary import THREAD_STATES
from rlscope_analysis.views import install_views
from trace_builder import BLOCKED, LOST, RUNNING, SLEEPING, Interval, TraceBuilder, insert_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH = 12  # so short that much begins and ends at the same instant
KINDS = ("thread_state", "operation", "native_call", "cuda_call", "gpu_activity")
UNANNOTATED = "(unannotated)"

# The last activity takes no time.
LATE_EMPTY = [((1, 10), (3, 11), 2, 2, "a"), ((7, 7), (12, 12), 2, 1, "b")]

Span = tuple[int, int]
spans = st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(lambda s: (min(s), max(s)))
states = st.lists(st.sampled_from(THREAD_STATES), min_size=LENGTH, max_size=LENGTH)
launches = st.lists(
    # Calls may share an id, activities too; some of either have no partner.
    st.tuples(spans, spans, st.integers(1, 4), st.integers(1, 4), st.sampled_from(["a", "b"])),
    max_size=4,
)
threads = st.tuples(states, st.lists(spans, max_size=5), launches)


def nested(found: list[Span]) -> list[Span]:
    """Leave out what crosses another: those are the overlap engine's business."""
    kept: list[Span] = []
    for start, end in sorted(set(found), key=lambda span: (span[0], -span[1])):
        if not any(s < start < e < end for s, e in kept):
            kept.append((start, end))
    return kept


@dataclass
class World:
    """One process per element; what each thread did, by instant."""

    builder: TraceBuilder = field(default_factory=lambda: TraceBuilder(Path("in-memory")))
    states: dict[int, list[str]] = field(default_factory=dict)
    operations: dict[int, list[Span]] = field(default_factory=dict)
    calls: dict[tuple[int, int], list[Span]] = field(default_factory=lambda: defaultdict(list))
    activities: list[tuple[int, Span, int]] = field(default_factory=list)

    def add(self, found: tuple[list[int], list[Span], list[Any]]) -> None:
        process = self.builder.process(pid=7, end_ns=LENGTH)
        intervals = [Interval(state, 1, cpu=0 if state == RUNNING else -1) for state in found[0]]
        thread = self.builder.thread(process, states=intervals, tid=7)
        self.states[thread] = found[0]
        self.operations[thread] = nested(found[1])
        for start, end in self.operations[thread]:
            self.builder.operation(thread, start, end, name_of((start, end)))
        for call, activity, call_id, activity_id, kernel in found[2]:
            self.builder.cuda_call(thread, *call, correlation_id=call_id)
            self.calls[process, call_id].append(call)
            self.builder.gpu_activity(process, *activity, name=kernel, correlation_id=activity_id)
            self.activities.append((process, activity, activity_id))

    def operation(self, thread: int, instant: int) -> str:
        """Return the innermost operation: of those that are open the one opened last."""
        around = [span for span in self.operations[thread] if span[0] <= instant < span[1]]
        return name_of(max(around, key=lambda s: (s[0], -s[1]))) if around else UNANNOTATED

    def gpu_is_busy(self, process: int, instant: int) -> bool:
        return any(of == process and s <= instant < e for of, (s, e), _ in self.activities)

    def gaps(self, process: int) -> Iterator[Span]:
        """Yield when its GPU had no work, between the first and the last of it.

        What took no time does not end a gap, unless it is the first or the last.
        """
        spans_ = [span for of, span, _ in self.activities if of == process]
        if not spans_:
            return
        last_ns = max(end for _, end in spans_)
        idle_from: int | None = None
        for instant in range(min(start for start, _ in spans_), last_ns):
            if self.gpu_is_busy(process, instant):
                if idle_from is not None:
                    yield idle_from, instant
                idle_from = None
            elif idle_from is None:
                idle_from = instant
        if idle_from is not None:
            yield idle_from, last_ns

    def ends_a_gap(self, process: int, span: Span, at_ns: int) -> bool:
        last_ns = max(end for of, (_, end), _ in self.activities if of == process)
        return span[0] == at_ns and (span[1] > at_ns or at_ns == last_ns)


def name_of(span: Span) -> str:
    return f"op {span[0]} {span[1]}"


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield one database for all examples: making its views takes longer than using them."""
    with duckdb.connect() as made:
        create_tables(made)
        install_views(made)
        yield made


def refill(connection: duckdb.DuckDBPyConnection, builder: TraceBuilder) -> None:
    with duckdb.connect() as other:
        builder.with_views = False
        builder.fill(other)
        tables = [
            name for (name,) in other.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        ]
        for table in tables:
            connection.execute(f"DELETE FROM {table}")
            insert_rows(connection, table, other.execute(f"FROM {table}").fetchall())
    derive(connection)


# The connection is filled anew for each example.
@settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(found=st.lists(threads, min_size=1, max_size=2))
@example(found=[([RUNNING] * LENGTH, [], LATE_EMPTY)])
def test_views_equal_a_count_of_instants(
    found: list[tuple[list[int], list[Span], list[Any]]], connection: duckdb.DuckDBPyConnection
) -> None:
    world = World()
    for kind in KINDS:
        world.builder.coverage(kind)
    for thread in found:
        world.add(thread)
    refill(connection, world.builder)
    check_breakdown(connection, world)
    check_operations(connection, world)
    check_launches(connection, world)
    check_gaps(connection, world)
    check_cpus(connection, world)
    counts = dict(rows(connection, "SELECT track, count(*) FROM timeline GROUP BY track"))
    for track in ("thread_state", "operation", "cuda_call", "gpu_activity"):
        assert counts.get(track, 0) == rows(connection, f"SELECT count(*) FROM {track}")[0][0]


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def check_breakdown(connection: duckdb.DuckDBPyConnection, world: World) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    resources: Counter[tuple[object, ...]] = Counter()
    for thread, of in world.states.items():
        for instant, state in enumerate(of):
            busy = world.gpu_is_busy(thread, instant)
            operation = world.operation(thread, instant)
            expected[thread, operation, state, busy] += 1
            cpu = "CPU+GPU" if busy else "CPU"
            other = "GPU" if busy else "none"
            resource = None if state == LOST else cpu if state == RUNNING else other
            resources[thread, operation, resource] += 1
    found = rows(
        connection,
        "SELECT thread_id, operation, state, gpu_busy, sum(time_ns) FROM thread_overlap"
        " GROUP BY ALL",
    )
    assert {row[:-1]: row[-1] for row in found} == expected
    found = rows(
        connection,
        "SELECT thread_id, operation, resource, sum(time_ns) FROM resource_time GROUP BY ALL",
    )
    assert {row[:-1]: row[-1] for row in found} == resources
    for view in ("breakdown", "thread_bucket"):
        sums = rows(connection, f"SELECT thread_id, sum(time_ns) FROM {view} GROUP BY 1")
        assert dict(sums) == dict.fromkeys(world.states, LENGTH)
    (waited,) = rows(connection, "SELECT coalesce(sum(time_ns), 0) FROM blocked_on")
    assert waited[0] == sum(of.count(SLEEPING) + of.count(BLOCKED) for of in world.states.values())


def check_operations(connection: duckdb.DuckDBPyConnection, world: World) -> None:
    expected: Counter[tuple[int, str]] = Counter()
    running: Counter[tuple[int, str]] = Counter()
    for thread, spans_ in world.operations.items():
        if not spans_:
            continue
        for instant in range(LENGTH):
            key = (thread, world.operation(thread, instant))
            expected[key] += 1
            running[key] += world.states[thread][instant] == RUNNING
        for span in spans_:
            expected[thread, name_of(span)] += 0
    found = rows(connection, "SELECT thread_id, name, self_ns, self_running_ns FROM operation_tree")
    assert {row[:2]: row[2] for row in found} == dict(expected)
    assert {row[:2]: row[3] for row in found} == {key: running[key] for key in expected}
    totals = rows(
        connection, "SELECT thread_id, name, total_ns FROM operation_tree WHERE path_id > 0"
    )
    assert {row[:2]: row[2] for row in totals} == {
        (thread, name_of(span)): span[1] - span[0]
        for thread, of in world.operations.items()
        for span in of
    }


def check_launches(connection: duckdb.DuckDBPyConnection, world: World) -> None:
    """Threads and processes have equal keys here: one each."""
    expected: Counter[tuple[object, ...]] = Counter()
    for process, (start, end), activity_id in world.activities:
        calls = world.calls.get((process, activity_id))
        if calls is None:
            expected[process, start, end, None, None, None, None] += 1
            continue
        call = min(calls, key=lambda span: (span[0], -span[1]))
        operations = (world.operation(process, call[0]), world.operation(process, start))
        expected[(process, start, end, *call, *operations)] += 1
    found = rows(
        connection,
        "SELECT process_id, start_ns, end_ns, call_start_ns, call_end_ns, operation,"
        " running_operation FROM launch",
    )
    assert Counter(found) == expected


def check_gaps(connection: duckdb.DuckDBPyConnection, world: World) -> None:
    expected = set()
    for process in world.states:
        for idle_from, idle_until in world.gaps(process):
            calls = [
                min(world.calls[process, of], key=lambda span: (span[0], -span[1]))[0]
                for owner, span, of in world.activities
                if owner == process
                and (process, of) in world.calls
                and world.ends_a_gap(process, span, idle_until)
            ]
            state = world.states[process][idle_from]
            expected.add((process, idle_from, idle_until, min(calls, default=None), state))
    found = rows(
        connection,
        "SELECT process_id, start_ns, end_ns, cause, unlaunched_ns, operation, state FROM idle_gap",
    )
    assert {row[:3] for row in found} == {row[:3] for row in expected}
    assert len(found) == len(expected)
    gaps = {row[:3]: row[3:] for row in expected}
    for process, start, end, cause, unlaunched_ns, operation, state in found:
        call, state_then = gaps[process, start, end]
        late = None if call is None else max(0, call - start)
        # An activity without a call comes before one whose call was made after both had begun.
        if cause is not None:
            assert call is not None
            assert unlaunched_ns == late
            assert cause == ("not launched" if call >= start else "launched")
            assert operation == world.operation(process, start)
            assert state == (None if state_then == "lost" else state_then)
        else:
            assert call is None or call > end
            assert (unlaunched_ns, operation, state) == (None, None, None)


def check_cpus(connection: duckdb.DuckDBPyConnection, world: World) -> None:
    found = rows(connection, "SELECT thread_id, running_ns, cpus, share_of_running FROM cpu_share")
    running = {thread: of.count(RUNNING) for thread, of in world.states.items()}
    assert {row[0]: row[1] for row in found} == running
    assert sum(row[2] for row in found) == pytest.approx(sum(running.values()) / LENGTH)
    if any(running.values()):
        assert sum(row[3] for row in found) == pytest.approx(1)
