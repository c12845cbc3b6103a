"""The file of a trace: whether it may be opened, and with which rights DuckDB works on it.

A trace may come from anywhere, and holds code: views, macros, defaults. Nothing in it reaches
another file or loads an extension, and what it makes DuckDB compute stays within limits. It is
attached, read-only, to a database in memory.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import stat
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.errors import TraceError
from rlscope_analysis.own_name import name_of_ours
from rlscope_analysis.spill import spill_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RECORD_HINT = "record one with: sudo rlscope-trace -o trace.duckdb -- COMMAND"
DAMAGED_HINT = (
    "copy it again from where it was recorded; if its recording was interrupted:"
    " rlscope-trace recover SPOOL"
)
# Bytes 8 to 12 of every DuckDB file, behind a checksum.
_DUCKDB_MAGIC = b"DUCK"
_MAGIC_OFFSET = 8
# What DuckDB reads of its own accord beside a database: what was not yet merged into it.
_COMPANIONS = (".wal", ".wal.checkpoint", ".wal.recovery")
# Enough for every question of ours about ten million states; what needs more goes to the disk.
_MEMORY_BYTES = 384 << 20
_LEAST_MEMORY_BYTES = 48 << 20
# Asks for more, in words of DuckDB: "4GB".
MEMORY_VARIABLE = "RLSCOPE_MEMORY_LIMIT"
MEMORY_HINT = f"allow more, for example: {MEMORY_VARIABLE}=4GB rlscope-trace ..."
_DISK_LIMIT = "16GB"
# A variable of the connection, behind the name of the database: the size of its file.
_BYTES = "_bytes"
_MOST_COMPRESSED = 4


def check_file(path: Path) -> None:
    """Raise TraceError where there is no DuckDB file that may be opened."""
    try:
        head = _head(path)
    except FileNotFoundError as error:
        raise TraceError(f"there is no trace at {path}", hint=RECORD_HINT) from error
    except PermissionError as error:
        raise TraceError(
            f"reading {path} is not permitted", hint=f'sudo chown "$USER" {shlex.quote(str(path))}'
        ) from error
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}", hint=RECORD_HINT) from error
    except ValueError as error:  # a NUL inside
        raise TraceError(f"{str(path)!r} is no path: {error}", hint=RECORD_HINT) from error
    if head[_MAGIC_OFFSET:] != _DUCKDB_MAGIC:
        raise TraceError(f"{path} is not a trace: no DuckDB database", hint=RECORD_HINT)


def _head(path: Path) -> bytes:
    # A pipe without a writer would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise _directory_error(path)
        if not stat.S_ISREG(found.st_mode):
            raise TraceError(f"{path} is not a trace: it is no regular file", hint=RECORD_HINT)
        _check_companions(path, {found.st_uid, os.geteuid(), 0})
        return os.read(descriptor, _MAGIC_OFFSET + len(_DUCKDB_MAGIC))
    finally:
        os.close(descriptor)


def _check_companions(path: Path, owners: set[int]) -> None:
    """Refuse what somebody else put beside the trace: DuckDB would take it for a part of it."""
    for suffix in _COMPANIONS:
        beside = Path(f"{path}{suffix}")
        try:
            found = beside.lstat()
        except OSError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in owners:
            raise TraceError(
                f"{beside} is not of the owner of the trace, and DuckDB would read it as a part"
                " of the trace",
                hint=f"copy {path} alone to a folder of yours, and read it there",
            )


def _directory_error(path: Path) -> TraceError:
    if (path / "records.bin").exists() or (path / "session.json").exists():
        return TraceError(
            f"{path} is a spool: its recording was not finished",
            hint=f"rlscope-trace recover {shlex.quote(str(path))}",
        )
    return TraceError(f"{path} is a directory, not a trace", hint=RECORD_HINT)


def connect(
    files: Mapping[str, Path], last: Callable[[duckdb.DuckDBPyConnection], None] | None = None
) -> duckdb.DuckDBPyConnection:
    """Attach files, each under its name, read-only, and close the way to all others.

    last: is called before that. Raises TraceError where one may not be opened, or DuckDB cannot
    read it.
    """
    for path in files.values():
        check_file(path)
    connection = _connection()
    try:
        for database, path in files.items():
            _attach(connection, database, path)
        if last is not None:
            last(connection)
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _connection() -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(":memory:", config=own_configuration())
    except duckdb.Error as error:
        asked = os.environ.get(MEMORY_VARIABLE)
        if asked and "memory" in str(error).lower():
            raise TraceError(
                f"{MEMORY_VARIABLE}={asked[:40]} is no amount of memory", hint=MEMORY_HINT
            ) from error
        raise


def _attach(connection: duckdb.DuckDBPyConnection, database: str, path: Path) -> None:
    try:
        with name_of_ours(path, beside=_COMPANIONS) as name:
            quoted = str(name).replace("'", "''")
            connection.execute(f"ATTACH '{quoted}' AS {database} (READ_ONLY)")
            found = name.stat()
            # A hole has no rows; a file system may compress what DuckDB has compressed, by little.
            size = min(found.st_size, found.st_blocks * 512 * _MOST_COMPRESSED)
            connection.execute(f"SET VARIABLE {database}{_BYTES} = {size}")
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}", hint=RECORD_HINT) from error
    except (duckdb.Error, RuntimeError, MemoryError) as error:
        raise _not_connected(path, first_line(error)) from error


def attached_bytes(connection: duckdb.DuckDBPyConnection, database: str) -> int:
    """Return how many bytes a file held when it was attached: its name may lead elsewhere now."""
    ((size,),) = connection.execute(f"SELECT getvariable('{database}{_BYTES}')").fetchall()
    return int(size)


def _not_connected(path: Path, message: str) -> TraceError:
    if "Could not set lock" in message:
        holder = re.search(r"\(PID (\d+)\)", message)
        return TraceError(
            f"{path} is being written by {f'pid {holder[1]}' if holder else 'another program'}",
            hint="try again when it has finished",
        )
    if "file handle conflict" in message:
        return TraceError(
            f"{path} is open in this process, by duckdb.connect()",
            hint="close that connection first, or go on with it: it has the views too",
        )
    if "read a database file with version" in message:
        return TraceError(
            f"{path} was written by a newer DuckDB than {duckdb.__version__}",
            hint="pip install --upgrade duckdb",
        )
    if "encrypt" in message.lower():
        return TraceError(
            f"{path} is encrypted: rlscope-trace writes no such file", hint=RECORD_HINT
        )
    return TraceError(f"cannot read {path}: {message}", hint=DAMAGED_HINT)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says; its kind where it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def own_configuration() -> dict[str, str | bool | int | float | list[str]]:
    """Return what a connection may do, besides what is closed when the file is attached."""
    return {
        # A name in a query is never one of our Python variables.
        "python_enable_replacements": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        # Where it takes one side of an ASOF join for small, DuckDB compares each pair of rows: with
        # a few thousand samples and 800,000 segments that took 10 s, and the join itself 0.1.
        "asof_loop_join_threshold": 0,
        "memory_limit": os.environ.get(MEMORY_VARIABLE) or f"{_memory_bytes()}B",
        # Where sorts of long traces go: the folder of a trace need not be writable.
        "temp_directory": str(spill_directory() or ""),
        "max_temp_directory_size": _DISK_LIMIT,
    }


@cache
def _memory_bytes() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return _MEMORY_BYTES
    # The rest is for Python, its libraries, and the stacks of threads.
    return max(min(soft // 8, _MEMORY_BYTES), _LEAST_MEMORY_BYTES)
