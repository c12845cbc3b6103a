"""How counts, shares and names of whatever stands in a trace are worded."""

from __future__ import annotations

import re

# What a terminal obeys instead of showing it, or what changes the order of the rest: control codes
# (but tab and line feed), marks and overrides of writing direction, line separators, and halves of
# surrogate pairs, which no encoding can write.
_COMMANDS_A_TERMINAL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Escape what would not print: the name of a thread may hold any byte."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def harmless(text: str) -> str:
    """Escape what a terminal would obey; line feeds and tabs stay, as do all letters."""
    return _COMMANDS_A_TERMINAL.sub(lambda found: _escape(found[0]), text)


def harmless_line(text: str) -> str:
    """Escape the same and line feeds, for what is one line whatever stands in it."""
    return harmless(text).replace("\n", "\\n")


def harmless_json(text: str) -> str:
    r"""Escape the same in a text of JSON, as JSON does: \u009b; what it stands for stays."""
    return _COMMANDS_A_TERMINAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def percent(part: int, whole: int) -> str:
    """Format a share; a dash where there is nothing to share."""
    return f"{100 * part / whole:.1f}" if whole else "-"


def longer_words(share: float) -> str:
    """Say how much longer something takes, as a part of what it is held against."""
    if not round(abs(share) * 100, 1):
        return "as long"
    return f"{abs(share) * 100:.1f} % {'longer' if share > 0 else 'shorter'}"


def role_words(role: str) -> str:
    """Name what leads: the learner, the main process."""
    return "main process" if role == "main" else role


def longest_words(count: int) -> str:
    """Name the 99 % quantile of so many: of fewer than 100 it is the longest."""
    return "p99" if count >= 100 else "the slowest"


def count_of(number: int, noun: str) -> str:
    """Format a number of things, in the singular or the plural."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"
