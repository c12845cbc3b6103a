"""The rings of threads: each range belongs to the thread that made it, or is counted as lost."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from nvtx_client import compiled
from rlscope_trace._capture import ShimCollector, ShimScan
from rlscope_trace.shims import Request, inject, new_session

if TYPE_CHECKING:
    from pathlib import Path

RING_RANGES = (1 << 21) // 64
THREADS, RANGES = 3, 40_000


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """Return the NVTX client in C, compiled."""
    return compiled(tmp_path / "nvtx_client")


def test_a_thread_never_follows_another_into_a_full_ring(tmp_path: Path, client: Path) -> None:
    session = new_session()
    (tmp_path / "spool").mkdir()
    shims = ShimCollector(str(tmp_path / "spool"), session)
    environment = inject(
        os.environ, Request(session, auto=False), program=client, identity=None
    ).environment
    command = [client, "turns", str(THREADS), str(RANGES)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as program:
        _, status = os.waitpid(program.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        # It is known, but nobody empties its rings: the collector has not been started.
        assert shims.find(program.pid) == 1
        os.kill(program.pid, signal.SIGCONT)
        assert program.wait() == 0
    shims.start()
    shims.stop()
    scan = ShimScan(str(tmp_path / "spool" / "shim.bin"))
    told = {int(tenancy["tid"]): int(tenancy["ranges"]) for tenancy in scan.tenancies()}
    # Each has a ring of its own, of which one place says whose it is.
    assert sorted(told.values())[-THREADS:] == [RING_RANGES - 1] * THREADS
    # And one range of the first thread.
    assert sum(told.values()) + scan.losses()["dropped_events"] == 1 + THREADS * RANGES
