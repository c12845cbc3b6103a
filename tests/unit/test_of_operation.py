"""`summarize --view operation-functions --operation NAME`: one operation, or close matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlscope_analysis.errors import TraceError
from rlscope_analysis.operations.of_operation import of_operation
from rlscope_analysis.query import run_query
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.trace import Trace, open_trace
from rlscope_trace.cli import main
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FUNCTIONS = REPORTS["operation-functions"]


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    """Open a trace of two operations, with three samples in one and one in the other."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("cpu_sample")
    thread = builder.thread(builder.process(pid=7, end_ns=100), states=[run(100)])
    builder.operation(thread, 10, 40, "Learn")
    builder.operation(thread, 40, 80, "it's")
    for ts_ns, leaf in ((15, "step"), (25, "forward"), (35, "forward"), (50, "reset")):
        builder.sample(thread, ts_ns, "python", frames=("main", leaf))
    with open_trace(builder.write()) as opened:
        yield opened


def functions(trace: Trace, name: str) -> list[tuple[object, ...]]:
    """Return operation, function, layer, samples, share of the operation, share of all."""
    return list(run_query(trace, of_operation(trace, FUNCTIONS, name).sql).rows)


def test_shares_of_all_are_those_of_the_whole_view(trace: Trace) -> None:
    assert functions(trace, "learn") == [
        ("Learn", "forward", "python", 2, 2 / 3, 0.5),
        ("Learn", "step", "python", 1, 1 / 3, 0.25),
    ]
    assert functions(trace, "it's") == [("it's", "reset", "python", 1, 1.0, 0.25)]
    assert functions(trace, "(unannotated)") == []


def test_an_unknown_name_has_close_matches(trace: Trace) -> None:
    with pytest.raises(TraceError, match="no operation is called 'lern'") as caught:
        functions(trace, "lern")
    assert str(caught.value.hint).startswith("one of: Learn")


@pytest.mark.parametrize("options", [[], ["--view", "cpu"], ["--by", "operation"]])
def test_other_views_are_not_of_one_operation(
    trace: Trace, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["summarize", str(trace.path), *options, "--operation", "Learn"])
    assert caught.value.code == 2
    assert "--view operation-functions --operation Learn" in capsys.readouterr().err


def test_the_command_shows_one_operation(trace: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["summarize", str(trace.path), "--view", FUNCTIONS.name, "--operation", "learn"])
    assert not caught.value.code
    out = capsys.readouterr().out
    assert "forward" in out
    assert "reset" not in out
