"""Each view of summarize: it works on every trace, and its parts add up to its total."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from rlscope_analysis.errors import TraceError
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers import csv as csv_renderer
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers.text import render_table
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, blocked, lost, preempted, run, sleep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

KINDS = (
    "thread_state", "operation", "native_call", "cpu_sample", "wait", "cuda_call", "gpu_activity",
)  # fmt: skip
MS = 10**6


def training(path: Path) -> Path:
    """Write two processes: one trains on a GPU, one simulates."""
    builder = TraceBuilder(path)
    for kind in KINDS:
        builder.coverage(kind)
    builder.device(0, name="H200")
    trainer = builder.process(pid=10, name="train", end_ns=100 * MS)
    thread = builder.thread(
        trainer,
        tid=10,
        name="main",
        states=[run(40 * MS), sleep(30 * MS), preempted(5 * MS), run(20 * MS), blocked(5 * MS)],
    )
    for start in (0, 50):
        builder.operation(thread, start * MS, (start + 50) * MS, "iteration")
        builder.operation(thread, (start + 10) * MS, (start + 30) * MS, "learn")
    builder.native_call(thread, 12 * MS, 30 * MS, "backend", "aten::mm")
    builder.native_call(thread, 32 * MS, 34 * MS, "simulator", "mj_step")
    builder.cuda_call(thread, 15 * MS, 16 * MS, correlation_id=1)
    builder.cuda_call(
        thread, 38 * MS, 68 * MS, kind="sync", name="cudaStreamSynchronize", correlation_id=2
    )
    builder.wait(thread, 95 * MS, 100 * MS, "io")
    builder.gpu_activity(trainer, 20 * MS, 60 * MS, name="gemm", correlation_id=1)
    builder.gpu_activity(trainer, 80 * MS, 90 * MS, name="orphan", correlation_id=9)
    worker = builder.process(pid=11, name="worker", end_ns=100 * MS)
    sim = builder.thread(worker, tid=11, name="sim", states=[sleep(60 * MS), run(40 * MS)])
    builder.wait(sim, 0, 50 * MS, "pipe")
    builder.wait(sim, 50 * MS, 60 * MS, "gil")
    # Inside a known call: it tells nothing of the time outside.
    builder.sample(thread, 14 * MS, "backend", frames=("main", "learn"))
    builder.sample(thread, 15 * MS, "backend", frames=("main", "learn"))
    for event in ("switch", "wakeup", "sample"):
        builder.cost(event, 1000, error_ns=100)
    for event in ("call", "range"):
        for part in ("inside", "outside"):
            builder.cost(event, 500, part=part, error_ns=100)
    return builder.write()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training(tmp_path_factory.mktemp("training") / "trace.duckdb")


@pytest.fixture(scope="module")
def trace(path: Path) -> Iterator[Trace]:
    with open_trace(path) as opened:
        yield opened


def records(trace: Trace, name: str) -> list[dict[str, Any]]:
    return list(answer(trace, REPORTS[name]).data.records())


def view_text(trace: Trace, name: str, limit: int | None = None) -> str:
    (table,) = answer(trace, REPORTS[name]).tables
    return render_table(table, limit=limit)


def tree_of(trace: Trace) -> list[dict[str, Any]]:
    """Return the operations as a tree."""
    return [row for row in records(trace, "operation") if row["scope"] == "path"]


def total(rows: list[dict[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows)


def test_buckets_of_all_threads_add_up_to_their_lifetimes(trace: Trace) -> None:
    assert total(records(trace, "breakdown"), "time_ns") == 200 * MS
    assert total(records(trace, "thread"), "time_ns") == 200 * MS
    assert sum(row["share"] for row in records(trace, "breakdown")) == pytest.approx(1)


def test_buckets_are_what_they_are_called(trace: Trace) -> None:
    buckets = {
        (row["name"], row["bucket"]): row["time_ns"] // MS for row in records(trace, "thread")
    }
    assert buckets == {
        ("main", "backend"): 17,  # 12..30 but for the launch
        ("main", "simulator"): 2,
        ("main", "cuda_api"): 1 + 2,  # the launch, and the synchronisation while on a CPU
        ("main", "running"): 12 + 2 + 4 + 20,  # layers not known
        ("main", "gpu_wait"): 28,  # asleep inside the synchronisation
        ("main", "sleeping"): 2,
        ("main", "runnable"): 5,
        ("main", "io_wait"): 5,
        ("sim", "io_wait"): 50,
        ("sim", "gil_wait"): 10,
        ("sim", "running"): 40,
    }


def test_the_operation_tree_holds_self_and_total_times(trace: Trace) -> None:
    tree = {row["operation"]: row for row in tree_of(trace)}
    assert tree["iteration"]["instances"] == 2
    assert tree["iteration"]["total_ns"] == 100 * MS
    assert tree["iteration"]["self_ns"] == 60 * MS
    assert tree["learn"]["mean_ns"] == 20 * MS
    assert tree["learn"]["self_gpu_busy_ns"] == 10 * MS  # 20..30
    # Annotated threads only: that of the worker has no operation.
    assert total(list(tree.values()), "self_ns") == 100 * MS


def test_resources_split_the_lifetime_of_annotated_threads(trace: Trace) -> None:
    rows = records(trace, "resource")
    by_resource: dict[str, int] = {}
    for row in rows:
        by_resource[row["resource"]] = by_resource.get(row["resource"], 0) + row["time_ns"] // MS
    assert by_resource == {"CPU": 20 + 5 + 5, "CPU+GPU": 20 + 10, "GPU": 20, "none": 10 + 5 + 5}
    assert total(rows, "time_ns") == 100 * MS


def test_layers_are_the_part_on_a_cpu(trace: Trace) -> None:
    rows = records(trace, "layer")
    assert total(rows, "time_ns") == (60 + 40) * MS
    assert {row["layer"] for row in rows} == {"backend", "simulator", "cuda_api", None}


def test_transitions_count_calls_that_change_the_layer(trace: Trace) -> None:
    rows = {
        (row["operation"], row["from_layer"], row["to_layer"]): (row["count"], row["per_instance"])
        for row in records(trace, "transitions")
    }
    assert rows == {
        ("learn", None, "backend"): (1, 0.5),
        ("learn", "backend", "cuda_api"): (1, 0.5),
        ("iteration", None, "simulator"): (1, 0.5),
        ("iteration", None, "cuda_api"): (1, 0.5),
    }


def test_time_off_the_cpu_has_its_reason(trace: Trace) -> None:
    rows = records(trace, "blocked")
    reasons: dict[tuple[str | None, str | None], int] = {}
    for row in rows:
        key = (row["wait"], row["inside"])
        reasons[key] = reasons.get(key, 0) + row["time_ns"] // MS
    assert reasons == {
        ("gpu", "cuda_api"): 28,
        (None, None): 2,
        ("pipe", None): 50,
        ("gil", None): 10,
        ("io", None): 5,
    }


def test_cpu_shares_add_up_to_the_running_time(trace: Trace) -> None:
    rows = records(trace, "cpu")
    assert total(rows, "running_ns") == 100 * MS
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert sum(row["cpus"] for row in rows) == pytest.approx(1.0)  # 100 ms in 100 ms


def test_gpu_busy_and_idle_make_up_the_span_in_every_scope(trace: Trace) -> None:
    for row in records(trace, "gpu"):
        assert row["busy_ns"] + row["idle_ns"] == row["span_ns"]
    whole = records(trace, "gpu")[0]
    assert (whole["activities"], whole["busy_ns"], whole["span_ns"]) == (2, 50 * MS, 70 * MS)
    assert total(records(trace, "idle"), "time_ns") == whole["idle_ns"]
    assert total(records(trace, "kernel"), "sum_ns") == whole["sum_ns"]


def test_both_attributions_of_gpu_time_add_up_to_it(trace: Trace) -> None:
    rows = records(trace, "launch")
    assert total(rows, "launched_ns") == total(rows, "ran_ns") == 50 * MS
    assert {row["operation"]: row["launches"] for row in rows} == {
        "learn": 1,
        None: 1,
    }


def test_no_time_is_counted_twice_in_overlaps(trace: Trace) -> None:
    assert total(records(trace, "resource-overlap"), "time_ns") == 200 * MS
    assert total(records(trace, "operation-overlap"), "time_ns") == 100 * MS
    # The trainer works in 0..60, 75..95 and on the GPU in 80..90, the worker in 60..100.
    together = [(row["process_ids"], row["time_ns"]) for row in records(trace, "process-overlap")]
    assert together == [([1], 60 * MS), ([1, 2], 20 * MS), ([2], 20 * MS)]


@pytest.mark.parametrize("name", REPORTS)
def test_every_view_renders_in_every_format(trace: Trace, name: str) -> None:
    found = answer(trace, REPORTS[name])
    names, rows = [column.name for column in found.data.columns], list(found.data.rows)
    assert rows
    document = json.loads("".join(json_renderer.render(found)))
    assert document["view"] == name
    assert [list(row) for row in document["rows"]] == [names] * len(rows)
    parsed = list(csv.reader(io.StringIO("".join(csv_renderer.render(found.data)))))
    assert parsed[0] == names
    assert len(parsed) == len(rows) + 1
    table = view_text(trace, name)
    assert table.startswith(REPORTS[name].title)
    shorter = view_text(trace, name, 1)
    assert len(shorter.splitlines()) <= len(table.splitlines()) + 1


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    builder = TraceBuilder(tmp_path_factory.mktemp("unmeasured") / "trace.duckdb")
    for kind in KINDS:
        builder.coverage(kind, measured=False, fact=Fact("not_asked_for", "--it"))
    builder.thread(builder.process(pid=1, end_ns=10), states=[run(10)])
    with open_trace(builder.write()) as opened:
        yield opened


@pytest.mark.parametrize("name", [name for name, report in REPORTS.items() if report.needs])
def test_what_was_not_measured_is_an_error_not_a_zero(unmeasured: Trace, name: str) -> None:
    with pytest.raises(TraceError, match=r"was not measured \(not asked for: --it\)"):
        answer(unmeasured, REPORTS[name])


def test_a_note_tells_what_was_not_measured_and_time_on_a_cpu_is_whole(tmp_path: Path) -> None:
    """Layers are known from CUDA calls alone, and without a word about the GPU."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("cuda_call")
    thread = builder.thread(builder.process(pid=1, end_ns=10), states=[run(8), sleep(2)])
    builder.cuda_call(thread, 0, 3)
    with open_trace(builder.write()) as opened:
        rows = records(opened, "layer")
        assert {(row["layer"], row["resource"]): row["time_ns"] for row in rows} == {
            ("cuda_api", None): 3,
            (None, None): 5,
        }
        found = answer(opened, REPORTS["resource-overlap"])
        text = view_text(opened, "resource-overlap")
        assert "note: gpu_activity was not measured for 1 process\n" in text
        document = json.loads("".join(json_renderer.render(found)))
        assert document["processes_not_measured"] == {"native_call": 1, "gpu_activity": 1}


def test_time_on_a_cpu_is_marked_where_it_is_taken_for_granted(tmp_path: Path) -> None:
    """An imported trace has no states: whether a thread ran inside its calls is not known."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state", measured=False, fact=Fact("kineto_no_scheduling"))
    for kind in ("native_call", "cuda_call", "cpu_sample", "operation"):
        builder.coverage(kind)
    thread = builder.thread(builder.process(pid=1, end_ns=10), states=(), end_ns=10)
    builder.native_call(thread, 1, 5, "backend", "aten::mm")
    note = (
        "note: thread_state was not measured for 1 process: there, inside a call that does not"
        " wait counts as on a CPU\n"
    )
    with open_trace(builder.write()) as opened:
        for name in ("layer", "resource"):
            found = answer(opened, REPORTS[name])
            assert found.facts["processes_not_measured"]["thread_state"] == 1
            assert note in view_text(opened, name)
        assert total(records(opened, "layer"), "time_ns") == 4
        # Without it there is no answer to this one: nothing is taken for granted.
        with pytest.raises(TraceError, match=r"holds no thread_state.*no scheduling"):
            answer(opened, REPORTS["cpu"])


def test_the_same_time_is_on_a_cpu_in_every_view(trace: Trace) -> None:
    """Each second on a CPU, off it or of neither is so by bucket, by resource and corrected."""
    by_bucket = trace.sql(
        "SELECT on_cpu, sum(time_ns)::BIGINT, list_sort(list(DISTINCT bucket)) FROM breakdown"
        " GROUP BY on_cpu ORDER BY on_cpu"
    ).fetchall()
    assert by_bucket == [
        (False, 100 * MS, ["gil_wait", "gpu_wait", "io_wait", "runnable", "sleeping"]),
        (True, 100 * MS, ["backend", "cuda_api", "running", "simulator"]),
    ]
    corrected = "SELECT on_cpu, sum(time_ns)::BIGINT FROM breakdown_corrected GROUP BY 1 ORDER BY 1"
    assert trace.sql(corrected).fetchall() == [row[:2] for row in by_bucket]
    running = "SELECT sum(end_ns - start_ns)::BIGINT FROM thread_state WHERE state = 'running'"
    assert trace.sql(running).fetchall() == [(100 * MS,)]


def test_what_was_lost_is_neither_on_a_cpu_nor_off_it(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    watched = builder.process(pid=1, end_ns=10)
    builder.coverage("thread_state", process_id=watched)
    builder.thread(watched, states=[run(4), lost(3), sleep(3)])
    unwatched = builder.process(pid=2, end_ns=10)
    builder.coverage("thread_state", process_id=unwatched, measured=False)
    builder.thread(unwatched, states=(), end_ns=10)
    with open_trace(builder.write()) as opened:
        query = "SELECT bucket, on_cpu, time_ns FROM breakdown ORDER BY bucket"
        assert opened.sql(query).fetchall() == [
            ("lost", None, 3), ("running", True, 4), ("sleeping", False, 3), ("unknown", None, 10),
        ]  # fmt: skip


def test_a_view_that_somebody_replaced_is_not_asked(tmp_path: Path) -> None:
    path = training(tmp_path / "trace.duckdb")

    def shown() -> str:
        with open_trace(path) as opened:
            return view_text(opened, "thread")

    before = shown()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE OR REPLACE VIEW thread_bucket AS SELECT 1 AS process_id, 1 AS thread_id,"
            " 'x' AS bucket, NULL::BIGINT AS time_ns, 1 AS lifetime_ns, 1.0 AS share,"
            " 0 AS sampled_ns, 0 AS stderr_ns"
        )
    assert shown() == before


def test_threads_that_look_the_same_have_a_line_each(tmp_path: Path) -> None:
    """Ranks in containers: equal pids, tids and names."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    process = builder.process(pid=1, end_ns=10)
    for length in (10, 7):
        builder.thread(process, tid=1, name="main", states=[run(length * MS)])
    with open_trace(builder.write()) as opened:
        text = view_text(opened, "thread")
    lines = text.splitlines()[2:]
    assert [line.split()[-1] for line in lines] == ["10.00", "7.00", "17.00"]


def test_an_operation_that_owns_no_time_leaves_the_totals_known(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("operation")
    thread = builder.thread(builder.process(pid=1, end_ns=10), states=[run(6), sleep(4)])
    builder.operation(thread, 0, 10, "around")
    builder.operation(thread, 0, 10, "inside")
    with open_trace(builder.write()) as opened:
        rows = {row["operation"]: row for row in tree_of(opened)}
    around, inside = rows["around"], rows["inside"]
    assert around["self_ns"] == around["self_running_ns"] == 0
    assert (inside["self_running_ns"], inside["self_off_cpu_ns"]) == (6, 4)
    assert (around["total_running_ns"], around["total_off_cpu_ns"]) == (6, 4)
    assert around["self_gpu_busy_ns"] is None


def test_a_gpu_that_two_ranks_tell_of_is_one_row(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("gpu_activity")
    builder.device(0, name="H200")
    builder.device(0, name="H200")
    builder.gpu_activity(builder.process(pid=1, end_ns=10), 0, 5)
    with open_trace(builder.write()) as opened:
        scopes = [row["scope"] for row in records(opened, "gpu")]
    assert scopes == ["trace", "machine", "process", "device", "stream", "kind"]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    path = TraceBuilder(tmp_path_factory.mktemp("empty") / "empty.duckdb").write()
    with open_trace(path) as opened:
        yield opened


@pytest.mark.parametrize("name", REPORTS)
def test_every_view_works_on_an_empty_trace(empty: Trace, name: str) -> None:
    assert records(empty, name) == []
    assert view_text(empty, name, 20).startswith(REPORTS[name].title)


def test_a_total_stands_for_the_hidden_rows_too(trace: Trace) -> None:
    text = view_text(trace, "idle", 1)
    assert text.splitlines()[-1].startswith("total") or "(" in text.splitlines()[-1]
    (line,) = [line for line in text.splitlines() if line.startswith("total")]
    assert "20.000" in line


def test_rows_that_are_not_as_promised_are_told(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("native_call")
    thread = builder.thread(builder.process(pid=1, end_ns=10), states=[run(10)])
    builder.native_call(thread, 20, 30, "backend")
    with open_trace(builder.write()) as opened:
        notes = [sentence_of(note) for note in summarize(opened).notes]
    assert "rows of native_call_coded that are outside: 1; see overlap_fault" in notes
