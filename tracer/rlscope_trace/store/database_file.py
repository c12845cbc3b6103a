"""The file of a trace database while it is made: its configuration, its partial name, its end."""

import os
from collections.abc import Callable
from pathlib import Path

import duckdb

from rlscope_trace.errors import OutputExistsError

# Four row groups of DuckDB: whole ones go to the file at once, and none has to wait in memory.
BATCH_ROWS = 4 * 122_880

DATABASE_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # Clients back to 1.2 can open the file, whichever DuckDB writes it.
    "storage_compatibility_version": "v1.2.0",
    # One thread keeps the order of the rows, and leaves the machine to the program that was traced.
    "threads": 1,
    # With the rest of the recorder below 300 MB of memory, however long the recording was.
    "memory_limit": "80MB",
}

# DuckDB turns a Ctrl-C during a query into a RuntimeError with this text, where it is the first
# to hear of it.
_DUCKDB_INTERRUPTED = "Query interrupted"

Complete = Callable[[duckdb.DuckDBPyConnection], None]
"""Adds what is derived to a database whose tables are filled."""
ReportProgress = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it is done, and how much there is."""


def configuration(output: Path) -> dict[str, str | bool | int | float | list[str]]:
    """Return what to open the database with: what does not fit in memory goes beside the output."""
    return {**DATABASE_CONFIG, "temp_directory": f"{output}.spill"}


def refuse_existing(output: Path, *, overwrite: bool) -> None:
    """Raise OutputExistsError if the output is there and may not be replaced."""
    if output.exists() and not overwrite:
        raise OutputExistsError(f"{output} exists already", hint="overwrite it with --force")


def partial_of(output: Path) -> Path:
    """Return the name of the output until it is complete."""
    return output.with_name(f"{output.name}.partial")


def remove_partial(output: Path) -> None:
    """Remove what an unfinished attempt left beside the output."""
    partial = partial_of(output)
    partial.unlink(missing_ok=True)
    partial.with_name(f"{partial.name}.wal").unlink(missing_ok=True)


def publish(output: Path, *, overwrite: bool) -> int:
    """Give the complete file its name, on the disk for good; returns its size in bytes."""
    partial = partial_of(output)
    file_bytes = _sync(partial)
    refuse_existing(output, overwrite=overwrite)
    partial.replace(output)
    _sync(output.parent)
    return file_bytes


def reason_of(error: BaseException) -> str:
    """Return in one line why something failed."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0] or type(error).__name__


def is_interrupt(error: BaseException) -> bool:
    """Tell whether it was Ctrl-C that ended it, also in the middle of a query."""
    is_told = isinstance(error, (KeyboardInterrupt, duckdb.InterruptException))
    return is_told or str(error) == _DUCKDB_INTERRUPTED


def _sync(path: Path) -> int:
    """Bring a file or directory to the disk; returns its size."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
