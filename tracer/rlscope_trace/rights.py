"""What each kind of command keeps of root's rights: as little as it can, from its first moment.

Under sudo a command is the user that called it from here on, so that no file is read or written
with more rights than that user has. Root itself keeps its user id, but hardly a capability.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.confinement import (
    NOTHING,
    READING,
    RECORDING,
    allow_writes_below,
    confine,
    needed_for_perf_events,
    needed_to_read_ourselves,
    needed_to_write,
    use_only_for_ourselves,
)
from rlscope_trace.errors import TracerError
from rlscope_trace.outputs.place import PRIVATE_MODE, open_place
from rlscope_trace.outputs.trusted import LOOK_ONLY
from rlscope_trace.privileges import invoking_environment
from rlscope_trace.system_calls import refuse_all_but_saving

if TYPE_CHECKING:
    from rlscope_trace.privileges import Identity

_is_own_process = False

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_PLACES = ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
# What root needs to write into a folder of another user.
_OVERRIDE = frozenset({"CAP_DAC_OVERRIDE"})
_OWN_STATUS = Path("/proc/self/status")
_ROOT_HINT = "env -u SUDO_UID -u SUDO_GID rlscope-trace ... is root itself"


def own_process() -> None:
    """Say that this process is a command and nothing else. Raises TracerError without /proc.

    Any other, which calls the command line from Python, keeps its rights. So does one on a system
    that has none of these: capabilities, Landlock and seccomp are of Linux.
    """
    global _is_own_process
    _is_own_process = sys.platform == "linux"
    if _is_own_process and not _OWN_STATUS.exists():
        raise TracerError(
            "there is no /proc here, which tells what rights this process has to give up",
            hint="mount -t proc proc /proc",
        )
    # Threads of numerical libraries would keep the rights of the moment that they are loaded at.
    os.environ.update(dict.fromkeys(_THREADS, "1"))


def become_recorder(identity: Identity | None, *, more: frozenset[str] = NOTHING) -> None:
    """Keep what recording needs, and `more` of root itself.

    Call it after the program was forked, before any thread is started.
    """
    if _is_own_process:
        # What is made from here on is for its owner; the program that was started has its own mask.
        os.umask(0o077)
    keep = RECORDING | (NOTHING if identity else _OVERRIDE | more)
    _confine(identity, keep, aside=needed_for_perf_events())


def keep_for_folder(identity: Identity | None, folder: int) -> None:
    """Give up the right to write anywhere, unless the folder of the output needs it."""
    if identity is None and not needed_to_write(folder):
        _confine(None, RECORDING, aside=needed_for_perf_events())


def become_saver(
    identity: Identity | None,
    *outputs: Path,
    mode: int = PRIVATE_MODE,
    scratch: Path | None = None,
    more: frozenset[str] = NOTHING,
) -> None:
    """Keep what it takes to write these files, and to read: nothing else can be changed any more.

    Outputs that do not exist yet are meant, too; they get these permissions, which nothing can
    change later. scratch: a folder of ours that is removed later.
    identity: who called sudo, where this process is not yet that user. more: as for a recorder;
    with it, owners and modes of what can be written can be changed.
    """
    become_invoker(identity)
    if not _is_own_process:
        return
    keep = READING if os.geteuid() == 0 else _to_load_modules()
    folders: list[int] = []
    above: list[int] = []
    for output in outputs:
        # What cannot be opened is reported when it is written.
        with suppress(OSError, ValueError), open_place(output) as place:
            keep |= needed_to_write(place.folder)
            folders.append(os.dup(place.folder))
            if elsewhere := place.elsewhere():
                folders.append(os.dup(elsewhere.descriptor))
                above.append(os.open(elsewhere.shown.parent, LOOK_ONLY))
    if scratch is not None:
        folders.append(os.open(scratch, LOOK_ONLY))
        above.append(os.open(scratch.parent, LOOK_ONLY))
    _confine(None, keep | more)
    # Of a file only: folders are made with permissions of their own.
    os.umask(~mode & 0o666)
    allow_writes_below(folders, removal=above)
    if not more:
        refuse_all_but_saving()
    for folder in (*folders, *above):
        os.close(folder)


def become_invoker(identity: Identity | None) -> None:
    """Become the user that called sudo, unless this process is that user already."""
    if identity is not None and identity.uid != os.geteuid():
        become_reader(identity)


def leave_no_rights() -> None:
    """Keep none for the program that this process starts next; root itself reads all files."""
    _confine(None, READING if os.geteuid() == 0 else NOTHING)


def become_reader(identity: Identity | None) -> None:
    """Keep what it takes to read, and, as root itself, to write where a command is asked to."""
    _confine(identity, READING if identity else READING | _OVERRIDE)
    if identity is not None:
        _confine(None, _to_load_modules())


def _to_load_modules() -> frozenset[str]:
    """Return what stays to read this installation, and see that it is used for nothing else."""
    keep = needed_to_read_ourselves() if _is_own_process else NOTHING
    if keep:
        use_only_for_ourselves(keep)
    return keep


def _confine(
    identity: Identity | None, keep: frozenset[str], *, aside: frozenset[str] = NOTHING
) -> None:
    if not _is_own_process:
        return
    if identity is not None:
        # Where the user keeps things, which is not where root does.
        user = invoking_environment(identity)
        os.environ.update({name: user[name] for name in _PLACES if name in user})
    try:
        confine(identity, keep, aside=aside)
    except OSError as error:
        who = f"user {identity.uid}" if identity else "root without its capabilities"
        raise TracerError(f"cannot become {who}: {error.strerror}", hint=_ROOT_HINT) from error
