"""The catalogue of what limits an iteration: its rules, its shares, and what becomes advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from rlscope_analysis.findings.catalog import BY_CODE, CATALOG
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.overview.answer import answer_of, overview, verdict
from rlscope_analysis.renderers import text
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from trace_builder import (
    INTERRUPT,
    Interval,
    TraceBuilder,
    blocked,
    preempted,
    run,
    sleep,
    woken,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

S = 1_000_000_000


@pytest.fixture
def builder(tmp_path: Path) -> TraceBuilder:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    return builder


def codes(builder: TraceBuilder) -> dict[str, int]:
    """Return for how long each code held the iterations up."""
    with rlscope_analysis.open(builder.write()) as trace:
        rows = trace.sql(
            "SELECT code, sum(time_ns)::BIGINT FROM limit_time WHERE time_ns > 0 GROUP BY ALL"
        ).fetchall()
        ((held, whole),) = trace.sql(
            "SELECT (SELECT sum(time_ns) FROM limit_time),"
            " (SELECT sum(time_ns) FROM _steady_iteration)"
        ).fetchall()
    assert held == whole
    return dict(rows)


def found(builder: TraceBuilder) -> dict[str, float]:
    with rlscope_analysis.open(builder.write()) as trace:
        return dict(trace.sql("SELECT code, share FROM finding").fetchall())


def iterations(builder: TraceBuilder, length: int, count: int = 2) -> None:
    for number in range(count):
        builder.operation(1, number * length, (number + 1) * length, "update")


def test_each_wait_has_its_code(builder: TraceBuilder) -> None:
    """One round: 10 on a CPU, 20 in a timer and 2 for a CPU, 30 in a disk and 3 for a CPU."""
    one = [
        run(10), sleep(20), woken(2, by=INTERRUPT), blocked(30), woken(3, by=INTERRUPT),
    ]  # fmt: skip
    builder.thread(builder.process(pid=1), states=[*one, *one])
    for start in (10, 75):
        builder.wait(1, start, start + 20, "sleep")
        builder.wait(1, start + 22, start + 52, "io")
    iterations(builder, 65)
    assert codes(builder) == {
        "other_code": 20, "timer_sleep": 40, "blocking_io": 66, "cpu_wait": 4
    }  # fmt: skip


@pytest.mark.parametrize(
    ("disk_ns", "counted"),
    [(20, {"blocking_io": 50, "os_kernel": 0}), (2, {"blocking_io": 2, "os_kernel": 48})],
    ids=["for the disk", "beside it"],
)
def test_what_the_os_kernel_does_for_a_disk_counts_with_the_waits_for_it(
    builder: TraceBuilder, disk_ns: int, counted: dict[str, int]
) -> None:
    """Half of the time is Python; the rest is a wait for a disk and the OS kernel's own work."""
    kernel_ns = 50 - disk_ns
    one = [run(50), run(kernel_ns), blocked(disk_ns), woken(0, by=INTERRUPT)]
    builder.thread(builder.process(pid=1), states=[*one, *one])
    builder.coverage("cpu_sample")
    for start in (0, 100):
        builder.wait(1, start + 100 - disk_ns, start + 100, "io")
        builder.sample(1, start + 40, "python")
        builder.sample(1, start + 99 - disk_ns, "other", in_kernel=True)
        builder.operation(1, start + 50, start + 100, "write")
    iterations(builder, 100)
    reported = codes(builder)
    assert {code: reported.get(code, 0) / 2 for code in counted} == counted


@pytest.mark.parametrize(("threads", "is_large"), [(3, True), (1, False)])
def test_a_team_that_is_larger_than_the_cpus_costs_wakeups_and_the_os_kernel(
    builder: TraceBuilder, threads: int, *, is_large: bool
) -> None:
    """Of 100 the OS kernel wakes threads for 20, and these wait for a CPU for 20."""
    process = builder.process(pid=1)
    states = [run(40), run(20), sleep(20), woken(10, by=2), run(10)]
    builder.thread(process, tid=1, states=[*states, *states])
    for at in range(threads):
        computing = [sleep(40), woken(10, by=1), run(30, cpu=(at + 1) % 2), sleep(20)]
        builder.thread(process, states=[*computing, *computing])
    builder.coverage("cpu_sample")
    for start in (0, 100):
        builder.wait(1, start + 60, start + 80, "lock")
        builder.operation(1, start, start + 90, "inference", source="auto")
        builder.operation(1, start + 40, start + 60, "call")
        builder.sample(1, start + 30, "backend")
        builder.sample(1, start + 59, "backend", in_kernel=True)
        for thread in range(2, 2 + threads):
            builder.sample(thread, start + 60, "backend")
    iterations(builder, 100)
    assert ("spin_oversubscribed" in codes(builder)) == is_large


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("work (physics.py:9)", "worker_bound"), ("Space.step (pool.c:3)", "worker_bound"),
        ("ForkingPickler.dumps (reduction.py:48)", "message_overhead"),
        ("send_all (train.py:7)", "message_overhead"), ("_recv_n (net.py:7)", "message_overhead"),
        ("_worker (subproc_vec_env.py:20)", "message_overhead"),
        ("sender_of (train.py:7)", "worker_bound"), (None, "message_overhead"),
    ],
)  # fmt: skip
def test_code_of_a_worker_beside_its_simulation_is_a_message_where_it_packs_one(
    builder: TraceBuilder, frame: str | None, code: str
) -> None:
    main = builder.process(pid=1)
    builder.thread(main, states=[run(10), sleep(79), woken(1, by=2), run(110)])
    builder.thread(builder.process(pid=2, parent=main), states=[run(200, cpu=1)])
    builder.wait(1, 10, 89, "pipe")
    builder.operation(2, 20, 30, "simulation", source="auto")
    builder.coverage("cpu_sample")
    for at in (5, 15, 60, 88):
        builder.sample(2, at, "python", frames=("main (train.py:1)", frame) if frame else ())
    iterations(builder, 100)
    assert codes(builder)[code] == 79


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("Connection._recv (connection.py:390)", "message_overhead"),
        ("ForkingPickler.dumps (reduction.py:48)", "message_overhead"),
        ("Queue.get (queues.py:94)", "message_overhead"),
        ("Queue.get (queue.py:154)", "os_kernel"), ("send (train.py:7)", "os_kernel"),
    ],
)  # fmt: skip
def test_a_program_without_phases_packs_and_sends_messages(
    builder: TraceBuilder, frame: str, code: str
) -> None:
    """For 40 of 100; the rest is code of its own."""
    builder.thread(builder.process(pid=1), states=[run(200)])
    builder.coverage("cpu_sample")
    for start in (0, 100):
        # Another stack of operations: a sample tells of what is in the same.
        builder.operation(1, start + 60, start + 100, "collect")
        builder.sample(1, start + 50, "python", frames=("main (train.py:1)",))
        builder.sample(1, start + 90, "other", in_kernel=True, frames=("main (train.py:1)", frame))
    iterations(builder, 100)
    reported = codes(builder)
    assert (reported[code], reported["python_overhead"]) == (80, 120)


def test_an_evaluation_has_the_questions_to_the_policy_between_its_steps(
    builder: TraceBuilder,
) -> None:
    builder.thread(builder.process(pid=1), states=[run(400)])
    iterations(builder, 100, count=4)
    for start in range(0, 400, 20):
        called = "evaluate_policy" if 100 <= start < 140 else None
        builder.operation(1, start, start + 5, "simulation", source="auto", framework_name=called)
        builder.operation(1, start + 5, start + 15, "inference", source="auto")
    builder.operation(1, 138, 140, "evaluation", source="auto", framework_name="evaluate_policy")
    assert codes(builder)["evaluation_bound"] == 32


def test_saving_the_model_is_named_beside_its_waits_for_the_disk(builder: TraceBuilder) -> None:
    builder.thread(
        builder.process(pid=1), states=[run(80), blocked(19), woken(1, by=INTERRUPT), run(100)]
    )
    builder.wait(1, 80, 99, "io")
    builder.operation(1, 0, 200, "update")
    builder.operation(1, 60, 150, "checkpoint", source="auto")
    reported = codes(builder)
    assert (reported["checkpoint_bound"], reported["blocking_io"]) == (70, 20)


def test_threads_of_one_process_are_told_from_processes(builder: TraceBuilder) -> None:
    """The leading thread loses its CPU to a thread of its own for 30, to another process for 20."""
    process, other = builder.process(pid=1), builder.process(pid=2)
    builder.thread(process, states=[run(50), preempted(30), run(10), preempted(20), run(10)])
    builder.thread(process, start_ns=50, states=[run(30)])
    builder.thread(other, start_ns=90, states=[run(20)])
    iterations(builder, 120, count=1)
    assert codes(builder) == {
        "other_code": 70, "spin_oversubscribed": 30, "cpu_contention": 20
    }  # fmt: skip


def beside_a_thread_of_its_own(builder: TraceBuilder, *samples: tuple[int, int, str]) -> None:
    """Let a thread be without its CPU for 30 of 100, which another one of its process has."""
    process = builder.process(pid=1)
    builder.thread(process, states=[run(50), preempted(30), run(20)])
    builder.thread(process, start_ns=50, states=[run(30)])
    builder.coverage("cpu_sample")
    for sample in samples:
        builder.sample(*sample)
    builder.operation(1, 0, 100, "update")


def test_two_threads_in_python_wait_for_the_gil_where_one_has_the_cpu(
    builder: TraceBuilder,
) -> None:
    beside_a_thread_of_its_own(builder, (1, 10, "python"), (1, 90, "python"), (2, 60, "python"))
    assert codes(builder)["gil_contention"] == 30


def test_two_threads_that_python_started_share_the_cpus_as_processes_do(
    builder: TraceBuilder,
) -> None:
    """The other one is in native code, without the GIL: neither spins."""
    beside_a_thread_of_its_own(
        builder, (1, 10, "python"), (2, 60, "backend"), (2, 65, "backend"), (2, 70, "python")
    )
    assert codes(builder)["cpu_contention"] == 30


@pytest.mark.parametrize(
    ("layer", "code"), [("spin", "spin_oversubscribed"), ("python", "cpu_contention")]
)
def test_who_spins_in_another_process_takes_the_cpu_by_it(
    builder: TraceBuilder, layer: str, code: str
) -> None:
    """A team of threads that waits busily keeps others off the CPUs, too."""
    builder.thread(builder.process(pid=1), states=[run(50), preempted(30), run(20)])
    builder.thread(builder.process(pid=2), start_ns=50, states=[run(30)])
    builder.coverage("cpu_sample")
    builder.sample(1, 10, "python")
    builder.sample(2, 60, layer)
    builder.operation(1, 0, 100, "update")
    assert codes(builder)[code] == 30


def test_a_program_outside_the_trace_that_has_the_cpu_is_named(builder: TraceBuilder) -> None:
    """Preempted for 40: for 30 by another program, for 10 nobody knows by whom."""
    thread = builder.thread(builder.process(pid=1), states=[run(50), preempted(40), run(10)])
    builder.other_run(0, 50, 80, pid=9, name="make")
    builder.operation(thread, 0, 100, "update")
    assert codes(builder) == {"other_code": 60, "cpu_taken_by_others": 30, "cpu_wait": 10}
    with rlscope_analysis.open(builder.path) as trace:
        evidence = BY_CODE["cpu_taken_by_others"].evidence
        assert trace.sql(evidence).fetchall()[0][:2] == ("make", 9)
        screen = overview(trace)
        assert sentence_of(verdict(screen)) == (
            "Main (pid 1) waits for a CPU that a program outside of the trace has, mostly make:"
            " 30 % of an iteration."
        )
        (tried,) = (row for row in screen.findings if row["code"] == "cpu_taken_by_others")
        assert tried["remedy"] == "stop make, or give this one own CPUs"


@pytest.mark.parametrize(
    ("allowed", "other_cpu", "is_said"),
    [("0,1", 1, True), ("0-1,x", None, False), ("1", None, False), ("0-1", 0, False)],
)
def test_threads_that_share_a_cpu_beside_an_idle_one(
    tmp_path: Path, allowed: str, other_cpu: int | None, is_said: bool
) -> None:
    """Two take turns on CPU 1; a third one has CPU 0, or some of CPU 1, or is not there."""
    meta: dict[str, str | None] = {
        "schema_version": str(SCHEMA_VERSION), "cpus_allowed": allowed
    }  # fmt: skip
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=meta)
    builder.coverage("thread_state")
    turns = [run(10, cpu=1), preempted(10)] * 30
    thread = builder.thread(builder.process(pid=1), states=turns)
    builder.thread(builder.process(pid=2), start_ns=10, states=turns)
    if other_cpu is not None:
        builder.thread(builder.process(pid=3), states=[run(600, cpu=other_cpu)])
    builder.operation(thread, 0, 600, "update")
    builder.write()
    with rlscope_analysis.open(builder.path) as trace:
        said = sentence_of(verdict(overview(trace)))
    assert said.startswith("Main (pid 1) waits for a CPU that another process or thread of the")
    pinned = (
        " It ran on CPU 1 only, while nothing of the program ran on CPU 0 for 100 % of the time"
    )
    assert (pinned in said) is is_said


@pytest.mark.parametrize(
    ("other_ns", "said"),
    [(0, " For 100 % of that time nothing of the program ran on another of its CPUs."), (10, "")],
)
def test_who_waits_for_a_cpu_beside_an_idle_one_does_not_lack_cpus(
    tmp_path: Path, other_ns: int, said: str
) -> None:
    """Two take turns, on one CPU and then on the other; a third one has the other, or sleeps."""
    meta: dict[str, str | None] = {"schema_version": str(SCHEMA_VERSION), "cpus_allowed": "0-1"}
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=meta)
    builder.coverage("thread_state")
    turns = [run(10, cpu=0), preempted(10), run(10, cpu=1), preempted(10)] * 15
    thread = builder.thread(builder.process(pid=1), states=turns)
    builder.thread(builder.process(pid=2), start_ns=10, states=turns)
    third = [run(1, cpu=1), sleep(9)] if not other_ns else [run(10, cpu=1), run(10, cpu=0)]
    builder.thread(builder.process(pid=3), states=third * 30 if other_ns else third)
    builder.operation(thread, 0, 600, "update")
    builder.write()
    with rlscope_analysis.open(builder.path) as trace:
        answered = overview(trace)
    sentence = sentence_of(verdict(answered))
    assert sentence.endswith(f"50 % of an iteration.{said}")
    assert ("pin them" in answered.findings[0]["remedy"]) is bool(said)


def test_beside_other_programs_a_program_has_the_same_limits(builder: TraceBuilder) -> None:
    """An update takes 25 of the 40 that another program left: more than the 40 % of a finding."""
    thread = builder.thread(builder.process(pid=1), states=[run(15), preempted(60), run(25)])
    builder.other_run(0, 15, 75, pid=9, name="make")
    builder.operation(thread, 0, 100, "update")
    builder.operation(thread, 75, 100, "backpropagation")
    assert found(builder) == {"cpu_taken_by_others": 0.6, "learner_bound": 0.25}


@pytest.mark.parametrize(
    ("stalled", "faults", "code"),
    [(0, 0, "os_wait"), (30, 3, "memory_pressure"), (0, 3, "blocking_io"),
     (None, 3, "memory_pressure")],
)  # fmt: skip
def test_what_holds_a_blocked_thread_is_asked_of_the_os_kernel(
    builder: TraceBuilder, stalled: int | None, faults: int, code: str
) -> None:
    """Blocked for 40 between readings at 0 and 100; None: it does not count stalls."""
    states = [run(30), blocked(40), woken(1, by=INTERRUPT), run(29), run(100)]
    process = builder.process(pid=1)
    thread = builder.thread(process, states=states)
    builder.os_counter("major_faults", (0, 7), (100, 7 + faults), process=process)
    if stalled is not None:
        builder.os_counter("memory_stall_some", (0, 50), (100, 50 + stalled), (200, 500))
    iterations(builder, 100)
    assert thread == 1
    assert codes(builder) == {"other_code": 159, code: 40, "cpu_wait": 1}


def test_a_wait_for_a_cpu_while_the_quota_is_used_up_counts_for_it(builder: TraceBuilder) -> None:
    """The same wait twice: while its cgroup was stopped, and while it was not."""
    states = [run(30), preempted(40), run(30)]
    builder.thread(builder.process(pid=1), states=[*states, *states])
    builder.os_counter("quota_throttled", (0, 0), (100, 40), (200, 40), cgroup="/sys/x")
    iterations(builder, 100)
    assert codes(builder) == {"other_code": 120, "cgroup_throttled": 40, "cpu_wait": 40}
    with rlscope_analysis.open(builder.path) as trace:
        evidence = BY_CODE["cgroup_throttled"].evidence
        assert trace.sql(evidence).fetchall() == [("/sys/x", "quota_throttled", 40)]


def test_environment_steps_count_for_the_iteration_they_end_in(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    for start in (5, 20, 35, 60):
        builder.operation(thread, start, start + 10, "simulation", source="auto", steps=4)
    for start in (0, 50):
        builder.operation(thread, start, start + 50, "update")
    with rlscope_analysis.open(builder.write()) as trace:
        query = "SELECT environment_steps FROM iteration ORDER BY iteration_id"
        assert trace.sql(query).fetchall() == [(12,), (4,)]


def test_steps_of_evaluations_are_told_from_those_of_the_training(builder: TraceBuilder) -> None:
    """Named as the evaluation around them; a framework may have a name for training steps, too."""
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    names = (None, "evaluate", "env_step", "evaluate", None)
    for start, name, steps in zip((5, 20, 35, 60, 80), names, (4, 4, 4, 8, 2), strict=True):
        builder.operation(
            thread, start, start + 10, "simulation", source="auto", steps=steps, framework_name=name
        )
    for start in (15, 75):
        builder.operation(
            thread, start, start + 3, "evaluation", source="auto", framework_name="evaluate"
        )
    for start in (0, 50):
        builder.operation(thread, start, start + 50, "update")
    with rlscope_analysis.open(builder.write()) as trace:
        query = "SELECT environment_steps, evaluation_steps FROM iteration ORDER BY iteration_id"
        assert trace.sql(query).fetchall() == [(8, 4), (2, 8)]
        query = "SELECT steps, counted_steps, evaluation_steps FROM environment_step"
        assert trace.sql(query).fetchall() == [(22, 10, 12)]
        lines = text.render(answer_of(overview(trace)), limit=20, width=100)
    assert "100,000,000 environment steps/s and 120,000,000 in evaluation" in " ".join(
        lines.split()
    )


@pytest.mark.parametrize(
    ("layer", "expected"),
    [("python", "python_overhead"), ("spin", "spin_oversubscribed"), ("backend", "native_code")],
)
def test_samples_tell_what_runs_outside_of_phases(
    builder: TraceBuilder, layer: str, expected: str
) -> None:
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    builder.coverage("cpu_sample")
    builder.sample(thread, 50, layer)
    builder.operation(thread, 0, 20, "backpropagation", source="auto")
    builder.operation(thread, 0, 100, "update")
    builder.operation(thread, 60, 80, "simulation")
    assert codes(builder) == {"learner_bound": 20, "serial_simulation": 20, expected: 60}


@pytest.mark.parametrize(
    ("team", "expected"),
    [
        ([run(100)], "learner_bound"),
        ([run(40), preempted(60)], "spin_oversubscribed"),
        ([run(40), sleep(60)], "spin_oversubscribed"),
    ],
    ids=["works", "has no CPU", "sleeps"],
)
def test_who_spins_until_the_others_have_done_their_part_is_not_held_up(
    builder: TraceBuilder, team: list[Interval], expected: str
) -> None:
    """One thread fewer would have their work to do, unless they wait for a CPU."""
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[run(100)])
    builder.thread(process, states=team)
    builder.coverage("cpu_sample")
    builder.sample(thread, 50, "spin")
    builder.operation(thread, 0, 100, "backpropagation", source="auto")
    builder.operation(thread, 0, 100, "update")
    assert codes(builder) == {expected: 100}


def test_what_a_learner_packs_and_unpacks_for_its_workers_is_message_overhead(
    builder: TraceBuilder,
) -> None:
    """A worker wakes it at 59; of what it runs after that 20 are in its phase `wait`."""
    main = builder.process(pid=1)
    worker = builder.process(pid=2, parent=main)
    builder.thread(main, states=[run(30), sleep(29), woken(1, by=2), run(40)])
    builder.thread(worker, states=[run(100)])
    builder.coverage("cpu_sample")
    for ts_ns in (20, 70, 80):
        builder.sample(1, ts_ns, "python")
    builder.wait(1, 30, 59, "pipe")
    builder.operation(1, 0, 10, "backpropagation", source="auto")
    builder.operation(1, 10, 80, "wait", source="auto")
    builder.operation(1, 80, 100, "backpropagation", source="auto")
    builder.operation(1, 0, 100, "update")
    reported = codes(builder)
    assert reported["message_overhead"] == 20
    assert reported["worker_bound"] == 59
    assert "python_overhead" not in reported


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        # What it does between two questions is part of the loop.
        (300, {"learner_bound": 100_000, "polling": 599_000}),
        # As many messages to, or from, as many workers.
        (128, {"learner_bound": 100_000, "message_overhead": 128_000}),
    ],
)
def test_who_asks_again_and_again_polls(
    builder: TraceBuilder, waits: int, expected: dict[str, int]
) -> None:
    builder.thread(builder.process(pid=1), states=[run(1_000_000)])
    builder.operation(1, 0, 100_000, "backpropagation", source="auto")
    for start in range(100_000, 100_000 + 2_000 * waits, 2_000):
        builder.operation(1, start, start + 1_000, "wait", source="auto")
    builder.operation(1, 0, 1_000_000, "update")
    found = codes(builder)
    assert {code: found[code] for code in expected} == expected
    assert ("polling" in found) == ("polling" in expected)


def test_who_waits_is_named_whoever_it_waits_for(builder: TraceBuilder) -> None:
    """A lock that another process holds for 80 of 100: the path is in the other one meanwhile."""
    main = builder.process(pid=1)
    other = builder.process(pid=2, parent=main)
    builder.thread(main, states=[run(10), sleep(79), woken(1, by=2), run(10)])
    builder.thread(other, states=[run(100)])
    builder.wait(1, 10, 89, "lock")
    builder.operation(1, 0, 100, "update")
    with rlscope_analysis.open(builder.write()) as trace:
        assert sentence_of(verdict(overview(trace))) == (
            "Main (pid 1) waits for a lock that another thread or process has, mostly python"
            " (pid 2): 79 % of an iteration."
        )


@pytest.mark.parametrize(
    ("layer", "phase", "source", "expected"),
    [
        pytest.param("python", None, "auto", "lock_contention", id="it has the lock"),
        pytest.param("backend", None, "auto", "native_code", id="a thread of OpenMP"),
        pytest.param("python", "wait", "auto", "thread_bound", id="it makes what is waited for"),
        pytest.param("python", None, "nvtx", "thread_bound", id="no phase would say so"),
    ],
)
def test_a_lock_that_another_thread_of_the_process_has(
    builder: TraceBuilder, layer: str, phase: str | None, source: str, expected: str
) -> None:
    """The leading thread waits for a lock, for 79 of 100, and another of its process wakes it."""
    process = builder.process(pid=1)
    builder.thread(process, tid=1, states=[run(10), sleep(79), woken(1, by=2), run(10)])
    builder.thread(process, states=[run(100)])
    builder.coverage("cpu_sample")
    builder.sample(1, 5, "backend")
    builder.sample(2, 5, layer)
    builder.wait(1, 10, 89, "lock")
    builder.operation(1, 0, 10, "backpropagation", source=source)
    if phase is not None:
        builder.operation(1, 10, 90, phase, source="auto")
    builder.operation(1, 0, 100, "update")
    assert codes(builder)[expected] >= 79
    if expected == "lock_contention":
        with rlscope_analysis.open(builder.path) as trace:
            assert sentence_of(verdict(overview(trace))) == (
                "Learner (pid 1) waits for a lock that another thread or process has, mostly thread"
                " worker: 79 % of an iteration."
            )


@pytest.mark.parametrize("is_mutex", [True, False], ids=["a lock", "perhaps a signal"])
def test_who_has_a_lock_of_a_file_has_it_whatever_it_does(
    builder: TraceBuilder, *, is_mutex: bool
) -> None:
    """An evaluator steps environments meanwhile; behind a signal that were what is waited for."""
    main, other = builder.process(pid=1), builder.process(pid=2)
    builder.thread(main, states=[run(10), sleep(79), woken(1, by=2), run(10)])
    builder.thread(other, states=[run(100, cpu=1)])
    builder.wait(1, 10, 89, "lock", is_mutex=is_mutex)
    builder.operation(2, 5, 95, "simulation", source="auto", steps=1)
    builder.operation(1, 0, 100, "update")
    found = codes(builder)
    assert found["lock_contention" if is_mutex else "simulation_bound"] >= 79


def test_what_a_thread_of_its_own_hands_over_is_no_lock_of_others(builder: TraceBuilder) -> None:
    """A pool: a thread takes the result of another process, and wakes the one that leads."""
    main = builder.process(pid=1)
    other = builder.process(pid=2, parent=main)
    builder.thread(main, states=[run(10), sleep(79), woken(1, by=2), run(10)])
    builder.thread(main, states=[run(55), sleep(30), woken(1, by=3), run(14)])
    builder.thread(other, states=[run(100)])
    builder.wait(1, 10, 89, "lock")
    builder.wait(2, 55, 85, "pipe")
    builder.operation(1, 0, 100, "update")
    found = codes(builder)
    assert found["worker_bound"] == 85
    assert "lock_contention" not in found


def test_who_is_one_of_several_is_named_as_that(builder: TraceBuilder) -> None:
    """Three workers that begin at once in each of three turns; in each another one ends last."""
    main = builder.process(pid=1)
    turns = [[run(2), sleep(27), woken(1, by=2 + at)] for at in range(3)]
    builder.thread(main, states=[state for turn in turns for state in turn] + [run(10)])
    for at in range(3):
        states = []
        for turn in range(3):
            ran = 26 + (turn == at)
            states += [sleep(1), woken(1, by=1), run(ran), sleep(28 - ran)]
            builder.operation(2 + at, 30 * turn + 1, 30 * turn + 2 + ran, "simulation")
        builder.thread(builder.process(pid=10 + at, parent=main), states=[*states, sleep(10)])
        builder.wait(1, 30 * at + 2, 30 * at + 29, "pipe")
    builder.operation(1, 0, 100, "update")
    with rlscope_analysis.open(builder.write()) as trace:
        assert " (pid 10), like 2 others, " in sentence_of(verdict(overview(trace)))


@pytest.mark.parametrize(
    ("inner", "has_both"), [("pack (a.py:7)", True), ("other (a.py:9)", False)]
)
def test_native_code_of_the_function_that_is_named_is_said(
    builder: TraceBuilder, inner: str, has_both: bool
) -> None:
    """It runs Python code for 54 of 100, and native code for 36: called by the same, or not."""
    turns = [state for _ in range(100) for state in (run(9), preempted(1))]
    main = builder.thread(builder.process(pid=1), states=turns)
    builder.coverage("cpu_sample")
    builder.operation(main, 0, 1000, "iteration")
    around = ("<module> (a.py:1)", "loop (a.py:3)")
    for at in range(100):
        is_python = at % 10 < 6
        frames = (*around, "pack (a.py:5)" if is_python else inner)
        builder.sample(main, at * 10, "python" if is_python else "backend", frames=frames)
    with rlscope_analysis.open(builder.write()) as trace:
        said = sentence_of(verdict(overview(trace)))
    words = "mostly pack: 54 % of an iteration"
    assert said.endswith(f"{words}, 90 % with the native code in it." if has_both else f"{words}.")


def test_code_outside_of_functions_is_named_by_its_file(builder: TraceBuilder) -> None:
    main = builder.thread(builder.process(pid=1), states=[run(1000)])
    builder.coverage("cpu_sample")
    builder.operation(main, 0, 1000, "iteration")
    for at in range(100):
        frames = ("<module> (train.py:1)", *(("helper (a.py:3)",) if at % 10 == 0 else ()))
        builder.sample(main, at * 10, "python", frames=frames)
    with rlscope_analysis.open(builder.write()) as trace:
        said = sentence_of(verdict(overview(trace)))
    assert "in no phase, mostly top-level code of train.py: 100 %" in said


def asking(
    builder: TraceBuilder,
    disk: int,
    inner: tuple[str, ...] = (),
    *,
    phase: str | None = "backpropagation",
    other: str | None = None,
    post: str = "post (b.py:5)",
) -> None:
    """Take thirty steps: 30 in a phase, 10 in another function, and then in one that asks a server.

    That runs Python for 20, and sleeps for 20 and waits for a disk in between; all in 5 us.
    """
    us = 5_000
    process = builder.process(pid=1)
    step = [
        run(50 * us), sleep(20 * us), woken(0, by=INTERRUPT), run(5 * us), blocked(disk * us),
        woken(0, by=INTERRUPT), run(5 * us),
    ]  # fmt: skip
    main = builder.thread(process, states=step * 30)
    builder.coverage("cpu_sample")
    length = (80 + disk) * us
    around = ("<module> (a.py:1)", "train (a.py:3)")
    for at in range(30):
        start = at * length
        if phase is not None:
            builder.operation(main, start, start + 30 * us, phase, source="auto")
        builder.operation(main, start, start + length, "update")
        if other is not None:
            builder.operation(main, start + 50 * us, start + length, other, source="auto")
        builder.wait(main, start + 50 * us, start + 70 * us, "sleep")
        builder.wait(main, start + 75 * us, start + (75 + disk) * us, "io")
        builder.sample(main, start + 15 * us, "python", frames=around)
        builder.sample(main, start + 35 * us, "python", frames=(*around, "log (a.py:9)"))
        for at_us in (45, 72, 77 + disk):
            frames = (*around, post, *inner)
            builder.sample(main, start + at_us * us, "python", frames=frames)


@pytest.mark.parametrize("inner", [(), ("send (c.py:7)",)], ids=["itself", "what it calls"])
def test_a_function_that_takes_long_by_several_causes_is_named(
    builder: TraceBuilder, inner: tuple[str, ...]
) -> None:
    """Of 100 it has two waits of 20, and of 30 of Python code three of four samples."""
    asking(builder, 20, inner)
    reported = codes(builder)
    with rlscope_analysis.open(builder.path) as trace:
        said = sentence_of(verdict(overview(trace)))
        split = trace.sql("SELECT code, sum(time_ns)::BIGINT FROM limit_function GROUP BY ALL")
        parts = {code: ns / 29 / 5_000 for code, ns in split.fetchall()}
    assert parts == {"timer_sleep": 20, "blocking_io": 20, "python_overhead": 22.5}
    assert {code: ns / 29 / 5_000 for code, ns in reported.items()} == {
        "learner_bound": 30, "one_function": 62.5, "python_overhead": 7.5
    }  # fmt: skip
    assert "in one function that neither acts nor learns, post: 62 % of an iteration" in said
    assert said.endswith("In it: python_overhead 22 %, blocking_io 20 %, timer_sleep 20 %.")


def test_a_cause_that_is_most_of_what_a_function_takes_says_more(builder: TraceBuilder) -> None:
    asking(builder, 120)
    reported = codes(builder)
    assert "one_function" not in reported
    assert reported["blocking_io"] == 120 * 29 * 5_000


def test_what_a_function_waits_for_and_unpacks_is_its_own(builder: TraceBuilder) -> None:
    """Of 100 it has 50 in the phase `wait`, and before it one of two samples of 20."""
    asking(builder, 20, ("send (c.py:7)",), other="wait")
    assert {code: ns / 29 / 5_000 for code, ns in codes(builder).items()} == {
        "learner_bound": 30, "one_function": 60, "python_overhead": 10
    }  # fmt: skip


def test_a_function_that_a_library_calls_back_has_its_name_in_the_program(
    builder: TraceBuilder,
) -> None:
    inner = ("Push.on_step (a.py:20)", "send (c.py:7)")
    asking(builder, 20, inner, post="Callback.on_step (callbacks.py:9)")
    builder.write()
    with rlscope_analysis.open(builder.path) as trace:
        said = sentence_of(verdict(overview(trace)))
    assert "neither acts nor learns, Push.on_step: 62 %" in said


@pytest.mark.parametrize(
    ("other", "post"),
    [("simulation", "post (b.py:5)"), (None, "Connection.recv (connection.py:9)")],
    ids=["acts", "takes a message"],
)
def test_a_function_that_has_another_name_is_none_of_its_own(
    builder: TraceBuilder, other: str | None, post: str
) -> None:
    asking(builder, 20, other=other, post=post)
    assert "one_function" not in codes(builder)


def test_without_phases_no_function_is_outside_of_them(builder: TraceBuilder) -> None:
    asking(builder, 20, phase=None)
    assert "one_function" not in codes(builder)


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        (("Choice.sample (c.py:5)", "Choice.__init__ (c.py:9)"), ", mostly Choice: 90 %"),
        (("Choice.sample (c.py:5)", "Choice.__init__ (c.py:9)", "step (a.py:2)"), ": 90 %"),
        (("Choice.sample (c.py:5)", "Choice.sample (c.py:6)"), ", mostly Choice.sample: 90 %"),
    ],
    ids=["most", "less", "one method"],
)
def test_a_class_is_named_where_its_methods_together_are_most(
    builder: TraceBuilder, inner: tuple[str, ...], said: str
) -> None:
    turns = [state for _ in range(100) for state in (run(9), preempted(1))]
    main = builder.thread(builder.process(pid=1), states=turns)
    builder.coverage("cpu_sample")
    builder.operation(main, 0, 1000, "iteration")
    for at in range(100):
        frames = ("<module> (a.py:1)", inner[at % len(inner)])
        builder.sample(main, at * 10, "backend", frames=frames)
    with rlscope_analysis.open(builder.write()) as trace:
        assert f"in no phase{said}" in sentence_of(verdict(overview(trace)))


def crew(builder: TraceBuilder, works: list[int]) -> None:
    """One step: the learner asks workers that work for so long, and waits until all answered."""
    main = builder.process(pid=1)
    processes = [builder.process(pid=10 + at, parent=main) for at in range(len(works))]
    end, slowest = max(works), works.index(max(works)) + 2
    builder.thread(main, states=[run(10), sleep(end - 1), woken(1, by=slowest), run(10)])
    for process, each in zip(processes, works, strict=True):
        states = [sleep(9), woken(1, by=1), run(each - 1, cpu=1), sleep(end - each + 11)]
        thread = builder.thread(process, states=states)
        builder.operation(thread, 10, 10 + each - 1, "simulation", source="auto")
    builder.wait(1, 10, 10 + end - 1, "pipe")
    builder.operation(1, 0, 20 + end, "update")
    builder.operation(1, 10, 10 + end, "simulation", source="auto")


def turns(builder: TraceBuilder) -> None:
    """One step: two workers work for 300 each, the second when the first has answered."""
    main = builder.process(pid=1)
    builder.thread(
        main,
        states=[
            run(10), sleep(300), woken(1, by=2), run(9), sleep(300), woken(1, by=3), run(9),
        ],
    )  # fmt: skip
    for number, start in enumerate((10, 320)):
        states = [sleep(start - 5), woken(5, by=1), run(300, cpu=1), sleep(330 - start)]
        thread = builder.thread(builder.process(pid=2 + number, parent=main), states=states)
        builder.operation(thread, start, start + 300, "simulation", source="auto")
        builder.wait(1, start, start + 300, "pipe")
    builder.operation(1, 0, 630, "update")
    builder.operation(1, 5, 625, "simulation", source="auto")


def test_a_worker_with_more_work_than_the_others_is_a_straggler(builder: TraceBuilder) -> None:
    """It works for 301, the others for 101: with equal work each would for 167 of the 300."""
    crew(builder, [101, 301, 101])
    reported = codes(builder)
    assert reported["straggler"] == 133
    assert reported["simulation_bound"] == 167


def test_beside_helpers_that_do_not_simulate_nobody_is_a_straggler(builder: TraceBuilder) -> None:
    """The only worker works for 301; two others of the same parent do something else for 21."""
    crew(builder, [301])
    for pid in (20, 21):
        helper = builder.process(pid=pid, parent=1)
        builder.thread(helper, states=[sleep(30), woken(1, by=INTERRUPT), run(21), sleep(269)])
    reported = codes(builder)
    assert reported["simulation_bound"] == 300
    assert "straggler" not in reported


@pytest.mark.parametrize(
    ("marked", "code"), [(None, "message_overhead"), ("Runner.sample", "worker_bound")]
)
def test_what_a_worker_marks_itself_is_no_message(
    builder: TraceBuilder, marked: str | None, code: str
) -> None:
    """It simulates for 100 of 300; the rest is a method of its own, or packs and sends."""
    main = builder.process(pid=1)
    builder.thread(main, states=[run(10), sleep(299), woken(1, by=2), run(10)])
    states = [sleep(9), woken(1, by=1), run(299, cpu=1), sleep(11)]
    worker = builder.thread(builder.process(pid=10, parent=main), states=states)
    builder.wait(1, 10, 309, "pipe")
    builder.operation(1, 0, 320, "update")
    if marked is not None:
        builder.operation(worker, 10, 309, marked, source="ray")
    builder.operation(worker, 10, 110, "simulation", source="auto")
    assert codes(builder)[code] == 199


def test_a_stage_that_is_fed_by_another_one_is_no_straggler(builder: TraceBuilder) -> None:
    """It works for 280 while its feeder, which works for 80, waits until it takes the next."""
    main = builder.process(pid=1)
    feeder, stage = (builder.process(pid=at, parent=main) for at in (2, 3))
    builder.thread(main, states=[run(10), sleep(279), woken(1, by=3), run(10)])
    builder.thread(feeder, states=[run(80, cpu=1), sleep(199), woken(1, by=3), run(20, cpu=1)])
    builder.thread(stage, states=[run(300, cpu=2)])
    builder.wait(1, 10, 289, "pipe")
    builder.operation(1, 0, 300, "update")
    reported = codes(builder)
    assert "straggler" not in reported
    assert reported["worker_bound"] == 289


def test_equal_workers_are_no_stragglers(builder: TraceBuilder) -> None:
    crew(builder, [301, 301, 301])
    reported = codes(builder)
    assert reported["simulation_bound"] == 300
    assert "straggler" not in reported
    assert "idle_workers" not in reported


def test_workers_that_take_turns_are_idle(builder: TraceBuilder) -> None:
    """Each works for 300 while the other one waits: half of it would be over."""
    turns(builder)
    reported = codes(builder)
    assert reported["idle_workers"] == pytest.approx(300, abs=2)
    assert "straggler" not in reported
    with rlscope_analysis.open(builder.path) as trace:
        assert sentence_of(verdict(overview(trace))).endswith(
            " works while other workers wait for their turn: an iteration could be up to 48 %"
            " shorter."
            " Meanwhile main (pid 1) waits for it."
        )


def test_a_straggler_by_turns_does_not_keep_the_others_waiting_for_theirs(
    builder: TraceBuilder,
) -> None:
    """In each of three rounds another one of three works for 300, the others for 60."""
    main = builder.process(pid=1)
    rounds = [
        part for slow in (2, 3, 4) for part in (run(10), sleep(300), woken(1, by=slow), run(9))
    ]
    builder.thread(main, states=rounds)
    for number in range(3):
        states = []
        for at in range(3):
            work = 300 if at == number else 60
            states += [sleep(5), woken(5, by=1), run(work, cpu=1 + number), sleep(310 - work)]
        thread = builder.thread(builder.process(pid=2 + number, parent=main), states=states)
        builder.operation(thread, 10, 950, "simulation", source="auto")
    for start in (10, 330, 650):
        builder.wait(1, start, start + 300, "pipe")
    builder.operation(1, 0, 960, "update")
    builder.operation(1, 5, 955, "simulation", source="auto")
    reported = codes(builder)
    assert "idle_workers" not in reported
    # With equal work each would take 420 of the 900.
    assert reported["straggler"] == pytest.approx(480, abs=5)


def stepping(
    builder: TraceBuilder, *, gap: int, kernel: int, sync_each: bool, launches: int = 40
) -> None:
    """Launch a kernel every `gap`, which takes `kernel`, 2 later; wait for each, or for the last.

    A step of the CPU takes 5 less than the gap, the call of the launch 5.
    """
    process = builder.process(pid=1)
    for kind in ("operation", "cuda_call", "gpu_activity"):
        builder.coverage(kind)
    states, now, gpu_ns = [], 0, 0
    for number in range(1, launches + 1):
        call = now + gap - 5
        begun = max(call + 2, gpu_ns)
        gpu_ns = begun + kernel
        builder.cuda_call(1, call, call + 5, correlation_id=number)
        builder.gpu_activity(process, begun, gpu_ns, correlation_id=number)
        states.append(run(gap))
        now += gap
        if sync_each or number == launches:
            builder.cuda_call(1, now, gpu_ns + 3, kind="sync", name="cudaStreamSynchronize")
            states += [sleep(gpu_ns + 2 - now), woken(1, by=INTERRUPT)]
            builder.wait(1, now, gpu_ns + 2, "gpu")
            now = gpu_ns + 3
    builder.thread(process, states=[*states, run(10)])
    builder.operation(1, 0, now + 10, "backpropagation", source="auto")
    builder.operation(1, 0, now + 10, "update")


@pytest.mark.parametrize(
    ("gap", "kernel", "sync_each", "expected"),
    [
        pytest.param(100, 20, False, "launch_bound", id="launch-bound"),
        pytest.param(20, 100, False, "gpu_bound", id="kernel-bound"),
        pytest.param(100, 100, True, "sync_in_step", id="waits for each"),
        pytest.param(10, 200, True, "gpu_bound", id="waits for each, and the GPU is busy"),
        pytest.param(200, 10, True, "launch_bound", id="waits for each, which takes no time"),
    ],
)
def test_who_waits_for_whom_with_a_gpu(
    builder: TraceBuilder, gap: int, kernel: int, *, sync_each: bool, expected: str
) -> None:
    stepping(builder, gap=gap, kernel=kernel, sync_each=sync_each)
    reported = found(builder)
    assert max(reported, key=reported.__getitem__) == expected, reported


@pytest.mark.parametrize(
    ("reasons", "clocks", "part"),
    [
        pytest.param((0x4, 0x4), (1500, 1500), 0.25, id="power cap"),
        pytest.param((0x40, 0x0), (1000, 2000), 0.25, id="heat, half of the time"),
        pytest.param((0x1, 0x2), (500, 500), 0, id="idle, and as it was set"),
        pytest.param((0x4, 0x4), (2000, 2000), 0, id="at its highest clock all the same"),
    ],
)
def test_a_gpu_whose_clock_is_held_down(
    builder: TraceBuilder, reasons: tuple[int, int], clocks: tuple[int, int], part: float
) -> None:
    """Kernel-bound; the highest clock is 2000 MHz: the part by which it is lower is at stake."""
    stepping(builder, gap=20, kernel=100, sync_each=False)
    builder.device(0, uuid="GPU-a")
    builder.counter(0, 2000, name="sm_clock_max")
    for ts_ns, bits, mhz in zip((1000, 2000), reasons, clocks, strict=True):
        builder.counter(ts_ns - 1, mhz, name="sm_clock")
        builder.counter(ts_ns, bits, name="throttle_reasons")
    reported = codes(builder)
    on_gpu = reported["gpu_bound"] + reported.get("gpu_throttled", 0)
    assert reported.get("gpu_throttled", 0) == pytest.approx(part * on_gpu, abs=1)
    assert on_gpu > 3000
    with rlscope_analysis.open(builder.path) as trace:
        held = [row[1] for row in trace.sql(BY_CODE["gpu_throttled"].evidence).fetchall()]
    assert held == sorted({bits & 0xEC != 0 for bits in reasons})


def test_a_wait_for_each_result_is_worth_the_shorter_of_cpu_and_gpu(builder: TraceBuilder) -> None:
    """40 times 100 on the CPU, and 20 until the GPU has done it."""
    stepping(builder, gap=100, kernel=20, sync_each=True)
    reported = codes(builder)
    gpu_ns = reported["gpu_bound"]
    turns_ns = reported["sync_in_step"] - 40 * 3
    assert turns_ns == pytest.approx(gpu_ns, abs=2 * 40)
    assert reported["launch_bound"] > 60 * 40


def test_copies_are_no_work_of_the_gpu(builder: TraceBuilder) -> None:
    """The GPU copies for 300, and works for 100, one after the other."""
    process = builder.process(pid=1)
    for kind in ("operation", "cuda_call", "gpu_activity"):
        builder.coverage(kind)
    builder.thread(process, states=[run(20), sleep(385), woken(5, by=INTERRUPT), run(10)])
    builder.cuda_call(1, 0, 5, kind="memcpy", name="cudaMemcpyAsync", correlation_id=1)
    builder.cuda_call(1, 10, 15, correlation_id=2)
    builder.gpu_activity(process, 5, 305, kind="memcpy", name=None, correlation_id=1)
    builder.gpu_activity(process, 305, 405, correlation_id=2)
    builder.cuda_call(1, 20, 410, kind="sync", name="cudaStreamSynchronize")
    builder.wait(1, 20, 405, "gpu")
    builder.operation(1, 0, 420, "update")
    reported = codes(builder)
    assert (reported["copy_bound"], reported["gpu_bound"]) == (300, 100)
    with rlscope_analysis.open(builder.path) as trace:
        evidence = trace.sql(BY_CODE["copy_bound"].evidence).fetchall()
        assert [row[0] for row in evidence] == ["memcpy"]


def test_a_program_that_is_started_anew_each_time_is_no_straggler(builder: TraceBuilder) -> None:
    """Four iterations, each of which waits for a program of its own that runs for 80."""
    main = builder.process(pid=1)
    states = []
    for number in range(4):
        states += [run(10), sleep(79), woken(1, by=number + 2), run(10)]
    builder.thread(main, states=states)
    for number in range(4):
        start_ns = 100 * number + 9
        child = builder.process(
            pid=10 + number, parent=main, start_ns=start_ns, end_ns=start_ns + 82
        )
        builder.thread(child, start_ns=start_ns, states=[woken(1, by=1), run(81)])
        builder.wait(1, 100 * number + 10, 100 * number + 89, "process")
        builder.operation(1, 100 * number, 100 * number + 100, "update")
    reported = codes(builder)
    assert "straggler" not in reported
    assert reported["worker_bound"] > 0.7 * sum(reported.values())


def anew(
    builder: TraceBuilder, frame: str | None, *, phase: bool = False, works_until: int = 81
) -> None:
    """Four iterations, each of which starts two workers that run for 80: 60 of it before they work.

    frame: where Python is meanwhile; phase: what they do then is simulation.
    """
    main = builder.process(pid=1)
    builder.coverage("cpu_sample")
    states = []
    for number in range(4):
        states += [run(10), sleep(79), woken(1, by=2 * number + 2), run(10)]
    builder.thread(main, states=states)
    for number in range(8):
        start_ns = 100 * (number // 2) + 9
        child = builder.process(
            pid=10 + number, parent=main, start_ns=start_ns, end_ns=start_ns + 82
        )
        thread = builder.thread(child, start_ns=start_ns, states=[woken(1, by=1), run(81)])
        for at in (5, 15, 25, 35, 45, 60):
            builder.sample(thread, start_ns + at, "python", frames=("work", frame or "work"))
        for at in (65, 75):
            builder.sample(thread, start_ns + at, "python", frames=("work",))
        if phase:
            end_ns = start_ns + works_until
            builder.operation(thread, start_ns + 61, end_ns, "simulation", source="auto")
        # Where what it runs is cut.
        builder.operation(thread, start_ns + 61, start_ns + works_until + 1, "work")
    for number in range(4):
        builder.wait(1, 100 * number + 10, 100 * number + 89, "pipe")
        builder.operation(1, 100 * number, 100 * number + 100, "update")


IMPORTS = "_call_with_frames_removed (<frozen importlib._bootstrap>:241)"


@pytest.mark.parametrize(
    ("frame", "phase", "starts"),
    [(IMPORTS, False, True), (None, True, True), (IMPORTS, True, True), (None, False, False)],
    ids=["imports", "before its phase", "imports before its phase", "works all the time"],
)
def test_workers_that_are_started_in_each_iteration(
    builder: TraceBuilder, frame: str | None, *, phase: bool, starts: bool
) -> None:
    """Of 100, 60 are their start; they are no stragglers, since few live at the same time."""
    anew(builder, frame, phase=phase)
    reported = codes(builder)
    started = reported.get("worker_start_up", 0) / sum(reported.values())
    assert started == (pytest.approx(0.6, abs=0.02) if starts else 0)
    assert "straggler" not in reported
    with rlscope_analysis.open(builder.path) as trace:
        assert (overview(trace).findings[0]["code"] == "worker_start_up") == starts


@pytest.mark.parametrize("unit", [1, 1_000_000], ids=["82 ns", "82 ms"])
@pytest.mark.parametrize("name", ["python3.11", "simulator"])
@pytest.mark.parametrize(
    "frames", [(), (IMPORTS,), ("work (a.py:1)",)], ids=["", "imports", "works"]
)
def test_pythons_that_are_started_for_hardly_anything(
    builder: TraceBuilder, name: str, frames: tuple[str, ...], unit: int
) -> None:
    """Each has one sample, in no code of its own; another program may do its work there.

    So may a Python that lives longer than it takes to start one, and whose functions nobody knows.
    """
    main = builder.process(pid=1)
    builder.coverage("cpu_sample")
    turns = [
        (run(10 * unit), sleep(79 * unit), woken(unit, by=at + 2), run(10 * unit))
        for at in range(24)
    ]
    builder.thread(main, states=[state for turn in turns for state in turn])
    for at in range(24):
        start_ns = (100 * at + 9) * unit
        child = builder.process(
            pid=10 + at, name=name, parent=main, start_ns=start_ns, end_ns=start_ns + 82 * unit
        )
        states = [woken(unit, by=1), run(81 * unit)]
        thread = builder.thread(child, start_ns=start_ns, states=states)
        layer = "python" if frames else None
        builder.sample(thread, start_ns + 40 * unit, layer, frames=frames)
        builder.wait(1, (100 * at + 10) * unit, (100 * at + 89) * unit, "process")
        builder.operation(1, 100 * at * unit, 100 * (at + 1) * unit, "update")
    reported = codes(builder)
    starts = name != "simulator" and (IMPORTS in frames or (not frames and unit == 1))
    code = "worker_start_up" if starts else "worker_bound"
    assert reported[code] / sum(reported.values()) >= 0.75


def test_a_worker_that_has_done_its_work_only_ends(builder: TraceBuilder) -> None:
    """Of 100, 60 are its start and 10 its end, between its phase and its exit."""
    anew(builder, None, phase=True, works_until=71)
    reported = codes(builder)
    assert reported["worker_start_up"] / sum(reported.values()) == pytest.approx(0.7, abs=0.02)
    assert "message_overhead" not in reported


def test_workers_that_start_before_the_first_iteration_are_no_part_of_one(
    builder: TraceBuilder,
) -> None:
    crew(builder, [301, 301])
    assert "worker_start_up" not in codes(builder)


def test_a_start_is_told_only_where_it_is_long(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(pid=1, end_ns=10 * S), states=[run(10 * S)])
    for start in (9 * S, 9 * S + S // 4, 9 * S + S // 2):
        builder.operation(thread, start, start + S // 4, "update")
    assert found(builder)["start_up"] == pytest.approx(9 / 10)
    with rlscope_analysis.open(builder.path) as trace:
        reported = overview(trace)
        (of_start,) = (row for row in reported.findings if row["code"] == "start_up")
        assert (sentence_of(of_start["of"]), of_start["of_path"]) == (
            "life of the leading process", False,
        )  # fmt: skip
        assert "90 % of its life" in sentence_of(verdict(reported))


def test_half_of_a_short_recording_is_no_long_start(builder: TraceBuilder) -> None:
    thread = builder.thread(builder.process(pid=1, end_ns=8 * S), states=[run(8 * S)])
    for start in (4 * S, 5 * S, 6 * S):
        builder.operation(thread, start, start + S, "update")
    assert "start_up" not in found(builder)


def test_without_iterations_nothing_is_a_start(builder: TraceBuilder) -> None:
    builder.thread(builder.process(pid=1, end_ns=4 * S), states=[run(4 * S)])
    assert "start_up" not in found(builder)


def test_a_share_below_the_least_is_no_finding(builder: TraceBuilder) -> None:
    """1 of 100 in a timer."""
    thread = builder.thread(
        builder.process(pid=1), states=[run(99), sleep(1), woken(0, by=INTERRUPT)]
    )
    builder.wait(thread, 99, 100, "sleep")
    builder.operation(thread, 0, 100, "update")
    assert found(builder) == {}


def test_findings_go_with_the_path_they_are_of(builder: TraceBuilder) -> None:
    """Asked per another range, they are of that."""
    thread = builder.thread(
        builder.process(pid=1), states=[run(50), sleep(50), woken(0, by=INTERRUPT)]
    )
    builder.wait(thread, 50, 100, "sleep")
    builder.operation(thread, 0, 100, "update")
    builder.operation(thread, 60, 100, "waiting")
    with rlscope_analysis.open(builder.write()) as trace:
        first = trace.sql("SELECT share FROM finding WHERE code = 'timer_sleep'").fetchall()
        trace.critical_path(per="waiting")
        second = trace.sql("SELECT share FROM finding WHERE code = 'timer_sleep'").fetchall()
    assert (first, second) == ([(0.5,)], [(1.0,)])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    builder = TraceBuilder(tmp_path_factory.mktemp("running") / "trace.duckdb")
    builder.thread(builder.process(pid=1), states=[run(10)])
    with rlscope_analysis.open(builder.write()) as trace:
        yield trace


@pytest.mark.parametrize("limit", CATALOG, ids=lambda limit: limit.code)
def test_each_entry_is_complete(running: Trace, limit: Any) -> None:  # noqa: ANN401
    """What is advice has a remedy, evidence that can be asked for, and a view to look at."""
    if limit.least_share is None and limit.least_of_life is None:
        return
    advice = limit.advice(by_program="a program of 15")
    assert advice
    assert len(advice) <= 50
    assert limit.proof.removeprefix("--view ") in REPORTS
    running.sql(limit.evidence).fetchall()


def test_codes_are_distinct() -> None:
    assert len(BY_CODE) == len(CATALOG)


def test_a_run_without_iterations_starts_as_long_as_it_imports(builder: TraceBuilder) -> None:
    """It imports for 60, for 10 of them from a disk, and works for 40 after losing its CPU."""
    builder.thread(
        builder.process(pid=1),
        states=[
            run(30), blocked(10), woken(1, by=INTERRUPT), run(19), preempted(1), run(39),
        ],
    )  # fmt: skip
    builder.wait(1, 30, 40, "io")
    builder.coverage("cpu_sample")
    for at in range(2, 60, 4):
        if not 30 <= at < 41:
            builder.sample(1, at, "python", frames=("<module> (train.py:1)", IMPORTS))
    for at in range(62, 100, 4):
        builder.sample(1, at, "python", frames=("<module> (train.py:1)", "work (train.py:9)"))
    times = codes(builder)
    assert times["start_up"] == pytest.approx(60, abs=4)
    assert "blocking_io" not in times
    assert sum(times.values()) == 100
    with rlscope_analysis.open(builder.path) as trace:
        assert "start_up" in dict(trace.sql("SELECT code, share FROM finding").fetchall())


def test_who_imports_now_and_then_does_not_start(builder: TraceBuilder) -> None:
    builder.thread(builder.process(pid=1), states=[run(100)])
    builder.coverage("cpu_sample")
    for at in range(2, 100, 4):
        frames = (IMPORTS,) if at == 50 else ("work (train.py:9)",)
        builder.sample(1, at, "python", frames=frames)
    assert codes(builder) == {"python_overhead": 100}


def test_the_verdict_names_who_waits_for_the_one_it_blames(builder: TraceBuilder) -> None:
    """The leading process waits all the time for a process that sleeps."""
    main = builder.process(pid=100, name="python")
    server = builder.process(pid=200, name="server", parent=main)
    builder.thread(main, states=[run(5), sleep(94), woken(1, by=2)])
    builder.wait(1, 5, 99, "socket")
    builder.thread(server, states=[run(6), sleep(91), woken(1, by=INTERRUPT), run(2)])
    builder.wait(2, 6, 97, "sleep")
    iterations(builder, 100, count=1)
    with rlscope_analysis.open(builder.write()) as trace:
        said = sentence_of(verdict(overview(trace)))
    assert said == (
        "server (pid 200) sleeps, or waits until a timeout: 91 % of an iteration."
        " Meanwhile main (pid 100) waits for it."
    )


def test_a_thread_of_the_leading_process_that_sleeps_is_named(builder: TraceBuilder) -> None:
    """It is waited for, as who has a lock and sleeps; whoever leads does not sleep itself."""
    process = builder.process(pid=1)
    main = builder.thread(process, states=[run(5), sleep(94), woken(1, by=2)])
    builder.wait(main, 5, 99, "lock")
    other = builder.thread(
        process, name="metrics", states=[run(6), sleep(91), woken(1, by=INTERRUPT), run(2)]
    )
    builder.wait(other, 6, 97, "sleep")
    iterations(builder, 100, count=1)
    with rlscope_analysis.open(builder.write()) as trace:
        said = sentence_of(verdict(overview(trace)))
    assert "sleeps, or waits until a timeout, mostly thread metrics: 91 %" in said


def test_the_function_with_most_of_a_phase_is_named(builder: TraceBuilder) -> None:
    """Six in ten of the samples of simulation are in what a wrapper does to observations."""
    main = builder.thread(builder.process(pid=1), states=[run(1000)])
    builder.coverage("cpu_sample")
    builder.operation(main, 0, 1000, "update")
    builder.operation(main, 0, 990, "simulation", source="auto")
    for at in range(100):
        inner = "Shrink.observation (s.py:5)" if at % 10 < 6 else "Game.step (g.py:7)"
        frames = ("<module> (a.py:1)", "Wrapper.step (core.py:3)", inner)
        builder.sample(main, at * 9, "python", frames=frames)
    with rlscope_analysis.open(builder.write()) as trace:
        said = sentence_of(verdict(overview(trace)))
    assert "mostly Shrink.observation: 9" in said


@pytest.mark.parametrize(("waits", "is_found"), [((0, 9, 0, 0), False), ((4, 5, 4, 5), True)])
def test_what_may_be_none_at_all_is_no_advice(
    builder: TraceBuilder, waits: tuple[int, ...], *, is_found: bool
) -> None:
    """A timer in one of four iterations, or in each, about as long in all."""
    states, start = [], 0
    for wait in (0, *waits):
        states += [run(60 - wait)] + ([sleep(wait), woken(1, by=INTERRUPT)] if wait else [run(1)])
        if wait:
            builder.wait(1, start + 60 - wait, start + 60, "sleep")
        builder.operation(1, start, start + 61, "update")
        start += 61
    builder.thread(builder.process(pid=1), states=states)
    assert ("timer_sleep" in found(builder)) == is_found
