"""A typical and the slowest iteration for the canvas: what is drawn, packed into one text.

A header in JSON, its length before it; then columns of numbers at the places that it names. Times
are ticks since the iteration began. Of a row first comes how long after the end of the one before
each slice begins, nearly always 0, then how long it is. Of a column of int32 all lowest bytes come
first, then the next ones: alike bytes beside each other take less room.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.html.bars import legend
from rlscope_analysis.renderers.html.markup import Html
from rlscope_analysis.renderers.html.words import kernel_words, phase_classes, time_words
from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.renderers.html.markup import Markup
    from rlscope_analysis.result.page import CloseUp, Page, Word

    Ints = npt.NDArray[np.int64]

# A tick is so short that an iteration has at most so many: 22 bits.
_MOST_TICKS = 1 << 22
_LEVEL = 6
_SEVERAL = " and others, each short"
LEGEND = (
    ("cpu", "on a CPU"), ("queue", "waits for a CPU"), ("waits", "other waits"),
    ("lost", "lost"), ("unknown", "not measured"),
)  # fmt: skip
STATES = {
    "running": ("cpu", "on a CPU"), "runnable": ("queue", "waits for a CPU"),
    "sleeping": ("waits", "sleeps"), "blocked": ("waits", "blocked"), "lost": ("lost", "lost"),
    None: ("unknown", "not measured"),
}  # fmt: skip
WAITS = {
    "gil": "waits for the GIL", "gpu": "waits for the GPU", "io": "waits for a disk or a device",
    "lock": "waits for a lock", "pipe": "waits at a pipe", "socket": "waits at a socket",
    "sleep": "sleeps for a time", "poll": "waits for one of several files",
    "process": "waits for the end of a child",
}  # fmt: skip
_GPU = {"kernel": "gpu", "memcpy": "copy", "memset": "copy", "graph": "gpu"}
_WHICH = {"typical": "typical iteration", "slowest": "slowest iteration",
          "only": "the iteration", "whole": "the whole run"}  # fmt: skip


def close_ups(m: Markup, page: Page) -> Html | None:
    """Return the part of the page with the canvas; None: there is nothing to draw."""
    shown = [found for found in page.close_ups if found.lanes]
    if not shown:
        return None
    buttons = [
        m.tag("button", f"{_WHICH[found.which]}, {time_words(found.iteration['duration_ns'])}",
              type="button", data_view=at, aria_pressed="true" if at == 0 else "false")
        for at, found in enumerate(shown)
    ]  # fmt: skip
    hints = m.tag(
        "p", "Drag or ", m.tag("kbd", "←"), " ", m.tag("kbd", "→"), " to move, ",
        m.tag("kbd", "Ctrl"), " + wheel or ", m.tag("kbd", "+"), " ", m.tag("kbd", "-"),
        " to zoom, double-click or ", m.tag("kbd", "0"), " for all, ", m.tag("kbd", ","), " ",
        m.tag("kbd", "."), " along the critical path.", class_="quiet hints",
    )  # fmt: skip
    canvas = m.tag("canvas", "One iteration on all threads", id="lanes", tabindex="0",
                   role="img", aria_label="what every thread did in an iteration, and its"
                   " critical path; the same in numbers: explain, below",
                   aria_describedby="slice")  # fmt: skip
    said = m.tag("p", "Point at anything to read what it is.", id="slice", aria_live="polite")
    return m.section(
        f"{'The whole run' if shown[0].which == 'whole' else 'One iteration'}, every thread",
        m.tag("div", m.tag("div", *buttons, class_="tabs"), class_="tools"),
        m.tag("noscript", m.tag("p", "To be drawn, this needs JavaScript; the numbers are below."
                                " Everything else on this page does without.", class_="quiet")),
        m.tag("div", canvas, said, class_="canvas", id="canvas", hidden=True),
        hints,
        *_beside(m, shown),
        _data(m, shown),
        aside="the line through the lanes is its critical path",
        id_="close-up",
    )  # fmt: skip


def _beside(m: Markup, shown: list[CloseUp]) -> list[Html]:
    names = list(dict.fromkeys(
        word.name or "" for found in shown for word in found.words if word.kind == "operation"
    ))  # fmt: skip
    classes = phase_classes(names)
    parts = [(classes[name], name) for name in names[:8]]
    states = {
        STATES[word.name][0] for found in shown for word in found.words
        if word.kind not in ("operation", "gpu")
    }  # fmt: skip
    parts += [(name, words) for name, words in LEGEND if name in states]
    kinds = {word.layer for found in shown for word in found.words if word.kind == "gpu"}
    parts += [("gpu", "GPU: kernels")] * bool(kinds & {"kernel", "graph"})
    parts += [("copy", "GPU: copies")] * bool(kinds & {"memcpy", "memset"})
    said = [legend(m, [*parts, ("path", "critical path")])]
    for found in shown:
        notes = []
        if found.lanes_left_out:
            notes.append(f"{count_of(found.lanes_left_out, 'thread')} not drawn")
        if found.least_ns:
            notes.append(f"what is shorter than {time_words(found.least_ns)} is drawn together")
        if found.path_least_ns:
            short = time_words(found.path_least_ns)
            notes.append(f"pieces of the critical path shorter than {short} are, too")
        if notes:
            words = f"{_WHICH[found.which]}: {'; '.join(notes)}".capitalize()
            said.append(m.tag("p", words, class_="quiet"))
    return said


def _data(m: Markup, shown: list[CloseUp]) -> Html:
    """Return the element that holds what the canvas shows; base64 needs no escaping."""
    packer = _Packer(m)
    views = [packer.view(found) for found in shown]
    header = json.dumps({"views": views}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 4)
    body = b"".join([struct.pack("<I", len(header)), header, *packer.columns])
    packed = base64.b64encode(gzip.compress(body, _LEVEL, mtime=0)).decode()
    return Html(f'<script type="application/gzip" id="data">{packed}</script>')


class _Packer:
    def __init__(self, m: Markup) -> None:
        self._m = m
        self.columns: list[bytes] = []
        self._at = 0

    def view(self, found: CloseUp) -> dict[str, Any]:
        row = found.iteration
        duration_ns = row["end_ns"] - row["start_ns"]
        tick = 1
        while duration_ns // tick > _MOST_TICKS:
            tick *= 10
        names = [word.name or "" for word in found.words if word.kind == "operation"]
        classes = phase_classes(list(dict.fromkeys(names)))
        causes = [cause.replace("_", " ") for cause in found.causes]
        return {
            "tick": tick,
            "end": -(-duration_ns // tick),
            "words": [self._word(word, classes) for word in found.words],
            "causes": [*causes, *(f"{cause}{_SEVERAL}" for cause in causes)],
            "lanes": [
                {
                    "name": self._m.plain(sentence_of(lane.who)),
                    "rows": [
                        {
                            "kind": drawn.kind,
                            "n": len(drawn.code),
                            "at": self._intervals(drawn.start_ns, drawn.end_ns, tick),
                            "code": self._numbers(drawn.code),
                        }
                        for drawn in lane.rows
                    ],
                }
                for lane in found.lanes
            ],
            "path": {
                "n": len(found.path[0]),
                "at": self._intervals(found.path[0], found.path[1], tick),
                "lane": self._numbers(found.path[2]),
                "cause": self._numbers(found.path[3]),
            },
            "launches": {
                "n": len(found.launches[0]),
                "from": self._numbers(found.launches[0]),
                "call": self._numbers(found.launches[1] // tick),
                "to": self._numbers(found.launches[2]),
                "start": self._numbers(found.launches[3] // tick),
            },
        }

    def _word(self, word: Word, classes: dict[str, str]) -> list[str]:
        """Return the class and the words of a slice."""
        more = _SEVERAL if word.several else ""
        if word.kind == "operation":
            name = word.name or ""
            return [classes[name], self._m.plain(name) + more]
        if word.kind == "gpu":
            name = self._m.plain(kernel_words(word.name or "(name not known)"))
            return [_GPU.get(word.layer or "", "gpu"), f"{word.layer} {name}" + more]
        class_, words = STATES[word.name]
        if word.wait:
            words = WAITS.get(word.wait, words)
        if word.layer:
            words += f", in a call: {word.layer}"
        return [class_, words + more]

    def _intervals(self, start_ns: Ints, end_ns: Ints, tick: int) -> int:
        """Store how long after the end of the one before each begins, then how long it is."""
        start = start_ns // tick
        length = np.maximum(end_ns // tick - start, 0)
        gap = start.copy()
        gap[1:] -= (start + length)[:-1]
        at = self._store(gap)
        self._store(length)
        return at

    def _numbers(self, numbers: Ints) -> int:
        return self._store(numbers)

    def _store(self, numbers: Ints) -> int:
        at = self._at
        whole = np.ascontiguousarray(numbers, dtype="<i4")
        self.columns.append(whole.view(np.uint8).reshape(-1, 4).T.tobytes())
        self._at += len(numbers)
        return at
