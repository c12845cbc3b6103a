"""The views against a plain Python reading of random traces, and against the stored order."""

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_analysis.schema import create_tables
from rlscope_analysis.views import install_views
from trace_builder import (
    BLOCKED,
    LOST,
    RUNNABLE,
    RUNNING,
    SLEEPING,
    Interval,
    TraceBuilder,
)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    state = draw(st.sampled_from([RUNNING, RUNNABLE, SLEEPING, BLOCKED, LOST]))
    return Interval(
        state,
        draw(st.integers(0, 3)),
        cpu=draw(st.integers(0, 2)) if state == RUNNING else -1,
        waker=draw(st.integers(-3, 3)) if state == RUNNABLE else 0,
    )


THREADS = st.lists(st.lists(intervals(), max_size=12), max_size=4)


def expected_of(states: list[Interval]) -> tuple[Counter[str], list[int]]:
    """Walk through the states of a thread: its counts, and its waits for a CPU."""
    counts: Counter[str] = Counter()
    waits = []
    states = [state for state in states if state.length_ns]
    cpu = None
    for index, state in enumerate(states):
        before = states[index - 1] if index else None
        after = states[index + 1] if index + 1 < len(states) else None
        counts[state.state] += state.length_ns
        if state.state == RUNNING:
            counts["switch_ins"] += 1
            counts["migrations"] += cpu is not None and cpu != state.cpu
            cpu = state.cpu
            counts["switches"] += after is not None
            if after is not None and after.state == RUNNABLE and not after.waker:
                counts["involuntary"] += 1
            elif after is not None and after.state in (RUNNABLE, SLEEPING, BLOCKED):
                counts["voluntary"] += 1
        has_beginning = state.waker or (before is not None and before.state == RUNNING)
        has_end = after is not None and after.state == RUNNING
        if state.state == RUNNABLE and has_beginning and has_end:
            waits.append(state.length_ns)
    return counts, waits


@settings(max_examples=15, deadline=None)
@given(THREADS)
def test_views_agree_with_a_walk_through_the_states(threads: list[list[Interval]]) -> None:
    builder = TraceBuilder(Path(":memory:"))
    for states in threads:
        builder.thread(builder.process(), states=states)
    with duckdb.connect() as connection:
        builder.fill(connection)
        rows = connection.execute(
            "SELECT running_ns, runnable_ns, sleeping_ns, blocked_ns, lost_ns, lifetime_ns,"
            " switches, voluntary_switches, involuntary_switches, unknown_switches,"
            " migrations, switch_ins"
            " FROM thread_time JOIN thread_switch USING (thread_id) ORDER BY thread_id"
        ).fetchall()
        waits = connection.execute(
            "SELECT thread_id, duration_ns FROM run_queue_latency ORDER BY thread_id, start_ns"
        ).fetchall()
    assert len(rows) == len(threads)
    expected_waits = []
    for thread_id, (states, row) in enumerate(zip(threads, rows, strict=True), start=1):
        counts, thread_waits = expected_of(states)
        expected_waits += [(thread_id, wait) for wait in thread_waits]
        times = tuple(counts[key] for key in ("running", "runnable", "sleeping", "blocked", "lost"))
        assert row[:5] == times
        assert sum(times) == row[5], "conservation"
        switches = counts["switches"]
        known = counts["voluntary"] + counts["involuntary"]
        assert row[6:] == (
            switches, counts["voluntary"], counts["involuntary"], switches - known,
            counts["migrations"], counts["switch_ins"],
        )  # fmt: skip
    assert waits == expected_waits


SORTED_AGAIN = """(
  SELECT
    thread_id, start_ns,
    lag(state) OVER ordered AS previous_state,
    lead(state) OVER ordered AS next_state,
    lead(waker_kind) OVER ordered AS next_waker_kind,
    lead(waker_thread_id) OVER ordered AS next_waker_thread_id
  FROM thread_state_coded
  WINDOW ordered AS (PARTITION BY thread_id ORDER BY start_ns)
)"""


@pytest.mark.parametrize("keeps_order", [True, False])
@pytest.mark.parametrize("threads", [1, 4])
def test_stored_order_is_what_a_sort_would_give(threads: int, keeps_order: bool) -> None:
    """600,000 rows are five row groups: enough to be read by several OS threads at once."""
    with duckdb.connect() as connection:
        create_tables(connection)
        connection.execute(
            """
            INSERT INTO thread_state_coded
            SELECT
              (i // 5000 + 1)::INTEGER, i * 10, (i + 1) * 10,
              ['running', 'runnable', 'sleeping', 'blocked'][(1 + hash(i) % 4)::INTEGER],
              CASE WHEN hash(i) % 4 = 0 THEN (hash(i + 1) % 8)::SMALLINT ELSE -1 END,
              CASE WHEN hash(i) % 4 = 1 AND hash(i + 2) % 3 > 0 THEN 'thread' END,
              CASE WHEN hash(i) % 4 = 1 THEN nullif((hash(i + 2) % 3)::INTEGER, 0) END
            FROM range(600000) AS r(i)
            """
        )
        install_views(connection)
        connection.execute(f"SET threads = {threads}")
        connection.execute(f"SET preserve_insertion_order = {keeps_order}")
        columns = "thread_id, start_ns, previous_state, next_state, next_waker_kind"
        columns += ", next_waker_thread_id"
        streamed, sorted_again = (
            connection.execute(f"SELECT count(*), sum(hash({columns})) FROM {source}").fetchall()
            for source in ("_state_step", SORTED_AGAIN)
        )
    assert streamed == sorted_again
