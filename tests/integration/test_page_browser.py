"""The page in a real browser: no request, no error, readable at every width, light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from accessibility import faults
from browser import BROWSERS, Browser
from chromium import Chromium
from conftest import REPOSITORY, in_matrix
from page_traces import training, with_every_bucket, with_gpu
from rlscope_analysis.page.read import read_page
from rlscope_analysis.renderers.html import render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

# The last one is what a window of 1280 has when it is zoomed to four times its size.
WIDTHS = (1280, 800, 400, 320)
# What is left of 210 mm and 8.5 inches within the widest margins of browsers, in 96ths of an inch.
IN_EACH_BUCKET = 12
PAPERS = {"A4": 697, "Letter": 720}
READY = """
const done = arguments[arguments.length - 1];
const canvas = document.getElementById("canvas");
const look = () => canvas.dataset.ready ? done(true) : setTimeout(look, 10);
look();
"""
# Returns texts that are cut, overlap or have too little contrast.
READABLE = (REPOSITORY / "tests/support/page_readable.js").read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    hostile = "</script><b>\"' \x1b"
    builder = with_gpu(training(folder / "trace.duckdb", rounds=30, name=hostile), rounds=30)
    with rlscope_analysis.open(builder.write()) as trace:
        text = render(read_page(trace))
    written = folder / "report.html"
    written.write_text(text)
    return written


@pytest.fixture(scope="module", params=BROWSERS)
def browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    with BROWSERS[request.param](tmp_path_factory.mktemp("profile")) as started:
        yield started


def ready(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run_until(READY)


def test_it_asks_nobody_for_anything_and_has_no_error(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.requests()
    browser.errors()
    ready(browser, page)
    assert set(browser.requests()) <= {page.resolve().as_uri()}
    assert browser.errors() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


def test_an_error_and_a_request_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    """Of each browser: else the test above could not fail."""
    server = "http://127.0.0.1:1999/picture.png"
    faulty = tmp_path / "faulty.html"
    faulty.write_text(f"<!DOCTYPE html><img src={server}><script>nothing_called_so()</script>")
    browser.open(faulty)
    assert server in browser.requests()
    assert any("nothing_called_so" in error for error in browser.errors())


# Colours do not depend on the width, and what is cut off not on the colours.
LOOKS = [(WIDTHS[0], True), (WIDTHS[2], False), (WIDTHS[-1], False)]
MORE_LOOKS = [(WIDTHS[0], False), (WIDTHS[1], False)]


@pytest.mark.parametrize("look", [*LOOKS, *in_matrix(*MORE_LOOKS)])
def test_every_text_can_be_read(browser: Browser, page: Path, look: tuple[int, bool]) -> None:
    width, dark = look
    browser.look(width=width, dark=dark)
    ready(browser, page)
    assert browser.run(READABLE) == []
    assert faults(browser) == []
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.run(READABLE) == []


def test_what_cannot_be_read_is_found(browser: Browser, page: Path) -> None:
    browser.look(width=800)
    ready(browser, page)
    browser.run(
        "const [a, b, c] = document.querySelectorAll('.figures dt');"
        "a.style.color = '#aaa';"
        "b.style.cssText = 'overflow: hidden; white-space: nowrap; width: 9px';"
        "c.style.marginTop = '-40px';"
        "document.querySelector('h1').style.cssText = 'position: absolute; left: 790px'"
    )
    found = " ".join(browser.run(READABLE))
    for fault in ("contrast", "cut", "overlap", "beyond the page"):
        assert fault in found
    assert any(found.startswith("serious") for found in faults(browser))


def pixels(browser: Browser) -> list[int]:
    """Return a sum for each eighth of the canvas."""
    script = """
    const canvas = document.getElementById("lanes"), w = canvas.width >> 3;
    return [...Array(8).keys()].map((at) => canvas.getContext("2d")
      .getImageData(at * w, 0, w, canvas.height).data.reduce((a, b) => a + b, 0));
    """
    found: list[int] = browser.run(script)
    return found


def press(browser: Browser, key: str) -> str:
    """Press a key on the canvas; returns what is said below it when it is drawn again."""
    browser.run(
        "document.getElementById('lanes').dispatchEvent("
        "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))",
        key,
    )
    return str(browser.run_until(
        "const done = arguments[0];"
        "requestAnimationFrame(() => requestAnimationFrame("
        "() => done(document.getElementById('slice').textContent)))"
    ))  # fmt: skip


def test_the_canvas_obeys_the_keyboard(browser: Browser, page: Path) -> None:
    browser.look(width=1280)
    ready(browser, page)
    whole = pixels(browser)
    press(browser, "+")
    near = pixels(browser)
    assert near != whole
    press(browser, "ArrowRight")
    assert pixels(browser) != near
    press(browser, "0")
    assert pixels(browser) == whole
    said = press(browser, ".")
    assert said.startswith("critical path, piece")
    assert press(browser, ".") != said
    browser.run("document.querySelectorAll('[data-view]')[1].click()")
    press(browser, "0")
    assert pixels(browser) != whole


def test_light_and_dark_can_be_chosen(browser: Browser, page: Path) -> None:
    browser.look(width=1280)
    ready(browser, page)
    back = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(back)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(back) != light
    browser.run("document.getElementById('theme').click()")
    assert browser.run(back) == light


def test_paper_is_light(tmp_path: Path, page: Path) -> None:
    """Whichever was chosen; Firefox emulates no paper."""
    back = "return getComputedStyle(document.body).backgroundColor"
    with Chromium(tmp_path / "profile") as browser:
        browser.look(width=1280)
        ready(browser, page)
        light = browser.run(back)
        browser.look(width=1280, dark=True)
        assert browser.run(back) != light
        browser.look(width=1280, dark=True, medium="print")
        assert browser.run(back) == light
        browser.run("document.documentElement.dataset.theme = 'dark'")
        assert browser.run(back) == light


@pytest.mark.parametrize("width", PAPERS.values(), ids=PAPERS)
def test_paper_is_wide_enough(tmp_path: Path, width: int) -> None:
    """A wider table would make all of the page smaller; Firefox emulates no paper."""
    builder = with_every_bucket(training(tmp_path / "trace.duckdb", rounds=30))
    page = tmp_path / "report.html"
    with rlscope_analysis.open(builder.write()) as trace:
        page.write_text(render(read_page(trace)))
    with Chromium(tmp_path / "profile") as browser:
        browser.look(width=width, medium="print")
        ready(browser, page)
        browser.run("dispatchEvent(new Event('beforeprint'))")
        rows = "[...document.querySelector(\"[data-view='--view thread'] table\").rows]"
        cells = browser.run(f"return {rows}.map((row) => row.textContent)")
        assert any(text.count("23,456.79") == IN_EACH_BUCKET for text in cells), cells
        assert browser.run(READABLE) == []
        browser.run("document.querySelectorAll('table').forEach("
                    "(one) => { one.style.fontSize = '8.5px'; })")  # fmt: skip
        assert "the page is wider than the window" in browser.run(READABLE)


def test_the_canvas_is_light_on_paper_and_as_before_behind_it(browser: Browser, page: Path) -> None:
    drawn = "return document.getElementById('lanes').toDataURL()"
    event = "dispatchEvent(new Event('{}print'))"
    browser.look(width=1280)
    ready(browser, page)
    light = browser.run(drawn)
    browser.look(width=1280, dark=True)
    ready(browser, page)
    dark = browser.run(drawn)
    assert dark != light
    closed = "return document.querySelectorAll('details:not([open])').length"
    browser.run("document.querySelector('details').open = true")
    before = browser.run(closed)
    assert before
    browser.run(event.format("before"))
    assert browser.run(drawn) == light
    assert browser.run(closed) == 0
    browser.run(event.format("after"))
    assert browser.run(drawn) == dark
    assert browser.run(closed) == before


def test_without_scripts_all_but_the_canvas_is_there(browser: Browser, page: Path) -> None:
    browser.look(width=1280)
    browser.allow_scripts(allowed=False)
    try:
        browser.open(page)
    finally:
        browser.allow_scripts(allowed=True)
    found: dict[str, Any] = browser.run(
        "return {bars: document.querySelectorAll('svg rect').length,"
        " canvas: document.getElementById('canvas').hidden,"
        " theme: document.getElementById('theme').hidden}"
    )
    assert found["bars"] > 50
    assert found["canvas"]
    assert found["theme"]
