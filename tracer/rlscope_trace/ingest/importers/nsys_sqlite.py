"""Reads the SQLite file that `nsys export` writes: whatever tables and columns it has."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice, product
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.nsys_guard import guard, max_rows
from rlscope_trace.ingest.importers.wording import shown
from rlscope_trace.ingest.writer.columns import joined_column

EXPORT_COMMAND = "nsys export --type sqlite REPORT.nsys-rep"

# One of these is in every export, whichever version wrote it and whatever was recorded.
_SIGNATURE_TABLES = frozenset(
    {
        "META_DATA_EXPORT",
        "TARGET_INFO_SYSTEM_ENV",
        "TARGET_INFO_SESSION_START_TIME",
        "ANALYSIS_DETAILS",
        "NVTX_EVENTS",
        "OSRT_API",
        "SCHED_EVENTS",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
    }
)
_MAGIC = b"SQLite format 3\x00"
# Bytes 18 and 19 of the header: 2 where the database has a write-ahead log.
_WAL_BYTES = slice(18, 20)
_CHUNK_ROWS = 1 << 18
# Of one text, of the texts and of the rows that are kept of one small table, and of the schema.
_MAX_TEXT = 1 << 16
_MAX_TEXTS = 32 << 20
_MAX_SMALL_ROWS = 100_000
_MAX_TABLES = 5_000
_BUSY_S = 1.0
# No export holds it: the smallest number stands for NULL while rows pass through numpy.
_NULL = -(1 << 63)

Progress = Callable[[int], None]
"""Called with how many rows more were read."""
Columns = dict[str, NDArray[Any]]
"""Equally long; a masked array where the column has NULLs."""


class NsysFile:
    """An open export; closes as a context manager."""

    def __init__(self, path: Path, name: Path | None = None) -> None:
        """Open it for reading only, by another name if one is given: SQLite opens by names.

        Raises ImportFileError if it is no readable export.
        """
        self.path = path
        self.cut_text_count = 0
        """Texts that were longer than 64 Ki characters."""
        self.left_out_count = 0
        """Rows of small tables, and names, that there was no place for."""
        name = name or path
        uri = name.absolute().as_uri() + _open_mode(path, name)
        self._max_rows = max_rows(name)
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_S)
        # A name that is not UTF-8 keeps its other characters.
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            with self._explained():
                guard(self._connection)
            self.tables = self._find_tables()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "NsysFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; it cannot be read any more."""
        self._connection.close()

    def has_rows(self, table: str) -> bool:
        """Tell whether the export has this table with something in it."""
        if table not in self.tables:
            return False
        with self._explained():
            return self._select("1", table, limit=1).fetchone() is not None

    def row_count(self, table: str) -> int:
        """Count the rows of a table, 0 if there is no such table.

        Raises ImportFileError where they are more than the file has place for: it is a few pages,
        each of them part of the table many times over.
        """
        if table not in self.tables:
            return 0
        with self._explained():
            # Row by row, as count(*) alone would not hear of Ctrl-C.
            rows = f"SELECT 1 FROM {_quoted(table)} NOT INDEXED LIMIT {self._max_rows + 1}"  # noqa: S608
            count = int(self._query(f"SELECT count(*) FROM ({rows})").fetchone()[0])  # noqa: S608
        if count > self._max_rows:
            raise self._damaged(f"{shown(table)} has more rows than the file has place for")
        return count

    def read(self, table: str, names: Iterable[str], progress: Progress) -> Columns:
        """Read columns of whole numbers; those that this table has not are left out.

        A name may be several, separated by |: it stands for the first that is not NULL.
        """
        columns = self.tables.get(table, frozenset())
        choices = {name: [part for part in name.split("|") if part in columns] for name in names}
        present = [name for name, choice in choices.items() if choice]
        if not present:
            return {}
        values = ", ".join(
            f"coalesce({', '.join(map(_quoted, choices[name]))}, {_NULL})" for name in present
        )
        parts: list[list[NDArray[Any]]] = [[] for _ in present]
        with self._explained():
            cursor = self._select(values, table)
            while len(chunk := self._next_chunk(cursor, table, present)):
                for column, part in enumerate(parts):
                    part.append(_narrowed(chunk[:, column]))
                progress(len(chunk))
        return {name: joined_column(part) for name, part in zip(present, parts, strict=True)}

    def read_texts(self, table: str, name: str) -> Iterator[str | None]:
        """Yield a column of text, in the order in which read() reads the rows."""
        with self._explained():
            for (value,) in self._select(_quoted(name), table):
                yield self._cut(value) if isinstance(value, str) else None

    def rows(self, table: str, **kinds: type) -> list[tuple[Any, ...]]:
        """Return columns of a small table, each of the type that is given for its name.

        None where a value is missing or of another type, and where there is no such column.
        """
        columns = self.tables.get(table)
        if columns is None:
            return []
        values = ", ".join(_quoted(name) if name in columns else "NULL" for name in kinds)
        with self._explained():
            rows = self._select(values, table)
            return list(self._with_room(self._of_kinds(row, kinds.values()) for row in rows))

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Look up entries of StringIds; those it does not have are left out."""
        wanted = set(ids)
        if not wanted or not {"id", "value"} <= self.tables.get("StringIds", frozenset()):
            return {}
        with self._explained():
            rows = (
                (key, self._cut(value))
                for key, value in self._select("id, value", "StringIds")
                if key in wanted and isinstance(value, str)
            )
            return dict(self._with_room(rows))

    def _find_tables(self) -> dict[str, frozenset[str]]:
        """Return the columns of every table. Raises ImportFileError if this is no export."""
        with self._explained():
            # One snapshot, also if somebody writes meanwhile.
            self._query("BEGIN")
            # Neither views nor virtual tables, whatever the schema calls them.
            found = self._query(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
                " AND substr(sql, 1, 13) = 'CREATE TABLE '"
            )
            names = list(islice(found, _MAX_TABLES + 1))
            if len(names) > _MAX_TABLES:
                raise self._damaged(f"it has more than {_MAX_TABLES:,} tables")
            tables = {name: self._columns_of(name) for (name,) in names}
        if not _SIGNATURE_TABLES & set(tables):
            raise ImportFileError(
                f"{self.path} is a SQLite database, but no export of Nsight Systems",
                hint=f"make one with: {EXPORT_COMMAND}",
            )
        return tables

    def _columns_of(self, table: str) -> frozenset[str]:
        rows = self._query(f"PRAGMA table_info({_quoted(table)})")
        return frozenset(row[1] for row in rows)

    def _of_kinds(self, row: tuple[Any, ...], kinds: Iterable[type]) -> tuple[Any, ...]:
        values = (v if isinstance(v, k) else None for v, k in zip(row, kinds, strict=True))
        return tuple(self._cut(value) if isinstance(value, str) else value for value in values)

    def _cut(self, text: str) -> str:
        self.cut_text_count += len(text) > _MAX_TEXT
        return text[:_MAX_TEXT]

    def _with_room(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield the first rows, as many as there is a place for; count the others."""
        characters = 0
        for number, row in enumerate(rows):
            characters += sum(len(value) for value in row if isinstance(value, str))
            if number >= _MAX_SMALL_ROWS or characters > _MAX_TEXTS:
                self.left_out_count += 1
            else:
                yield row

    def _damaged(self, reason: str) -> ImportFileError:
        hint = f"export it once more: {EXPORT_COMMAND}"
        return ImportFileError(f"{self.path} is damaged: {reason}", hint=hint)

    def _select(self, values: str, table: str, limit: int | None = None) -> sqlite3.Cursor:
        # An index need not hold what its table does, nor in its order.
        rows = self._max_rows if limit is None else limit
        return self._query(f"SELECT {values} FROM {_quoted(table)} NOT INDEXED LIMIT {rows}")  # noqa: S608

    def _query(self, sql: str) -> sqlite3.Cursor:
        return self._connection.execute(sql)

    def _next_chunk(
        self, cursor: sqlite3.Cursor, table: str, names: Sequence[str]
    ) -> NDArray[np.int64]:
        """Read rows x columns, none at the end."""
        values = chain.from_iterable(islice(cursor, _CHUNK_ROWS))
        try:
            numbers = np.fromiter(values, dtype=np.int64)
        except (TypeError, ValueError, OverflowError):
            raise self._damaged(
                f"{table} holds something else than whole numbers in one of {', '.join(names)}"
            ) from None
        return numbers.reshape(-1, len(names))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Put an error of SQLite into words."""
        try:
            yield
        # Names of tables and columns are decoded where no text_factory is asked.
        except (sqlite3.Error, UnicodeError) as error:
            if str(error) == "interrupted":
                raise KeyboardInterrupt from error
            raise _explanation(self.path, error) from error
        except MemoryError as error:
            raise self._damaged("reading it takes more memory than any export does") from error


def _open_mode(path: Path, name: Path) -> str:
    """Look at the header; returns how to open the file, by `name`, without writing beside it."""
    try:
        if path.exists() and not path.is_file():
            raise ImportFileError(f"{path} is no file", hint=f"make one with: {EXPORT_COMMAND}")
        header = _read_header(name)
    except OSError as error:
        raise unreadable(path, error) from None
    if not header.startswith(_MAGIC):
        what = "is empty" if not header else "is no SQLite database"
        raise ImportFileError(
            f"{path} {what}", hint=f"an export of Nsight Systems is made with: {EXPORT_COMMAND}"
        )
    for opened, suffix in product({path, Path(os.path.realpath(path)), name}, ("-wal", "-journal")):
        if _has_content(_beside(opened, suffix)):
            raise _locked(path, f"{shown(opened.name)}{suffix} is beside it")
    _check_length(path, name, header)
    # Opening a database with a write-ahead log creates files beside it, unless it cannot change.
    return "?immutable=1" if header[_WAL_BYTES] == b"\x02\x02" else "?mode=ro"


def unreadable(path: Path, error: OSError) -> ImportFileError:
    """Put into words why a file cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return ImportFileError(f"{path} does not exist", hint="check the name")
    hint = "name a file that you may read"
    return ImportFileError(f"cannot read {path}: {error.strerror}", hint=hint)


def _read_header(path: Path) -> bytes:
    # Waits neither for a writer of a pipe nor for who holds a lease on the file.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def _has_content(path: Path) -> bool:
    """Tell whether there is anything but an empty file: reading it could even wait for ever."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return not stat.S_ISREG(status.st_mode) or status.st_size > 0


def _check_length(path: Path, name: Path, header: bytes) -> None:
    """Raise ImportFileError if the end is missing: SQLite itself overlooks a part of a page."""
    pages = int.from_bytes(header[28:32], "big")
    if header[24:28] != header[92:96]:  # the number of pages is that of an older state
        return
    page_bytes = int.from_bytes(header[16:18], "big")
    # The largest size does not fit into its two bytes.
    written = pages * (1 << 16 if page_bytes == 1 else page_bytes)
    present = name.stat().st_size
    if present < written:
        raise ImportFileError(
            f"{path} is cut off: {written:,} bytes were written, {present:,} are there",
            hint=f"copy it once more, or export it once more: {EXPORT_COMMAND}",
        )


def _explanation(path: Path, error: Exception) -> ImportFileError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return _locked(path, text)
    return ImportFileError(
        f"{path} is damaged: {shown(text)}", hint=f"export it once more: {EXPORT_COMMAND}"
    )


def _locked(path: Path, reason: str) -> ImportFileError:
    return ImportFileError(
        f"{path} is locked: another program writes it, or was stopped while it did ({reason})",
        hint="wait until `nsys export` has finished; if it was stopped, export once more",
    )


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _narrowed(values: NDArray[np.int64]) -> NDArray[Any]:
    """Keep a column in as few bytes as its numbers need, and its NULLs in a mask."""
    null = values == _NULL
    has_null = bool(null.any())
    numbers = np.where(null, 0, values) if has_null else values
    fits = int(numbers.min()) >= -(1 << 31) and int(numbers.max()) < 1 << 31
    kept = numbers.astype(np.int32 if fits else np.int64)
    return np.ma.MaskedArray(kept, mask=null) if has_null else kept
