"""Columns of a caller's table as the arrays that the overlap engine takes.

A table is whatever gives a column for its name: a pandas or polars DataFrame, a pyarrow.Table, a
dict of arrays as from DuckDB's fetchnumpy(), or a DuckDB relation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlscope_analysis.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import pandas as pd
    from numpy.typing import NDArray

_INT64 = np.iinfo(np.int64)
_MOST_NAMES = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class NamedIntervals:
    """The rows of a table: names[code[i]] from start_ns[i] to end_ns[i]; all arrays of shape (n,).

    names are sorted, without duplicates; some may have no row.
    """

    names: list[Any]
    code: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def pandas() -> ModuleType:
    """Import pandas, which only those need who ask for a DataFrame.

    Raises TraceError where it is not installed.
    """
    try:
        import pandas as module
    except ImportError as error:
        raise TraceError(
            "the overlap is given as a pandas DataFrame, and pandas is not installed",
            hint="pip install pandas",
        ) from error
    return cast("ModuleType", module)


def read_intervals(table: object, what: str, name_column: str) -> NamedIntervals:
    """Read `name_column`, start_ns and end_ns of a table that messages call `what`.

    Raises TraceError for a column that is missing or of another type, for NULL, and for an end
    before its start.
    """
    columns = _columns(table, what, (name_column, "start_ns", "end_ns"))
    code, names = _codes(columns[name_column], f"{what}.{name_column}")
    start_ns = _times(columns["start_ns"], f"{what}.start_ns")
    end_ns = _times(columns["end_ns"], f"{what}.end_ns")
    reversed_rows = np.flatnonzero(end_ns < start_ns)
    if reversed_rows.size:
        row = int(reversed_rows[0])
        raise TraceError(
            f"{what}: row {row} ({names[code[row]]!r}) ends at {end_ns[row]}, before it starts at"
            f" {start_ns[row]}; rows like this: {reversed_rows.size:,}",
            hint="intervals are [start_ns, end_ns); drop these rows or mend them",
        )
    return NamedIntervals(names, code, start_ns, end_ns)


def _columns(table: Any, what: str, wanted: Sequence[str]) -> dict[str, pd.Series]:  # noqa: ANN401
    """Return the wanted columns as pandas Series."""
    if hasattr(table, "fetchnumpy"):
        table = table.fetchnumpy()
    names = getattr(table, "column_names", getattr(table, "columns", None))
    names = list(table) if names is None and isinstance(table, dict) else names
    if names is None:
        raise TraceError(
            f"{what} is no table but {type(table).__name__}",
            hint=f"a DataFrame with the columns {', '.join(wanted)}",
        )
    found = list(names)
    missing = [name for name in wanted if found.count(name) != 1]
    if missing:
        raise TraceError(
            f"{what} needs exactly one column {', '.join(missing)}; it has"
            f" {', '.join(map(str, found)) or 'none'}",
            hint=f"columns: {', '.join(wanted)}; rename or select them before",
        )
    series = {name: _series(table[name], f"{what}.{name}") for name in wanted}
    if len({len(column) for column in series.values()}) != 1:
        raise TraceError(
            f"the columns of {what} differ in length", hint="one value per row in each"
        )
    return series


def _series(column: Any, what: str) -> pd.Series:  # noqa: ANN401 - a column of whatever kind of table
    pd = pandas()
    if isinstance(column, pd.Series | pd.Categorical):
        return pd.Series(column)
    if isinstance(column, np.ma.MaskedArray):
        if np.ma.is_masked(column):
            raise _null(what, int(np.flatnonzero(np.ma.getmaskarray(column))[0]))
        column = column.data
    if hasattr(column, "combine_chunks"):
        # pyarrow: dictionaries become Categorical, NULL becomes NaN.
        return column.to_pandas()
    return pd.Series(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _times(column: pd.Series, what: str) -> NDArray[np.int64]:
    """Return integers as int64, without a copy where they are."""
    types = pandas().api.types
    # A table without rows has whatever type its library takes for nothing.
    if column.empty:
        return np.empty(0, dtype=np.int64)
    _refuse_null(column, what)
    values = column
    is_object = types.is_object_dtype(column.dtype)
    if is_object and types.infer_dtype(column, skipna=False) == "integer":
        values = column.to_numpy()
    elif types.is_bool_dtype(column.dtype) or not types.is_integer_dtype(column.dtype):
        raise TraceError(
            f"{what} is {column.dtype}: times are integers, in nanoseconds",
            hint=f"{what.rpartition('.')[2]} as int64; a float loses nanoseconds after 104 days",
        )
    if values.max() > _INT64.max or values.min() < _INT64.min:
        raise TraceError(
            f"{what} exceeds 64 bits with a sign", hint="times relative to the start of the trace"
        )
    return np.ascontiguousarray(values, dtype=np.int64)


def _codes(column: pd.Series, what: str) -> tuple[NDArray[np.int32], list[Any]]:
    """Return the column as positions in the sorted list of its different values."""
    pd = pandas()
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, names = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    else:
        try:
            codes, found = pd.factorize(column)
        except TypeError as error:
            raise TraceError(f"{what}: {error}", hint="names are text or integers") from error
        names = found.tolist()
    if len(codes) and codes.min() < 0:
        raise _null(what, int(np.flatnonzero(codes < 0)[0]))
    order = _sorted_positions(names, what)
    if len(names) > _MOST_NAMES:
        raise TraceError(f"{what} has {len(names):,} different values", hint="use fewer names")
    rank = np.empty(len(names), dtype=np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    return rank[codes], [names[position] for position in order]


def _sorted_positions(names: list[Any], what: str) -> list[int]:
    try:
        return sorted(range(len(names)), key=names.__getitem__)
    except TypeError as error:
        kinds = sorted({type(name).__name__ for name in names})
        raise TraceError(
            f"{what} mixes {' and '.join(kinds)}: they cannot be sorted",
            hint="names of one type, best text",
        ) from error


def _refuse_null(column: pd.Series, what: str) -> None:
    if column.hasnans:
        raise _null(what, int(np.flatnonzero(column.isna().to_numpy())[0]))


def _null(what: str, row: int) -> TraceError:
    return TraceError(
        f"{what} has no value in row {row}", hint="drop such rows or give them a value"
    )


def object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return values as an array of shape (n,), lists and tuples among them too."""
    array = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        array[at] = value
    return array
