"""One import at a time makes an output: two would take the unfinished file from each other."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rlscope_trace.errors import TracerError
from rlscope_trace.store.database_file import partial_of


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Keep other imports from the output meanwhile; nothing is left of the lock.

    Raises TracerError if another one has it, and OSError if its folder cannot be written to.
    """
    partial = partial_of(output)
    path = partial.with_name(f"{partial.name}.lock")
    descriptor = _lock(path, output)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _lock(path: Path, output: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise TracerError(
                f"another import is writing {output}", hint="write it somewhere else with -o"
            ) from None
        except OSError:
            # A file system without locks: as it would be without this file.
            return descriptor
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        # Who had it before removed it just now.
        os.close(descriptor)
