"""Waits for a CPU: how many were how long, and how much time they make up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlscope_analysis.renderers.html.bars import legend
from rlscope_analysis.renderers.html.words import place, round_words, time_words
from rlscope_analysis.wording import count_of, role_words

if TYPE_CHECKING:
    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.result.page import Page, Queue

_WHO = {"workers": "the workers", "others": "other processes"}
# Labels: powers of ten of ns, from 1 us to 10 s.
_DECADES = tuple(10**power for power in range(3, 11))


def histograms(m: Markup, page: Page) -> Html | None:
    """Return a histogram for each group of processes that waited."""
    if not page.queues:
        return None
    places = [place_ for queue in page.queues for place_, *_ in queue.bins]
    first, last = min(places), max(places) + 1
    found = [_histogram(m, queue, first, max(last, first + 8)) for queue in page.queues]
    parts = (("count", "how many waits"), ("queue", "the time they make up"))
    return m.section(
        "Waits for a CPU",
        m.tag("div", *found, class_="cards"),
        legend(m, parts),
        aside="run-queue latency: from when a thread could run to when it did",
        id_="run-queue",
    )


def _histogram(m: Markup, queue: Queue, first: int, last: int) -> Html:
    most = max(count for _, count, _ in queue.bins)
    longest = max(time_ns for *_, time_ns in queue.bins) or 1
    width = 1 / (last - first)
    drawn = []
    for at, count, time_ns in queue.bins:
        left, low, high = (at - first) * width, 2 ** (at / 2), 2 ** ((at + 1) / 2)
        words = (
            f"{time_words(low)} to {time_words(high)}: {count_of(count, 'wait')},"
            f" {time_words(time_ns)} in all"
        )
        bars = [
            m.tag(
                "rect",
                x=place(left + side * width),
                width=place(width * 0.42),
                y=place(1 - part),
                height=place(part),
                class_=name,
            )
            for part, side, name in (
                (count / most, 0.06, "count"),
                (time_ns / longest, 0.52, "queue"),
            )
        ]
        drawn.append(m.tag("g", m.tag("title", words), *bars))
    labels = [
        m.tag("text", round_words(ns), x=place((2 * math.log2(ns) - first) * width),
              y="100%", dy="16", text_anchor="middle")
        for ns in _DECADES
        if first + 0.02 / width < 2 * math.log2(ns) < last - 0.02 / width
    ]  # fmt: skip
    who = _WHO.get(queue.who) or f"the {role_words(queue.role)}"
    said = (
        f"{count_of(queue.waits, 'wait')}, {time_words(queue.time_ns)} in all;"
        f" half at most {time_words(queue.p50_ns)}, 99 % at most {time_words(queue.p99_ns)},"
        f" the longest {time_words(queue.max_ns)}"
    )
    return m.tag(
        "figure",
        m.tag("h3", f"{who[0].upper()}{who[1:]}"),
        m.tag("p", said, class_="quiet", data_queue=queue.who, data_waits=queue.waits,
              data_ns=queue.time_ns, data_p50=queue.p50_ns, data_p99=queue.p99_ns,
              data_max=queue.max_ns),
        m.tag("svg", *drawn, *labels, class_="histogram", role="img", aria_label=said),
    )  # fmt: skip
