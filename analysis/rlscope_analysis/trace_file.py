"""The file of a trace: whether it may be opened, and with which rights DuckDB works on it.

A trace may come from anywhere, and holds code: views, macros, defaults. Nothing in it reaches
another file or loads an extension, and what it makes DuckDB compute stays within limits. It is
attached, read-only, to a database in memory.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import grp
import os
import pwd
import re
import resource
import secrets
import shutil
import stat
import tempfile
import time
from collections import deque
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.errors import TraceError
from rlscope_analysis.foreign_file import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
_SPILL_PREFIX = "rlscope-trace-spill-"
# What is newer may not be held yet.
_SPILL_AGE_S = 60
# What others may change while it is read is read from a copy.
_MOST_COPIED_BYTES = 4 << 30
# What it takes to look at each part of a path; only Linux has it.
_PATH_ONLY = getattr(os, "O_PATH", 0)
_LOOK = _PATH_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# A variable of the connection, behind the name of the database: the size of its file.
_BYTES = "_bytes"
_MOST_COMPRESSED = 4
# As many as the OS kernel follows.
_MOST_LINKS = 40


def check_file(path: Path) -> None:
    """Raise TraceError where there is no DuckDB file that may be opened."""
    try:
        head = _head(path)
    except FileNotFoundError as error:
        raise TraceError(f"there is no trace at {path}", hint=RECORD_HINT) from error
    except PermissionError as error:
        raise TraceError(
            f"reading {path} is not permitted", hint=f'sudo chown "$USER" {path}'
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
            hint=f"rlscope-trace recover {path}",
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


def is_ours_alone(path: Path, *, beside: bool = True) -> bool:
    """Tell whether the file, and every folder and link that leads to it, is ours or root's.

    Whoever else may change one can put a pipe in the place of the file, or hold a lease on it,
    while DuckDB opens it by its name: then nothing ends the waiting, Ctrl-C neither. beside=False:
    though others may put something beside it, as in /tmp, where DuckDB looks too. OSError.
    """
    if not _PATH_ONLY:
        return True
    ahead, links = deque(path.absolute().parts[1:]), 0
    at = os.open("/", _LOOK)
    try:
        while ahead and _is_closed(os.fstat(at), to_add=beside and len(ahead) == 1):
            entry = os.open(ahead.popleft(), _LOOK, dir_fd=at)
            if stat.S_ISLNK(os.fstat(entry).st_mode) and _is_ours(entry):
                target = PurePath(os.readlink("", dir_fd=entry))
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
                ahead.extendleft(reversed([part for part in target.parts if part != "/"]))
                os.close(entry)
                entry = os.open("/", _LOOK) if target.is_absolute() else os.dup(at)
            os.close(at)
            at = entry
        return not ahead and _is_ours(at)
    finally:
        os.close(at)


def _is_ours(descriptor: int) -> bool:
    return os.fstat(descriptor).st_uid in (0, os.geteuid())


def _is_closed(folder: os.stat_result, *, to_add: bool) -> bool:
    """Tell whether nobody else can take away what is ours, or, `to_add`, put anything there."""
    if folder.st_uid not in (0, os.geteuid()):
        return False
    if folder.st_mode & stat.S_ISVTX and not to_add:
        return True
    is_open = folder.st_mode & stat.S_IWOTH
    return not is_open and not (folder.st_mode & stat.S_IWGRP and _has_others(folder.st_gid))


@cache
def _has_others(group: int) -> bool:
    """Tell whether a group is more than that of one user, as Debian makes one for each."""
    try:
        found, own = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return True
    members = {*found.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group)}
    # Of root's, whoever has an id without a name may be one, in a container.
    return found.gr_name != own or group == 0 or not {own}.issuperset(members)


@contextmanager
def _name_for_duckdb(path: Path) -> Iterator[str]:
    """Yield a name of the file that leads nowhere else, whatever others do, and nor does its WAL.

    Raises TraceError, OSError.
    """
    if is_ours_alone(path):
        yield str(path)
        return
    alone = f"copy {path} alone to a folder of yours, and read it there"
    for suffix in _COMPANIONS:
        if os.path.lexists(f"{path}{suffix}"):
            raise TraceError(f"{path}{suffix} would be a part of the trace", hint=alone)
    # What only we can change needs no copy, but a name in a folder where nobody can add a WAL.
    own = (_linked(path) if is_ours_alone(path, beside=False) else None) or _copied(path, alone)
    try:
        yield str(own)
    finally:
        own.unlink()


def _linked(path: Path) -> Path | None:
    """Return another name of the file in a folder of ours; None: on another file system."""
    folder = spill_directory()
    if folder is None:
        return None
    own = folder / f"{secrets.token_hex(8)}.duckdb"
    try:
        own.hardlink_to(path.resolve())
    except OSError:
        return None
    return own


def _copied(path: Path, alone: str) -> Path:
    """Return a copy in a folder of ours. Raises TraceError, with the hint `alone`; OSError."""
    folder = spill_directory()
    with open_regular(path) as source:
        if folder is None or os.fstat(source.fileno()).st_blocks * 512 > _MOST_COPIED_BYTES:
            raise TraceError(f"others can change {path} while it is read", hint=alone)
        descriptor, name = tempfile.mkstemp(suffix=".duckdb", dir=folder)
        try:
            copy_file(source.fileno(), descriptor, most_bytes=_MOST_COPIED_BYTES)
        except BaseException:
            Path(name).unlink()
            raise
        finally:
            os.close(descriptor)
    return Path(name)


def copy_file(source: int, target: int, *, most_bytes: int) -> None:
    """Copy a file with its holes: so many bytes besides, whatever it grows by. OSError."""
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    at, left = 0, most_bytes
    while left > 0:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return
        end = min(os.lseek(source, at, os.SEEK_HOLE), size, at + left)
        os.lseek(target, at, os.SEEK_SET)
        while at < end and (sent := os.sendfile(target, source, at, end - at)):
            at, left = at + sent, left - sent
        if at < end or at >= size:
            return


def _attach(connection: duckdb.DuckDBPyConnection, database: str, path: Path) -> None:
    try:
        with _name_for_duckdb(path) as name:
            quoted = name.replace("'", "''")
            connection.execute(f"ATTACH '{quoted}' AS {database} (READ_ONLY)")
            found = Path(name).stat()
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
        "temp_directory": _spill_directory(os.getpid()),
        "max_temp_directory_size": _DISK_LIMIT,
    }


@cache
def _memory_bytes() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return _MEMORY_BYTES
    # The rest is for Python, its libraries, and the stacks of threads.
    return max(min(soft // 8, _MEMORY_BYTES), _LEAST_MEMORY_BYTES)


def spill_directory() -> Path | None:
    """Return the folder that connections of this process write long sorts to; None: there is none.

    It is made once, and goes with the process. Who gives up the right to write makes it before.
    """
    made = _spill_directory(os.getpid())
    return Path(made) if made else None


@cache
def _spill_directory(pid: int) -> str:
    """Make a folder that nobody else can look into or plant anything in; empty: there is none."""
    try:
        path = tempfile.mkdtemp(prefix=_SPILL_PREFIX)
        # Held as long as we live: whoever is killed leaves a folder that nobody holds.
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_EX)
    except OSError:
        return ""
    atexit.register(_remove_spill, path, pid)
    _remove_left_behind(Path(path).parent)
    return path


def _remove_left_behind(folder: Path) -> None:
    """Remove what killed processes of ours wrote there: it may be many gigabytes."""
    with suppress(OSError):
        for path in folder.glob(f"{_SPILL_PREFIX}*"):
            found = path.lstat()
            if found.st_uid != os.geteuid() or time.time() - found.st_ctime < _SPILL_AGE_S:
                continue
            left = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(left)


def _remove_spill(path: str, pid: int) -> None:
    if pid == os.getpid():  # not in a child that was forked
        shutil.rmtree(path, ignore_errors=True)
