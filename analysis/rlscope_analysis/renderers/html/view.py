"""The page of `view`, and what its script asks for, as JSON: names are printable text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.html.close_up import LEGEND, STATES, WAITS
from rlscope_analysis.renderers.html.document import PATTERN, own_file
from rlscope_analysis.renderers.html.limits import MOST, lack_words, loss_words
from rlscope_analysis.renderers.html.markup import Markup
from rlscope_analysis.renderers.html.words import kernel_words, phase_classes
from rlscope_analysis.schema.vocabulary import CAUSES, THREAD_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.result.timeline import Whole

_UNKNOWN = "(name not known)"
_MOST_NAMES = 8
_CALLS = {
    "python": "native calls: Python", "native": "native calls: backend",
    "f1": "native calls: simulator", "other": "native calls: other",
}  # fmt: skip
_WAKERS = {
    "timer": "a timer", "device": "a device or the network", "interrupt": "an interrupt",
    "outside": "a thread outside of the trace",
}  # fmt: skip


def view_page() -> str:
    """Return the page; it asks for view.css and view.js beside it."""
    return own_file("view.html").replace("<header>", f"{PATTERN}<header>", 1)


def view_style() -> str:
    """Return its style: the colours are those of the report."""
    return own_file("page.css") + own_file("view.css")


def view_script() -> str:
    """Return its script."""
    return own_file("view.js")


def whole_json(whole: Whole) -> str:
    """Return what there is to see; times are ns since the trace began."""
    plain = Markup().plain
    classes = phase_classes(list(dict.fromkeys(name for _, name in whole.operations)))
    return _json({
        "trace": plain(whole.trace),
        "verdict": plain(sentence_of(whole.verdict)),
        "end": whole.end_ns - whole.start_ns,
        "lanes": [
            {
                "key": lane.key, "name": plain(sentence_of(lane.who)),
                "operations": lane.operations, "calls": lane.calls, "launches": lane.launches,
            }
            for lane in whole.lanes
        ],
        "states": [STATES[state] for state in THREAD_STATES],
        "operations": {path: [classes[name], plain(name)] for path, name in whole.operations},
        "sites": {
            site: [_layer_class(layer), plain(symbol or layer or _UNKNOWN)]
            for site, symbol, layer in whole.sites
        },
        "names": {key: plain(kernel_words(name)) for key, name in whole.names},
        "causes": [cause.replace("_", " ") for cause in CAUSES],
        "iterations": [
            [start - whole.start_ns, end - whole.start_ns] for start, end in whole.iterations
        ],
        "has_path": whole.has_path,
        "lost": [plain("".join(loss_words(loss))) for loss in whole.losses[:MOST]],
        "lacks": [plain(lack_words(found)) for found in whole.not_measured[:MOST]],
        "legend": [
            *([class_, plain(name)] for name, class_ in list(classes.items())[:_MOST_NAMES]),
            *_legend(whole),
        ],
    })  # fmt: skip


def _legend(whole: Whole) -> Iterator[tuple[str, str]]:
    """Yield classes that lanes have besides phases, and what each stands for."""
    drawn = {STATES[state][0] for state in whole.states}
    yield from ((class_, words) for class_, words in LEGEND if class_ in drawn)
    called = {_layer_class(layer) for _, _, layer in whole.sites}
    yield from ((class_, words) for class_, words in _CALLS.items() if class_ in called)
    if any(lane.key < 0 for lane in whole.lanes):
        yield from (("gpu", "GPU: kernels, and CUDA calls"), ("copy", "GPU: copies"))
    elif "gpu" in called or any(lane.launches for lane in whole.lanes):
        yield "gpu", "CUDA calls"
    if whole.has_path:
        yield "path", "critical path"


def slices_json(columns: dict[str, list[int]], origin_ns: int) -> str:
    """Return slices, a list for each column."""
    shifted = {
        name: [value - origin_ns for value in column] if name in ("start_ns", "end_ns") else column
        for name, column in columns.items()
    }
    return _json(shifted)


def place_json(found: dict[str, list[dict[str, Any]]], whole: Whole, ts_ns: int) -> str:
    """Return what is to be said of a place: pairs of a heading and a text, and where to jump."""
    who = {lane.key: sentence_of(lane.who) for lane in whole.lanes}
    plain = Markup().plain
    said = [
        {
            "what": what, "text": plain(words), "time_ns": row["end_ns"] - row["start_ns"],
            "start_ns": row["start_ns"] - whole.start_ns,
        }
        for name, rows in found.items() for row in rows
        for what, words in [_said(name, row)]
    ]  # fmt: skip
    jumps = [
        {"text": plain(words), "lane": lane, "at_ns": ts - whole.start_ns}
        for words, lane, ts in _jumps(found, who)
    ]
    return _json({"at_ns": ts_ns - whole.start_ns, "said": said, "jumps": jumps})


def found_json(found: dict[str, Any], origin_ns: int) -> str:
    """Return what a search found."""
    plain = Markup().plain
    for which in ("next", "previous"):
        if row := found[which]:
            found[which] = row | {
                "name": plain(row["name"]),
                "start_ns": row["start_ns"] - origin_ns,
                "end_ns": row["end_ns"] - origin_ns,
            }
    return _json(found)


def _said(name: str, row: dict[str, Any]) -> tuple[str, str]:
    if name == "state":
        _, words = STATES.get(row["state"], STATES[None])
        words = WAITS.get(row["wait"], words) if row["state"] in ("sleeping", "blocked") else words
        return "state", words + ("" if row["cpu"] is None else f" {row['cpu']}")
    if name == "path":
        which = "" if row["iteration_id"] is None else f", iteration {row['iteration_id']}"
        return "critical path", f"{row['cause'].replace('_', ' ')}{which}"
    if name == "gpu":
        size = "" if row["bytes"] is None else f", {row['bytes']:,} bytes"
        return row["kind"] or "GPU", f"{row['name'] or _UNKNOWN}{size}"
    if name == "call":
        return "call", f"{row['name'] or _UNKNOWN} ({row['layer']})"
    what = {"operation": "operation", "cuda": "CUDA call"}[name]
    return what, row["name"] or _UNKNOWN


def _jumps(
    found: dict[str, list[dict[str, Any]]], who: dict[int, str]
) -> list[tuple[str, int | None, int]]:
    jumps: list[tuple[str, int | None, int]] = []
    for row in found.get("state", []):
        for waker, kind, ts_ns in (
            (row["waker_thread_id"], row["waker_kind"], row["start_ns"]),
            (row["ended_by_thread_id"], row["ended_kind"], row["end_ns"]),
        ):
            if waker is not None:
                jumps.append((f"woken by {who.get(waker, 'a thread')}", waker, ts_ns))
            elif kind is not None:
                jumps.append((f"woken by {_WAKERS.get(kind, kind)}", None, ts_ns))
    for row in found.get("gpu", []):
        if row["launched_by"] is not None:
            lane = row["launched_by"]
            jumps.append((f"launched by {who.get(lane, 'a thread')}", lane, row["launched_ns"]))
    return jumps


def _layer_class(layer: str | None) -> str:
    return {"python": "python", "backend": "native", "simulator": "f1", "cuda_api": "gpu"}.get(
        layer or "", "other"
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
