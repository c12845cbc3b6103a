"""The words of the slices: their names by code, and the labels and words of their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.export.sources import ASYNC_NAMES_SQL, THREAD_STATE, WAIT, Kind
from rlscope_analysis.schema.vocabulary import (
    LAYERS,
    THREAD_STATES,
    WAITS,
    WAKER_KINDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

# Code, text, category, and arguments that every slice of this name carries.
Name = tuple[int, str, str, list[tuple[str, str]]]
Names = list[Name]
# Label, and the words for its codes; None: it is a number.
Argument = tuple[str, dict[int, str] | None]

UNKNOWN_NAME = "(name not known)"


class Wording:
    """What a format calls things: by default as the tables do."""

    def category(self, kind: Kind, word: str) -> str:
        """Return the category of a slice; `word` is its layer, its source or its kind."""
        # The description of a render stage is the kind of activity; elsewhere the table is named.
        return word if kind.is_gpu else kind.category

    def call_name(self, layer: str | None, module: str | None, symbol: str) -> str:
        """Return the name of a native call."""
        del layer, module
        return symbol


def names_of(
    connection: duckdb.DuckDBPyConnection, kind: Kind, wording: Wording
) -> tuple[Names, Name]:
    """Return the names of a kind of slice by code, and the one for codes nobody knows."""
    unknown = (0, UNKNOWN_NAME, wording.category(kind, ""), list[tuple[str, str]]())
    if kind.table == "thread":
        return [(0, "lifetime", wording.category(kind, ""), [])], unknown
    if kind is THREAD_STATE:
        return _coded(THREAD_STATES, wording.category(kind, "")), unknown
    if kind is WAIT:
        return _coded(WAITS, wording.category(kind, "")), unknown
    reader = {
        "process": _process_names,
        "operation_coded": _operation_names,
        "native_call_coded": _call_names,
        "cuda_call_coded": _string_names,
        "gpu_activity_coded": _string_names,
        "async_range_coded": _async_names,
    }[kind.table]
    return reader(connection, kind, wording), unknown


def arguments_of(kind: Kind, wakers: dict[int, str]) -> list[Argument]:
    """Return the labels of the arguments of a kind, with words where they are codes."""
    words = {
        "waker_kind": _words(WAKER_KINDS),
        "waker": wakers,
        "parent_layer": _words(LAYERS),
    }
    return [(label, words.get(label)) for label, _ in kind.arguments]


def _words(table: Sequence[str | None]) -> dict[int, str]:
    return {code: word for code, word in enumerate(table) if word}


def _coded(table: Sequence[str | None], category: str) -> Names:
    return [(code, word, category, []) for code, word in _words(table).items()]


def _given(**arguments: str | None) -> list[tuple[str, str]]:
    return [(label, value) for label, value in arguments.items() if value is not None]


def _process_names(connection: duckdb.DuckDBPyConnection, kind: Kind, wording: Wording) -> Names:
    rows = connection.execute("SELECT process_id, host, name, command FROM process").fetchall()
    return [
        (
            number,
            "lifetime",
            wording.category(kind, ""),
            _given(host=host, name=name, command=command),
        )
        for number, host, name, command in rows
    ]


def _operation_names(connection: duckdb.DuckDBPyConnection, kind: Kind, wording: Wording) -> Names:
    rows = connection.execute(
        "SELECT path_id, name, domain, category, source FROM operation_path"
    ).fetchall()
    return [
        (
            number,
            UNKNOWN_NAME if name is None else name,
            wording.category(kind, source or ""),
            _given(domain=domain, category=category, source=source),
        )
        for number, name, domain, category, source in rows
    ]


def _call_names(connection: duckdb.DuckDBPyConnection, kind: Kind, wording: Wording) -> Names:
    """Read the sites: one may be in several layers, as the calls tell."""
    rows = connection.execute("SELECT site_id, symbol, module FROM site").fetchall()
    rows.append((-1, None, None))
    return [
        (
            number * 8 + code,
            UNKNOWN_NAME if symbol is None else wording.call_name(layer, module, symbol),
            wording.category(kind, layer or ""),
            _given(layer=layer, module=module),
        )
        for number, symbol, module in rows
        for code, layer in enumerate(LAYERS)
    ]


def _string_names(connection: duckdb.DuckDBPyConnection, kind: Kind, wording: Wording) -> Names:
    """Read the names of calls and activities, one per name and kind."""
    used = f"SELECT DISTINCT {kind.name} AS number, name_id, kind FROM {kind.table}"  # noqa: S608
    rows = connection.execute(
        f"SELECT number, kind, value FROM ({used}) LEFT JOIN string ON string_id = name_id"  # noqa: S608
    ).fetchall()
    return list(_named_by_kind(rows, kind, wording))


def _named_by_kind(
    rows: Iterable[tuple[int, str | None, str | None]], kind: Kind, wording: Wording
) -> Iterable[Name]:
    for number, known, text in rows:
        word = known or "other"
        name = UNKNOWN_NAME if text is None else text
        arguments = [] if kind.is_gpu else [("kind", word)]
        # A call's category follows from its name where formats tell runtime and driver apart.
        category = wording.category(kind, word if kind.is_gpu else name)
        yield number, name, category, arguments


def _async_names(connection: duckdb.DuckDBPyConnection, kind: Kind, wording: Wording) -> Names:
    rows = connection.execute(ASYNC_NAMES_SQL).fetchall()
    return [
        (
            number,
            UNKNOWN_NAME if name is None else name,
            wording.category(kind, ""),
            _given(domain=domain),
        )
        for number, name, domain in rows
    ]
