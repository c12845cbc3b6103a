"""The sentences of a trace: codes with their parameters in, text for people out.

Nothing else reads the sentences of `schema.facts`, and nothing is decided by what comes out here.
"""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.coverage import COVERAGE
from rlscope_analysis.schema.facts.coverage_cupti import cupti_result
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.facts.losses import LOSSES
from rlscope_analysis.schema.facts.qualities import NOT_MEASURED, OK, REASONS
from rlscope_analysis.schema.facts.sites import SITE_REASONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNKNOWN = "?"
_IN_PART = "in part: "
_PLACES = {code: place for place, code in enumerate(COVERAGE)}
_FORMATTER = Formatter()


class _Parameters(dict[str, Any]):
    """What a sentence may name: a file of a stranger may lack any of it."""

    def __missing__(self, name: str) -> str:
        return _UNKNOWN


def _filled(sentence: str, parameters: Mapping[str, Any]) -> str:
    known = {name: value for name, value in parameters.items() if value is not None}
    return _FORMATTER.vformat(sentence, (), _Parameters(known))


def _bare(code: str | None, detail: str | None) -> str:
    """Return what is known of a code that a newer writer has added."""
    return ": ".join(word for word in (code, detail) if word) or _UNKNOWN


def loss_sentence(code: str | None, parameters: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return what a row of trace_stat says, and what to do the next time; None: nothing.

    parameters: its columns cpu, record, pid, bytes and detail.
    """
    entry = LOSSES.get(code or "")
    if entry is None:
        return _bare(code, parameters.get("detail")), None
    size = parameters.get("bytes")
    named = dict(parameters)
    if size is not None:
        named |= {"mib": f"{size >> 20:,}", "more_mib": 2 * size >> 20}
    return _filled(entry.sentence, named), entry.remedy and _filled(entry.remedy, named)


def coverage_sentence(facts: Iterable[Fact], *, measured: bool, origin_ns: int = 0) -> str:
    """Return what the rows of coverage say of one kind of record: how it was measured, or why not.

    origin_ns: the start of the trace. Empty: nothing is to be said.
    """
    known = sorted(set(facts), key=lambda fact: (_PLACES.get(fact.code, -1), repr(fact)))
    is_part = measured and any(
        fact.code in COVERAGE and COVERAGE[fact.code].is_part for fact in known
    )
    said, last = [], ""
    for fact in known:
        head, reason = _halves(fact, origin_ns)
        said.append(reason if head == last else f"{head}{reason}")
        last = head
    text = "; ".join(said)
    return f"{_IN_PART}{text}" if is_part else text


def is_lack(facts: Iterable[Fact]) -> bool:
    """Tell whether a trace lacks something where a kind of record was not measured."""
    return all(fact.code not in COVERAGE or COVERAGE[fact.code].is_lack for fact in facts)


def gap_sentence(reason: str, facts: Iterable[Fact], *, origin_ns: int = 0) -> str:
    """Return why calls of a layer cannot be counted: reason and facts of the view transitions."""
    is_measured = reason not in ("not_captured", "not_measured")
    return coverage_sentence(facts, measured=is_measured, origin_ns=origin_ns)


def facts_of(rows: Iterable[Mapping[str, Any]] | None) -> list[Fact]:
    """Return the facts of a list that a query made of rows of coverage."""
    return [Fact(**row) for row in rows or () if row["code"] is not None]


def fact_sentence(fact: Fact, origin_ns: int = 0) -> str:
    """Return what one row of coverage says."""
    return "".join(_halves(fact, origin_ns))


def fact_reason(fact: Fact) -> str:
    """Return the same without what it begins with, where that is said already."""
    return _halves(fact)[1]


def _halves(fact: Fact, origin_ns: int = 0) -> tuple[str, str]:
    """Return what a fact has in common with others, and what it says by itself."""
    entry = COVERAGE.get(fact.code)
    if entry is None:
        return "", _bare(fact.code, fact.detail)
    named: dict[str, Any] = {"subject": fact.subject, "detail": fact.detail, "count": fact.count}
    if fact.count is not None:
        named |= cupti_result(fact.count)
    if fact.ts_ns is not None:
        named["since_s"] = f"{max(fact.ts_ns - origin_ns, 0) / 1e9:.3f}"
    if fact.duration_ns is not None:
        named |= {
            "s": f"{fact.duration_ns / 1e9:.1f}",
            "ms": f"{fact.duration_ns / 1e6:.0f}",
            "us": f"{fact.duration_ns / 1e3:,.1f}",
        }
    return _filled(entry.head, named), _filled(entry.sentence, named)


def site_sentence(
    state: str | None, code: str | None, detail: str | None, numbers: Sequence[float] | None
) -> str:
    """Return what became of a function, and why."""
    head = (state or _UNKNOWN).replace("_", " ")
    entry = SITE_REASONS.get(code or "")
    if entry is None:
        return head if code is None else f"{head}: {_bare(code, detail)}"
    named = {
        name: _SITE_NUMBERS.get(name, "{:.0f}".format)(number)
        for name, number in zip(entry.numbers, numbers or (), strict=False)
    }
    return f"{head}: {_filled(entry.sentence, {**named, 'detail': detail})}"


def quality_sentence(
    quality: str | None,
    code: str | None = None,
    subject: str | None = None,
    detail: str | None = None,
    numbers: Sequence[float] | None = None,
) -> str:
    """Return what to think of a cost: ok, or what stands in its columns of calibration."""
    head = (quality or NOT_MEASURED).replace("_", " ")
    return (
        head
        if head == OK or code is None
        else f"{head}: {reason_sentence(code, subject, detail, numbers)}"
    )


def reason_sentence(
    code: str | None,
    subject: str | None = None,
    detail: str | None = None,
    numbers: Sequence[float] | None = None,
) -> str:
    """Return the same without the grade."""
    entry = REASONS.get(code or "")
    if entry is None:
        return _bare(code, detail)
    named = {
        name: f"{number:,.0f}" for name, number in zip(entry.numbers, numbers or (), strict=False)
    }
    return _filled(entry.sentence, {**named, "subject": subject, "detail": detail})


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _duration(mean_ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if mean_ns >= size:
            return f"{mean_ns / size:.1f} {unit}"
    return f"{mean_ns:.0f} ns"


_SITE_NUMBERS = {
    "after_s": "{:.1f}".format,
    "calls": "{:,.0f}".format,
    "mean_ns": _duration,
    "share": _percent,
    "all_share": _percent,
    "budget": _percent,
}
