"""The collector of shims: one reader of a process, and whatever strangers send."""

from __future__ import annotations

import array
import fcntl
import os
import resource
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recording import until
from rlscope_trace._capture import DiskSpace, ShimCollector, TracedProcesses
from rlscope_trace._ingest import ShimScan
from shim_builder import TID, VERSION, ShimBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOTS, CONTROL, RING, PAGE = 128, 4096, 1 << 21, 4096
FILE_BYTES = PAGE + SLOTS * (CONTROL + RING)
SLOTS_USED = 44
"""Where in the memory the shim says how many slots were ever used."""
READER = 2048
"""Where in the memory the collector says that it reads."""


@pytest.fixture
def memory() -> Iterator[int]:
    """Return a memfd of this process as the shim would have made it."""
    memfd = os.memfd_create("rlscope-ring", os.MFD_ALLOW_SEALING)
    os.ftruncate(memfd, FILE_BYTES)
    fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    yield memfd
    os.close(memfd)


def set_up(memfd: int, pid: int | None = None) -> None:
    geometry = (SLOTS, CONTROL + RING, CONTROL, RING, pid or os.getpid(), 0, 1)
    os.pwrite(memfd, struct.pack("<8sIIQ6IQ", b"RSLRING1", VERSION, PAGE, FILE_BYTES, *geometry), 0)


def reader_of(memfd: int) -> int:
    return int.from_bytes(os.pread(memfd, 4, READER), "little")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def collector(folder: Path) -> ShimCollector:
    folder.mkdir()
    return ShimCollector(str(folder), f"rlscope-test-{os.getpid()}-{folder.name}")


def test_one_recorder_at_a_time_reads_a_process(tmp_path: Path, memory: int) -> None:
    set_up(memory)
    first, second = collector(tmp_path / "first"), collector(tmp_path / "second")
    first.start()
    assert first.find(os.getpid()) == 1
    assert second.find(os.getpid()) == 0
    assert (first.is_taken(os.getpid()), second.is_taken(os.getpid())) == (False, True)
    assert reader_of(memory) == 1
    first.stop()
    assert reader_of(memory) == 0
    assert second.find(os.getpid()) == 1
    assert not second.is_taken(os.getpid())
    assert reader_of(memory) == 2


def test_memory_that_is_being_made_is_found_later(tmp_path: Path, memory: int) -> None:
    shims = collector(tmp_path / "only")
    assert shims.find(os.getpid()) == 0
    assert not shims.is_taken(os.getpid())
    set_up(memory)
    assert shims.find(os.getpid()) == 1


def test_its_thread_sleeps_again_after_a_process_was_found(tmp_path: Path, memory: int) -> None:
    set_up(memory)
    shims = collector(tmp_path / "only")
    shims.start()
    assert shims.find(os.getpid()) == 1

    def thread() -> list[Path]:
        tasks = list(Path("/proc/self/task").iterdir())
        return [task for task in tasks if (task / "comm").read_text() == "rls-shims\n"]

    def sleeps() -> int:
        lines = (found[0] / "status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("voluntary_ctxt_switches"))
        return int(line.split()[1])

    until(thread, what="it has its name")
    found = thread()
    # One that is woken at once each time never gives up its CPU by itself.
    before = sleeps()
    until(lambda: sleeps() >= before + 5, what="the thread sleeps", deadline_s=20)
    shims.stop()


def test_descriptors_that_a_stranger_sends_are_not_kept(tmp_path: Path) -> None:
    shims = collector(tmp_path / "only")
    null = os.open(os.devnull, os.O_RDONLY)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null, null]))]
    before = open_files()
    for sent in (rights, [], None):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(f"\0rlscope-test-{os.getpid()}-only")
            if sent is not None:
                stranger.sendmsg([b"x"], sent)
    shims.start()
    shims.stop()
    assert open_files() == before
    os.close(null)


def test_hundreds_announce_themselves_while_nobody_listens(tmp_path: Path) -> None:
    shims = collector(tmp_path / "only")
    name = f"\0rlscope-test-{os.getpid()}-only"
    for _ in range(300):
        memfd = os.memfd_create("rlscope-ring", os.MFD_ALLOW_SEALING)
        os.ftruncate(memfd, FILE_BYTES)
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        set_up(memfd)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memfd]))]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as process:
            process.settimeout(1)
            process.connect(name)
            process.sendmsg([b"RSLRING1"], rights)
        os.close(memfd)
    shims.start()
    shims.stop()
    assert shims.sources == 300


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, "on"),
        ({"state": 2}, "off"),
        ({"state": 3}, "refused"),
        ({"recorded": 1 << 10}, "refused"),
    ],
)
def test_what_a_process_says_of_its_gpus_is_known_at_once(
    tmp_path: Path,
    memory: int,
    poll_until: Callable[..., object],
    status: dict[str, int],
    expected: str,
) -> None:
    reported = ShimBuilder()
    reported.string("a text that fills more than the one cell of a record, and looks like none")
    reported.status(**status)
    # A status within a text is none.
    reported.cells += struct.pack("<HHIQ", 12, 100, 0, 1).ljust(64) + b"\x0d\0\x02\0".ljust(64)
    set_up(memory)
    os.pwrite(memory, reported.cells, PAGE + CONTROL)
    os.pwrite(memory, struct.pack("<Q", len(reported.cells)), PAGE)
    os.pwrite(memory, struct.pack("<I", 1), SLOTS_USED)
    shims = collector(tmp_path / "only")
    assert shims.gpu_state(os.getpid()) is None
    shims.start()
    assert shims.find(os.getpid()) == 1
    poll_until(lambda: shims.gpu_state(os.getpid()) is not None, what="a status")
    assert shims.gpu_state(os.getpid()) == expected
    shims.stop()
    assert shims.gpu_state(os.getpid()) is None


def fill(memfd: int, reported: ShimBuilder) -> None:
    os.pwrite(memfd, reported.cells, PAGE + CONTROL)
    os.pwrite(memfd, struct.pack("<I", 1), SLOTS_USED)
    os.pwrite(memfd, struct.pack("<Q", len(reported.cells)), PAGE)


def tids_told(folder: Path) -> int:
    data, at, found = (folder / "shim.bin").read_bytes(), 16, 0
    while at < len(data):
        _, kind, _, _, size, _ = struct.unpack_from("<IHHIIQ", data, at)
        found += kind == TID
        at += 24 + size
    return found


def test_threads_are_listed_once_for_all_that_a_ring_names(tmp_path: Path, memory: int) -> None:
    reported = ShimBuilder()
    for tid in (*range(2**22, 2**22 + 1000), os.getpid()):
        reported.call(tid, 1, 2)
    reported.cells = reported.cells[-64 * 1001 :]
    # As if it were in a pid namespace of its own.
    set_up(memory, pid=os.getpid() + 1)
    fill(memory, reported)
    shims = collector(tmp_path / "only")
    assert shims.find(os.getpid()) == 1
    shims.start()
    shims.stop()
    # That of the collector, and the last.
    assert 1 <= shims.listings <= 2
    assert tids_told(tmp_path / "only") == 1


def test_a_thread_is_told_again_after_a_full_disk(
    tmp_path: Path, memory: int, poll_until: Callable[..., object]
) -> None:
    reported = ShimBuilder()
    reported.call(os.getpid(), 1, 2)
    set_up(memory, pid=os.getpid() + 1)
    shims = collector(tmp_path / "only")
    assert shims.find(os.getpid()) == 1
    fill(memory, reported)
    size = (tmp_path / "only" / "shim.bin").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        shims.start()
        poll_until(lambda: shims.listings > 0, what="a look at the threads")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    shims.stop()
    assert tids_told(tmp_path / "only") == 1


def announce(session: str, memfd: int) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memfd]))]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as process:
        process.settimeout(1)
        process.connect(f"\0{session}")
        process.sendmsg([b"RSLRING1"], rights)


def test_only_the_target_and_what_it_starts_are_heard(
    tmp_path: Path, memory: int, poll_until: Callable[..., object]
) -> None:
    set_up(memory)
    session = f"rlscope-test-{os.getpid()}-heard"
    shims = ShimCollector(str(tmp_path), session, TracedProcesses())
    shims.start()
    # It may be hung up on before it has said anything.
    with suppress(BrokenPipeError):
        announce(session, memory)
    assert shims.find(os.getpid()) == 0
    poll_until(lambda: shims.refused()["strangers"] == 1, what="it is refused")
    assert reader_of(memory) == 0
    shims.stop()
    assert shims.sources == 0


def test_a_process_that_ended_before_it_was_heard_is_heard(tmp_path: Path, memory: int) -> None:
    set_up(memory)
    traced = TracedProcesses()
    traced.add([os.getpid()])
    session = f"rlscope-test-{os.getpid()}-ended"
    shims = ShimCollector(str(tmp_path), session, traced)
    child = os.fork()
    if child == 0:
        announce(session, memory)
        os._exit(0)
    traced.add([child])
    os.waitpid(child, 0)
    shims.start()
    shims.stop()
    assert shims.sources == 1


def test_a_lease_of_somebody_else_is_not_waited_for(tmp_path: Path, memory: int) -> None:
    set_up(memory)
    leased = os.open(f"/proc/self/fd/{memory}", os.O_RDONLY)
    hidden = os.memfd_create("other")
    os.dup2(hidden, memory)
    os.close(hidden)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    shims = collector(tmp_path / "only")
    announce(f"rlscope-test-{os.getpid()}-only", leased)
    shims.start()
    # Where somebody waits for the lease, this does not return for 45 seconds.
    assert shims.find(os.getpid()) == 0
    shims.stop()
    assert shims.sources == 0
    os.close(leased)
    signal.signal(signal.SIGIO, before)


@pytest.mark.parametrize("position", [RING + 64, 7, 2**64 - 64])
def test_a_ring_that_makes_no_sense_is_a_loss(tmp_path: Path, memory: int, position: int) -> None:
    set_up(memory)
    shims = collector(tmp_path / "only")
    assert shims.find(os.getpid()) == 1
    os.pwrite(memory, struct.pack("<Q", position), PAGE)
    os.pwrite(memory, struct.pack("<I", 1), SLOTS_USED)
    shims.start()
    shims.stop()
    assert shims.refused()["damaged"] > 0
    assert ShimScan(str(tmp_path / "only" / "shim.bin")).losses()["unread_rings"] > 0


def test_a_disk_keeps_some_of_what_is_free(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    space = DiskSpace(str(tmp_path))
    assert 0 < space.reserve <= 1 << 30
    assert space.has_room(1000)
    assert not space.has_room(free)
