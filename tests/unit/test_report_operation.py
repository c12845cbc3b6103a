"""`summarize --by operation`: every number by hand, and the sums on any trace."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_analysis.derive import derive
from rlscope_analysis.errors import TraceError
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.operations.answer import answer_of
from rlscope_analysis.operations.report import OperationReport, report_operations
from rlscope_analysis.renderers import csv as csv_renderer
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text as text_renderer
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.trace import Trace, open_trace
from trace_builder import TraceBuilder, blocked, lost, preempted, run, sleep

if TYPE_CHECKING:
    from trace_builder import Interval

MS = 10**6


def report_of(
    builder: TraceBuilder,
    *,
    per: str | None = None,
    start: str | None = None,
    end: str | None = None,
) -> OperationReport:
    with open_trace(builder.write(), start=start, end=end) as trace:
        return report_operations(trace, per=per)


def text_of(report: OperationReport, limit: int | None = None) -> str:
    return text_renderer.render(answer_of(report), limit=limit)


def render_json(report: OperationReport) -> str:
    return "".join(json_renderer.render(answer_of(report)))


def render_csv(report: OperationReport) -> str:
    return "".join(csv_renderer.render(answer_of(report).data))


def lines_of(report: OperationReport, limit: int | None = None) -> list[str]:
    return [" ".join(line.split()) for line in text_of(report, limit).splitlines()]


def by_name(report: OperationReport, scope: str = "operation") -> dict[str, dict[str, Any]]:
    return {row["operation"]: row for row in report.of_scope(scope)}


def training(path: Path) -> TraceBuilder:
    """Build two iterations of a thread in each state, an idle one, and a worker process."""
    builder = TraceBuilder(path)
    builder.coverage("thread_state")
    builder.coverage("operation")
    trainer = builder.process(pid=10, name="train", end_ns=100 * MS)
    thread = builder.thread(
        trainer,
        tid=10,
        states=[
            run(40 * MS), sleep(30 * MS), preempted(5 * MS), lost(3 * MS), run(17 * MS),
            blocked(5 * MS),
        ],
    )  # fmt: skip
    for start in (0, 50):
        builder.operation(thread, start * MS, (start + 40) * MS, "iteration")
        builder.operation(thread, (start + 10) * MS, (start + 30) * MS, "learn")
        builder.operation(thread, (start + 12) * MS, (start + 20) * MS, "learn")
    builder.thread(trainer, tid=11, states=[run(2 * MS), sleep(98 * MS)])
    worker = builder.process(pid=20, name="env", end_ns=100 * MS)
    simulator = builder.thread(worker, tid=20, states=[run(60 * MS), sleep(20 * MS)])
    builder.operation(
        simulator, 0, 50 * MS, "simulation", domain="rlscope", source="auto", category="phase"
    )
    return builder


@pytest.fixture
def builder(tmp_path: Path) -> TraceBuilder:
    return training(tmp_path / "trace.duckdb")


def test_times_of_an_operation_by_hand(builder: TraceBuilder) -> None:
    rows = by_name(report_of(builder))
    iteration, learn = rows["iteration"], rows["learn"]
    assert (iteration["instances"], iteration["total_ns"]) == (2, 80 * MS)
    # Its own time: 0..10, 30..40 and 50..60, 80..90.
    assert (iteration["self_ns"], iteration["self_running_ns"]) == (40 * MS, 30 * MS)
    assert (iteration["self_off_cpu_ns"], iteration["self_runnable_ns"]) == (10 * MS, 0)
    # With all inside: 0..40 and 50..90.
    assert (iteration["total_running_ns"], iteration["total_runnable_ns"]) == (52 * MS, 5 * MS)
    assert (iteration["total_off_cpu_ns"], iteration["total_lost_ns"]) == (20 * MS, 3 * MS)
    # Inside itself it is open once, but there are two instances.
    assert (learn["instances"], learn["total_ns"], learn["self_ns"]) == (4, 40 * MS, 40 * MS)
    assert (learn["mean_ns"], learn["p50_ns"], learn["p99_ns"]) == (14 * MS, 8 * MS, 20 * MS)
    assert learn["self_lost_ns"] == 3 * MS


def test_the_tree_tells_an_operation_inside_itself_apart(builder: TraceBuilder) -> None:
    paths = [row for row in report_of(builder).of_scope("path") if row["operation"] == "learn"]
    assert [(row["depth"], row["total_ns"], row["self_ns"]) for row in paths] == [
        (1, 40 * MS, 24 * MS),
        (2, 16 * MS, 16 * MS),
    ]


def test_time_without_an_operation_is_one_too(builder: TraceBuilder) -> None:
    report = report_of(builder)
    outside = [
        (row["process_id"], row["self_ns"], row["instances"])
        for row in report.of_scope("operation")
        if row["operation"] == "(unannotated)"
    ]
    assert outside == [(1, 20 * MS, None), (2, 30 * MS, None)]


def test_the_table_shows_sums_lifetimes_and_the_rest(builder: TraceBuilder) -> None:
    lines = lines_of(report_of(builder))
    assert "losses nothing lost" in lines
    assert (
        "iteration - - nvtx 2 40.000 22.2 30.000 75.0 0.000 0.0 10.000 25.0 0.000 0.0"
        " 80.000 40.000 40.000 40.000" in lines
    )
    (total,) = [line for line in lines if line.startswith("total ")]
    assert total.split()[1:3] == ["180.000", "100.0"]
    assert "lifetime of 2 threads with operations 180.000" in lines
    assert "1 thread without operations: 0.002 s on CPU; see --view thread" in lines
    assert "simulation rlscope phase auto 1 50.000 27.8" in " ".join(lines)


def test_the_tree_is_indented_with_the_largest_first(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    builder.coverage("thread_state")
    thread = builder.thread(builder.process(pid=1, end_ns=40), states=[run(40)])
    builder.operation(thread, 0, 30, "rollout")
    builder.operation(thread, 1, 5, "act")
    builder.operation(thread, 5, 25, "env")
    tree = text_of(report_of(builder)).partition("tree: ")[2].splitlines()[2:7]
    assert [line.partition("  0.0")[0].rstrip("1 ") for line in tree] == [
        "python (pid 1, 1 thread)", "  rollout", "    env", "    act", "  (unannotated)",
    ]  # fmt: skip


def test_operations_of_one_name_but_two_sources_are_two(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    thread = builder.thread(builder.process(pid=1, end_ns=40), states=[run(40)])
    for start, source in ((0, "nvtx"), (20, "auto")):
        builder.operation(thread, start, start + 20, "step", source=source)
        builder.operation(thread, start, start + 10, "learn", source=source)
    report = report_of(builder)
    rows = {(row["operation"], row["source"]): row for row in report.of_scope("operation")}
    assert {key: row["self_ns"] for key, row in rows.items()} == dict.fromkeys(
        [("step", "nvtx"), ("learn", "nvtx"), ("step", "auto"), ("learn", "auto")], 10
    )
    tree = [(row["operation"], row["source"]) for row in report.of_scope("path")]
    assert sorted(tree) == sorted(rows)
    heading = next(line for line in lines_of(report) if line.startswith("operation "))
    assert heading.startswith("operation source instances"), "one domain, no category"


def test_a_phase_that_a_framework_calls_by_several_names_is_one_row(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    builder.coverage("thread_state")
    process = builder.process(pid=10, end_ns=100 * MS)
    thread = builder.thread(process, tid=10, states=[run(40 * MS), sleep(60 * MS)])
    for at, framework_name in enumerate(("ref", "old_log_prob", None, "ref")):
        start = 20 * at * MS
        builder.operation(
            thread, start, start + (15 + at) * MS, "logprob", source="auto",
            framework_name=framework_name,
        )  # fmt: skip
        builder.operation(thread, start + MS, start + 5 * MS, "forward")
    report = report_of(builder)
    logprob, forward, outside = report.of_scope("path")
    assert [row["operation"] for row in (logprob, forward, outside)] == [
        "logprob", "forward", "(unannotated)",
    ]  # fmt: skip
    assert (logprob["instances"], logprob["total_ns"]) == (4, (15 + 16 + 17 + 18) * MS)
    assert (logprob["self_ns"], logprob["total_running_ns"]) == (50 * MS, 31 * MS)
    assert (forward["instances"], forward["total_ns"]) == (4, 16 * MS)
    assert forward["parent_path_id"] == logprob["path_id"]
    assert sum(row["self_ns"] for row in report.of_scope("path")) == 100 * MS
    for scope in ("operation", "path"):
        assert by_name(report, scope)["logprob"]["p99_ns"] == 18 * MS
    shown = [line for line in lines_of(report) if line.startswith("logprob")]
    assert len(shown) == 2, shown
    with open_trace(builder.path) as trace:
        names = trace.relation("operation_tree").fetchall()
        assert len(names) == 3 + 3 + 1


def test_time_per_iteration_is_time_by_the_instances_of_the_process(builder: TraceBuilder) -> None:
    report = report_of(builder)
    assert report.iteration is not None
    assert (report.iteration.name, report.iteration.by_process) == ("iteration", {1: 2})
    learn = by_name(report)["learn"]
    assert learn["total_per_iteration_ns"] == 20 * MS
    assert learn["self_off_cpu_per_iteration_ns"] == 5 * MS
    # The worker has no iterations: its times per iteration are not known, not zero.
    assert by_name(report)["simulation"]["self_per_iteration_ns"] is None
    lines = lines_of(report)
    assert "iteration one iteration (nvtx): 2 in train (pid 10)" in lines
    at = lines.index("per iteration: the times above / the number of iterations in the process")
    assert "learn - - nvtx 2.00 20.000 20.000 11.000 2.500 5.000" in lines[at:]


def test_an_iteration_inside_another_of_its_name_does_not_count(builder: TraceBuilder) -> None:
    report = report_of(builder, per="learn")
    assert report.iteration is not None
    assert report.iteration.by_process == {1: 2}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Epoch", "step"], "Epoch"),  # the outermost
        (["work", "UPDATE"], "UPDATE"),
        (["work", "learn"], None),
    ],
)
def test_what_looks_like_an_iteration_is_one(
    names: list[str], expected: str | None, tmp_path: Path
) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    thread = builder.thread(builder.process(pid=1, end_ns=40), states=[run(40)])
    for depth, name in enumerate(names):
        builder.operation(thread, depth, 40 - depth, name)
    report = report_of(builder)
    assert (report.iteration.name if report.iteration else None) == expected
    if expected is None:
        assert "self_per_iteration_ns" not in [column.name for column in report.columns]
        assert "per iteration:" not in text_of(report)
        assert "name one with --per" in text_of(report)


def test_without_a_range_the_updates_of_each_learner_count(tmp_path: Path) -> None:
    """Two ranks that act and learn, and a worker that steps for the first."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    for process, updates in ((1, 3), (2, 2), (3, 0)):
        builder.process(pid=process, end_ns=100)
        thread = builder.thread(process, states=[run(100)])
        for at in range(0, 30 * (updates or 3), 30):
            builder.operation(thread, at, at + 5, "simulation", source="auto")
            if updates:
                builder.operation(thread, at + 5, at + 9, "inference", source="auto")
                builder.operation(thread, at + 10, at + 20, "backpropagation", source="auto")
                builder.operation(thread, at + 21, at + 29, "backpropagation", source="auto")
    report = report_of(builder)
    assert report.iteration is not None
    assert report.iteration.by_process == {1: 3, 2: 2}
    assert "one update (auto): 3 in python (pid 1), 2 in 1 more process" in text_of(report)
    with open_trace(builder.path) as trace:
        assert trace.sql("SELECT process_id, count(*) FROM iteration GROUP BY 1").fetchall() == [
            (1, 3)
        ]
        of_steps = report_operations(trace, per="simulation")
    assert of_steps.iteration is not None
    assert of_steps.iteration.by_process == {1: 3, 3: 3, 2: 2}
    # Where nobody learns, nothing looks like an iteration, in the table neither.
    with open_trace(builder.path, start="90ns") as trace:
        assert report_operations(trace).iteration is None
        assert trace.sql("SELECT DISTINCT source FROM iteration").fetchall() == [("whole",)]


def test_updates_of_a_learner_that_never_acts_are_cycles_of_its_names(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    thread = builder.thread(builder.process(pid=1, end_ns=100), states=[run(100)])
    names = ("update_critic", "update_critic", "update_actor", "update_critic", "update_actor")
    for at, framework_name in enumerate(names):
        builder.operation(
            thread, 20 * at, 20 * at + 15, "backpropagation", source="auto",
            framework_name=framework_name,
        )  # fmt: skip
        builder.operation(thread, 20 * at + 15, 20 * at + 20, "wait", source="auto")
    report = report_of(builder)
    assert report.iteration is not None
    assert report.iteration.by_process == {1: 3}
    with open_trace(builder.path) as trace:
        ends = trace.sql("SELECT start_ns, end_ns FROM iteration ORDER BY 1").fetchall()
    assert ends == [(0, 15), (15, 55), (55, 95)]


def test_ranges_that_a_profiler_numbers_are_iterations(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    thread = builder.thread(builder.process(pid=1, end_ns=90), states=[run(90)])
    for at in range(3):
        builder.operation(
            thread, 30 * at, 30 * at + 20, f"ProfilerStep#{at}", source="record_function"
        )
    report = report_of(builder)
    assert report.iteration is not None
    assert (report.iteration.name, report.iteration.by_process) == ("ProfilerStep", {1: 3})


def test_an_unknown_iteration_is_told_with_the_closest_names_first(builder: TraceBuilder) -> None:
    with pytest.raises(TraceError, match="no operation is called 'lern'") as caught:
        report_of(builder, per="lern")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("one of: learn, ")
    assert {"iteration", "simulation"} <= set(caught.value.hint.replace(",", "").split())


def test_the_name_of_an_iteration_may_differ_in_case(builder: TraceBuilder) -> None:
    report = report_of(builder, per="LEARN")
    assert report.iteration is not None
    assert report.iteration.name == "learn"


def test_ranges_of_no_thread_and_marks_are_in_no_sum(builder: TraceBuilder) -> None:
    for end in (10, 30, 30):
        builder.async_range(1, 0, end * MS, "request", "serving")
    path = builder.write()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "INSERT INTO mark_coded (thread_id, ts_ns, name)"
            " VALUES (1, 5, 'reset'), (1, 10, 'reset')"
        )
    with open_trace(path) as trace:
        report = report_operations(trace)
    with open_trace(path, start="6ns") as trace:
        assert by_name(report_operations(trace), "mark")["reset"]["instances"] == 1
    (request,) = report.of_scope("async_range")
    assert (request["instances"], request["total_ns"]) == (3, 70 * MS)
    assert (request["p50_ns"], request["p99_ns"]) == (30 * MS, 30 * MS)
    assert request["self_ns"] is None
    assert by_name(report, "mark")["reset"]["instances"] == 2
    lines = lines_of(report)
    assert "request serving train (pid 10) 3 70.000 23.333 30.000 30.000" in lines
    assert "reset - train (pid 10) 2" in lines
    (total,) = [line for line in lines if line.startswith("total ")]
    assert total.split()[1] == "180.000"


def test_what_was_not_measured_is_a_dash_and_a_note(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    builder.coverage("thread_state", measured=False, fact=Fact("kineto_no_scheduling"))
    thread = builder.thread(builder.process(pid=1, end_ns=40), states=[], end_ns=0)
    builder._threads[0] = (*builder._threads[0][:4], 40, "main", True, 0, None)
    builder.operation(thread, 0, 30, "learn")
    report = report_of(builder)
    assert by_name(report)["learn"]["self_running_ns"] is None
    assert by_name(report)["learn"]["self_ns"] == 30
    lines = lines_of(report)
    assert (
        "note not measured: thread_state of all processes: imported from Kineto, which records no"
        " scheduling"
    ) in lines
    assert "learn 1 0.000 75.0 - - - - - - 0.000 0.000 0.000 0.000" in lines


def test_losses_come_with_the_operations(builder: TraceBuilder) -> None:
    builder.loss("pop_unbalanced", count=3)
    builder.meta["ended_cleanly"] = "false"
    lines = lines_of(report_of(builder))
    assert lines[0].startswith("warning: the recording of this trace was cut off")
    assert "losses unmatched: 3 records, pops of ranges that were not open" in lines


def test_parts_of_a_total_that_cannot_be_told_are_not_guessed(tmp_path: Path) -> None:
    """An operation of another domain ends after the one it began in."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    builder.coverage("thread_state")
    thread = builder.thread(builder.process(pid=1, end_ns=40), states=[run(40)])
    builder.operation(thread, 0, 20, "a", domain="x")
    builder.operation(thread, 10, 30, "b", domain="y")
    report = report_of(builder)
    rows = by_name(report)
    assert (rows["a"]["total_ns"], rows["a"]["self_ns"]) == (20, 10)
    assert rows["a"]["total_running_ns"] is None
    assert (rows["b"]["total_ns"], rows["b"]["total_running_ns"]) == (20, 20)
    assert sentence_of(report.notes[-1]) == (
        "operations end out of order: the parts of their totals are not known (-)"
    )


def test_a_window_is_told_and_cuts_operations(builder: TraceBuilder) -> None:
    report = report_of(builder, start="5ms", end="40ms")
    assert "window 0.005 s to 0.040 s, since the start of the trace" in lines_of(report)
    iteration = by_name(report)["iteration"]
    assert (iteration["total_ns"], iteration["self_ns"]) == (35 * MS, 15 * MS)
    document = json.loads(render_json(report))
    assert document["window"] == {"from_ns": 5 * MS, "to_ns": 40 * MS}


def test_hidden_rows_stay_in_the_totals(builder: TraceBuilder) -> None:
    lines = lines_of(report_of(builder), limit=1)
    assert "(2 more operations, in the total; all of them: --all)" in lines
    # The largest, and the rest of its process.
    first = lines[: lines.index("lifetime of 2 threads with operations 180.000")]
    assert [line.split()[0] for line in first[-4:]] == [
        "env", "simulation", "(unannotated)", "total",
    ]  # fmt: skip
    assert not any(line.startswith("train ") for line in first)
    (total,) = [line for line in lines if line.startswith("total ")]
    assert total.split()[1] == "180.000"


def test_json_and_csv_hold_everything_in_nanoseconds(builder: TraceBuilder) -> None:
    builder.async_range(1, 0, 10, "request")
    report = report_of(builder)
    document = json.loads(render_json(report))
    assert document["iteration"] == {
        "operation": "iteration", "source": "nvtx",
        "instances": [{"process_id": 1, "instances": 2}],
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(render_csv(report))))
    assert len(rows) == len(document["rows"]) == len(report.rows)
    for row, record in zip(rows, document["rows"], strict=True):
        assert list(row) == list(record) == [column.name for column in report.columns]
        for name, value in record.items():
            assert row[name] == ("" if value is None else str(value)), name
    lifetimes = sum(process["lifetime_ns"] for process in document["processes"])
    for scope in ("operation", "path"):
        selves = [row["self_ns"] for row in document["rows"] if row["scope"] == scope]
        assert sum(selves) == lifetimes == 180 * MS


def test_a_trace_without_operations_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation")
    builder.thread(builder.process(pid=1, end_ns=10), states=[run(10)])
    assert "operations none: the program marked none" in lines_of(report_of(builder))[1]


def test_operations_that_were_not_measured_are_an_error(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("operation", measured=False, fact=Fact("program_static", "train"))
    builder.process(pid=1, end_ns=10)
    with pytest.raises(TraceError, match=r"not measured \(train is statically linked:"):
        report_of(builder)


STATES = st.lists(
    st.builds(
        lambda make, length: make(length),
        st.sampled_from([run, sleep, preempted, blocked, lost]),
        st.integers(1, 30),
    ),
    min_size=1,
    max_size=8,
)
# start, length, name: nested by force below; some take no time.
OPERATIONS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.sampled_from("abc")), max_size=10
)


def add_nested(
    builder: TraceBuilder, thread: int, end_ns: int, drawn: list[tuple[int, int, str]]
) -> None:
    """Add operations to a thread, each cut where the one around it ends."""
    open_: list[int] = []
    for start, length, name in sorted(drawn, key=lambda one: (one[0], -one[1])):
        open_ = [end for end in open_ if end > start]
        end = min(start + length, *open_, end_ns) if open_ else min(start + length, end_ns)
        if start <= end and start < end_ns:
            builder.operation(thread, start, end, name)
            open_.append(end)


@settings(deadline=None, max_examples=10)
@given(st.lists(st.tuples(st.integers(1, 2), STATES, OPERATIONS), min_size=1, max_size=4))
def test_self_times_of_any_trace_add_up_to_the_lifetimes(
    threads: list[tuple[int, list[Interval], list[tuple[int, int, str]]]],
) -> None:
    builder = TraceBuilder(Path("memory"))
    builder.coverage("thread_state")
    builder.coverage("operation")
    for _ in range(2):
        builder.process(pid=1, end_ns=300)
    lifetimes = dict.fromkeys((1, 2), 0)
    for process, states, drawn in threads:
        thread = builder.thread(process, states=states)
        lifetime = sum(state.length_ns for state in states)
        before = len(builder._operations)
        add_nested(builder, thread, lifetime, drawn)
        lifetimes[process] += lifetime if len(builder._operations) > before else 0
    counts = len(builder._operations)
    with duckdb.connect() as connection:
        builder.fill(connection)
        derive(connection)
        report = report_operations(Trace(Path("memory"), connection, 1))
    for scope in ("operation", "path"):
        rows = report.of_scope(scope)
        for process, lifetime in lifetimes.items():
            own = [row for row in rows if row["process_id"] == process]
            assert sum(row["self_ns"] for row in own) == lifetime
        for row in rows:
            for kind in ("self", "total"):
                parts = [row[f"{kind}_{p}_ns"] for p in ("running", "runnable", "off_cpu", "lost")]
                assert sum(parts) == row[f"{kind}_ns"], (scope, kind, row)
        assert sum(row["instances"] or 0 for row in rows) == counts
    tops = [row for row in report.of_scope("path") if row["depth"] == 0]
    assert sum(row["total_ns"] for row in tops) == sum(lifetimes.values())
    assert {row["process_id"]: row["lifetime_ns"] for row in report.processes} == {
        process: lifetimes[process] for process, _, _ in threads
    }
    assert report.notes == ()
