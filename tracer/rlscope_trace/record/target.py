"""Finds the processes of `--pid`, holds them by pidfd, and says what is wrong with the others."""

from __future__ import annotations

import errno
import os
import pwd
import select
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import PermissionNeededError, TargetGoneError, TracerError, UsageError
from rlscope_trace.privileges import ancestors
from rlscope_trace.procfs import printable, split_stat, users_of
from rlscope_trace.record.preflight.capabilities import effective_capabilities
from rlscope_trace.record.preflight.finding import sudo_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROC = Path("/proc")
# include/linux/sched.h: set for good on threads that have no user space.
PF_KTHREAD = 0x00200000
# Largest pid the OS kernel gives out (PID_MAX_LIMIT); pidfd_open would overflow on some others.
PID_LIMIT = 4194304
FIND_HINT = "find it with: pgrep -af python"


@dataclass(frozen=True, slots=True)
class Target:
    """A process to trace; the pidfd keeps meaning this process if its pid is given out again."""

    pid: int
    pidfd: int
    comm: str
    """As a message may show it: a process can call itself anything."""
    uid: int
    # An ancestor of ours: tracing its descendants traces the recorder too.
    includes_recorder: bool


@dataclass(frozen=True, slots=True)
class _Process:
    """What /proc says of one process."""

    comm: str
    flags: int
    leader: int
    uid: int


def parse_pids(values: Iterable[str]) -> list[int]:
    """Return the pids of all `--pid` values, each a comma list, in order and without duplicates."""
    words = [word.strip() for value in values for word in value.split(",")]
    wrong = [word for word in words if not _is_pid(word)]
    if wrong:
        problems = (f"--pid {word!r} is not a process id" for word in dict.fromkeys(wrong))
        raise UsageError(*problems, hint="rlscope-trace --pid 4242,4243")
    return list(dict.fromkeys(int(word) for word in words))


def _is_pid(word: str) -> bool:
    # int() takes more than a pid: signs, underscores, other scripts; and refuses 5,000 digits.
    return word.isascii() and word.isdigit() and len(word) <= 10 and int(word) > 0


def resolve(values: Iterable[str], *, argv: Sequence[str], proc: Path = PROC) -> list[Target]:
    """Open every process of `--pid`, or raise one error that has a line for each wrong one.

    `argv` is the user's command line, for the hint to run it again with sudo.
    """
    found = [_open_or_problem(pid, argv=argv, proc=proc) for pid in parse_pids(values)]
    targets = [item for item in found if isinstance(item, Target)]
    problems = [item for item in found if isinstance(item, TracerError)]
    if problems:
        close(targets)
        raise _combined(problems)
    return targets


def require_user(targets: Sequence[Target], uid: int) -> None:
    """Close all of them and raise PermissionNeededError where one is not wholly of a user.

    Of a process that is open, so that no other one has its pid since.
    """
    others = [one for one in targets if users_of(one.pid) != {uid} or _has_ended(one.pidfd)]
    if others:
        close(targets)
        names = ", ".join(f"{one.pid} ({one.comm})" for one in others)
        raise PermissionNeededError(f"pid {names} is not of user {uid}", hint=FIND_HINT)


def close(targets: Iterable[Target]) -> None:
    """Let the processes go: closes their pidfds."""
    for target in targets:
        os.close(target.pidfd)


def alive(targets: Iterable[Target]) -> list[Target]:
    """Return those that still run; a process is gone when its last thread has ended."""
    return [target for target in targets if not _has_ended(target.pidfd)]


def _combined(problems: list[TracerError]) -> TracerError:
    """Return one error of many; of their own type where all agree."""
    types = {type(problem) for problem in problems}
    kind = types.pop() if len(types) == 1 else TracerError
    hints = dict.fromkeys(hint for problem in problems for hint in problem.hints)
    return kind(*map(str, problems), hint=tuple(hints))


def _has_ended(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def _open_or_problem(pid: int, *, argv: Sequence[str], proc: Path) -> Target | TracerError:
    try:
        return _open(pid, argv=argv, proc=proc)
    except TracerError as problem:
        return problem


def _open(pid: int, *, argv: Sequence[str], proc: Path) -> Target:
    if pid == os.getpid():
        message = f"pid {pid} is rlscope-trace itself"
        raise UsageError(message, hint="name the training process, " + FIND_HINT)
    pidfd = _open_pidfd(pid, proc=proc)
    try:
        return _examine(pid, pidfd, argv=argv, proc=proc)
    except BaseException:
        os.close(pidfd)
        raise


def _open_pidfd(pid: int, *, proc: Path) -> int:
    try:
        if pid <= PID_LIMIT:
            return os.pidfd_open(pid)
    except OSError as error:
        # EINVAL, and ENOENT since 6.16, for a thread that does not lead its process.
        if error.errno in (errno.EINVAL, errno.ENOENT):
            process = _read_process(pid, proc)
            if process and process.leader != pid:
                raise _thread_error(pid, process) from error
        elif error.errno != errno.ESRCH:
            raise TracerError(f"pid {pid} cannot be opened: {error.strerror}") from error
    raise TargetGoneError(f"no process has pid {pid}", hint=FIND_HINT)


def _thread_error(tid: int, process: _Process) -> UsageError:
    message = f"{tid} is a thread ({process.comm}) of the process with pid {process.leader}"
    return UsageError(message, hint=f"rlscope-trace --pid {process.leader}")


def _examine(pid: int, pidfd: int, *, argv: Sequence[str], proc: Path) -> Target:
    """Return the target behind an open pidfd, or raise what is wrong with it."""
    process = _read_process(pid, proc)
    if _has_ended(pidfd):
        # A zombie whose threads have all ended; a leader that ended before its threads still runs.
        comm = f" ({process.comm})" if process else ""
        raise TargetGoneError(f"the process with pid {pid}{comm} has ended", hint=FIND_HINT)
    if process is None:
        message = f"pid {pid} is a process that /proc does not show: mounted with hidepid"
        raise PermissionNeededError(message, hint=sudo_command(argv))
    if process.leader != pid:
        raise _thread_error(pid, process)
    if process.flags & PF_KTHREAD:
        message = f"pid {pid} is a kernel thread ({process.comm}): it runs no program"
        raise TracerError(message, hint=FIND_HINT)
    if process.uid != os.geteuid() and not _may_read_others():
        message = f"pid {pid} ({process.comm}) belongs to user {_user_name(process.uid)}"
        raise PermissionNeededError(message, hint=sudo_command(argv))
    return Target(
        pid=pid,
        pidfd=pidfd,
        comm=process.comm,
        uid=process.uid,
        includes_recorder=any(pid == above for above, _ in ancestors(proc=proc)),
    )


def _may_read_others() -> bool:
    return "CAP_SYS_PTRACE" in effective_capabilities(Path("/proc/self/status").read_text())


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _read_process(pid: int, proc: Path) -> _Process | None:
    """Return what /proc says, or None if it says nothing."""
    folder = proc / str(pid)
    try:
        stat_text = os.fsdecode((folder / "stat").read_bytes())
        status = os.fsdecode((folder / "status").read_bytes())
    except OSError:
        return None
    return parse_process(stat_text, status=status)


def parse_process(stat_text: str, *, status: str) -> _Process:
    """Return the facts in the texts of stat and status of one process."""
    comm, fields = split_stat(stat_text)
    values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return _Process(
        comm=printable(comm),
        flags=int(fields[6]),
        leader=int(values["Tgid"]),
        uid=int(values["Uid"].split()[1]),
    )
