"""Pages of odd traces: hostile names, gaps in what was measured, very many of everything."""

from __future__ import annotations

import json
import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from conftest import in_matrix
from page_reader import Page
from page_traces import COMMAND, HOME, META, MS, training, with_gpu
from rlscope_analysis.page import close_up, iterations
from rlscope_analysis.page.read import read_page
from rlscope_analysis.renderers.html import render
from rlscope_analysis.renderers.html.markup import Markup, hiding
from trace_builder import TraceBuilder, lost, preempted, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

    from trace_builder import Interval

HOSTILE = (
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)' x=\"",
    "\x1b[31m\x00\x07\x7f\u202e\u2028]]>&amp;<!--",
    "{0.__class__} %s {missing}",
    "x" * 5000,
)
LARGEST = 2_000_000


def page_of(builder: TraceBuilder, *, redact: bool = False) -> Page:
    with rlscope_analysis.open(builder.write()) as trace:
        return Page(render(read_page(trace), redact=redact))


@pytest.mark.parametrize(
    "name", [*HOSTILE[::2], *in_matrix(*HOSTILE[1::2])], ids=range(len(HOSTILE))
)
def test_names_are_text_and_nothing_else(tmp_path: Path, name: str) -> None:
    builder = training(
        tmp_path / "trace.duckdb", phase=name, function=f"{name} (a.py:1)", name=name, rounds=3,
        workers=1,
    )  # fmt: skip
    builder.device(0, name)
    builder.coverage("gpu_activity")
    builder.gpu_activity(1, 10 * MS, 20 * MS, name=name)
    page = page_of(builder)
    assert [one.name for one in page.elements].count("script") == 2
    assert [one.name for one in page.elements].count("style") == 1
    assert not [one for one in page.elements if one.name == "img"]
    assert not [key for one in page.elements for key in one.given if key.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e]", page.source)
    # It is there, as people may read it.
    words = page.by_id("phases").text
    assert name[:2] in words or "\\x1b" in words
    assert any(name[:2].encode("unicode_escape").decode()[:2] in word
               for view in page.canvas() for _, word in view["words"])  # fmt: skip


def test_bytes_that_are_no_utf8_are_escaped() -> None:
    m = Markup()
    assert m.text(b"a\xff<".decode(errors="surrogateescape")) == "a\\udcff&lt;"
    assert m.tag("p", "<b>", title='"') == '<p title="&quot;">&lt;b&gt;</p>'


def test_redacted_pages_do_not_tell_who_ran_what_where(tmp_path: Path) -> None:
    secrets = ("secrethost", "alice", "train_it", "hunter2", "/home", "project", "trace.duckdb")
    open_page = page_of(with_gpu(training(tmp_path / "trace.duckdb")))
    shown = open_page.source + str(open_page.canvas())
    assert {name for name in secrets if name in shown} >= {"secrethost", "train_it", "trace.duckdb"}
    (tmp_path / "second").mkdir()
    builder = with_gpu(training(tmp_path / "second/trace.duckdb", name=COMMAND[:15]))
    builder.process(pid=9, name="x", command=f"other_tool /data{HOME}/x")
    page = page_of(builder, redact=True)
    shown = page.source + str(page.canvas())
    assert not {name for name in secrets if name in shown}
    assert "backpropagation" in shown
    assert "learn" in shown


def test_a_page_without_an_answer_does_not_tell_where_its_trace_is(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    builder = TraceBuilder(tmp_path / "acme/trace.duckdb")
    builder.coverage("operation")
    builder.thread(builder.process(pid=1), states=[])
    for start in range(0, 50, 10):
        builder.operation(1, start, start + 9, "iteration")
    page = page_of(builder, redact=True)
    assert "so nothing can be predicted" in page.source
    assert "acme" not in page.source


def asked_of_a_script(path: Path) -> TraceBuilder:
    """Return a trace whose leading process waits for what a script of another one does."""
    builder = TraceBuilder(path)
    builder.coverage("thread_state")
    main = builder.process(pid=1, command="python train.py")
    other = builder.process(pid=2, parent=main, command="python serve_secret.py --port 1")
    builder.thread(main, states=[run(10), sleep(79), woken(1, by=2), run(10)])
    builder.thread(other, states=[sleep(9), woken(1, by=1), run(80, cpu=1), sleep(10)])
    builder.wait(1, 10, 89, "pipe")
    builder.operation(1, 0, 100, "update")
    return builder


def test_a_script_has_its_own_name_or_none(tmp_path: Path) -> None:
    """Also where it begins a sentence."""
    page = page_of(asked_of_a_script(tmp_path / "trace.duckdb"))
    assert "serve_secret.py (pid 2) runs code that" in page.by_id("findings").text
    (tmp_path / "hidden").mkdir()
    hidden = page_of(asked_of_a_script(tmp_path / "hidden/trace.duckdb"), redact=True)
    assert "serve_secret" not in (hidden.source + str(hidden.canvas())).lower()


def test_who_waits_is_who_the_verdict_names(tmp_path: Path) -> None:
    """The other process has the lock, and is on the path meanwhile."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    main = builder.process(pid=1)
    builder.thread(main, states=[run(10), sleep(79), woken(1, by=2), run(10)])
    builder.thread(builder.process(pid=2, parent=main), states=[run(100, cpu=1)])
    builder.wait(1, 10, 89, "lock")
    builder.operation(1, 0, 100, "update")
    page = page_of(builder)
    words = (
        "Main (pid 1) waits for a lock that another thread or process has, mostly python (pid 2)"
    )
    assert words in page.by_id("findings").text
    assert words in page.by_id("verdict").text
    # One iteration, of which none is left out.
    assert "Of so few iterations shares are rough." in page.by_id("verdict").text
    assert "but the first" not in page.by_id("phases").text
    assert "after the first" not in page.source


def test_what_a_redacted_page_measured_is_there(tmp_path: Path) -> None:
    """Arguments such as 20, simulation and record stand in numbers, names and words of a page."""
    argv = json.dumps(["rlscope-trace", "record", "--sample-hz", "0", "-o", "of", "--", "python",
                       "train.py", "--mode", "simulation", "1", "5", "20", "ms"])  # fmt: skip
    pages = []
    for folder, redact in (("open", False), ("hidden", True)):
        (tmp_path / folder).mkdir()
        builder = with_gpu(training(tmp_path / folder / "trace.duckdb", argv=argv))
        builder.loss(count=7)
        pages.append(page_of(builder, redact=redact))
    shown, hidden = pages
    for key in ("x", "width", "height", "class", "data-ns", "data-share", "data-value"):
        assert [one.given.get(key) for one in hidden.elements] == [
            one.given.get(key) for one in shown.elements
        ], key
    for part in ("phases", "verdict", "what-if"):
        assert hidden.by_id(part).text.replace("(hidden)", "trace.duckdb") == shown.by_id(part).text
    assert "train.py" not in hidden.source


def test_hiding_takes_paths_and_leaves_numbers() -> None:
    hide = hiding(["vm", "run_7.py"])
    assert hide("on vm: 12/24 at /opt/x/y.py, vms, run_7.py") == (
        "on (hidden): 12/24 at (hidden), vms, (hidden)"
    )
    assert hide("step (train.py:12)") == "step"
    assert hide("C:\\Users\\bob\\x.py ~/y/z.py ../a/b") == "(hidden) (hidden) (hidden)"


def test_what_was_not_measured_is_not_zero(tmp_path: Path) -> None:
    """Nobody recorded when threads ran, nor a GPU."""
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=META)
    builder.coverage("operation")
    process = builder.process(pid=1, end_ns=900 * MS)
    thread = builder.thread(process, tid=1, states=[], end_ns=900 * MS)
    for at in range(9):
        start = at * 100 * MS
        builder.operation(thread, start, start + 60 * MS, "simulation", source="auto")
        builder.operation(thread, start + 60 * MS, start + 100 * MS, "backpropagation",
                          source="auto")  # fmt: skip
    page = page_of(builder)
    figures = {one.given["data-figure"]: one for one in page.with_data("figure")}
    for name in ("lead_cpu", "all_cpus", "gpu"):
        assert figures[name].given.get("data-value") is None
        assert figures[name].text == "not measured"
    assert "run-queue" not in page.ids()
    assert "functions" not in page.ids()
    assert "not recorded: when threads ran" in page.by_id("not-measured").text
    (states,) = page.canvas()[0]["lanes"][0]["rows"][1:]
    assert {name for _, _, name, _ in states["slices"]} == {"unknown"}


def test_without_operations_the_whole_run_is_shown(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=META)
    builder.coverage("thread_state")
    process = builder.process(pid=1, end_ns=100 * MS)
    builder.thread(process, tid=1, states=[run(50 * MS), lost(20 * MS), sleep(30 * MS)])
    page = page_of(builder)
    assert "no iterations" in page.source
    assert "iterations" not in page.ids()
    (view,) = page.canvas()
    (states,) = [row for row in view["lanes"][0]["rows"] if row["kind"] == "state"]
    shown = {name: length for _, length, name, _ in states["slices"]}
    assert shown == {"cpu": 50 * MS, "lost": 20 * MS, "waits": 30 * MS}
    # Its parts are of the longest phase, and together all of the time.
    bars = [one for one in page.by_id("phases").inside if one.name == "rect" and "x" in one.given]
    bars = [one for one in bars if one.given["class"] in ("cpu", "waits", "lost")]
    lengths = {one.given["class"]: float((one.given["width"] or "0%")[:-1]) for one in bars}
    assert lengths["lost"] / sum(lengths.values()) == pytest.approx(0.2, abs=0.001)


def test_an_empty_trace_is_a_page(tmp_path: Path) -> None:
    page = page_of(TraceBuilder(tmp_path / "trace.duckdb"))
    assert page.by_id("verdict").text
    assert "data" not in page.ids()


def test_losses_are_on_the_first_screen(tmp_path: Path) -> None:
    builder = training(tmp_path / "trace.duckdb", rounds=3)
    builder.loss(count=None)
    page = page_of(builder)
    assert "lost: 1 kind of record" in page.source
    (loss,) = page.with_data("loss")
    assert "not known how many" in loss.text


def test_what_is_there_in_part_is_not_lost(tmp_path: Path) -> None:
    builder = training(tmp_path / "trace.duckdb", rounds=3)
    builder.loss("kineto_skipped_uncategorised", count=3)
    assert "nothing lost; in part: 1 kind of record" in page_of(builder).source


def check_many(page: Page, *, iterations: int, most_bars: int, most_lanes: int) -> None:
    bars = page.with_data("iteration")
    assert most_bars // 2 <= len(bars) <= most_bars
    names = [(one.given["data-iteration"] or "").partition("-") for one in bars]
    # Whole iterations, one after the other, from the first to the last.
    assert [int(first) for first, _, _ in names] == [
        1, *(int(last or first) + 1 for first, _, last in names[:-1])
    ]  # fmt: skip
    assert int(names[-1][2] or names[-1][0]) == iterations
    for view in page.canvas():
        assert len(view["lanes"]) <= most_lanes
    assert "threads not drawn" in page.by_id("close-up").text


def test_many_iterations_share_bars_and_idle_threads_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iterations, "MOST_BARS", 20)
    monkeypatch.setattr(close_up, "MOST_THREADS", 3)
    page = page_of(training(tmp_path / "trace.duckdb", rounds=50, workers=1, more_threads=9))
    check_many(page, iterations=49, most_bars=20, most_lanes=3)


@pytest.mark.matrix
def test_very_many_threads_and_iterations_are_still_a_small_page(tmp_path: Path) -> None:
    page = page_of(training(tmp_path / "t.duckdb", rounds=10_000, workers=1, more_threads=1_000))
    assert len(page.source.encode()) <= LARGEST
    check_many(page, iterations=9_999, most_bars=600, most_lanes=40)


def drawn_in_100(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Interval
) -> tuple[Page, dict[str, Any]]:
    """Return a page that draws 100 slices, of a thread that runs 600 times, and its canvas."""
    monkeypatch.setattr(close_up, "MOST_SLICES", 100)
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=META)
    builder.coverage("thread_state")
    process = builder.process(pid=1, end_ns=600 * 3_000)
    builder.thread(process, tid=1, states=[run(2_000), other] * 600)
    page = page_of(builder)
    (view,) = page.canvas()
    return page, view


def test_short_slices_are_drawn_together_and_no_time_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, view = drawn_in_100(tmp_path, monkeypatch, sleep(1_000))
    (states,) = [row for row in view["lanes"][0]["rows"] if row["kind"] == "state"]
    assert len(states["slices"]) <= 100
    ends = [start + length for start, length, *_ in states["slices"]]
    assert [0, *ends[:-1]] == [start for start, *_ in states["slices"]]
    assert ends[-1] == 600 * 3_000
    # Each shows what has most of its time.
    assert {name for _, _, name, _ in states["slices"]} == {"cpu"}
    assert "drawn together" in page.by_id("close-up").text


def test_a_long_path_is_drawn_together_and_no_time_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, view = drawn_in_100(tmp_path, monkeypatch, preempted(1_000))
    path = view["path"]
    assert 10 < len(path["slices"]) <= 100
    ends = [start + length for start, length in path["slices"]]
    assert [0, *ends[:-1]] == [start for start, _ in path["slices"]]
    assert ends[-1] * view["tick"] == 600 * 3_000
    assert {view["lanes"][lane]["name"] for lane in path["lane"]} == {view["lanes"][0]["name"]}
    # Each says what has most of its time.
    assert {view["causes"][cause] for cause in path["cause"]} == {"running and others, each short"}
    assert "pieces of the critical path shorter than" in page.by_id("close-up").text


def test_a_page_of_a_busy_process_is_small(tmp_path: Path) -> None:
    """Nothing of it can be compressed, and all threads are on the path."""
    builder, random = TraceBuilder(tmp_path / "trace.duckdb", meta=META), Random(0)
    builder.coverage("thread_state")
    process = builder.process(pid=1, end_ns=40_000 * 110_000)
    for tid in range(1, 9):
        lengths = [random.randrange(1_000, 100_000) for _ in range(40_000)]
        states = [(run, preempted)[at % 2](length) for at, length in enumerate(lengths)]
        builder.thread(process, tid=tid, states=states)
    page = page_of(builder)
    (view,) = page.canvas()
    assert len(view["path"]["slices"]) > 5_000
    assert len(page.source.encode()) < 250_000


def test_of_thousands_of_words_each_is_hidden() -> None:
    hide = hiding(
        [f"python train.py --secret {number}" for number in range(20_000)] + ["--", "a b"]
    )
    text = "a b: python train.py --secret 19999, python train.py --secret 20000"
    assert hide(text) == "(hidden): (hidden), python train.py --secret 20000"
