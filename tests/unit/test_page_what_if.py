"""What a page predicts: figures of `whatif`, and of a program known by construction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from page_reader import Page
from page_traces import training
from recording import rlscope
from trace_builder import TIMER, TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

    from trace_builder import Interval

MS = 1_000_000


def reported(path: Path) -> Page:
    written = path.with_suffix(".html")
    done = rlscope("report", path, "-o", written)
    assert done.returncode == 0, done.stderr
    return Page(written.read_text())


def test_predictions_are_those_of_whatif(tmp_path: Path) -> None:
    """A round of 5 ms: 3 in `simulate`, 1 in `learn`, and 1 asleep."""
    builder = TraceBuilder(tmp_path / "one.duckdb")
    builder.coverage("thread_state")
    process = builder.process(pid=7, name="python")
    states: list[Interval] = []
    for at in range(30):
        start = at * 5 * MS
        states += [run(4 * MS), sleep(1 * MS - 10), woken(10, by=TIMER)]
        builder.operation(1, start, start + 5 * MS, "update")
        builder.operation(1, start, start + 3 * MS, "simulate")
        builder.operation(1, start + 3 * MS, start + 4 * MS, "learn")
        builder.wait(1, start + 4 * MS, start + 5 * MS - 10, "sleep")
    builder.thread(process, states=[*states, run(10)])
    page = reported(builder.write())
    (command,) = [one.text for one in page.by_id("what-if").inside if one.name == "code"]
    assert command == "rlscope-trace whatif one.duckdb --iterations 20"
    done = rlscope("whatif", builder.path, "--iterations", "20", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["rows"]
    shown = page.with_data("ratio")
    assert len(shown) == len(found) > 1
    for element, row in zip(shown, found, strict=True):
        assert element.given["data-change"] == row["change"]
        assert float(element.given["data-ratio"] or 0) == pytest.approx(row["duration_ratio"])
    ratios = {one.given["data-change"]: one.text for one in shown}
    assert ratios["simulate 2 times as fast"] == "70 % of now"
    assert ratios["learn 2 times as fast"] == "90 % of now"


def test_where_nothing_can_be_predicted_it_says_why(tmp_path: Path) -> None:
    """Nobody wakes the leader of this trace: no replay takes as long as it did."""
    page = reported(training(tmp_path / "trace.duckdb").write())
    assert "replayed without a change, the trace takes" in page.by_id("what-if").text
    assert page.with_data("ratio") == []
