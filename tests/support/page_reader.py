"""Reads a page as a browser does: its elements with their texts, and what its canvas draws."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np

_VOID = {"meta", "br", "link", "img", "input", "rect", "line", "path", "use"}
_SIZES = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}


@dataclass
class Element:
    name: str
    given: dict[str, str | None]
    parts: list[str] = field(default_factory=list)
    inside: list[Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


class Page(HTMLParser):
    """All elements in order; `with_data("ns")` are those with the attribute data-ns."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, [element.name for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        for around in self._open:
            around.inside.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        for around in self._open:
            around.inside.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.parts.append(data)

    def with_data(self, name: str) -> list[Element]:
        return [element for element in self.elements if f"data-{name}" in element.given]

    def by_id(self, wanted: str) -> Element:
        (found,) = [one for one in self.elements if one.given.get("id") == wanted]
        return found

    def ids(self) -> set[str]:
        return {one.given["id"] or "" for one in self.elements if "id" in one.given}

    def canvas(self) -> list[dict[str, Any]]:
        """Return the iterations that are drawn; rows of (start, length, class, words)."""
        packed = gzip.decompress(base64.b64decode(self.by_id("data").text))
        (length,) = struct.unpack_from("<I", packed)
        header = json.loads(packed[4 : 4 + length])
        numbers = np.frombuffer(packed, dtype=np.uint8, offset=4 + length)
        for view in header["views"]:
            for row in [row for lane in view["lanes"] for row in lane["rows"]]:
                row["slices"] = _slices(row, numbers, view)
            path = view["path"]
            path["slices"] = _intervals(path, numbers)
            for key in ("lane", "cause"):
                path[key] = _column(numbers, path[key], path["n"]).tolist()
        return list(header["views"])


def _column(numbers: Any, at: int, n: int) -> Any:  # noqa: ANN401
    """Return int32 of which all lowest bytes come first."""
    planes = numbers[4 * at : 4 * (at + n)].reshape(4, n)
    return np.ascontiguousarray(planes.T).view("<i4").ravel().astype(np.int64)


def _intervals(row: dict[str, Any], numbers: Any) -> list[tuple[int, int]]:  # noqa: ANN401
    at, n = row["at"], row["n"]
    gaps, lengths = _column(numbers, at, n), _column(numbers, at + n, n)
    starts = np.cumsum(gaps + lengths) - lengths
    return list(zip(starts.tolist(), lengths.tolist(), strict=True))


def _slices(row: dict[str, Any], numbers: Any, view: dict[str, Any]) -> list[tuple[Any, ...]]:  # noqa: ANN401
    codes = _column(numbers, row["code"], row["n"]).tolist()
    return [
        (start * view["tick"], length * view["tick"], *view["words"][code])
        for (start, length), code in zip(_intervals(row, numbers), codes, strict=True)
    ]


def number_in(text: str) -> float:
    """Return the number that a text begins with, in ns or as a part of 1."""
    found = re.match(r"([\d,.]+) ?(%|ms|us|ns|s\b)?", text.strip())
    assert found, text
    value = float(found[1].replace(",", ""))
    return value * (0.01 if found[2] == "%" else _SIZES.get(found[2] or "", 1))
