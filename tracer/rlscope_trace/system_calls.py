"""Refuses what saving never asks of the OS kernel, and what a saver that was taken over would.

Capabilities and Landlock leave root's user id some of its power: modes, owners and times of files
that are root's, services that trust who connects as root, programs put into a user namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from dataclasses import dataclass

# include/uapi/linux/filter.h, seccomp.h, audit.h
_LOAD, _EQUALS, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_REFUSE = _ERRNO | errno.EPERM
_SET_FILTER, _ALL_THREADS = 1, 1
_X32 = 0x40000000
_NEW_USER = 0x10000000
# Put words into the terminal, as if its user had typed them.
_TERMINAL_INPUT = (0x5412, 0x541C)

# Numbers that every architecture has.
_SAME = {
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "mount_setattr": 442,
    "io_uring_setup": 425, "pidfd_getfd": 438, "fchmodat2": 452, "setxattrat": 463,
    "removexattrat": 466,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Machine:
    """How an architecture numbers its system calls."""

    audit: int
    seccomp: int
    clone: int
    ioctl: int
    refused: dict[str, int]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, 56, 16, {
        "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94,
        "fchownat": 260, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197,
        "lremovexattr": 198, "fremovexattr": 199, "utime": 132, "utimes": 235, "futimesat": 261,
        "utimensat": 280, "socket": 41, "connect": 42, "bind": 49, "ptrace": 101,
        "process_vm_readv": 310, "process_vm_writev": 311, "execve": 59, "execveat": 322,
        "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "bpf": 321,
        "perf_event_open": 298, "userfaultfd": 323, "add_key": 248, "request_key": 249,
        "keyctl": 250, "open_by_handle_at": 304,
    }),
    "aarch64": _Machine(0xC00000B7, 277, 220, 29, {
        "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "setxattr": 5, "lsetxattr": 6,
        "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
        "utimensat": 88, "socket": 198, "bind": 200, "connect": 203, "ptrace": 117,
        "process_vm_readv": 270, "process_vm_writev": 271, "execve": 221, "execveat": 281,
        "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "bpf": 280,
        "perf_event_open": 241, "userfaultfd": 282, "add_key": 217, "request_key": 218,
        "keyctl": 219, "open_by_handle_at": 265,
    }),
}  # fmt: skip
# Its flags lie in memory, where a filter cannot look: the C library then uses clone.
_CLONE3 = 435


def refuse_all_but_saving() -> bool:
    """Refuse them to every thread of this process, and to all that it starts.

    It must have given up gaining rights before (no_new_privs). Returns whether the OS kernel does.
    """
    machine = _MACHINES.get(os.uname().machine)
    if machine is None or sys.byteorder != "little":
        return False
    words = _filter(machine)
    code = ctypes.create_string_buffer(words, len(words))
    program = struct.pack("@HP", len(words) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    done = libc.syscall(machine.seccomp, _SET_FILTER, ctypes.c_ulong(_ALL_THREADS), program)
    return bool(done == 0)


def _filter(machine: _Machine) -> bytes:
    """Return the program: each step is its code, how far to jump if so and if not, and a number."""
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 1, 0, machine.audit), (_RETURN, 0, 0, _REFUSE)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for number in (*machine.refused.values(), *_SAME.values()):
        steps += [(_EQUALS, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    steps += [(_EQUALS, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    steps += [(_EQUALS, 0, 3, machine.clone), (_LOAD, 0, 0, _argument(0))]
    steps += [(_HAS_BITS, 0, 1, _NEW_USER), (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, _NUMBER)]
    steps += [(_EQUALS, 0, 1 + len(_TERMINAL_INPUT), machine.ioctl), (_LOAD, 0, 0, _argument(1))]
    for place, request in enumerate(_TERMINAL_INPUT):
        steps += [(_EQUALS, len(_TERMINAL_INPUT) - place, 0, request)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _argument(index: int) -> int:
    """Return where the lower half of an argument lies."""
    return 16 + 8 * index
