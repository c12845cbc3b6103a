"""Text of a foreign file as a message or a row of losses may hold it."""

_MAX_SHOWN = 100


def shown(text: str) -> str:
    """Return one short line: what would not print is escaped, and what is too long is cut."""
    cut = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
