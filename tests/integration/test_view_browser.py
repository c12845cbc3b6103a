"""The timeline of `view` in a real browser: what it asks for, the keyboard, a click, a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from accessibility import faults
from browser import BROWSERS, Browser
from conftest import REPOSITORY
from page_traces import training, with_gpu
from viewed import Viewed

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b"
READABLE = (REPOSITORY / "tests/support/page_readable.js").read_text()
READY = """
const done = arguments[arguments.length - 1];
const box = document.getElementById("box");
const look = () => box.dataset.slices
  ? requestAnimationFrame(() => done(true)) : setTimeout(look, 10);
look();
"""


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    folder = tmp_path_factory.mktemp("view")
    builder = training(folder / "trace.duckdb", rounds=20, more_threads=60, name=HOSTILE)
    builder.loss(count=7)
    with Viewed(with_gpu(builder, rounds=20).write()) as started:
        yield started


@pytest.fixture(scope="module", params=BROWSERS)
def browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    with BROWSERS[request.param](tmp_path_factory.mktemp("profile")) as started:
        yield started


def ready(browser: Browser, viewed: Viewed) -> None:
    browser.visit(viewed.url)
    assert browser.run_until(READY)


def range_shown(browser: Browser) -> str:
    return str(browser.run("return document.getElementById('where').textContent"))


def press(browser: Browser, key: str) -> str:
    """Press a key on the canvas; returns which part is shown when it is drawn again."""
    browser.run(
        "document.getElementById('lanes').dispatchEvent("
        "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))",
        key,
    )
    browser.run_until("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return range_shown(browser)


def test_it_asks_its_server_only_and_has_no_error(browser: Browser, viewed: Viewed) -> None:
    browser.look(width=1280)
    ready(browser, viewed)
    browser.requests()
    browser.errors()
    ready(browser, viewed)
    asked = browser.requests()
    assert asked
    assert all(url.startswith(viewed.url) for url in asked)
    assert browser.errors() == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800, 400])
def test_every_text_can_be_read(
    browser: Browser, viewed: Viewed, width: int, *, dark: bool
) -> None:
    browser.look(width=width, dark=dark)
    ready(browser, viewed)
    assert browser.run(READABLE) == []
    assert faults(browser) == []


def test_it_says_what_was_lost_and_not_measured(browser: Browser, viewed: Viewed) -> None:
    browser.look(width=1280)
    ready(browser, viewed)
    said = browser.run(
        "document.getElementById('losses').click();"
        " return {badge: document.getElementById('losses').textContent,"
        " is_open: document.getElementById('limits').open,"
        " lines: [...document.querySelectorAll('#limits li')].map((one) => one.textContent)}"
    )
    assert (said["badge"], said["is_open"]) == ("lost: 1 kind of record", True)
    assert ": 7, " in said["lines"][0]
    assert any("what recording cost: not measured" in line for line in said["lines"][1:])


def test_the_timeline_obeys_the_keyboard(browser: Browser, viewed: Viewed) -> None:
    browser.look(width=1280)
    ready(browser, viewed)
    whole = range_shown(browser)
    near = press(browser, "+")
    assert near != whole
    assert press(browser, "ArrowRight") != near
    assert press(browser, "0") == whole
    assert press(browser, "i") != whole
    assert press(browser, "0") == whole


def test_a_click_says_what_is_there_and_leads_to_who_woke_it(
    browser: Browser, viewed: Viewed
) -> None:
    browser.look(width=1280)
    ready(browser, viewed)
    # The first lane, 29 ms into the trace: it waits for a CPU, woken by a worker.
    browser.run("""
    const canvas = document.getElementById("lanes"), rect = canvas.getBoundingClientRect();
    const x = rect.left + 190 + 29 / 1400 * (rect.width - 190), y = rect.top + 50;
    canvas.setPointerCapture = () => {};
    for (const kind of ["pointerdown", "pointerup"]) {
      const where = {clientX: x, clientY: y, bubbles: true, pointerId: 1};
      canvas.dispatchEvent(new PointerEvent(kind, where));
    }
    """)
    said = browser.run_until("""
    const done = arguments[0], place = document.getElementById("place");
    const look = () => place.querySelector("button") ? done(place.innerText) : setTimeout(look, 10);
    look();
    """)
    assert "waits for a CPU" in said
    assert "woken by" in said
    before = range_shown(browser)
    browser.run("document.querySelector('#place button').click()")
    browser.run_until("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert range_shown(browser) != before


def test_a_search_leads_to_a_kernel(browser: Browser, viewed: Viewed) -> None:
    browser.look(width=1280)
    ready(browser, viewed)
    browser.run("""
    document.getElementById("words").value = "sgemm";
    document.getElementById("search").requestSubmit();
    """)
    said = browser.run_until("""
    const done = arguments[0], hits = document.getElementById("hits");
    const look = () => hits.textContent ? done(hits.textContent) : setTimeout(look, 10);
    look();
    """)
    assert said == "1 of 20: sgemm, 5.50 ms"
    assert browser.run("return document.querySelectorAll('img').length") == 0
