"""Something that is to be said: a code and typed parameters, of which note_sentences makes text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to say."""

    code: str
    parameters: tuple[tuple[str, Any], ...]

    @property
    def named(self) -> dict[str, Any]:
        """Its parameters by name."""
        return dict(self.parameters)


def note(code: str, /, **parameters: Any) -> Note:  # noqa: ANN401
    """Return a note; `note_sentences` tells which parameters its code has."""
    return Note(code, tuple(parameters.items()))
