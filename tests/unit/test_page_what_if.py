"""What a page predicts: figures of `whatif`, and of a program known by construction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from page_reader import Page
from page_traces import of_rounds, training
from recording import rlscope
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000


def reported(path: Path, *options: str) -> Page:
    written = path.with_suffix(".html")
    done = rlscope("report", path, "-o", written, "--force", *options)
    assert done.returncode == 0, done.stderr
    return Page(written.read_text())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), ""),
        (("--per", "simulate"), " --per simulate"),
        (("--from", "0.02", "--to", "0.08"), " --from 20000000ns --to 80000000ns"),
    ],
)
def test_predictions_are_those_of_the_command_below_them(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    path = of_rounds(tmp_path / "one.duckdb", 30)
    page = reported(path, *options)
    (command,) = [one.text for one in page.by_id("what-if").inside if one.name == "code"]
    assert command == f"rlscope-trace whatif one.duckdb --iterations 20{said}"
    _, name, _, *asked = command.split()
    done = rlscope(name, path, *asked, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["rows"]
    shown = page.with_data("ratio")
    assert len(shown) == min(len(found), 5) > 0
    for element, row in zip(shown, found, strict=False):
        assert element.given["data-change"] == row["change"]
        assert float(element.given["data-ratio"] or 0) == pytest.approx(row["duration_ratio"])


def test_predictions_of_a_known_program(tmp_path: Path) -> None:
    page = reported(of_rounds(tmp_path / "one.duckdb", 30))
    ratios = {one.given["data-change"]: one.text for one in page.with_data("ratio")}
    assert ratios["simulate 2 times as fast"] == "70 % of now"
    assert ratios["learn 2 times as fast"] == "90 % of now"


def test_where_nothing_can_be_predicted_it_says_why(tmp_path: Path) -> None:
    """Nobody wakes the leader of one trace; in the other there is nothing that could change."""
    page = reported(training(tmp_path / "trace.duckdb").write())
    assert "replayed without a change, the trace takes" in page.by_id("what-if").text
    assert page.with_data("ratio") == []
    builder = TraceBuilder(tmp_path / "plain.duckdb")
    builder.coverage("thread_state")
    builder.thread(builder.process(pid=1, end_ns=100 * MS), tid=1, states=[run(100 * MS)])
    page = reported(builder.write())
    assert "No operation is known that could be changed." in page.by_id("what-if").text
