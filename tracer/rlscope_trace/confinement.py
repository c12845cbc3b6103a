"""Giving up what is not needed: the user id, capabilities, and where files may be written.

    confine(identity, RECORDING)          # under sudo: the invoking user, with what probes need
    confine(None, READING)                # root itself: no right beyond that of reading
    allow_writes_below([folder_fd])       # nothing else on this machine can be changed any more

Nothing given up can be had back, also by a program that this process starts.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import importlib
import os
import stat
import struct
import threading
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_trace.outputs.trusted import closing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from rlscope_trace.privileges import Identity

# Numbers of include/uapi/linux/capability.h.
CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_KILL": 5,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
    "CAP_SYS_RESOURCE": 24,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
    "CAP_CHECKPOINT_RESTORE": 40,
}
NOTHING: frozenset[str] = frozenset()
# Files of other users can be read, and none can be written.
READING = frozenset({"CAP_DAC_READ_SEARCH"})
RECORDING = READING | {
    # Programs into the OS kernel, and probes of files and CPUs.
    "CAP_BPF",
    "CAP_PERFMON",
    # Memory, files and mappings of processes of other users.
    "CAP_SYS_PTRACE",
    "CAP_CHECKPOINT_RESTORE",
    # The drain goes before what it records; limits bind the target, not its recorder.
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    # Signals that are passed on to a program which has become another user.
    "CAP_KILL",
}

_VERSION_3 = 0x20080522
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 8, 24, 38, 47
_AMBIENT_RAISE = 2
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_PERF_EVENT_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
FOR_PERFMON = 2
"""The highest kernel.perf_event_paranoid that Linux itself knows: CAP_PERFMON is enough for all."""

# include/uapi/linux/landlock.h; the numbers of its system calls are those of every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_OF = 1
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _TRUNCATE = 1 << 0, 1 << 1, 1 << 14
_REMOVE_FOLDER = 1 << 4
# To remove, to make all kinds of entries, and to move between folders.
_CHANGE_FOLDER = sum(1 << bit for bit in range(4, 14))
# The first that lets files be moved between folders, and the first that knows of cutting them off.
_MOVES, _CUTS = 2, 3

_only_for_ourselves: list[bool] = []
"""Whether capabilities are effective only while this installation is read."""

_libc = ctypes.CDLL(None, use_errno=True)


def confine(
    identity: Identity | None, keep: Collection[str], *, aside: Collection[str] = NOTHING
) -> None:
    """Become a user (None: stay the one we are), with these capabilities as far as we have them.

    aside: those that are permitted, and effective at no time but when a thread of ours asks for it.
    Call it while this process has one thread: capabilities belong to threads. Raises OSError.
    """
    mask, laid_aside = (_mask(names) & _permitted() for names in (keep, aside))
    if identity is not None:
        _prctl(_PR_SET_KEEPCAPS, 1)
    _drop_bounding(mask)
    if identity is not None:
        # In this order: without root there is no right left to change groups.
        os.setgroups(identity.groups)
        os.setresgid(identity.gid, identity.gid, identity.gid)
        os.setresuid(identity.uid, identity.uid, identity.uid)
    _set_capabilities(mask | laid_aside, effective=0 if _only_for_ourselves else mask)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if (
        not _only_for_ourselves
        and mask >> CAPABILITIES["CAP_DAC_READ_SEARCH"] & 1
        and not _can_read_ourselves()
    ):
        # What we start is Python, too, and lies where only root may look.
        _prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, CAPABILITIES["CAP_DAC_READ_SEARCH"])


def needed_to_read_ourselves() -> frozenset[str]:
    """Return what it takes to load more of this installation, which may be closed to the user."""
    return NOTHING if _can_read_ourselves() else READING


def use_only_for_ourselves(rights: Collection[str]) -> None:
    """Have these capabilities effective while this installation is read, and at no other time.

    That is where a module is imported, or a file of a package read as importlib.resources does.
    They stay permitted: that keeps files of root from being opened by name, not from whoever has
    taken this process over.
    """
    if _only_for_ourselves:
        return
    _only_for_ourselves.append(True)
    wanted, is_open = _mask(rights), threading.local()

    def with_rights(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes
            if getattr(is_open, "now", False):
                return function(*arguments, **named)
            is_open.now = True
            try:
                _set_capabilities(_permitted(), effective=_permitted() & wanted)
                return function(*arguments, **named)
            finally:
                _set_capabilities(_permitted(), effective=0)
                is_open.now = False

        return call

    builtins.__import__ = with_rights(builtins.__import__)
    importlib.import_module = with_rights(importlib.import_module)
    path = type(Path())
    # What joinpath() makes of one is one, too.
    own = type("OwnFile", (path,), {"read_text": with_rights(path.read_text)})
    files = with_rights(resources.files)
    resources.files = lambda package: own(str(files(package)))


@contextmanager
def reading_as_ourselves() -> Iterator[None]:
    """Read files in this thread as the user that we are, without the right to read all of them.

    Root itself, which that right adds little to, keeps it.
    """
    if os.geteuid() == 0:
        yield
        return
    permitted, effective = _permitted(), _status("CapEff")
    reads_all = 1 << CAPABILITIES["CAP_DAC_READ_SEARCH"]
    _set_capabilities(permitted, effective=effective & ~reads_all)
    try:
        yield
    finally:
        _set_capabilities(permitted, effective=effective)


def needed_to_write(folder: int) -> frozenset[str]:
    """Return what root needs to write in an open folder: of another user's it has no right."""
    found = os.fstat(folder)
    is_open = found.st_uid == os.geteuid() or bool(found.st_mode & stat.S_IWOTH)
    return NOTHING if is_open or os.geteuid() != 0 else frozenset({"CAP_DAC_OVERRIDE"})


def allow_writes_below(folders: Collection[int], *, removal: Collection[int] = ()) -> bool:
    """Let this thread, and those it starts, change nothing outside of these open folders.

    removal: folders in which, besides, empty folders can be removed.
    Returns whether the OS kernel can do that (Landlock, Linux 5.19), and does.
    """
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_OF)
    if version < _MOVES:
        return False
    write = _WRITE_FILE | _CHANGE_FOLDER | (_TRUNCATE if version >= _CUTS else 0)
    handled = struct.pack("<Q", write | _EXECUTE)
    ruleset = _libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    with closing(ruleset):
        for folder in folders:
            _allow(ruleset, write, folder)
        for folder in removal:
            _allow(ruleset, _REMOVE_FOLDER, folder)
        with closing(os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)) as null:
            _allow(ruleset, write & (_WRITE_FILE | _TRUNCATE), null)
        return bool(_libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)


def _allow(ruleset: int, rights: int, entry: int) -> None:
    rule = struct.pack("<Qi", rights, entry)
    if _libc.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0) != 0:
        raise _error("landlock_add_rule")


def _can_read_ourselves() -> bool:
    """Tell whether the files of this Python and of this package can be read without any right."""
    # Asked of what is effective, which is what loading a module goes by.
    permitted, effective = _permitted(), _status("CapEff")
    _set_capabilities(permitted, effective=0)
    try:
        return os.access(os.__file__, os.R_OK, effective_ids=True) and os.access(
            __file__, os.R_OK, effective_ids=True
        )
    finally:
        _set_capabilities(permitted, effective=effective)


def needed_for_perf_events() -> frozenset[str]:
    """Return what opening perf events takes, beside CAP_PERFMON, on the kernel that runs here.

    Debian's and Ubuntu's ask for CAP_SYS_ADMIN above 2, which is how they are delivered.
    """
    with suppress(OSError, ValueError):
        if int(_PERF_EVENT_PARANOID.read_text()) <= FOR_PERFMON:
            return NOTHING
    return frozenset({"CAP_SYS_ADMIN"})


def _mask(names: Collection[str]) -> int:
    return sum(1 << CAPABILITIES[name] for name in names)


def _permitted() -> int:
    return _status("CapPrm")


def _status(name: str) -> int:
    for line in Path("/proc/thread-self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value, 16)
    return 0


def _set_capabilities(mask: int, *, effective: int | None = None) -> None:
    """Make these the permitted and effective ones of this thread, and what a program may have."""
    now = mask if effective is None else effective
    inherited = mask & _status("CapBnd")
    header = struct.pack("<Ii", _VERSION_3, 0)
    halves = (0, 32)
    data = b"".join(
        struct.pack("<III", *((part >> shift) & 0xFFFFFFFF for part in (now, mask, inherited)))
        for shift in halves
    )
    if _libc.capset(header, data) != 0:
        raise _error("capset")


def _drop_bounding(keep: int) -> None:
    """Take the others from programs that this process starts, too, where we may."""
    last = int(_LAST_CAPABILITY.read_text())
    for number in range(last + 1):
        if not keep >> number & 1:
            with suppress(PermissionError):
                _prctl(_PR_CAPBSET_DROP, number)


def _prctl(option: int, first: int, second: int = 0) -> None:
    if _libc.prctl(option, ctypes.c_ulong(first), ctypes.c_ulong(second), 0, 0) != 0:
        raise _error(f"prctl {option}")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
