"""Renders a page to look at: one file of HTML that needs nothing else and asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.renderers.html import bars, head
from rlscope_analysis.renderers.html.close_up import close_ups
from rlscope_analysis.renderers.html.document import document
from rlscope_analysis.renderers.html.findings import findings
from rlscope_analysis.renderers.html.flame import flame
from rlscope_analysis.renderers.html.gpu import gpu
from rlscope_analysis.renderers.html.histograms import histograms
from rlscope_analysis.renderers.html.iterations import iterations
from rlscope_analysis.renderers.html.limits import limits
from rlscope_analysis.renderers.html.markup import Html, Markup, hiding
from rlscope_analysis.renderers.html.tables import tables
from rlscope_analysis.renderers.html.what_if import what_if

if TYPE_CHECKING:
    from rlscope_analysis.result.page import Page


def render(page: Page, *, redact: bool = False) -> str:
    """Return the page as HTML.

    redact: without what tells who ran what where: hosts, users, command lines, titles of processes,
    paths, and the files of functions.
    """
    m = Markup(hiding((*page.private, page.trace)) if redact else str)
    left = m.tag("div", bars.phases(m, page), bars.processes(m, page))
    parts = [
        head.header(m, page),
        head.verdict(m, page),
        head.figures(m, page),
        m.tag("div", left, findings(m, page), class_="two"),
        what_if(m, page),
        iterations(m, page),
        close_ups(m, page),
        gpu(m, page),
        histograms(m, page),
        flame(m, page),
        tables(m, page),
        limits(m, page),
        _footer(m, redact=redact),
    ]
    return document(m, f"{page.facts['program'] or page.trace}: where its time went", parts)


def render_first_screen(page: Page) -> str:
    """Return the first screen alone, as HTML without a script: for a frame in a notebook."""
    m = Markup()
    left = m.tag("div", bars.phases(m, page), bars.processes(m, page))
    parts = [
        head.header(m, page),
        head.verdict(m, page),
        head.figures(m, page),
        m.tag("div", left, findings(m, page), class_="two"),
    ]
    return document(m, m.plain(page.trace), parts, has_script=False)


def _footer(m: Markup, *, redact: bool) -> Html:
    said = "Made by rlscope-trace report. It asks no server for anything and may be kept as it is."
    if redact:
        said += " Hosts, users, command lines and paths were taken out."
    else:
        said += " It holds host, command line and paths of the program: --redact hides them."
    return m.tag("footer", m.tag("p", said))
