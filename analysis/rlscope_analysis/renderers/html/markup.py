"""Makes HTML of names and text: whatever is not markup of ours is escaped, in this place only."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# What comes from a trace may be of any length.
_MOST_TEXT = 600
_TOKEN = re.compile(r"\w+")
# Attributes that hold nothing of a trace.
_OWN = frozenset({"x", "y", "x1", "x2", "y1", "y2", "rx", "width", "height", "class_", "id", "id_"})
_EMPTY = frozenset({"br", "meta", "rect", "path", "line", "use"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


class Markup:
    """Writes elements; what it is given as a str is text."""

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        """hide: what makes text of a trace fit to be shown to anybody."""
        self._hide = hide

    def plain(self, text: object) -> str:
        """Return text as it may be shown, on one line, not escaped."""
        words = printable(self._hide(str(text)))
        return words if len(words) <= _MOST_TEXT else f"{words[:_MOST_TEXT]} ..."

    def text(self, text: object) -> Html:
        """Return text as markup."""
        return text if isinstance(text, Html) else Html(escape(self.plain(text), quote=True))

    def tag(self, name: str, *children: object, **attributes: object) -> Html:
        """Return an element.

        Attributes: None leaves one out, True gives one without a value; `_` stands for `-`, and at
        the end for nothing (class_). A child of None is left out.
        """
        given = "".join(
            f" {key.rstrip('_').replace('_', '-')}"
            + ("" if value is True else f'="{self._value(key, value)}"')
            for key, value in attributes.items()
            if value is not None and value is not False
        )
        if name in _EMPTY:
            return Html(f"<{name}{given}>" if name in ("br", "meta") else f"<{name}{given}/>")
        inside = "".join(self.text(child) for child in children if child is not None)
        return Html(f"<{name}{given}>{inside}</{name}>")

    def _value(self, key: str, value: object) -> Html:
        """Return the value of an attribute: what the page itself worked out is shown as it is."""
        is_own = key in _OWN or not isinstance(value, str)
        return Html(escape(str(value), quote=True)) if is_own else self.text(value)

    def join(self, children: Iterable[object]) -> Html:
        """Return one after the other."""
        return Html("".join(self.text(child) for child in children if child is not None))

    def command(self, words: Iterable[str]) -> Html:
        """Return a command to paste; a line breaks between its words, not at their hyphens."""
        shown = (self._word(shlex.quote(word)) for word in words)
        return self.tag("code", Html(" ".join(shown)))

    def _word(self, word: str) -> Html:
        return self.tag("span", word) if "-" in word else self.text(word)

    def section(self, title: str, *children: object, aside: object = None, id_: str) -> Html:
        """Return a part of the page under a title; aside: what is said beside that."""
        head = self.tag(
            "h2", title, None if aside is None else self.tag("span", aside, class_="aside")
        )
        return self.tag("section", head, *children, id=id_)


# A path of two parts or more, wherever it stands.
_PATH = re.compile(r"(?<![\w<])(?:~|\.{1,2})?/(?:[^\s/\"'<>|:,;()]+/)*[^\s/\"'<>|:,;()]+")
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\[^\s\"'<>|]+")
# Where a function is: tag (file.py:12), of which the file may be a module of the user.
_PLACE = re.compile(r" \((?:<[^()]*>|[^()]*):\d+\)")
_HIDDEN = "(hidden)"


def _by_rarest_token(words: set[str]) -> dict[str, list[str]]:
    """Sort words by a part of each that few others have: thousands of titles begin alike."""
    counts = Counter(token for word in words for token in {*_TOKEN.findall(word)})
    found: dict[str, list[str]] = {}
    for word in words:
        rarest = min(_TOKEN.findall(word), key=counts.__getitem__, default="")
        found.setdefault(rarest, []).append(word)
    return found


def hiding(words: Iterable[str]) -> Callable[[str], str]:
    """Return what takes these words, all paths and the files of functions out of a text."""
    by_token = _by_rarest_token({word for word in words if word})

    def hide(text: str) -> str:
        tokens = {"", *_TOKEN.findall(text)}
        found = [word for token in tokens for word in by_token.get(token, ())]
        if found:
            longest = sorted(found, key=len, reverse=True)
            own = (rf"(?<!\w){re.escape(word)}(?!\w)" for word in longest)
            text = re.sub("|".join(own), _HIDDEN, text)
        text = _PLACE.sub("", text)
        return _WINDOWS_PATH.sub(_HIDDEN, _PATH.sub(_HIDDEN, text))

    return hide
