"""What the summary tells of layers: shares with their error, spinning, peers, sampled functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from rlscope_analysis.derive import complete
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.operations.answer import answer_of as answer_of_operations
from rlscope_analysis.operations.report import report_operations
from rlscope_analysis.renderers import csv, text
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.summary.answer import answer_of
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

MS = 10**6
KINDS = ("thread_state", "operation", "native_call", "cpu_sample", "wait", "cuda_call")


@pytest.fixture
def builder(tmp_path: Path) -> TraceBuilder:
    """Build a trainer: 40 ms in the simulator, 60 ms that samples tell of, 100 ms for a worker."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in KINDS:
        builder.coverage(kind)
    trainer = builder.process(pid=10, name="train", end_ns=200 * MS)
    worker = builder.process(pid=11, name="worker 3", parent=trainer, end_ns=200 * MS)
    thread = builder.thread(
        trainer, tid=10, name="train", states=[run(100 * MS), sleep(99 * MS), woken(1 * MS, by=2)]
    )
    builder.thread(worker, tid=11, name="worker 3", states=[run(200 * MS)])
    builder.wait(thread, 100 * MS, 199 * MS, "pipe")
    for start in (0, 20):
        builder.operation(thread, start * MS, (start + 20) * MS, "step")
        builder.native_call(thread, start * MS, (start + 20) * MS, "simulator", "mj_step")
    for place, layer in enumerate(["backend", "spin", "spin", "spin", "python", "python"] * 10):
        frames = ("main", "learn") if place % 2 else ("main",)
        builder.sample(thread, (40 + place) * MS, layer, frames=frames)
    return builder


@pytest.fixture
def trace(builder: TraceBuilder) -> Iterator[Trace]:
    builder.write()
    with duckdb.connect(str(builder.path)) as connection:
        complete(connection)
    with open_trace(builder.path) as opened:
        yield opened


def records(trace: Trace, name: str) -> list[dict[str, Any]]:
    return list(answer(trace, REPORTS[name]).data.records())


def test_a_line_of_buckets_adds_up_and_has_its_errors(trace: Trace) -> None:
    rows = [row for row in records(trace, "breakdown") if row["pid"] == 10]
    own = {row["bucket"]: row for row in rows if row["operation"] == "(unannotated)"}
    assert {bucket: row["time_ns"] // MS for bucket, row in own.items()} == {
        "spin": 30, "python": 20, "backend": 10, "io_wait": 99, "runnable": 1,
    }  # fmt: skip
    # sqrt(p (1 - p) / n) of 60 ms, nearly: 3.9 ms.
    assert own["spin"]["stderr_ns"] == pytest.approx(60 * MS * (0.25 / 60) ** 0.5, rel=0.05)
    assert own["io_wait"]["stderr_ns"] == own["io_wait"]["sampled_ns"] == 0
    (simulated,) = [row for row in rows if row["operation"] == "step"]
    assert (simulated["bucket"], simulated["time_ns"], simulated["stderr_ns"]) == (
        "simulator", 40 * MS, 0,
    )  # fmt: skip


def test_people_see_the_error_beside_the_share_and_no_empty_column(trace: Trace) -> None:
    shown = text.render(answer(trace, REPORTS["breakdown"]), limit=None)
    (line,) = [line for line in shown.splitlines() if "train" in line and "(unannotated)" in line]
    assert "30.00 18.8 ± 2.3" in line
    assert "99.00 61.9 " in line
    (step,) = [line for line in shown.splitlines() if " step " in line]
    assert "±" not in step
    assert "gil_wait" not in shown
    assert "other" not in shown
    assert "±: standard error" in shown


def test_the_summary_points_out_spinning(trace: Trace) -> None:
    summary = summarize(trace)
    (spinning,) = map(sentence_of, summary.observations)
    assert spinning.startswith("75.0 ± ")
    assert "train (pid 10)" in spinning
    found = answer_of(summary, top=1)
    document = json.loads("".join(json_renderer.render(found)))
    assert document["observations"] == [spinning]
    assert f"observed   {spinning}\n" in text.render(found, limit=5)


def test_a_trace_without_spinning_points_out_nothing(builder: TraceBuilder) -> None:
    quiet = TraceBuilder(builder.path)
    for kind in KINDS:
        quiet.coverage(kind)
    quiet.thread(quiet.process(pid=1, end_ns=10), states=[run(10)])
    with open_trace(quiet.write()) as trace:
        assert summarize(trace).observations == ()


def test_dropped_functions_are_told(builder: TraceBuilder) -> None:
    builder.site("simulator", "mj_step", state="dropped", code="too_many", dropped_ns=30 * MS)
    with open_trace(builder.write()) as trace:
        notes = list(map(sentence_of, summarize(trace).notes))
    assert (
        "dropped: more functions than this OS kernel can probe at once: 1 function of simulator,"
        " for example mj_step"
    ) in notes


def test_functions_are_counted_once_per_stack(trace: Trace) -> None:
    rows = {row["function"]: row for row in records(trace, "functions")}
    assert {name: (row["self_samples"], row["total_samples"]) for name, row in rows.items()} == {
        "learn": (30, 30),
        "main": (30, 60),
    }
    assert rows["learn"]["self_share"] == 0.5
    assert rows["learn"]["self_stderr_share"] == pytest.approx((0.25 / 60) ** 0.5)


def test_functions_of_operations_tell_the_layer(trace: Trace) -> None:
    rows = records(trace, "operation-functions")
    assert {row["operation"] for row in rows} == {"(unannotated)"}
    assert sum(row["samples"] for row in rows) == 60
    spun = sum(row["samples"] for row in rows if row["layer"] == "spin")
    assert spun == 30


def test_transitions_are_told_per_iteration(trace: Trace) -> None:
    report = report_operations(trace)
    (step,) = [row for row in report.of_scope("operation") if row["operation"] == "step"]
    assert (step["to_simulator"], step["to_simulator_per_iteration"]) == (2, 1.0)
    # Samples found the backend, and no call entered it: a count of 0 would be wrong.
    assert (step["to_backend"], step["to_cuda_api"]) == (None, 0)
    found = answer_of_operations(report)
    shown = text.render(found, limit=None)
    assert "-> simulator" in shown
    assert "-> backend" not in shown
    assert "to_backend_per_iteration" in next(csv.render(found.data))


def test_what_was_not_counted_is_no_zero(builder: TraceBuilder) -> None:
    builder.coverage(
        "native_call:backend", measured=False, fact=Fact("not_asked_for", "--transitions all")
    )
    with open_trace(builder.write()) as trace:
        rows = report_operations(trace).of_scope("operation")
    assert {row["to_backend"] for row in rows} == {None}
    assert {row["to_backend_per_iteration"] for row in rows} == {None}


@pytest.mark.parametrize(("probed_ns", "expected"), [(0, {2}), (1, {None})])
def test_an_operation_that_was_there_before_the_probes_is_not_counted(
    builder: TraceBuilder, probed_ns: int, expected: set[int | None]
) -> None:
    builder.site("simulator", "mj_step", probed_ns=probed_ns)
    with open_trace(builder.write()) as trace:
        rows = report_operations(trace).of_scope("operation")
    assert {row["to_simulator"] for row in rows if row["operation"] == "step"} == expected


def test_the_summary_tells_from_when_on_calls_are_counted(builder: TraceBuilder) -> None:
    builder.site("simulator", "mj_step", probed_ns=20 * MS - 1)
    note = (
        "calls into the simulator were recorded from 0.020 s on: operations that began before have"
        " no count of them, but their later instances do; --from 0.020 counts the rest"
    )
    builder.write()
    with open_trace(builder.path) as trace:
        assert note in list(map(sentence_of, summarize(trace).notes))
    with open_trace(builder.path, start="0.01") as trace:
        assert note in list(map(sentence_of, summarize(trace).notes))
    with open_trace(builder.path, start="0.02") as trace:
        assert note not in list(map(sentence_of, summarize(trace).notes))
        rows = report_operations(trace).of_scope("operation")
    assert {row["to_simulator"] for row in rows if row["operation"] == "step"} == {1}
