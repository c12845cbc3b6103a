"""Charts of a trace: their data are the rows of its views."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from page_traces import training
from rlscope_analysis.page import iterations
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from trace_builder import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.notebook import ShownTrace

ROUNDS = 6
HOSTILE = "</script><script>alert(1)</script><!--\x1b[31m"
NAMES = ("iterations", "phases", "processes", "limits", "run_queue")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownTrace]:
    path = training(tmp_path_factory.mktemp("plots") / "trace.duckdb", rounds=ROUNDS).write()
    with rlscope_analysis.open(path) as opened:
        yield opened


def test_iterations_add_up_to_those_of_the_view(trace: ShownTrace) -> None:
    rows = trace.plot.iterations().data
    for number, start_ns, end_ns in trace.sql(
        "SELECT iteration_id, start_ns, end_ns FROM iteration"
    ).fetchall():
        mine = rows[rows["first_id"] == number]
        assert set(mine["last_id"]) == {number}
        assert mine["time_ms"].sum() == pytest.approx((end_ns - start_ns) / 1e6)
        ends = [0.0, *mine["to_ms"]]
        assert list(mine["from_ms"]) == pytest.approx(ends[:-1])
        assert ends[-1] == pytest.approx((end_ns - start_ns) / 1e6)
    of_phase = dict(trace.sql("SELECT operation, time_ns / 1e6 FROM training_phase").fetchall())
    assert of_phase.keys() == set(rows["phase"])
    # The first one has a bar, and is not in the table.
    rows = rows[rows["first_id"] > 1]
    for phase, time_ms in of_phase.items():
        assert rows[rows["phase"] == phase]["time_ms"].sum() == pytest.approx(time_ms)


def test_phases_are_those_of_the_view(trace: ShownTrace) -> None:
    rows = trace.plot.phases().data
    columns = {"Python": "python", "native code": "native", "waits for a CPU": "queue"}
    for phase, time_ns, *shares in trace.sql(
        "SELECT operation, time_ns, python_share, native_share, queue_share, waits_share"
        " FROM training_phase"
    ).fetchall():
        mine = rows[rows["phase"] == phase]
        assert mine["time_ms"].sum() == pytest.approx(time_ns / 1e6)
        found = dict(zip(mine["part"], mine["share"], strict=True))
        assert set(found) == {*columns, "waits"}
        assert list(found.values()) == pytest.approx(shares)


def test_processes_are_those_of_the_view(trace: ShownTrace) -> None:
    rows = trace.plot.processes().data
    for pid, *shares in trace.sql(
        "SELECT pid, cpu_share, queue_share, waits_share FROM training_process"
    ).fetchall():
        mine = rows[rows["process"].str.endswith(f"pid {pid})")]
        assert list(mine["share"]) == [share for share in shares if share is not None]


def test_limits_are_those_of_the_view(trace: ShownTrace) -> None:
    rows = trace.plot.limits().data
    expected = trace.sql("SELECT code, share FROM limit_share").fetchall()
    assert {*zip(rows["code"], rows["share"], strict=True)} == {*expected}
    assert rows["share"].sum() == pytest.approx(1)


def test_the_run_queue_is_that_of_the_view(trace: ShownTrace) -> None:
    rows = trace.plot.run_queue().data
    ((waits, time_ms),) = trace.sql(
        "SELECT count(*), sum(duration_ns) / 1e6 FROM run_queue_latency"
    ).fetchall()
    assert rows["waits"].sum() == waits
    assert rows["time_ms"].sum() == pytest.approx(time_ms)
    for _, bar in rows.groupby("from_us"):
        assert list(bar["from_ms"]) == pytest.approx([0.0, *bar["to_ms"]][:-1])
        assert bar["to_ms"].max() == pytest.approx(bar["time_ms"].sum())
    for row in rows.itertuples():
        low, high = row.from_us * row.waits / 1e3, row.to_us * row.waits / 1e3
        assert low * 0.999 <= row.time_ms <= high * 1.001


@pytest.mark.parametrize("name", NAMES)
def test_a_chart_is_one_that_vega_lite_takes(trace: ShownTrace, name: str) -> None:
    # Checks it against the schema of Vega-Lite.
    spec = getattr(trace.plot, name)().to_dict()
    (rows,) = spec["datasets"].values()
    used = re.findall(r'"field": "(\w+)"', json.dumps(spec))
    assert used
    # Bars with two ends are not stacked: they say where they are.
    assert ('"x2"' in json.dumps(spec)) == ('"y2"' in json.dumps(spec)) or name == "limits"
    assert {*used} <= {*rows[0], "rank"}


def test_many_iterations_are_means_that_add_up(
    trace: ShownTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Altair shows 5000 rows at most.
    assert iterations.MOST_BARS * 7 <= 5000
    monkeypatch.setattr(iterations, "MOST_BARS", 2)
    rows = trace.plot.iterations().data
    ((count, time_ns),) = trace.sql(
        "SELECT count(*), sum(end_ns - start_ns) FROM iteration"
    ).fetchall()
    assert rows["first_id"].nunique() == 2 < count
    together = (rows["last_id"] - rows["first_id"] + 1) * rows["time_ms"]
    assert together.sum() == pytest.approx(time_ns / 1e6)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_harmless_on_a_page(tmp_path: Path, name: str) -> None:
    path = training(tmp_path / "trace.duckdb", name=HOSTILE, phase=HOSTILE).write()
    with rlscope_analysis.open(path) as trace:
        page = getattr(trace.plot, name)().to_html()
    assert "alert(1)" in page or name in ("limits", "run_queue")
    assert "<script>alert" not in page
    assert "<!--" not in page
    assert "\x1b" not in page


def test_a_trace_with_nothing_to_plot_says_so(tmp_path: Path) -> None:
    path = TraceBuilder(
        tmp_path / "trace.duckdb", meta={"schema_version": str(SCHEMA_VERSION)}
    ).write()
    with rlscope_analysis.open(path) as trace:
        for name in NAMES:
            with pytest.raises(rlscope_analysis.TraceError, match="nothing to plot"):
                getattr(trace.plot, name)()


def test_a_closed_trace_says_so(tmp_path: Path) -> None:
    trace = rlscope_analysis.open(training(tmp_path / "trace.duckdb").write())
    trace.close()
    with pytest.raises(rlscope_analysis.TraceError, match="is closed"):
        trace.plot.phases()


def test_a_trace_without_thread_states_measured_nothing_of_phases(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta={"schema_version": str(SCHEMA_VERSION)})
    builder.coverage("operation")
    process = builder.process(pid=1, end_ns=100)
    thread = builder.thread(process, tid=1, states=[], end_ns=100)
    builder.operation(thread, 0, 90, "work")
    with rlscope_analysis.open(builder.write()) as trace:
        rows = trace.plot.phases().data
        for name in ("processes", "run_queue"):
            with pytest.raises(rlscope_analysis.TraceError, match="nothing to plot"):
                getattr(trace.plot, name)()
    assert set(rows["part"]) == {"not measured"}
    assert rows["time_ms"].sum() == pytest.approx(100e-6)


def test_without_samples_python_is_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TraceBuilder, "sample", lambda *_, **__: None)
    path = training(tmp_path / "trace.duckdb").write()
    with rlscope_analysis.open(path) as trace:
        rows = trace.plot.phases().data
        ((time_ns,),) = trace.sql("SELECT sum(time_ns) FROM training_phase").fetchall()
    assert set(rows["part"]) == {"on a CPU", "waits for a CPU", "waits"}
    assert rows["time_ms"].sum() == pytest.approx(time_ns / 1e6)


def test_without_altair_it_says_what_to_install(
    trace: ShownTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(rlscope_analysis.TraceError) as reported:
        trace.plot.iterations()
    assert "rlscope-trace[plot]" in str(reported.value.hint)
