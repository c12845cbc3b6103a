"""Attacks the collector of shims: sends it, or writes into shared memory, what no shim would.

shim_attacks.py ATTACK [--recorder PID] [--uid UID] [--seconds S]

It looks for the socket of the recorder in /proc/net/unix, as any user can; without --recorder it
is the program that is traced, and attacks from within. Prints `ready PID` when the attack is under
way; ends after S seconds.
"""

from __future__ import annotations

import argparse
import array
import fcntl
import mmap
import os
import random
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from lib.shim_records import numbers

(VERSION,) = numbers("VERSION")
SLOTS, CONTROL, RING, PAGE = 128, 4096, 1 << 21, 4096
FILE_BYTES = PAGE + SLOTS * (CONTROL + RING)
F_SETLEASE = 1024
TAIL = 128
"""Where in a slot the reader says how far it has read."""


SESSIONS: list[bytes] = []
"""The names of the sockets that are attacked."""


def find_session(recorder: int | None) -> None:
    """Find where the recorder listens."""
    if recorder is None:
        SESSIONS.append(b"\0" + os.environb[b"RLSCOPE_SESSION"])
    while not SESSIONS:
        for line in Path("/proc/net/unix").read_text().splitlines():
            name = line.split()[-1]
            if name.startswith(f"@rlscope-{recorder}-") and not SESSIONS:
                SESSIONS.append(b"\0" + name[1:].encode())


def memory(slots: int = SLOTS) -> int:
    """Return a memfd as the shim makes it."""
    memfd = os.memfd_create("rlscope-ring", os.MFD_ALLOW_SEALING)
    os.ftruncate(memfd, FILE_BYTES)
    fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    geometry = (SLOTS, CONTROL + RING, CONTROL, RING, os.getpid(), slots, time.monotonic_ns())
    os.pwrite(memfd, struct.pack("<8sIIQ6IQ", b"RSLRING1", VERSION, PAGE, FILE_BYTES, *geometry), 0)
    return memfd


def connections() -> Iterator[socket.socket]:
    """Connect to the recorder, where it has room."""
    for name in SESSIONS:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(0.1)
        try:
            connection.connect(name)
        except OSError:
            connection.close()
        else:
            yield connection


def send(*fds: int) -> None:
    """Send descriptors to the recorder."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    for connection in connections():
        with connection, suppress(OSError):
            connection.sendmsg([b"RSLRING1"], rights)


def lease() -> None:
    """Whoever opens this to write waits for 45 seconds."""
    memfd = memory()
    reader = os.open(f"/proc/self/fd/{memfd}", os.O_RDONLY)
    os.close(memfd)
    # None can be had while the recorder looks at it: it was quicker.
    with suppress(BlockingIOError):
        fcntl.fcntl(reader, F_SETLEASE, fcntl.F_RDLCK)
    send(reader)
    os.close(reader)


class Bytes:
    """Rings that are always full, as fast as they are emptied."""

    def __init__(self) -> None:
        memfd = memory()
        self.view = memoryview(mmap.mmap(memfd, FILE_BYTES)).cast("B")
        send(memfd)
        self.random = random.Random(1)

    def set(self, slot: int, offset: int, value: int) -> None:
        at = PAGE + slot * (CONTROL + RING) + offset
        struct.pack_into("<Q", self.view, at, value % 2**64)

    def get(self, slot: int, offset: int) -> int:
        at = PAGE + slot * (CONTROL + RING) + offset
        return int(struct.unpack_from("<Q", self.view, at)[0])

    def __call__(self) -> None:
        for slot in range(SLOTS):
            self.set(slot, 0, self.get(slot, TAIL) + RING)


class Heads(Bytes):
    """Positions that make no sense."""

    def __call__(self) -> None:
        for slot in range(SLOTS):
            self.set(slot, 0, self.random.getrandbits(64))


class Tails(Bytes):
    """The reader's own positions, overwritten."""

    def __call__(self) -> None:
        for slot in range(SLOTS):
            self.set(slot, TAIL, self.random.getrandbits(30) * 64)


class Garbage(Bytes):
    """Anything anywhere: records, counters, open ranges, who owns a slot."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.random.randbytes(1 << 16)

    def __call__(self) -> None:
        slot = self.random.randrange(SLOTS)
        at = PAGE + slot * (CONTROL + RING)
        self.view[at + 8 : at + TAIL] = self.random.randbytes(TAIL - 8)
        self.view[at + 256 : at + CONTROL] = self.random.randbytes(CONTROL - 256)
        for part in range(at + CONTROL, at + CONTROL + RING, len(self.bytes)):
            self.view[part : part + len(self.bytes)] = self.bytes
        self.view[40:88] = struct.pack("<I", self.random.getrandbits(32)) + self.random.randbytes(
            44
        )
        self.set(slot, 0, self.get(slot, TAIL) + self.random.randrange(0, RING, 64))


class Descriptors:
    """Thousands of memories that stay open, each announced."""

    def __init__(self) -> None:
        self.kept: list[int] = []

    def __call__(self) -> None:
        with suppress(OSError):
            self.kept.append(memory())
            send(self.kept[-1])


class Silent:
    """Connections that send nothing."""

    def __init__(self) -> None:
        self.kept: list[socket.socket] = []

    def __call__(self) -> None:
        self.kept += connections()
        if len(self.kept) > 500:
            self.kept.clear()


def newborn() -> None:
    """Each announcement is of a process that has just begun, and ends at once."""
    child = os.fork()
    if child == 0:
        with suppress(OSError):
            send(memory())
        os._exit(0)
    os.waitpid(child, 0)


class Pipe:
    """A FIFO, which waits for somebody who writes."""

    def __init__(self) -> None:
        path = Path(f"/tmp/shim-attack-{os.getpid()}")
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR)
        path.unlink()

    def __call__(self) -> None:
        send(self.fd, *[self.fd] * 20)


def attack(name: str) -> Callable[[], None]:
    """Return what is to be done again and again."""
    classes: dict[str, Callable[[], Callable[[], None]]] = {
        "bytes": Bytes, "heads": Heads, "tails": Tails, "garbage": Garbage, "silent": Silent,
        "descriptors": Descriptors, "pipe": Pipe, "lease": lambda: lease,
        "newborn": lambda: newborn,
    }  # fmt: skip
    return classes[name]()


def main() -> None:
    """Attack until it is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("attack")
    parser.add_argument("--recorder", type=int)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--seconds", type=float, default=60)
    arguments = parser.parse_args()
    # Of a lease that is broken: the recorder does not wait for it either way.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    find_session(arguments.recorder)
    if arguments.uid is not None:
        os.setgroups([])
        os.setgid(arguments.uid)
        os.setuid(arguments.uid)
    step = attack(arguments.attack)
    step()
    os.write(1, f"ready {os.getpid()}\n".encode())
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        step()


if __name__ == "__main__":
    main()
