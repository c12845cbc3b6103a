"""What two runs wait at until both are there, so that they begin at the same instant."""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LOOK_S = 0.005


@contextmanager
def gates(directory: Path, *names: str) -> Iterator[list[Path]]:
    """Yield a FIFO for each name; remove them in the end.

    directory: one that only we may write to, and whoever runs the program may pass.
    """
    paths = [directory / f"{name}.gate" for name in names]
    try:
        for path in paths:
            os.mkfifo(path)
            # Whatever the umask: the program's user waits at it.
            path.chmod(0o644)
        yield paths
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def let_go(waiting: Iterable[tuple[Path, subprocess.Popen[bytes]]], cpu: int) -> None:
    """Wait until all are at their gates, and let them go on one CPU; none if one has ended."""
    opened: list[int] = []
    try:
        for path, process in waiting:
            gate = _opened(path, process)
            if gate is None:
                return
            opened.append(gate)
        for gate in opened:
            with suppress(BrokenPipeError):
                os.write(gate, str(cpu).encode())
    finally:
        # A gate that is closed without a word ends who waits at it.
        for gate in opened:
            os.close(gate)


def _opened(path: Path, process: subprocess.Popen[bytes]) -> int | None:
    """Return the gate once somebody waits at it; None: the run has ended before."""
    while process.poll() is None:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        time.sleep(_LOOK_S)
    return None
