"""The first screen: what ran, what limits it, six figures."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.html.markup import Html
from rlscope_analysis.renderers.html.words import (
    NOT_MEASURED,
    percent_words,
    time_words,
)
from rlscope_analysis.wording import count_of, longest_words, role_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlscope_analysis.renderers.html.markup import Markup
    from rlscope_analysis.result.page import Figure, Page


def header(m: Markup, page: Page) -> Html:
    """Return what ran, and how well it was recorded."""
    return m.tag(
        "header",
        m.tag(
            "div",
            m.tag("h1", page.facts["program"] or page.trace),
            m.tag("p", " · ".join(_about(page)), class_="about"),
        ),
        m.tag("div", *_badges(m, page), class_="badges"),
    )


def _about(page: Page) -> Iterator[str]:
    facts = page.facts
    if facts["duration_ns"] is not None:
        start_up = facts["start_up_ns"]
        beside = f" (start-up {time_words(start_up)})" if start_up else ""
        kept = "the last " if facts["left_out_ns"] else ""
        yield kept + time_words(facts["duration_ns"]) + beside
    if facts["window"]:
        yield str(facts["window"])
    where = f"on {facts['host']}" if facts["host"] else ""
    cpus = f"{count_of(facts['cpu_count'], 'CPU')}" if facts["cpu_count"] else ""
    system = f"Linux {facts['kernel']}" if facts["kernel"] else ""
    if machine := ", ".join(filter(None, (where, cpus, system))):
        yield machine
    yield f"{count_of(facts['processes'], 'process')}, {count_of(facts['threads'], 'thread')}"
    if facts["started_ns"] is not None:
        began = datetime.fromtimestamp(facts["started_ns"] / 1e9, tz=timezone.utc)
        yield f"{began:%Y-%m-%d %H:%M} UTC"


def _badges(m: Markup, page: Page) -> Iterator[Html]:
    if not page.facts["is_complete"]:
        yield m.tag("a", "recording was cut off", class_="badge bad", href="#not-measured")
    lost = [loss for loss in page.losses if loss["kind"] == "dropped"]
    if lost:
        words = f"lost: {count_of(len(lost), 'kind')} of record"
        yield m.tag("a", words, class_="badge bad", href="#not-measured")
    elif page.losses:
        words = f"nothing lost; in part: {count_of(len(page.losses), 'kind')} of record"
        yield m.tag("a", words, class_="badge", href="#not-measured")
    else:
        yield m.tag("span", "nothing lost", class_="badge good")
    cost = page.overhead
    if cost["overhead_ns"] is not None and cost["cpu_ns"]:
        share = cost["overhead_ns"] / cost["cpu_ns"]
        words = f"recording cost {share * 100:.1f} % of CPU time"
        yield m.tag("span", words, class_="badge", data_share=share)
    yield m.tag("button", "light / dark", id="theme", class_="badge", type="button", hidden=True)


def verdict(m: Markup, page: Page) -> Html:
    """Return in a sentence or two what limits the run."""
    first = m.tag("strong", sentence_of(page.verdict))
    more = "".join(f" {sentence_of(said)}" for said in page.verdict_more)
    # A number stays with its unit.
    words = Html(f"{first}{m.text(more)}".replace(" %", "&nbsp;%"))
    return m.tag("p", words, class_="verdict", id="verdict")


def figures(m: Markup, page: Page) -> Html:
    """Return the six figures."""
    return m.tag("dl", *(_figure(m, figure) for figure in page.figures), class_="figures")


def _figure(m: Markup, figure: Figure) -> Html:
    value, label = _WORDS[figure.code](figure)
    exact = None if figure.value is None else repr(float(figure.value))
    return m.tag(
        "div",
        m.tag("dt", label),
        m.tag("dd", value, data_figure=figure.code, data_value=exact),
    )


def _iteration(figure: Figure) -> tuple[str, str]:
    longest = longest_words(figure.beside["iterations"])
    slow = time_words(figure.beside["p99_ns"])
    return time_words(figure.value), f"an iteration, {longest} {slow}"


def _iterations(figure: Figure) -> tuple[str, str]:
    words = "iteration" if figure.value == 1 else "iterations"
    rest = " after the first" if figure.beside["is_without_first"] else ""
    return f"{figure.value:,.0f}", f"{words}{rest}"


def _all_cpus(figure: Figure) -> tuple[str, str]:
    cpus = figure.beside["cpus"]
    if figure.value is None:
        return NOT_MEASURED, "CPUs in use"
    return f"{figure.value:.2f}", f"of {count_of(cpus, 'CPU')} in use" if cpus else "CPUs in use"


def _gpu(figure: Figure) -> tuple[str, str]:
    if figure.value is None:
        return "none" if figure.beside["is_unused"] else NOT_MEASURED, "GPU work"
    return percent_words(figure.value), "of the recorded time a GPU works"


def _workers_wait(figure: Figure) -> tuple[str, str]:
    many = count_of(figure.beside["workers"], "worker")
    return percent_words(figure.value), f"of the time of {many} is waiting for others"


def _share(label: str) -> Callable[[Figure], tuple[str, str]]:
    def words(figure: Figure) -> tuple[str, str]:
        shown = NOT_MEASURED if figure.value is None else percent_words(figure.value)
        return shown, label.format(role=role_words(figure.beside["role"]))

    return words


_WORDS: dict[str, Callable[[Figure], tuple[str, str]]] = {
    "duration": lambda figure: (time_words(figure.value), "recorded"),
    "environment_steps": lambda figure: (f"{figure.value:,.0f}", "environment steps/s"),
    "iteration": _iteration,
    "iterations": _iterations,
    "processes": lambda figure: (
        f"{figure.value:,.0f}",
        f"{'process' if figure.value == 1 else 'processes'}; no iterations were found",
    ),
    "lead_cpu": _share("of a CPU used by the {role}"),
    "workers_wait": _workers_wait,
    "lead_queue": _share("of its time the {role} waits for a CPU"),
    "all_cpus": _all_cpus,
    "gpu": _gpu,
}
