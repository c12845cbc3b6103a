"""A trace in a notebook shows what the report says first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from page_reader import Page
from page_traces import training, with_gpu
from rlscope_analysis.page.read import read_page
from rlscope_analysis.renderers.html import render

if TYPE_CHECKING:
    from pathlib import Path

NAME = "</script>\"'&lt;"


def test_it_is_the_first_screen_of_the_report(tmp_path: Path) -> None:
    path = with_gpu(training(tmp_path / "trace.duckdb", name=NAME)).write()
    with rlscope_analysis.open(path) as trace:
        assert isinstance(trace, rlscope_analysis.Trace)
        shown = trace._repr_html_()
        whole = Page(render(read_page(trace)))
    (frame,) = Page(shown).elements
    assert frame.name == "iframe"
    assert "sandbox" in frame.given
    page = Page(frame.given["srcdoc"] or "")
    assert page.by_id("verdict").text == whole.by_id("verdict").text
    for name in ("figure", "ns", "process", "finding"):
        mine = [(one.given, one.text) for one in page.with_data(name)]
        theirs = [(one.given, one.text) for one in whole.with_data(name)][: len(mine)]
        assert mine
        assert mine == theirs
    assert "<script" not in page.source


def test_a_closed_trace_says_so(tmp_path: Path) -> None:
    trace = rlscope_analysis.open(training(tmp_path / "trace.duckdb").write())
    trace.close()
    with pytest.raises(rlscope_analysis.TraceError):
        trace._repr_html_()
