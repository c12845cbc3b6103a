"""A program with a file that a program of its own serves (FUSE), which stops to answer.

usage: served_target.py LIBRARY USER KIND PADDING. KIND: file, the program has mapped it; arguments,
they lie in it, too: PADDING makes them some pages long; folder, the program works in its folder.
Prints `ready`; USER owns the file system.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import tempfile
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
NAME = b"libpython3.11.so.1.0"
# Of include/uapi/linux/fuse.h.
LOOKUP, FORGET, GETATTR, OPEN, READ = 1, 2, 3, 14, 15
RELEASE, FLUSH, INIT, OPENDIR, INTERRUPT, BATCH_FORGET = 18, 25, 26, 27, 36, 42
HEADER = struct.Struct("<IIQQIIII")
INIT_REPLY = struct.pack("<IIIIHHIIHHIIII", 7, 31, 65536, 0, 0, 0, 65536, *[0] * 7) + b"\0" * 16
PAGE = 4096
MAP_FIXED_PRIVATE = 0x12


def attributes(node: int, size: int) -> bytes:
    mode = 0o40755 if node == 1 else 0o100755
    return struct.pack(
        "<6Q10I", node, size if node > 1 else 0, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, PAGE, 0
    )


def answer(operation: int, node: int, body: bytes, content: bytes) -> tuple[int, bytes]:
    """Return the error and the reply to a request."""
    if operation == INIT:
        return 0, INIT_REPLY
    if operation == LOOKUP:
        is_there = body.rstrip(b"\0") == NAME
        reply = struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2, len(content))
        return (0, reply) if is_there else (-2, b"")
    if operation == GETATTR:
        return 0, struct.pack("<Q2I", 0, 0, 0) + attributes(node, len(content))
    if operation in (OPEN, OPENDIR):
        return 0, struct.pack("<Q2I", 1, 0, 0)
    if operation == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        return 0, content[offset : offset + size]
    return (0, b"") if operation in (RELEASE, FLUSH) else (-38, b"")


def serve(device: int, content: bytes, is_silent: mmap.mmap) -> None:
    while True:
        try:
            request = os.read(device, (1 << 17) + PAGE)
        except OSError:
            return
        _, operation, unique, node, *_ = HEADER.unpack_from(request)
        # The end of a program waits for the files that it has open.
        if operation in (FORGET, INTERRUPT, BATCH_FORGET) or (
            is_silent[0] and operation not in (RELEASE, FLUSH)
        ):
            continue
        error, reply = answer(operation, node, request[HEADER.size :], content)
        os.write(device, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)


def mounted(content: bytes, user: int, is_silent: mmap.mmap) -> str:
    """Return a folder with the file; a process of its own answers for it, until this one ends."""
    device = os.open("/dev/fuse", os.O_RDWR)
    folder = tempfile.mkdtemp()
    options = f"fd={device},rootmode=40000,user_id={user},group_id={user},allow_other".encode()
    if LIBC.mount(b"served", folder.encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    if os.fork() == 0:
        LIBC.prctl(1, 9)  # PR_SET_PDEATHSIG
        serve(device, content, is_silent)
        os._exit(0)
    os.close(device)
    return folder


def main() -> None:
    library, user, kind, _padding = sys.argv[1:]
    # Of its own: what is mounted goes with it.
    LIBC.unshare(0x20000)  # CLONE_NEWNS
    LIBC.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
    is_silent = mmap.mmap(-1, PAGE)
    with Path(library).open("rb") as file:
        content = file.read(1 << 20)
    folder = mounted(content, int(user), is_silent)
    if kind == "folder":
        os.chdir(folder)
    file_fd = os.open(f"{folder}/{NAME.decode()}", os.O_RDONLY)
    code = mmap.mmap(file_fd, len(content), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    assert code[0] == content[0]
    if kind == "arguments":
        with Path("/proc/self/stat").open() as stat:
            fields = stat.read().rsplit(")")[1].split()
        first, last = (int(fields[number - 3]) for number in (48, 49))
        page = -(-first // PAGE) * PAGE
        LIBC.mmap(ctypes.c_void_p(page), ctypes.c_size_t(last // PAGE * PAGE - page), 1,
                  MAP_FIXED_PRIVATE, file_fd, ctypes.c_long(8 * PAGE))  # fmt: skip
    is_silent[0] = 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read(1)
    os._exit(0)


if __name__ == "__main__":
    main()
