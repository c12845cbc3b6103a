"""`rlscope-trace report`: every number on the page is that of its view."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from page_reader import Page, number_in
from page_traces import MS, ROUND_NS, training, with_gpu
from recording import rlscope
from rlscope_analysis import trace as opened
from rlscope_analysis.errors import TraceError
from rlscope_analysis.page.read import read_page
from rlscope_analysis.renderers.html import render
from rlscope_analysis.renderers.html.words import time_words
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.note import note
from trace_builder import TraceBuilder, preempted, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

ROUNDS = 6


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    builder = with_gpu(training(folder / "trace.duckdb", rounds=ROUNDS), rounds=ROUNDS)
    builder.loss(count=7)
    return builder.write()


@pytest.fixture(scope="module")
def page(path: Path) -> Page:
    written = path.with_name("out.html")
    done = rlscope("report", path, "-o", written)
    assert done.returncode == 0, done.stderr
    assert f"wrote {written}" in done.stderr
    return Page(written.read_text())


@pytest.fixture(scope="module")
def trace(path: Path) -> Iterator[Trace]:
    with rlscope_analysis.open(path) as opened:
        yield opened


def rows(trace: Trace, query: str) -> list[dict[str, Any]]:
    relation = trace.sql(query)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def check_shown(text: str, exact: float) -> None:
    """Hold what people read to the value: it has two digits at least."""
    assert number_in(text) == pytest.approx(exact, rel=0.03, abs=0.0006), (text, exact)


def test_the_figures_are_those_of_the_views(page: Page, trace: Trace) -> None:
    figures = {one.given["data-figure"]: one for one in page.with_data("figure")}
    (steady,) = rows(
        trace,
        "SELECT avg(end_ns - start_ns) AS mean_ns,"
        " sum(environment_steps) / sum(end_ns - start_ns) * 1e9 AS steps FROM iteration"
        " WHERE NOT is_first",
    )
    processes = rows(trace, "FROM training_process")
    lead = next(row for row in processes if row["is_lead"])
    workers = [row["waits_share"] for row in processes if row["role"] == "worker"]
    (gpu,) = rows(trace, "SELECT busy_ns FROM gpu_time WHERE scope = 'trace'")
    wanted = {
        "environment_steps": steady["steps"],
        "iteration": steady["mean_ns"],
        "lead_cpu": lead["cpu_share"],
        "workers_wait": sum(workers) / len(workers),
        "all_cpus": sum(row["cpu_share"] for row in processes),
        "gpu": gpu["busy_ns"] / (ROUNDS * ROUND_NS),
    }
    assert set(figures) == set(wanted)
    for name, exact in wanted.items():
        assert float(figures[name].given["data-value"] or 0) == pytest.approx(exact), name
        check_shown(figures[name].text, exact)


def test_phases_processes_and_findings_are_those_of_the_views(page: Page, trace: Trace) -> None:
    shown = {one.given.get("data-phase"): one for one in page.with_data("ns")}
    for row in rows(trace, "FROM training_phase"):
        element = shown[row["operation"]]
        assert int(element.given["data-ns"] or 0) == row["time_ns"]
        check_shown(element.text, row["time_ns"])
    shown = {one.given["data-process"]: one for one in page.with_data("process")}
    for row in rows(trace, "FROM training_process"):
        element = shown[str(row["process_id"])]
        assert float(element.given["data-share"] or 0) == pytest.approx(row["cpu_share"])
        check_shown(element.text, row["cpu_share"])
    shown = {one.given["data-finding"]: one for one in page.with_data("finding")}
    found = rows(trace, "FROM finding")
    assert found
    assert set(shown) == {row["code"] for row in found}
    for row in found:
        element = shown[row["code"]]
        assert float(element.given["data-share"] or 0) == pytest.approx(row["share"])
        check_shown(element.text, row["share"])


def test_the_bars_of_a_phase_are_its_shares(page: Page, trace: Trace) -> None:
    """Of the longest phase the bar has the whole width, so that lengths are shares."""
    row = rows(trace, "FROM training_phase ORDER BY time_ns DESC")[0]
    line = next(
        one for one in page.elements
        if one.name == "li" and one.inside and one.text.startswith(row["operation"])
    )  # fmt: skip
    bars = [one for one in line.inside if one.name == "rect" and one.given.get("height") == "100%"]
    widths = {one.given["class"]: float((one.given["width"] or "0%")[:-1]) for one in bars}
    for name in ("python", "native", "queue", "waits"):
        exact = row[f"{name}_share"] or 0
        assert widths.get(name, 0.0) == pytest.approx(exact * 100, abs=0.01), name


def test_every_iteration_is_there_and_its_parts_add_up(page: Page, trace: Trace) -> None:
    shown = {one.given["data-iteration"]: one for one in page.with_data("iteration")}
    found = rows(trace, "FROM iteration")
    assert set(shown) == {str(row["iteration_id"]) for row in found}
    table = next(one for one in page.by_id("iterations").inside if one.name == "table")
    lines = [one for one in table.inside if one.name == "tr"][1:]
    for row, line in zip(found, lines, strict=True):
        duration = row["end_ns"] - row["start_ns"]
        element = shown[str(row["iteration_id"])]
        assert int(element.given["data-ns"] or 0) == duration
        cells = [float(one.text.replace(",", "")) for one in line.inside if one.name == "td"]
        assert cells[0] == pytest.approx(duration / 1e6, abs=0.01)
        assert sum(cells[1:]) == pytest.approx(cells[0], abs=0.05)


def test_run_queues_functions_gpus_and_losses_are_those_of_the_views(
    page: Page, trace: Trace
) -> None:
    queues = {one.given["data-queue"]: one for one in page.with_data("waits")}
    for who, condition in (("lead", "is_lead"), ("workers", "NOT is_lead")):
        (row,) = rows(
            trace,
            "SELECT count(*) AS waits, sum(duration_ns) AS ns,"
            " quantile_disc(duration_ns, 0.99) AS p99 FROM run_queue_latency"
            f" JOIN training_process USING (process_id) WHERE {condition}",
        )
        for name, exact in row.items():
            assert int(queues[who].given[f"data-{name}"] or 0) == exact
    (row,) = rows(
        trace,
        "SELECT count(*) AS n FROM cpu_sample WHERE thread_id = 1 AND ts_ns >="
        " (SELECT min(end_ns) FROM iteration) AND ts_ns < (SELECT max(end_ns) FROM iteration)",
    )
    counts = [int(one.given["data-samples"] or 0) for one in page.with_data("samples")]
    assert sum(counts) == row["n"]
    (row,) = rows(trace, "SELECT busy_ns, span_ns FROM gpu_time WHERE scope = 'device'")
    (element,) = [one for one in page.with_data("gpu") if one.given["data-gpu"] == "device"]
    assert int(element.given["data-ns"] or 0) == row["busy_ns"]
    check_shown(element.text, row["busy_ns"] / row["span_ns"])
    idle = sum(int(one.given["data-ns"] or 0) for one in page.with_data("idle"))
    (row,) = rows(trace, "SELECT sum(time_ns)::BIGINT AS ns FROM gpu_idle")
    assert idle == row["ns"]
    (loss,) = page.with_data("loss")
    assert loss.given["data-count"] == "7"


def test_the_tables_are_those_of_summarize(page: Page, trace: Trace) -> None:
    checked = 0
    for table in page.with_data("view"):
        view = (table.given["data-view"] or "").removeprefix("--view ")
        if table.name != "details" or view in ("breakdown", "thread", "gpu-idle") or "--" in view:
            continue
        wanted = list(answer(trace, REPORTS[view]).data.records())
        body = next(one for one in table.inside if one.name == "tbody")
        lines = [one for one in body.inside if one.name == "tr"]
        assert len(lines) == min(len(wanted), 60), view
        for line, row in zip(lines, wanted, strict=False):
            exact = [one.given["data-v"] for one in line.inside if one.given.get("data-v")]
            values = [value for value in row.values() if isinstance(value, (int, float))]
            for value in exact:
                assert any(float(value or 0) == pytest.approx(known) for known in values), view
                checked += 1
    assert checked > 50


def test_the_canvas_has_every_state_and_the_whole_path(page: Page, trace: Trace) -> None:
    views = page.canvas()
    assert len(views) == 2
    slowest = max(rows(trace, "FROM iteration"), key=lambda row: row["end_ns"] - row["start_ns"])
    view = views[1]
    duration = slowest["end_ns"] - slowest["start_ns"]
    path = view["path"]["slices"]
    assert sum(length for _, length in path) * view["tick"] == duration
    assert [lane["name"].split(" (")[0] for lane in view["lanes"]][:5] == [
        "learner", "worker 0", "worker 1", "worker 2", "worker 3",
    ]  # fmt: skip
    for thread, lane in enumerate(view["lanes"][:5], start=1):
        (states,) = [row for row in lane["rows"] if row["kind"] == "state"]
        shown: dict[str, int] = {}
        for _, length, name, _ in states["slices"]:
            shown[name] = shown.get(name, 0) + length
        wanted: dict[str, int] = {}
        names = {"running": "cpu", "runnable": "queue", "sleeping": "waits"}
        for row in rows(trace, f"FROM thread_state WHERE thread_id = {thread}"):
            inside = min(row["end_ns"], slowest["end_ns"]) - max(
                row["start_ns"], slowest["start_ns"]
            )
            if inside > 0:
                name = names[row["state"]]
                wanted[name] = wanted.get(name, 0) + inside
        assert shown == wanted
    (gpu,) = [lane for lane in view["lanes"] if lane["name"].startswith("GPU")]
    assert {name for _, _, name, _ in gpu["rows"][0]["slices"]} == {"gpu", "copy"}
    assert view["launches"]["n"] == len(gpu["rows"][0]["slices"])


def test_what_only_the_first_iteration_has_is_explained(tmp_path: Path) -> None:
    """It sleeps outside of phases; what is shown of phases is of the others."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("operation")
    process = builder.process(pid=1, end_ns=400)
    builder.thread(process, states=[run(50), sleep(20), woken(1, by=1), run(329)])
    for at in range(4):
        builder.operation(1, at * 100, at * 100 + 50, "simulation", source="auto", steps=1)
        builder.operation(1, at * 100 + 71, at * 100 + 100, "backpropagation", source="auto")
    builder.write()
    with rlscope_analysis.open(tmp_path / "trace.duckdb") as trace:
        page = Page(render(read_page(trace)))
    assert "(waiting)" not in page.by_id("phases").text
    assert "(waiting): in no phase, and asleep" in page.by_id("iterations").text


def test_a_run_without_iterations_and_samples_is_called_so(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1), states=[run(40 * MS), preempted(20 * MS), run(40 * MS)])
    builder.loss(count=1)
    written = tmp_path / "out.html"
    done = rlscope("report", builder.write(), "-o", written)
    assert done.returncode == 0, done.stderr
    page = Page(written.read_text())
    phases = page.by_id("phases")
    assert "in the whole run" in phases.text
    legend = [one.text for one in phases.inside if one.given.get("class") == "legend"]
    assert "which code was not sampled" in legend[0]
    assert "native code" not in legend[0]
    close_up = page.by_id("close-up")
    assert "The whole run" in close_up.text
    (shown,) = [one.text for one in close_up.inside if one.given.get("class") == "legend"]
    assert "waits for a CPU" in shown
    assert "other waits" not in shown
    assert "process; no iterations were found" in page.source


def test_it_needs_nothing_else(page: Page) -> None:
    policy = next(one for one in page.elements if one.given.get("http-equiv"))
    assert (policy.given["content"] or "").startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in (policy.given["content"] or "")
    for element in page.elements:
        assert not {"src", "style", "onclick", "srcset", "action"} & set(element.given)
        assert (element.given.get("href") or "#").startswith("#")
    assert not re.findall(r"https?://|@import|url\((?!#)", page.source)


def test_the_page_is_written_beside_the_trace_and_never_over_another(path: Path) -> None:
    assert rlscope("report", path).returncode == 0
    written = path.with_suffix(".html")
    assert written.stat().st_mode & 0o777 == 0o600
    again = rlscope("report", path)
    assert again.returncode == 2
    assert "exists already\nhint: overwrite it with --force" in again.stderr
    assert rlscope("report", path, "--force").returncode == 0
    target = path.with_name("other.html")
    target.write_text("kept")
    link = path.with_name("link.html")
    link.symlink_to(target)
    assert rlscope("report", path, "-o", link, "--force").returncode == 0
    assert target.read_text() == "kept"
    printed = rlscope("report", path, "-o", "-")
    assert Page(printed.stdout).by_id("verdict").text


def test_a_window_is_a_page_of_its_own(path: Path) -> None:
    done = rlscope("report", path, "--from", "70ms", "--to", "210ms", "-o", "-")
    assert done.returncode == 0, done.stderr
    assert "140 ms" in Page(done.stdout).source


def test_an_unknown_iteration_is_an_error(path: Path) -> None:
    done = rlscope("report", path, "--per", "nothing", "-o", "-")
    assert done.returncode != 0
    assert "hint:" in done.stderr


def test_time_is_in_units_that_people_read() -> None:
    shown = [time_words(ns) for ns in (0, 999, 1_000, 12_345, 999_960, 217 * MS, 11_555_474_000)]
    assert shown == ["0 ns", "999 ns", "1.00 us", "12.3 us", "1.00 ms", "217 ms", "11.6 s"]
    assert time_words(None) == "not measured"


@pytest.mark.parametrize("part", ["limits_of", "training_of"])
def test_a_page_says_why_nothing_can_be_said_of_iterations(
    path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """What needs none of that is there: memory for the findings of a long trace may not be."""
    names = {"limits_of": "finding", "training_of": "training_process"}
    provide = opened.Trace.provide

    def fail(trace: Trace, query: str) -> None:
        if query.strip() == f"FROM {names[part]}":
            raise TraceError("takes more memory than it may")
        provide(trace, query)

    monkeypatch.setattr(opened.Trace, "provide", fail)
    with rlscope_analysis.open(path) as trace:
        made = read_page(trace)
    assert made.verdict == note("no_verdict", reason="takes more memory than it may")
    assert {table.options for table in made.tables} >= {"--view breakdown", "--view gpu"}
    assert not {table.options for table in made.tables} & {"--view limits", "--view phases"}
    assert made.gpu is not None
    assert render(made)
