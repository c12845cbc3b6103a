"""The critical path of programs that say themselves what they waited for, on three streams.

And that of a real trace, against the one that HolisticTraceAnalysis 0.5.0 finds in it
(`critical_path_analysis`, the sums of its path by what bounds it).
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rlscope_analysis
from gpu_program import made_program
from kineto_builder import EPOCH_US, run_import, write_kineto

KINETO = Path(__file__).parents[1] / "data/kineto"
US = f"- {EPOCH_US * 1000}) // 1000"
SPANS = f"SELECT (start_ns {US}, (end_ns {US} FROM iteration ORDER BY ALL"
ON_GPU = f"""
SELECT iteration_id, stream_id, (start_ns {US}, (end_ns {US} FROM critical_path WHERE cause = 'gpu'
"""


# In 55 one kernel waits for events of two streams.
@pytest.mark.parametrize("seed", range(48, 60))
def test_the_path_on_streams_is_what_was_waited_for(seed: int, tmp_path: Path) -> None:
    program = made_program(seed)
    path = write_kineto(tmp_path / "a.json", program.events)
    run_import([path], tmp_path / "a.duckdb", views=True)
    with rlscope_analysis.open(tmp_path / "a.duckdb") as trace:
        rows = trace.sql(ON_GPU).fetchall()
        assert trace.sql(SPANS).fetchall() == program.steps
    found: list[dict[int, set[int]]] = [{} for _ in program.steps]
    for iteration, stream, start_us, end_us in rows:
        found[iteration - 1].setdefault(stream, set()).update(range(start_us, end_us))
    assert found == [program.on_gpu_us(step) for step in program.steps]


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
