"""How counts, shares and names of whatever stands in a trace are worded."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape what would not print: the name of a thread may hold any byte."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def percent(part: int, whole: int) -> str:
    """Format a share; a dash where there is nothing to share."""
    return f"{100 * part / whole:.1f}" if whole else "-"


def count_of(number: int, noun: str) -> str:
    """Format a number of things, in the singular or the plural."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"
