"""The file of a trace database while it is made: its name, its configuration, how it fails."""

from collections.abc import Callable
from pathlib import Path

import duckdb

# Until it is complete, in a private folder: rlscope_trace.outputs.
DATABASE_NAME = "trace"

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

ReportProgress = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it is done, and how much there is."""


def configuration(folder: Path) -> dict[str, str | bool | int | float | list[str]]:
    """Return what to open a database with: what does not fit in memory goes into a folder of ours.

    Beside the database DuckDB writes its log, at a name that is easily guessed: the folder must be
    one that nobody else can enter.
    """
    return {**DATABASE_CONFIG, "temp_directory": str(folder / "spill")}


def is_interrupt(error: BaseException) -> bool:
    """Tell whether it was Ctrl-C that ended it, also in the middle of a query."""
    is_reported = isinstance(error, (KeyboardInterrupt, duckdb.InterruptException))
    return is_reported or str(error) == _DUCKDB_INTERRUPTED
