"""What a summary says of GPUs: the share by nvidia-smi, the truth, and what the CPU did instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers import text
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.summary import gpu_observations
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

MS = 10**6


def training(path: Path) -> Path:
    """Write a process that steps a simulator for 60 of each 100 ms and trains for 4 on the GPU."""
    builder = TraceBuilder(path)
    for kind in ("gpu_activity", "counter", "thread_state", "operation", "native_call"):
        builder.coverage(kind)
    builder.device(0, name="H200", uuid="GPU-a")
    thread = builder.thread(
        builder.process(pid=7, name="train", end_ns=1000 * MS), name="main", tid=7,
        states=[run(60 * MS), sleep(40 * MS)] * 10,
    )  # fmt: skip
    for number in range(10):
        start = number * 100 * MS
        builder.operation(thread, start, start + 60 * MS, "simulation")
        builder.native_call(thread, start, start + 60 * MS, "simulator", "mj_step")
        builder.cuda_call(thread, start + 62 * MS, start + 63 * MS, correlation_id=number)
        builder.gpu_activity(1, start + 64 * MS, start + 68 * MS, correlation_id=number)
        builder.counter(start, 97)
    return builder.write()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    with open_trace(training(tmp_path_factory.mktemp("gpu") / "trace.duckdb")) as opened:
        yield opened


def test_the_summary_says_what_nvidia_smi_would_say(trace: Trace) -> None:
    observed = list(map(sentence_of, summarize(trace).observations))
    assert (
        "nvidia-smi would say 97.0 % of host GPU 0; kernels of the traced programs ran 4.0 % of"
        " these 0.900 s; see --view utilization"
    ) in observed
    # 9 gaps of 96 ms; the launching thread stepped for 60 of each and slept for the rest.
    assert (
        "no GPU worked for train (pid 7) 95.6 % of the 0.904 s from its first to its last GPU"
        " work; meanwhile the launching threads were in simulator 62.5 %, sleeping 37.5 % of that;"
        " see --view gpu-idle"
    ) in observed


def test_of_very_many_activities_the_summary_leaves_out_the_reasons(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_observations, "_MOST_ACTIVITIES", 9)  # the trace has 10
    assert (
        "no GPU worked for train (pid 7) 95.6 % of the 0.904 s from its first to its last GPU"
        " work; see --view gpu-idle"
    ) in list(map(sentence_of, summarize(trace).observations))


def records(trace: Trace, name: str) -> list[dict[str, Any]]:
    return list(answer(trace, REPORTS[name]).data.records())


def test_the_views_say_the_same(trace: Trace) -> None:
    whole, work = records(trace, "utilization")
    assert (whole["scope"], work["scope"]) == ("trace", "work")
    assert (whole["host"], whole["device_id"], whole["name"]) == ("host", 0, "H200")
    assert whole["utilization_share"] == pytest.approx(0.97)
    assert (whole["kernel_ns"], whole["span_ns"]) == (9 * 4 * MS, 900 * MS)
    idle = {(row["operation"], row["bucket"]): row["time_ns"] for row in records(trace, "gpu-idle")}
    assert idle == {
        ("simulation", "simulator"): 9 * 60 * MS,
        ("(unannotated)", "sleeping"): 9 * 36 * MS,
    }
    (attribution,) = records(trace, "attribution")
    assert attribution["launched_ns"] == attribution["ran_ns"] == 40 * MS
    (latency,) = records(trace, "latency")
    assert (latency["calls"], latency["p50_latency_ns"], latency["p99_queue_ns"]) == (
        10, 2 * MS, 1 * MS,
    )  # fmt: skip
    table = text.render(answer(trace, REPORTS["gpu-idle"]), limit=None)
    assert "simulation  " in table
    assert "100.0" in table


def test_a_window_tells_of_its_part(tmp_path: Path) -> None:
    path = training(tmp_path / "trace.duckdb")
    with open_trace(path, start="0.2", end="0.5") as opened:
        whole, _ = records(opened, "utilization")
        # Of the readings at 0.2, 0.3 and 0.4 s the first one only marks the start.
        assert (whole["span_ns"], whole["readings"], whole["kernel_ns"]) == (200 * MS, 2, 8 * MS)
        (attribution,) = records(opened, "attribution")
        assert attribution["launched_ns"] == attribution["ran_ns"] == 12 * MS
        idle = sum(row["time_ns"] for row in records(opened, "gpu-idle"))
        assert idle == 2 * 96 * MS


def test_a_machine_without_a_gpu_gets_no_line(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("counter", measured=False, fact=Fact("no_gpu", detail="no NVIDIA driver"))
    builder.coverage("gpu_activity", measured=False, fact=Fact("cuda_not_initialised"))
    builder.thread(builder.process(pid=1, end_ns=10), states=[run(10)])
    with open_trace(builder.write()) as opened:
        summary = summarize(opened)
    kinds = {note.named.get("kind") for note in summary.notes}
    assert "gpu_activity" in kinds
    assert "counter" not in kinds
    assert summary.observations == ()


def test_no_share_is_held_against_programs_that_were_not_all_seen(tmp_path: Path) -> None:
    """The difference may be the work of the other program."""
    found = []
    for is_seen in (True, False):
        builder = TraceBuilder(tmp_path / f"{is_seen}.duckdb")
        builder.coverage("gpu_activity")
        builder.thread(builder.process(pid=1, end_ns=1000 * MS), states=[run(1000 * MS)])
        builder.coverage("gpu_activity", process_id=builder.process(pid=2), measured=is_seen)
        builder.gpu_status(2, 0, state="on" if is_seen else "off")
        builder.gpu_activity(1, 100 * MS, 200 * MS)
        for number in range(10):
            builder.counter(number * 100 * MS, 97)
        with open_trace(builder.write()) as opened:
            observed = list(map(sentence_of, summarize(opened).observations))
        found.append([said for said in observed if said.startswith("nvidia-smi would say")])
    assert [len(reported) for reported in found] == [1, 0]
