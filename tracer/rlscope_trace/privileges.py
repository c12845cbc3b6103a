"""Who called us through sudo, with which environment, and giving the trace to that user."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rlscope_trace.errors import TracerError
from rlscope_trace.procfs import split_stat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

PROC = Path("/proc")
OWN_ENVIRON = PROC / "self" / "environ"
# sudo-rs keeps the name `sudo` as a rule, but not where it is installed beside the other.
SUDO_NAMES = frozenset({"sudo", "sudo-rs"})
# Set by sudo, by the PAM modules of its session or by a shell in between: of the root session,
# and wrong for the user's own program.
SUDO_VARIABLES = frozenset(
    {
        "HOME",
        "USER",
        "LOGNAME",
        "USERNAME",
        "MAIL",
        "SHELL",
        "PATH",
        "TERM",
        "COLORTERM",
        "XAUTHORITY",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    }
)
SUDO_PREFIXES = ("SUDO_", "XDG_SESSION_")


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that a launched program runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str | None


def invoking_identity(environ: Mapping[str, str] | None = None) -> Identity | None:
    """Return the user that called sudo, or None without sudo: then nothing needs to change.

    The variables are believed of root only: anybody can set them, and only sudo runs us as root.
    """
    env = os.environ if environ is None else environ
    if os.geteuid() != 0 or "SUDO_UID" not in env or "SUDO_GID" not in env:
        return None
    uid, gid = _parse_id(env, "SUDO_UID"), _parse_id(env, "SUDO_GID")
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return Identity(uid=uid, gid=gid, groups=(gid,), name=None)
    return Identity(uid=uid, gid=gid, groups=tuple(os.getgrouplist(name, gid)), name=name)


def _parse_id(env: Mapping[str, str], key: str) -> int:
    """Return the number in `key`; a wrong one must never end as root."""
    text = env[key]
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**32 - 1:
        return int(text)
    raise TracerError(f"{key} is {text!r}, which is no id", hint="unset SUDO_UID SUDO_GID")


def parse_environ(data: bytes) -> dict[str, str]:
    """Return the variables in the bytes of a /proc/PID/environ; the first of a name counts."""
    variables: dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, separator, value = entry.partition(b"=")
        if separator and name:
            variables.setdefault(os.fsdecode(name), os.fsdecode(value))
    return variables


def parse_parent(stat_text: str) -> tuple[str, int]:
    """Return (comm, parent pid) from a /proc/PID/stat; comm may hold spaces and brackets."""
    comm, fields = split_stat(stat_text)
    return comm, int(fields[1])


def ancestors(*, proc: Path = PROC, pid: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield (pid, comm) of the processes above ours, the nearest first; `pid` is that nearest."""
    ancestor = os.getppid() if pid is None else pid
    while ancestor > 0:
        try:
            comm, parent = parse_parent(os.fsdecode((proc / str(ancestor) / "stat").read_bytes()))
        except (OSError, ValueError):
            return
        yield ancestor, comm
        ancestor = parent


def sudo_environment(*, proc: Path = PROC, pid: int | None = None) -> dict[str, str] | None:
    """Return the environment that the nearest sudo above us was started with, if there is one.

    With `use_pty` there are two sudo processes, the nearer being a fork with the same environment.
    """
    for ancestor, comm in ancestors(proc=proc, pid=pid):
        if comm in SUDO_NAMES:
            try:
                data = (proc / str(ancestor) / "environ").read_bytes()
            except OSError:
                return None
            return parse_environ(data) or None
    return None


def _is_sudos(name: str) -> bool:
    return name in SUDO_VARIABLES or name.startswith(SUDO_PREFIXES)


def merge_environment(user: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment and what the command line added: `sudo FOO=1 rlscope-trace`.

    Ours wins, as somebody must have written it there, except where sudo itself sets the variable.
    """
    return {**user, **{name: value for name, value in ours.items() if not _is_sudos(name)}}


def corrected_environment(ours: Mapping[str, str], identity: Identity) -> dict[str, str]:
    """Return our environment as the user's, for when the one sudo was started with is not known."""
    corrected = {name: value for name, value in ours.items() if not name.startswith(SUDO_PREFIXES)}
    for name in ("XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "MAIL"):
        corrected.pop(name, None)
    try:
        entry = pwd.getpwuid(identity.uid)
    except KeyError:
        for name in ("HOME", "USER", "LOGNAME", "SHELL"):
            corrected.pop(name, None)
        return corrected
    corrected.update(
        HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name, SHELL=entry.pw_shell
    )
    return corrected


def invoking_environment(
    identity: Identity | None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment that a launched program would have had without us and sudo."""
    # As it was at our exec: Python adds LC_CTYPE to os.environ where there was no locale.
    ours = parse_environ(OWN_ENVIRON.read_bytes()) if environ is None else dict(environ)
    if identity is None:
        return ours
    user = sudo_environment()
    return corrected_environment(ours, identity) if user is None else merge_environment(user, ours)


def may_read(path: Path, uid: int, groups: Collection[int], *, below: int = 0) -> bool:
    """Tell whether a user may read a file and pass the folders above it, by their modes.

    below: how many parts of the path lie above the first folder that matters.
    """
    if uid == 0:
        return True
    folders = list(path.parents)[: len(path.parts) - max(below, 1)]
    return _has_right(path.stat(), uid, groups, stat.S_IROTH) and all(
        _has_right(folder.stat(), uid, groups, stat.S_IXOTH) for folder in folders
    )


def _has_right(found: os.stat_result, uid: int, groups: Collection[int], right: int) -> bool:
    """`right` is that of others; the owner's and the group's stand above it."""
    if found.st_uid == uid:
        return bool(found.st_mode & right << 6)
    if found.st_gid in groups:
        return bool(found.st_mode & right << 3)
    return bool(found.st_mode & right)


def chown_to_invoker(path: Path, identity: Identity | None) -> None:
    """Give a file or a folder of ours, with all that is in it, to the user that called sudo.

    Symbolic links are never followed, and files that are not ours or have a second name are left
    as they are: the folder may belong to the user, who could have put another file in their place.
    """
    if identity is None:
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if not path.is_symlink() and path.is_dir():
        for _, _, names, directory_fd in os.fwalk(path, follow_symlinks=False):
            _chown_open(directory_fd, identity)
            for name in names:
                _chown_entry(name, flags, identity, directory_fd)
    else:
        _chown_entry(os.fspath(path), flags, identity, None)


def _chown_entry(name: str, flags: int, identity: Identity, directory_fd: int | None) -> None:
    try:
        fd = os.open(name, flags, dir_fd=directory_fd)
    except OSError:
        # A link (ELOOP), or gone: neither is a file of ours.
        return
    try:
        _chown_open(fd, identity)
    finally:
        os.close(fd)


def _chown_open(fd: int, identity: Identity) -> None:
    found = os.fstat(fd)
    single = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
    if single and found.st_uid == os.geteuid():
        os.fchown(fd, identity.uid, identity.gid)


@contextmanager
def acting_as(identity: Identity | None) -> Iterator[None]:
    """Act as a user on files, whatever we may do ourselves; None: as ourselves."""
    if identity is None:
        yield
        return
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups(identity.groups)
    os.setegid(identity.gid)
    os.seteuid(identity.uid)
    try:
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)


def read_small(path: Path, most_bytes: int) -> str:
    """Return the text of a file that somebody else may have made.

    Raises OSError where it is a link, no regular file, or larger: nothing else is read, or waited
    for; UnicodeDecodeError.
    """
    with open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    return data.decode()


def open_regular(path: Path) -> BinaryIO:
    """Open a file that somebody else may have made, for reading; OSError where it is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
    return file
