"""The rings of threads: each range belongs to the thread that made it, or is counted as lost."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from nvtx_client import compiled
from rlscope_trace._capture import ShimCollector
from rlscope_trace._ingest import ShimRangeReader, ShimScan
from rlscope_trace.record.shims import Request, inject, new_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RING_RANGES = (1 << 21) // 64
FIRST, LATER = 40_000, 100
# Of the second thread, while its ring is full.
DROPPED = 10


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """Return the NVTX client in C, compiled."""
    return compiled(tmp_path / "nvtx_client")


@contextmanager
def stopped(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that stops itself; it does not outlive the test."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as program:
        try:
            wait_for_stop(program.pid)
            yield program
        finally:
            program.kill()


def wait_for_stop(pid: int) -> None:
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def ranges_of_threads(spool: Path) -> list[int]:
    """Return how many ranges each thread has, each of which is told once."""
    scan = ShimScan(str(spool / "shim.bin"))
    reported = [
        (int(incarnation["tid"]), int(incarnation["ranges"])) for incarnation in scan.incarnations()
    ]
    assert len({tid for tid, _ in reported}) == len(reported)
    assert scan.losses()["dropped_events"] == FIRST - (RING_RANGES - 1) + DROPPED
    # Both threads say when: where the first one could not any more, its counters do.
    gaps = [gaps_of(scan, index) for index in range(len(reported))]
    assert [len(found) for found in gaps] == [0, 1, 1]
    assert gaps[1][0][0] < gaps[1][0][1] <= gaps[2][0][0] < gaps[2][0][1]
    return [ranges for _, ranges in reported]


def gaps_of(scan: ShimScan, incarnation: int) -> list[tuple[int, int]]:
    """Return the times between which a thread has dropped ranges."""
    reader = ShimRangeReader(scan, [incarnation])
    gaps: list[tuple[int, int]] = []
    while (part := reader.next(1 << 20)) is not None:
        gaps += zip(part["gap_start_ns"].tolist(), part["gap_end_ns"].tolist(), strict=True)
    return gaps


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_thread_in_a_full_ring_is_not_taken_for_the_one_before(
    tmp_path: Path, client: Path, poll_until: Callable[..., None], *, goes_on: bool
) -> None:
    session, spool = new_session(), tmp_path / "spool"
    spool.mkdir()
    shims = ShimCollector(str(spool), session)
    request = Request(session, auto=False)
    environment = inject(os.environ, request, program=client, identity=None).environment
    command = [str(client), "turns", str(FIRST), str(LATER)]
    with stopped(command, environment) as program:
        # It is known, but nobody empties its rings: the collector has not been started.
        assert shims.find(program.pid) == 1
        os.kill(program.pid, signal.SIGCONT)
        wait_for_stop(program.pid)
        # The first thread has filled a ring and ended; the second one has found it full.
        shims.start()
        poll_until(lambda: shims.events >= RING_RANGES, what="the first ring to be read")
        if goes_on:
            os.kill(program.pid, signal.SIGCONT)
            assert program.wait() == 0
        shims.stop()
    # Without more, it is the range that is open that tells of the second one.
    assert ranges_of_threads(spool) == [1, RING_RANGES - 1, LATER + 1 if goes_on else 1]
