"""Texts on their way into a trace."""

from typing import Any


def storable(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    """Return a value as DuckDB takes it: of texts with half a surrogate pair, the rest."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
