"""Questions, their verdicts, and the file in which they are kept from the first one on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Verdict(str, Enum):
    """What became of a question."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"
    """It could not be asked here; the detail says what was missing."""
    INFO = "INFO"
    """An answer that is neither right nor wrong: a cost, or what this machine allows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question."""

    step: str
    question: str
    verdict: Verdict
    detail: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    """Figures behind it, as JSON takes them; times in ns."""

    def line(self) -> str:
        """Return it as one line for people."""
        reported = f": {self.detail}" if self.detail else ""
        return f"{self.verdict.value}  {self.step}: {self.question}{reported}"

    def as_json(self) -> str:
        """Return it as one line for the journal."""
        return json.dumps({**asdict(self), "verdict": self.verdict.value})

    @classmethod
    def from_json(cls, line: str) -> Finding:
        """Return what as_json() wrote; ValueError where the line is damaged."""
        reported = json.loads(line)
        if not isinstance(reported, dict):
            raise ValueError(f"not a finding: {line[:80]!r}")
        try:
            return cls(**{**reported, "verdict": Verdict(reported["verdict"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a finding: {line[:80]!r}") from error


def append(journal: Path, finding: Finding) -> None:
    """Add a finding to a journal, so that it is there whatever happens next."""
    with journal.open("a") as file:
        file.write(finding.as_json() + "\n")


def read(journal: Path) -> list[Finding]:
    """Return the findings of a journal; a last line that was cut off is left out."""
    try:
        lines = journal.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [finding for finding in map(_read_line, lines) if finding is not None]


def _read_line(line: str) -> Finding | None:
    try:
        return Finding.from_json(line)
    except ValueError:
        return None


def tally(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how often each verdict was given."""
    counts = dict.fromkeys((verdict.value for verdict in Verdict), 0)
    for finding in findings:
        counts[finding.verdict.value] += 1
    return counts


def exit_code(findings: Iterable[Finding], *, has_gpu: bool, allow_no_gpu: bool) -> int:
    """Return 1 if anything failed, 2 where there was no GPU and one was expected, else 0."""
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        return 1
    return 0 if has_gpu or allow_no_gpu else 2
