"""The overlap of threads on traces small enough to check by eye."""

from pathlib import Path

import duckdb
import numpy as np
import pytest

from rlscope_analysis.sweep import threads as thread_overlap
from rlscope_analysis.sweep.threads import ThreadOverlap
from trace_builder import TraceBuilder, blocked, lost, preempted, run, sleep

A, B = 1, 2  # paths, numbered as operations open
RUN, READY, ASLEEP, STUCK, GONE = range(5)
PYTHON, SIMULATOR, BACKEND, CUDA = range(1, 5)
GIL, GPU = 1, 2
UNKNOWN = 255


@pytest.fixture
def builder() -> TraceBuilder:
    """Return a trace in which the states and the GPU were measured."""
    made = TraceBuilder(Path("unused"), with_views=False)
    made.coverage("thread_state")
    made.coverage("gpu_activity")
    return made


def computed(builder: TraceBuilder) -> ThreadOverlap:
    with duckdb.connect() as connection:
        builder.fill(connection)
        return thread_overlap.compute(connection)


def rows(columns: dict[str, np.ndarray], *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(columns[name].tolist() for name in names), strict=True))


def times(found: ThreadOverlap) -> dict[tuple[int, ...], int]:
    """Return time_ns by path, state, layer, wait and GPU."""
    *keys, time_ns = zip(
        *rows(found.overlap, "path_id", "state", "layer", "wait", "gpu", "time_ns"), strict=True
    )
    return dict(zip(zip(*keys, strict=True), time_ns, strict=True))


def transitions(found: ThreadOverlap) -> dict[tuple[int, int, int], int]:
    counted = rows(found.transitions, "path_id", "from_layer", "to_layer", "count")
    return {(path, before, after): count for path, before, after, count in counted}


def test_every_dimension_at_once(builder: TraceBuilder) -> None:
    process = builder.process()
    thread = builder.thread(process, states=[run(10), sleep(5), lost(5), run(20)])
    builder.operation(thread, 2, 30, "a")
    builder.operation(thread, 5, 20, "b")
    builder.native_call(thread, 4, 12, "backend")
    builder.cuda_call(thread, 6, 15, kind="sync")
    builder.gpu_activity(process, 3, 8)
    found = computed(builder)
    assert rows(found.overlap, *found.overlap) == [
        (thread, 0, RUN, 0, 0, 0, 12, 2, 0, 40),
        (thread, A, RUN, 0, 0, 0, 11, 2, 2, 30),
        (thread, A, RUN, 0, 0, 1, 1, 1, 3, 4),
        (thread, A, RUN, BACKEND, 0, 1, 1, 1, 4, 5),
        (thread, B, RUN, BACKEND, 0, 1, 1, 1, 5, 6),
        (thread, B, RUN, CUDA, 0, 0, 2, 1, 8, 10),
        (thread, B, RUN, CUDA, 0, 1, 2, 1, 6, 8),
        (thread, B, ASLEEP, CUDA, GPU, 0, 5, 1, 10, 15),
        (thread, B, GONE, 0, 0, 0, 5, 1, 15, 20),
    ]
    assert transitions(found) == {(A, 0, BACKEND): 1, (B, BACKEND, CUDA): 1}
    assert found.faults == {}


def test_the_operation_opened_last_that_is_open_owns_the_time(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(10)])
    builder.operation(thread, 0, 6, "a")
    builder.operation(thread, 4, 9, "b")
    found = computed(builder)
    assert times(found) == {(A, 0, 0, 0, 0): 4, (B, 0, 0, 0, 0): 5, (0, 0, 0, 0, 0): 1}
    assert found.faults == {("operation_coded", "crossing"): 1}


def test_one_that_ends_under_another_does_not_come_back(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(12)])
    builder.operation(thread, 0, 12, "a")
    builder.operation(thread, 2, 6, "b")
    builder.operation(thread, 4, 8, "c")
    # b has ended by the time that c does: a goes on.
    assert times(computed(builder)) == {(1, 0, 0, 0, 0): 6, (2, 0, 0, 0, 0): 2, (3, 0, 0, 0, 0): 4}


def test_neighbours_that_agree_are_one_interval(builder: TraceBuilder) -> None:
    process = builder.process()
    thread = builder.thread(process, states=[run(4, cpu=0), run(6, cpu=1)])
    builder.native_call(thread, 2, 5, "backend")
    builder.native_call(thread, 5, 8, "backend")
    builder.gpu_activity(process, 0, 3, stream_id=1)
    builder.gpu_activity(process, 3, 10, stream_id=2)
    found = computed(builder)
    assert rows(found.overlap, "layer", "time_ns", "count", "first_ns", "last_ns") == [
        (0, 4, 2, 0, 10),
        (BACKEND, 6, 1, 2, 8),
    ]
    # The second call is entered after the first has ended, from outside.
    assert transitions(found) == {(0, 0, BACKEND): 2}


def test_at_one_instant_calls_end_then_operations_begin_then_calls(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(10)])
    builder.native_call(thread, 0, 5, "python")
    builder.operation(thread, 5, 10, "a")
    builder.native_call(thread, 5, 9, "simulator")
    builder.cuda_call(thread, 5, 7)
    assert transitions(computed(builder)) == {
        (0, 0, PYTHON): 1,
        (A, 0, SIMULATOR): 1,
        (A, SIMULATOR, CUDA): 1,
    }


def test_of_calls_that_begin_at_once_the_longer_is_around(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(10)])
    builder.cuda_call(thread, 2, 8)
    builder.native_call(thread, 2, 5, "backend")
    assert transitions(computed(builder)) == {(0, 0, CUDA): 1, (0, CUDA, BACKEND): 1}


def test_a_call_that_takes_no_time_is_an_entry(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(10)])
    builder.native_call(thread, 3, 3, "simulator")
    builder.native_call(thread, 3, 3, "backend")
    found = computed(builder)
    assert transitions(found) == {(0, 0, SIMULATOR): 1, (0, 0, BACKEND): 1}
    assert times(found) == {(0, 0, 0, 0, 0): 10}


def test_entries_within_a_layer_are_no_transitions(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(10)])
    builder.native_call(thread, 0, 8, "backend")
    builder.native_call(thread, 1, 4, "backend")
    builder.cuda_call(thread, 2, 4)
    builder.cuda_call(thread, 3, 4)
    assert transitions(computed(builder)) == {(0, 0, BACKEND): 1, (0, BACKEND, CUDA): 1}


def test_only_who_is_off_the_cpu_waits(builder: TraceBuilder) -> None:
    states = [run(4), preempted(4), sleep(4), blocked(4)]
    thread = builder.thread(builder.process(), states=states)
    builder.wait(thread, 2, 10, "gil")
    builder.cuda_call(thread, 0, 14, kind="sync")
    assert times(computed(builder)) == {
        (0, RUN, CUDA, 0, 0): 4,
        (0, READY, CUDA, 0, 0): 4,
        (0, ASLEEP, CUDA, GIL, 0): 2,
        (0, ASLEEP, CUDA, GPU, 0): 2,
        (0, STUCK, CUDA, GPU, 0): 2,
        (0, STUCK, 0, 0, 0): 2,
    }


def test_the_gpu_works_for_its_own_process_only_and_not_while_it_syncs(
    builder: TraceBuilder,
) -> None:
    first, second = builder.process(), builder.process()
    builder.thread(second, states=[run(10)])
    builder.thread(first, states=[run(10)])
    builder.gpu_activity(first, 2, 5, device_id=0)
    builder.gpu_activity(first, 4, 7, device_id=1, kind="memcpy")
    builder.gpu_activity(second, 0, 9, kind="sync")
    found = computed(builder).overlap
    assert rows(found, "thread_id", "gpu", "time_ns") == [(1, 0, 10), (2, 0, 5), (2, 1, 5)]


def test_what_was_not_measured_is_no_zero() -> None:
    builder = TraceBuilder(Path("unused"), with_views=False)
    seen, unseen = builder.process(), builder.process()
    builder.coverage("thread_state", measured=False)
    builder.coverage("thread_state", process_id=seen)
    builder.coverage("gpu_activity", process_id=unseen)
    builder.thread(seen, states=[lost(4)])
    builder.thread(unseen, states=[], end_ns=3)
    found = computed(builder)
    assert rows(found.overlap, "thread_id", "state", "gpu", "time_ns") == [
        (1, GONE, UNKNOWN, 4),
        (2, UNKNOWN, 0, 3),
    ]


def test_rows_are_cut_to_the_lifetime_and_counted(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(10)], start_ns=10)
    builder.native_call(thread, 0, 5, "backend")
    builder.native_call(thread, 8, 12, "backend")
    builder.native_call(thread, 18, 25, "python")
    builder.native_call(thread, 20, 22, "python")
    builder.native_call(thread, 15, 14, "python")
    with duckdb.connect() as connection:
        builder.fill(connection)
        connection.execute(
            "INSERT INTO native_call_coded VALUES (99, 0, 1, 'python', NULL, 0, 1, 'returned')"
        )
        found = thread_overlap.compute(connection)
    assert times(found) == {
        (0, 0, 0, 0, 0): 6,
        (0, 0, BACKEND, 0, 0): 2,
        (0, 0, PYTHON, 0, 0): 2,
    }
    # Who was inside at the start did not enter.
    assert transitions(found) == {(0, 0, PYTHON): 1}
    assert found.faults == {
        ("native_call_coded", "outside"): 2,
        ("native_call_coded", "clipped"): 2,
        ("native_call_coded", "reversed"): 1,
        ("native_call_coded", "unknown_thread"): 1,
    }


def test_a_thread_in_which_nothing_happens_while_the_gpu_does_much(builder: TraceBuilder) -> None:
    process = builder.process()
    builder.thread(process, states=[sleep(1000)])
    for start in range(10, 990, 7):
        builder.gpu_activity(process, start, start + 3)
    found = computed(builder).overlap
    assert rows(found, "gpu", "time_ns", "count", "first_ns", "last_ns") == [
        (0, 580, 141, 0, 1000),
        (1, 420, 140, 10, 986),
    ]


def test_however_often_the_gpu_changes_during_an_operation(builder: TraceBuilder) -> None:
    process = builder.process()
    thread = builder.thread(process, states=[run(465)])
    expected = []
    start = 0
    for length in range(1, 31):
        end = start + length
        builder.operation(thread, start, end, f"{length} ns")
        for gpu in (0, 1):  # busy in every even nanosecond
            at = [ns for ns in range(start, end) if ns % 2 != gpu]
            if at:
                expected.append((length, gpu, len(at), len(at), at[0], at[-1] + 1))
        start = end
    for even in range(0, start, 2):
        builder.gpu_activity(process, even, even + 1)
    found = computed(builder).overlap
    assert rows(found, "path_id", "gpu", "time_ns", "count", "first_ns", "last_ns") == expected


def test_calls_that_nest_deeply(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(), states=[run(202)])
    for depth in range(100):
        layer = "simulator" if depth % 2 else "backend"
        builder.native_call(thread, depth + 1, 201 - depth, layer)
    found = computed(builder)
    assert times(found) == {
        (0, 0, 0, 0, 0): 2, (0, 0, BACKEND, 0, 0): 100, (0, 0, SIMULATOR, 0, 0): 100,
    }  # fmt: skip
    assert transitions(found) == {
        (0, 0, BACKEND): 1, (0, BACKEND, SIMULATOR): 50, (0, SIMULATOR, BACKEND): 49,
    }  # fmt: skip
    assert found.faults == {}


def test_a_trace_of_nothing(builder: TraceBuilder) -> None:
    found = computed(builder)
    assert rows(found.overlap, *found.overlap) == []
    assert rows(found.transitions, *found.transitions) == []


def test_the_gpu_is_not_known_until_it_was_recorded(builder: TraceBuilder) -> None:
    """A program that had run before: neither busy nor idle is true of what came until then."""
    process, launched = builder.process(), builder.process()
    thread = builder.thread(process, states=[run(20)])
    other = builder.thread(launched, states=[run(20)])
    builder.gpu_status(process, 8, is_late=True)
    builder.gpu_status(process, 12, state="off", is_late=True)
    builder.gpu_status(process, 15, is_late=True)
    builder.gpu_status(launched, 8)
    builder.native_call(thread, 4, 16, "backend")
    for process_id in (process, launched):
        builder.gpu_activity(process_id, 2, 10)
    for at_ns in (7, 8, 11):
        builder.sample(thread, at_ns, "python")
    found = computed(builder)
    assert rows(found.overlap, "thread_id", "layer", "gpu", "time_ns", "count") == [
        (thread, 0, 0, 4, 1),
        (thread, 0, UNKNOWN, 4, 1),
        (thread, BACKEND, 0, 6, 1),
        (thread, BACKEND, 1, 2, 1),
        (thread, BACKEND, UNKNOWN, 4, 1),
        (other, 0, 0, 12, 2),
        (other, 0, 1, 8, 1),
    ]
    assert rows(found.samples, "gpu", "count") == [(0, 1), (1, 1), (UNKNOWN, 1)]
    # The call is entered once, though it goes on when the recording begins.
    assert transitions(found) == {(0, 0, BACKEND): 1}
