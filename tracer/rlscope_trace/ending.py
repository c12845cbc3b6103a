"""The end of runs: waited for, or brought about."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# What an interrupted run may take to end by itself: a program may save its work.
_ENDING_S = 20.0


def wait_for(*processes: subprocess.Popen[bytes]) -> None:
    """Wait for the end of runs; Ctrl-C goes to the programs, a second one ends them."""
    try:
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        end(processes)
        raise


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Interrupt runs, and end what has not ended by itself after a while."""
    for process in processes:
        _signal_group(process, signal.SIGINT)
    try:
        for process in processes:
            process.wait(_ENDING_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        # Also what the programs left running.
        for process in processes:
            _signal_group(process, signal.SIGKILL)
            process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
