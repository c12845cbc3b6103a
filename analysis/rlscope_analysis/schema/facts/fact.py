"""A fact about what was measured: a code of COVERAGE and its parameters, as in coverage."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rlscope_analysis.schema.facts.coverage import COVERAGE

_CODES = tuple(COVERAGE)


@dataclass(frozen=True, slots=True)
class Fact:
    """How a kind of record was measured, what of it was not, or why nothing was."""

    code: str
    subject: str | None = None
    """What it is about: a file, an option, a kind of record, a counter."""
    detail: str | None = None
    """What the OS, a driver or another program said of it."""
    count: int | None = None
    ts_ns: int | None = None
    duration_ns: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the parameters that it has, by name: for the spool."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in named if value is not None}


def fact_of(reported: object) -> Fact | None:
    """Return what to_json() gave; None where it is something else: a spool may be damaged."""
    if not isinstance(reported, dict) or reported.get("code") not in _CODES:
        return None
    texts = {name: reported.get(name) for name in ("subject", "detail")}
    numbers = {name: reported.get(name) for name in ("count", "ts_ns", "duration_ns")}
    if not all(text is None or isinstance(text, str) for text in texts.values()):
        return None
    if not all(number is None or _is_whole(number) for number in numbers.values()):
        return None
    return Fact(reported["code"], **texts, **numbers)


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63
