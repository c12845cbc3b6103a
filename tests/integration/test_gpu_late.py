"""CUPTI in a program that runs already: from the attach on, to the end of the recording."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from cuda_fakes import calls_program, environment
from gpu_family import truth
from recording import Recorder, assert_whole, query

pytestmark = pytest.mark.root


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Workload]]:
    """Return `running("--launches=5")`: CUDA is initialised in it, and it waits to be let go."""
    started: list[Workload] = []

    def start(*options: str) -> Workload:
        with monkeypatch.context() as patch:
            for name, value in environment("13.0").items():
                patch.setenv(name, value)
            made = Workload([str(calls_program()), "--init", "--wait", "--hold", *options])
        started.append(made)
        assert made.readline() == f"ready {made.pid}"
        return made

    yield start
    for made in started:
        made.close()


def test_a_running_program_gets_cupti_and_is_asked_for_the_rest(
    tmp_path: Path, running: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = running("--launches=300", "--threads=2", "--copies=1")
    recorder = record(trace, f"--pid={target.pid}", "--inject", "--cuda-calls=off").live()
    recorder.wait_to_say("ranges that had begun before the attach")
    target.go()
    reported: Any = target.truth()
    # It goes on: what CUPTI holds has to be fetched before the recording can end.
    assert recorder.stop() == 0
    target.go()
    assert target.wait() == 0
    assert reported["right"]
    wanted = truth(reported)
    found = query(
        trace, "SELECT kind, count(*), sum(end_ns - start_ns)::BIGINT FROM gpu_activity GROUP BY 1"
    )
    assert {kind: (count, time_ns) for kind, count, time_ns in found} == wanted
    assert query(trace, "SELECT state, is_late FROM gpu_status") == [("on", True)]
    ((measured, codes),) = query(
        trace, "SELECT bool_and(measured), list(code) FROM coverage WHERE kind = 'gpu_activity'"
    )
    assert measured
    assert "gpu_late" in codes
    assert "cupti_held_records" not in codes
    assert_whole(recorder.words())
