"""What `rlscope-trace validate` prints: the table, and the same as JSON."""

from __future__ import annotations

import json

import pytest

from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text as text_renderer
from rlscope_trace.cli.validate_answer import answer_of
from rlscope_trace.record.validate.pairs import Pair
from rlscope_trace.record.validate.runs import Run
from rlscope_trace.record.validate.trace_figures import BucketTime, TraceFigures
from rlscope_trace.record.validate.verdict import Asked, Validation, validate

S = 10**9


def validation(*, max_bias: float = 5.0, timers: dict[str, int] | None = None) -> Validation:
    bucket_times = (
        BucketTime("simulation", "python", True, 8 * S, 0.9 * S),
        BucketTime("(unannotated)", "other", True, 3 * S, 0),
    )
    trace = TraceFigures(bucket_times, 0.1 * S, 0.1 * S, 0.5 * S, {"simulation": 1000}, 0, {})
    untraced = Run(10 * S, 20 * S, 1, timers or {})
    traced = Run(11 * S, 21 * S, 2, timers or {})
    pairs = [Pair(untraced, traced, trace, traced_first=True)] * 6
    asked = Asked(("python", "train it.py"), ("--gil", "full"), 9, max_bias, "simulation")
    return validate(pairs, asked)


def render_table(found: Validation) -> str:
    return text_renderer.render(answer_of(found), limit=None)


def render_json(found: Validation) -> str:
    return "".join(json_renderer.render(answer_of(found)))


def test_the_table_holds_every_figure_and_the_verdict() -> None:
    lines = render_table(validation()).splitlines()
    assert lines[0] == "6 pairs of an untraced and a traced run of python 'train it.py'"
    text = "\n".join(lines)
    for words in (
        "CPU time, traced / untraced              10.00      10.00  10.00",
        "CPU time, corrected / untraced            1.00       1.00   1.00",
        "wall time, corrected / untraced           2.50       2.50   2.50",
        "CPU time per simulation (1,000 in a run): untraced 10,000.0 us, traced 11,000.0 us",
        "cannot be known without timers",
        "note: stopped early: 6 of 9 pairs",
    ):
        assert words in text
    assert [line.split() for line in lines if line.startswith("simulation")] == [
        ["simulation", "python", "8,000.000", "900.000", "7,100.000"]
    ]
    assert lines[-1] == "ok: corrected CPU time is off by +1.00 %, at most 5 % are allowed"
    assert render_table(validation(max_bias=0.5)).splitlines()[-1].startswith("biased: ")


def test_with_timers_the_table_has_shares_in_place_of_the_excuse() -> None:
    text = render_table(validation(timers={"simulation": 7 * S}))
    assert "without timers" not in text
    (row,) = (line for line in text.splitlines() if "70.00" in line)
    assert row.split()[:3] == ["simulation", "70.00", "72.73"]


def test_json_holds_each_pair_and_says_the_same() -> None:
    reported = json.loads(render_json(validation(max_bias=0.5, timers={"simulation": 7 * S})))
    assert reported["verdict"] == "biased"
    assert reported["command"] == ["python", "train it.py"]
    assert reported["record_options"] == ["--gil", "full"]
    assert reported["figures"]["bias"] == pytest.approx(
        {"median": 1.0, "low": 1.0, "high": 1.0, "n": 6}
    )
    assert len(reported["pairs"]) == 6
    assert reported["pairs"][0]["corrected_cpu_ns"] == pytest.approx(10.1 * S)
    assert reported["pairs"][0]["untraced_timers_ns"] == {"simulation": 7 * S}
    assert reported["shares"][0]["operation"] == "simulation"
    assert reported["per_iteration"]["counts"] == [1000] * 6
