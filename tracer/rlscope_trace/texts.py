"""Texts on their way into a trace, and those that a user pastes into a shell."""

import shlex
from collections.abc import Sequence
from typing import Any


def storable(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    """Return a value as DuckDB takes it: of texts with half a surrogate pair, the rest."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value


def shell_line(words: Sequence[str]) -> str:
    """Return a command to be pasted into a shell: one line, whatever the words hold.

    A message has no line breaks. One in a word stands as bash, zsh and ksh read it: `$'a\\nb'`.
    """
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    quoted = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{''.join(c if c.isprintable() else _octal(c) for c in quoted)}'"


def _octal(character: str) -> str:
    """Return the bytes of a character; those of a name that is no UTF-8 are what they were."""
    if character == "\n":
        return "\\n"
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
