"""What keeps a hostile SQLite file from more than being read: its code, its size, its time."""

import sqlite3
from pathlib import Path

# Of one value, and of the SQL of one table.
_MAX_VALUE_BYTES = 16 << 20
_MAX_SQL_BYTES = 1 << 20
_HEAP_BYTES = 192 << 20
# Steps of SQLite's machine between two looks at Ctrl-C: some milliseconds.
_STEPS = 100_000
# No row takes less: its entry in the page, its sizes, its key.
_MIN_ROW_BYTES = 6
# A file system may keep a file in fewer bytes than it has, but not in any number fewer.
_MAX_COMPRESSION = 8
_BLOCK_BYTES = 512

# What reading plain tables takes; nothing else that the schema of a file may smuggle in.
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION})
_FUNCTIONS = frozenset({"coalesce", "count", "substr"})
_PRAGMAS = frozenset({"table_info"})


def guard(connection: sqlite3.Connection) -> None:
    """Allow a connection no more than reading tables, in bounded memory and until Ctrl-C."""
    for pragma in (
        "trusted_schema = OFF",
        "cell_size_check = ON",
        "mmap_size = 0",
        "query_only = ON",
        "temp_store = MEMORY",
        # Of the whole process, and never to be raised again: nothing else here uses SQLite.
        f"hard_heap_limit = {_HEAP_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    # From Python 3.11 on; before, the limit of the heap has to do.
    if hasattr(connection, "setlimit"):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_SQL_BYTES)
    connection.set_authorizer(_authorize)
    # Python handles its signals where it is called: it then ends the query, as interrupted.
    connection.set_progress_handler(lambda: 0, _STEPS)


def max_rows(path: Path) -> int:
    """Return how many rows a file can hold: more are there only where pages are shared."""
    status = path.stat()
    size = min(status.st_size, status.st_blocks * _BLOCK_BYTES * _MAX_COMPRESSION + (1 << 20))
    return size // _MIN_ROW_BYTES


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, inside: str | None
) -> int:
    # `inside` names the view or trigger that wants it.
    is_function = action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS
    is_pragma = action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS
    if inside is None and (action in _ALLOWED or is_function or is_pragma):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
