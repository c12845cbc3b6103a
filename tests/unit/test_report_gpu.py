"""One line says what was recorded of GPUs; of those that were not there is none: it is no zero."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.summary.answer import answer_of
from rlscope_analysis.summary.gpu import GpuSummary, gpu_note, gpu_summary
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from pathlib import Path


def summary_of(builder: TraceBuilder) -> GpuSummary:
    connection = duckdb.connect()
    builder.fill(connection)
    return gpu_summary(lambda query: connection.execute(query).fetchall())


def gpu_line(found: GpuSummary) -> str | None:
    reported = gpu_note(found)
    return reported and sentence_of(reported)


@pytest.fixture
def builder(tmp_path: Path) -> TraceBuilder:
    """Return a trace of one process with one thread, 1,000 ns long."""
    made = TraceBuilder(tmp_path / "trace.duckdb")
    made.coverage("thread_state")
    made.process(pid=10)
    made.thread(1, tid=10, states=[run(1000)])
    return made


def test_work_is_counted_and_busy_is_a_union(builder: TraceBuilder) -> None:
    builder.coverage("gpu_activity")
    builder.gpu_activity(1, 100, 150, stream_id=1)
    builder.gpu_activity(1, 120, 160, stream_id=2, device_id=1)
    builder.gpu_activity(1, 300, 301, kind="memcpy")
    builder.gpu_activity(1, 310, 320, kind="graph")
    builder.gpu_activity(1, 400, 900, kind="sync")
    found = summary_of(builder)
    assert found == GpuSummary(1, 2, 1, 1, ("GPU 0", "GPU 1"), 71, 1000, ())
    assert gpu_line(found) == (
        "2 kernels, 1 graph, 1 memcpy and memset of 1 process on GPU 0, GPU 1; busy 7.1 %"
    )


def test_a_gpu_that_had_nothing_to_do_is_told(builder: TraceBuilder) -> None:
    builder.coverage("gpu_activity")
    assert gpu_line(summary_of(builder)) == "no work of 1 process, though it was recorded"


def test_what_was_not_measured_has_no_line(builder: TraceBuilder) -> None:
    builder.coverage("gpu_activity", process_id=1, measured=False, fact=Fact("cupti_yielded"))
    found = summary_of(builder)
    assert gpu_line(found) is None
    assert len(found.refused) == 1
    said = sentence_of(found.refused[0])
    assert said.endswith(
        "(pid 10): CUPTI is left to another profiler (torch.profiler, nsys): --cupti yield"
    )


def test_models_are_named_once() -> None:
    found = GpuSummary(2, 1234, 0, 0, ("NVIDIA H200", "NVIDIA H200"), 41, 1000, ())
    assert gpu_line(found) == "1,234 kernels of 2 processes on 2 NVIDIA H200; busy 4.1 %"


def test_summaries_tell_it(builder: TraceBuilder) -> None:
    builder.coverage("gpu_activity")
    builder.gpu_activity(1, 100, 200)
    with open_trace(builder.write()) as trace:
        summary = summarize(trace)
    line = "1 kernel of 1 process on GPU 0; busy 10.0 %"
    found = answer_of(summary, top=1)
    assert f"{'GPU':<10} {line}" in text.render(found, limit=1).splitlines()
    reported = json.loads("".join(json_renderer.render(found)))["gpu"]
    assert (reported["kernels"], reported["busy_ns"], reported["span_ns"]) == (1, 100, 1000)


def test_a_share_is_of_the_time_that_was_recorded(builder: TraceBuilder) -> None:
    """Of a program that had run before, nobody knows what its GPU did until then."""
    builder.coverage("gpu_activity")
    builder.process(pid=11)
    builder.gpu_status(1, 600, is_late=True)
    builder.gpu_status(1, 700)
    builder.gpu_activity(1, 500, 700)
    builder.gpu_activity(2, 650, 800)
    found = summary_of(builder)
    assert (found.busy_ns, found.span_ns, found.late_ns) == (200, 400, 600)
    line = gpu_line(found)
    assert line is not None
    assert line.endswith("busy 50.0 % of the last 0.000 s: before, not all of it was recorded")


def test_a_program_that_was_launched_was_recorded_from_its_start(builder: TraceBuilder) -> None:
    builder.coverage("gpu_activity")
    builder.gpu_status(1, 600)
    builder.gpu_activity(1, 700, 800)
    found = summary_of(builder)
    assert (found.busy_ns, found.span_ns, found.late_ns) == (100, 1000, None)


def test_nothing_is_left_to_have_a_share_of(builder: TraceBuilder) -> None:
    builder.coverage("gpu_activity")
    builder.gpu_status(1, 1000, is_late=True)
    builder.gpu_activity(1, 700, 800)
    found = summary_of(builder)
    assert (found.busy_ns, found.span_ns) == (0, None)
    assert gpu_line(found) == "1 kernel of 1 process on GPU 0"
