"""Whether a file holds what a trace may hold: asked before anything that is in it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.schema import declared_tables
from rlscope_analysis.schema.enums import spelled_out

if TYPE_CHECKING:
    import duckdb

# Tables of which rows are read one by one: each row takes bytes in the file that none shares.
_READ_WHOLE = frozenset(
    {"meta", "clock", "process", "thread", "coverage", "trace_stat", "site", "operation_path",
     "overlap_fault", "gpu_device", "gpu_status"}
)  # fmt: skip
# More than this is not in any recording: columns of timestamps do not compress so far.
_ROWS_PER_BYTE, _WHOLE_ROWS_PER_BYTE = 4, 0.5
# So many are soon read, however few bytes they take.
_FEW_ROWS = 1_000_000
# Of which each costs memory in all that reads them: far more than there is of any training.
_MOST_ROWS = {
    "operation_path": 100_000, "meta": 10_000, "trace_stat": 100_000,
    "process": 250_000, "thread": 750_000,
}  # fmt: skip
# Longer than any text that a recorder writes, and all of a file together: what is the same
# compresses to nothing there, and is as large as it says once it is read.
_TEXT_BYTES = 4 << 20
_ALL_TEXT_BYTES, _TEXT_BYTES_PER_BYTE = 64 << 20, 16
# Frames of a stack, members of a set, numbers of a sentence.
_LIST_ITEMS = 10_000
# What is joined by these would come once for each row that has the same.
_KEYS = {
    "process": "process_id", "thread": "thread_id", "other_program": "program_id",
    "site": "site_id", "stack_coded": "stack_id", "string": "string_id",
    "ray_process": "process_id",
}  # fmt: skip
# Twice what importers keep, who keep more than the recorder.
_TREE_DEPTH = 2_000
_COLUMNS_SQL = """
SELECT t.table_name, c.column_name, c.data_type, c.column_default, t.estimated_size
FROM duckdb_tables() AS t
LEFT JOIN duckdb_columns() AS c
  ON c.table_name = t.table_name AND c.schema_name = 'main' AND c.database_name = t.database_name
WHERE t.database_name = ? AND t.schema_name = 'main' AND NOT t.internal
"""
_VIEWS_SQL = "SELECT view_name FROM duckdb_views() WHERE database_name = ? AND schema_name = 'main'"
# A path below itself would be followed for ever, and one of two descriptions twice at each level.
_TREE_SQL = """
SELECT
  (SELECT count(*) - count(DISTINCT path_id) FROM {database}.main.operation_path),
  (
    SELECT count(*)
    FROM {database}.main.operation_path AS c
    JOIN {database}.main.operation_path AS p ON p.path_id = c.parent_path_id
    WHERE p.depth >= c.depth OR p.depth < 0 OR c.depth IS NULL OR p.depth IS NULL
  ),
  (SELECT max(depth) FROM {database}.main.operation_path)
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """The tables in the schema main of a file, and the names of its views."""

    columns: dict[str, dict[str, tuple[str, str | None]]]
    """Type and default of each column, by table."""
    rows: dict[str, int]
    views: frozenset[str]

    def only(self, table: str) -> Contents:
        """Return what there is of one table."""
        views = self.views & {table}
        return Contents({table: self.columns[table]}, {table: self.rows[table]}, views)


def read_contents(connection: duckdb.DuckDBPyConnection, database: str) -> Contents:
    """Read what an attached file holds; nothing in it is run for that."""
    columns: dict[str, dict[str, tuple[str, str | None]]] = {}
    rows: dict[str, int] = {}
    listed = connection.execute(_COLUMNS_SQL, [database]).fetchall()
    for table, column, type_name, default, count in listed:
        columns.setdefault(table, {})[column] = (type_name, default)
        rows[table] = count or 0
    views = connection.execute(_VIEWS_SQL, [database]).fetchall()
    return Contents(columns, rows, frozenset(name for (name,) in views))


def fault_of(
    connection: duckdb.DuckDBPyConnection, database: str, contents: Contents, file_bytes: int
) -> str | None:
    """Return why the database is not a trace that can be trusted to be one; None: it is."""
    return (
        _table_fault(contents)
        or _size_fault(contents.rows, file_bytes)
        or _text_fault(connection, database, contents, file_bytes)
        or _list_fault(connection, database, contents)
        or _tree_fault(connection, database, contents)
        or _key_fault(connection, database, contents)
    )


def _table_fault(contents: Contents) -> str | None:
    for table, declared in declared_tables().items():
        if table in contents.views:
            return f"its {table} is a view, and no table"
        for column, (type_name, default) in contents.columns.get(table, {}).items():
            expected = spelled_out(declared.get(column, type_name))
            # Of words that were added since the end is missing.
            if not f"{expected.removesuffix(')')},".startswith(f"{type_name.removesuffix(')')},"):
                return f"its {table}.{column} is {type_name}, and not {expected}"
            if default is not None:
                return f"its {table}.{column} is computed"
    return None


def _size_fault(rows: dict[str, int], file_bytes: int) -> str | None:
    for table, count in rows.items():
        most = _WHOLE_ROWS_PER_BYTE if table in _READ_WHOLE else _ROWS_PER_BYTE
        few = 0 if table in _READ_WHOLE else _FEW_ROWS
        if count > max(most * file_bytes, few):
            return f"its {table} claims {count:,} rows, in a file of {file_bytes:,} bytes"
    for table, limit in _MOST_ROWS.items():
        if rows.get(table, 0) > limit:
            return f"its {table} has {rows[table]:,} rows: more than {limit:,}"
    return None


def _text_fault(
    connection: duckdb.DuckDBPyConnection, database: str, contents: Contents, file_bytes: int
) -> str | None:
    most, all_bytes = max(_ALL_TEXT_BYTES, _TEXT_BYTES_PER_BYTE * file_bytes), 0
    for table in declared_tables().keys() & contents.columns.keys():
        found = contents.columns[table].items()
        texts = [
            '"{}"'.format(name.replace('"', '""')) for name, (kind, _) in found if kind == "VARCHAR"
        ]
        asked = ", ".join(f"max(strlen({name})), sum(strlen({name}))" for name in texts)
        if not asked:
            continue
        query = f"SELECT {asked} FROM {database}.main.{table}"  # noqa: S608 - names, quoted
        (sums,) = connection.execute(query).fetchall()
        sizes = [size or 0 for size in sums]
        if max(sizes[::2]) > _TEXT_BYTES:
            return f"its {table} has a text of {max(sizes[::2]):,} bytes"
        all_bytes += sum(sizes[1::2])
        if all_bytes > most:
            return f"its texts are larger than {most:,} bytes"
    return None


def _tree_fault(
    connection: duckdb.DuckDBPyConnection, database: str, contents: Contents
) -> str | None:
    if not {"path_id", "parent_path_id", "depth"} <= set(
        contents.columns.get("operation_path", ())
    ):
        return None
    ((twice, circular, depth),) = connection.execute(_TREE_SQL.format(database=database)).fetchall()
    if twice or circular:
        return "its operation_path is no tree"
    # Each one has the names of all above it: longer than the file is large, where none end.
    return f"its operations are {depth:,} deep" if (depth or 0) > _TREE_DEPTH else None


def _key_fault(
    connection: duckdb.DuckDBPyConnection, database: str, contents: Contents
) -> str | None:
    known = {table: key for table, key in _KEYS.items() if key in contents.columns.get(table, ())}
    if not known:
        return None
    asked = ", ".join(
        f"(SELECT count({key}) > count(DISTINCT {key}) FROM {database}.main.{table})"  # noqa: S608
        for table, key in known.items()
    )
    # At once: each question takes longer to ask than to answer.
    (answers,) = connection.execute(f"SELECT {asked}").fetchall()
    for (table, key), has_twice in zip(known.items(), answers, strict=True):
        if has_twice:
            return f"its {table} has rows with the same {key}"
    return None


def _list_fault(
    connection: duckdb.DuckDBPyConnection, database: str, contents: Contents
) -> str | None:
    for table in declared_tables().keys() & contents.columns.keys():
        for column, (kind, _) in contents.columns[table].items():
            if not kind.endswith("[]"):
                continue
            quoted = column.replace('"', '""')
            query = f'SELECT max(len("{quoted}")) FROM {database}.main.{table}'  # noqa: S608
            ((longest,),) = connection.execute(query).fetchall()
            if (longest or 0) > _LIST_ITEMS:
                return f"its {table} has a list of {longest:,} items"
    return None
