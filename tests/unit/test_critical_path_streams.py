"""The critical path of programs that say themselves what they waited for, on three streams.

And that of a real trace, against the one that HolisticTraceAnalysis 0.5.0 finds in it
(`critical_path_analysis`, the sums of its path by what bounds it).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from finalising import ended, report_nothing
from gpu_program import made_program
from kineto_builder import EPOCH_US, run_import, write_kineto
from nsys_builder import NsysBuilder
from rlscope_analysis.views import install_views
from rlscope_trace.ingest.importers.nsys import import_nsys

if TYPE_CHECKING:
    from gpu_program import Program

KINETO = Path(__file__).parents[1] / "data/kineto"
ON_GPU = """
SELECT iteration_id, stream_id, start_ns, end_ns FROM critical_path WHERE cause = 'gpu'
"""
SPANS = "SELECT start_ns, end_ns FROM iteration ORDER BY ALL"


def check(program: Program, trace: Path, zero_ns: int) -> None:
    """Hold a trace of a program against what it waited for."""

    def us(time_ns: int) -> int:
        return (time_ns - zero_ns) // 1000

    found: list[dict[int, set[int]]] = [{} for _ in program.steps]
    with rlscope_analysis.open(trace) as opened:
        spans = opened.sql(SPANS).fetchall()
        for iteration, stream, start_ns, end_ns in opened.sql(ON_GPU).fetchall():
            found[iteration - 1].setdefault(stream, set()).update(range(us(start_ns), us(end_ns)))
    assert [(us(start_ns), us(end_ns)) for start_ns, end_ns in spans] == program.steps
    assert found == [program.on_gpu_us(step) for step in program.steps]


# In 55 one kernel waits for events of two streams.
@pytest.mark.parametrize("seed", range(50, 58))
def test_the_path_on_streams_is_what_was_waited_for(seed: int, tmp_path: Path) -> None:
    program = made_program(seed)
    path = write_kineto(tmp_path / "a.json", program.events)
    run_import([path], tmp_path / "a.duckdb", views=True)
    check(program, tmp_path / "a.duckdb", EPOCH_US * 1000)


@pytest.mark.parametrize("seed", range(4))
def test_the_path_in_a_report_of_nsight_systems_is_what_was_waited_for(
    seed: int, tmp_path: Path
) -> None:
    program = made_program(seed, has_events=False)
    builder = NsysBuilder(tmp_path / "report.sqlite")
    for event in program.events:
        start, end = ((us - EPOCH_US) * 1000 for us in (event["ts"], event["ts"] + event["dur"]))
        args = event["args"]
        if event["cat"] == "kernel":
            correlation, stream = args["correlation"], args["stream"]
            builder.kernel(start, end, correlation=correlation, stream=stream)
        elif event["cat"] == "cuda_runtime":
            builder.call(start, end, name=f"{event['name']}_v3020", correlation=args["correlation"])
        elif event["cat"] == "cuda_sync":
            kind, stream = (3, args["stream"]) if args["stream"] >= 0 else (4, 0xFFFFFFFF)
            builder.activity(
                "SYNCHRONIZATION", start, end, syncType=kind, streamId=stream,
                correlationId=args["correlation"],
            )  # fmt: skip
        elif event["cat"] == "user_annotation":
            builder.nvtx(start, end, "iteration")
    made = import_nsys(
        [builder.write()], tmp_path / "a.duckdb", overwrite=True, progress=report_nothing
    )
    ended(made, install_views)
    check(program, tmp_path / "a.duckdb", 0)


def test_the_path_of_a_real_program_is_that_of_another_tool(tmp_path: Path) -> None:
    """Two streams, with events between them; all times in us."""
    run_import([KINETO / "alexnet.json.gz"], tmp_path / "a.duckdb", views=True)
    with rlscope_analysis.open(tmp_path / "a.duckdb") as trace:
        trace.critical_path(per="[param|pytorch.model.alex_net|0|0|0|measure|forward]")
        found = dict(
            trace.sql(
                "SELECT concat_ws(' ', cause, stream_id), sum(duration_ns) // 1000"
                " FROM critical_path WHERE thread_id IS NULL GROUP BY ALL"
            ).fetchall()
        )
    kernels = {"gpu 7": 3176, "gpu 20": 536}
    between = {"gpu_queue 7": 47 + 1, "gpu_queue 20": 3}
    # There a launch begins with its call, which lasts 8 us; here the GPU waits when it is over.
    assert found == kernels | between | {"launch_latency 20": 30 - 8}
