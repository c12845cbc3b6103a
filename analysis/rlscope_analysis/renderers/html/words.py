"""Numbers as they stand in a page: short, with their unit."""

from __future__ import annotations

import math
import re

NOT_MEASURED = "not measured"
# Of a C++ signature: groups in parentheses, what is local to a function, and namespaces. What
# copies are called ends in such a group too: Memcpy HtoD (Pageable -> Device).
_GROUP = re.compile(r"(?<! )\([^()]*\)|\([^()]*\)(?!$)")
_LOCAL = re.compile(r"\0::[^,<>]*")
_NAMESPACES = re.compile(r"\b(?:\w+::)+")
_MOST_KERNEL, _MOST_NAME, _MOST_NESTED = 72, 4096, 50
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def time_words(ns: float | None) -> str:
    """Return 11.6 s, 217 ms, 3.2 us: three digits, or all before the point."""
    if ns is None:
        return NOT_MEASURED
    for size, unit in _UNITS:
        if abs(ns) >= size * 0.9995:
            value = ns / size
            digits = max(0, 2 - int(math.log10(max(abs(value), 1)) + 1e-9))
            return f"{value:,.{digits}f} {unit}"
    return f"{ns:,.0f} ns"


def round_words(ns: float) -> str:
    """Return a time on a scale: 10 us."""
    size, unit = next((pair for pair in _UNITS if ns >= pair[0]), (1, "ns"))
    return f"{ns / size:,.4g} {unit}"


def percent_words(share: float | None, digits: int = 0) -> str:
    """Return a part of 1 in %; small ones with a digit more."""
    if share is None or math.isnan(share):
        return "-"
    if digits == 0 and 0 < abs(share) < 0.0995:
        digits = 1
    return f"{share * 100:.{digits}f} %"


def kernel_words(name: str) -> str:
    """Return the name of a kernel without result, namespaces, parameters and lambdas."""
    words = name[:_MOST_NAME].replace("(anonymous namespace)::", "").removeprefix("void ")
    for _ in range(_MOST_NESTED):
        words, before = _GROUP.sub("\0", words), words
        if words == before:
            break
    words = _NAMESPACES.sub("", _LOCAL.sub("", words).replace("\0", "")).replace("> >", ">>")
    words = words.strip() or name
    return words if len(words) <= _MOST_KERNEL else f"{words[: _MOST_KERNEL - 1]}…"


def place(share: float) -> str:
    """Return a part of a length as an attribute of SVG: 12.345%."""
    return f"{share * 100:.3f}".rstrip("0").rstrip(".") + "%"


# Hue = phase: each has its own place; the others take what is left, in the order of time.
_PHASES = {"backpropagation": 0, "simulation": 1, "inference": 2, "data": 3}
_HUES = 7
_GREY = {"(no phase)": "o", "(unannotated)": "o", "(others)": "o", "(waiting)": "w", "(lost)": "l"}


def phase_classes(names: list[str]) -> dict[str, str]:
    """Return the class of each phase: f0 to f6, fo (none), fw (waits), fl (lost)."""
    found = {name: f"f{_PHASES[name]}" for name in names if name in _PHASES}
    free = [f"f{hue}" for hue in range(_HUES) if f"f{hue}" not in found.values()]
    for name in names:
        if name in _GREY:
            found[name] = f"f{_GREY[name]}"
        elif name not in found:
            found[name] = free.pop(0) if free else "fo"
    return found
