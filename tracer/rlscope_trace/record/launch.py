"""Starts the program of launch mode, held back until the probes are attached.

The child is forked at once and waits on a pipe (the gate). Released, it becomes the program, with
the user, environment and signals that the program would have had without us. It stays in our
process group and on our terminal, so Ctrl-C and Ctrl-Z reach it as they always do.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rlscope_trace.errors import (
    CommandNotExecutableError,
    CommandNotFoundError,
    TracerError,
    UsageError,
)
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlscope_trace.privileges import Identity

_RELEASE = b"r"
# Never seen by a user: the child ends so if we are gone or gave up before the release.
_NEVER_RELEASED = 125
# Python sets these to be ignored when it starts, for itself; a program must not inherit that.
# What they were before cannot be found out: they are taken to have been the default.
_SET_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# Next entry of PATH on these, as execvp(3) does.
_NOT_HERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT})


@dataclass(frozen=True, slots=True)
class SignalSetup:
    """Which signals are blocked and which are ignored."""

    blocked: frozenset[int]
    ignored: frozenset[int]

    @classmethod
    def capture(cls) -> SignalSetup:
        """Return the setup of now; taken at start-up it is the one we inherited."""
        everything = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        ignored = {number for number in everything if signal.getsignal(number) == signal.SIG_IGN}
        return cls(
            blocked=frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            ignored=frozenset(ignored.difference(_SET_BY_PYTHON)),
        )

    def restore(self) -> None:
        """Make it the setup of this process; handlers of ours become the default."""
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            wanted = signal.SIG_IGN if number in self.ignored else signal.SIG_DFL
            if signal.getsignal(number) not in (wanted, None):
                signal.signal(number, wanted)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


class Launched:
    """A child of ours: waiting to become the program, being it, or having been it."""

    def __init__(self, pid: int, *, gate: int, report: int, command: Sequence[str]) -> None:
        self.pid = pid
        # Names this child even when its pid is given out again; closed by close().
        self.pidfd = os.pidfd_open(pid)
        self._gate: int | None = gate
        self._report = report
        self._command = command
        self._wait_status: int | None = None

    def release(self, *, patience_s: float = 2.0) -> None:
        """Let the child become the program; raise if there is no such program.

        patience_s: how long that may take. What becomes of it later tells refusal().
        """
        if self._gate is None:
            return
        # A child killed while it waited has no reader left: exit_status() tells of that.
        with suppress(BrokenPipeError):
            os.write(self._gate, _RELEASE)
        self._close_gate()
        refused = self.refusal(patience_s=patience_s)
        if refused is not None:
            self.wait()
            self.close()
            raise refused

    def refusal(self, *, patience_s: float = 0.0) -> TracerError | None:
        """Return why the child could not become the program; None: it is, was, or still may be.

        Whoever has a lease on the file of a program holds its exec up for as long as 45 s.
        """
        if self._report < 0:
            return None
        poller = select.poll()
        poller.register(self._report, select.POLLIN)
        if not poller.poll(patience_s * 1000):
            return None
        # The end of the report is closed by the exec: nothing in it means that it worked.
        report = b""
        while part := os.read(self._report, 4096):
            report += part
        return _launch_error(report, self._command[0]) if report else None

    def poll(self) -> int | None:
        """Return the exit status if the program has ended, else None; never blocks."""
        if self._wait_status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._wait_status = status
        return self.exit_status()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the program to end and return its exit status, or None after `timeout_s`."""
        if self._wait_status is None:
            poller = select.poll()
            poller.register(self.pidfd, select.POLLIN)
            if poller.poll(None if timeout_s is None else timeout_s * 1000):
                self._wait_status = os.waitpid(self.pid, 0)[1]
        return self.exit_status()

    def exit_status(self) -> int | None:
        """Return what a shell would: its own code, 128 + n if signal n killed it, None if alive."""
        if self._wait_status is None:
            return None
        code = os.waitstatus_to_exitcode(self._wait_status)
        return 128 - code if code < 0 else code

    def forward_signal(self, signum: int) -> None:
        """Send the program a signal that only we received; one that has ended needs none."""
        if self._wait_status is None:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.pidfd, signum)

    def abandon(self) -> None:
        """Give up before the release: the child ends without ever being the program."""
        self._close_gate()
        self.wait()
        self.close()

    def close(self) -> None:
        """Close our ends of the pipes and the pidfd; a child that still waits then ends."""
        self._close_gate()
        for name in ("_report", "pidfd"):
            if getattr(self, name) >= 0:
                os.close(getattr(self, name))
                setattr(self, name, -1)

    def _close_gate(self) -> None:
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None


def launch(
    command: Sequence[str],
    *,
    identity: Identity | None,
    environment: Mapping[str, str],
    cwd: Path | None = None,
    signals: SignalSetup | None = None,
) -> Launched:
    """Fork the child that will be `command`; it runs nothing of it before `release()`.

    `signals` is what the program gets, by default what we have now: call this, or capture it,
    before handlers are set, and before threads are started.
    """
    if not command:
        raise UsageError("no command to run", hint="rlscope-trace -- python train.py")
    setup = signals or SignalSetup.capture()
    gate_read, gate_write = os.pipe2(os.O_CLOEXEC)
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        # Inherited so, it would let the child vanish together with its exit code.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A signal must not run our handlers in the child before it has dropped them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = _fork()
        if pid == 0:
            os.close(gate_write)
            os.close(report_read)
            program = _Program(list(command), identity, dict(environment), cwd)
            _run_child(program, setup=setup, gate=gate_read, report=report_write)
    except OSError as error:
        os.close(gate_write)
        os.close(report_read)
        raise TracerError(f"no process for {command[0]}: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(gate_read)
        os.close(report_write)
    return Launched(pid, gate=gate_write, report=report_read, command=command)


def _fork() -> int:
    # Libraries may have threads of their own by now, of which Python 3.12 warns; the child of such
    # a fork must only not take their locks, and it makes system calls and nothing else.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@dataclass(frozen=True, slots=True)
class _Program:
    """What the child is to become."""

    command: list[str]
    identity: Identity | None
    environment: dict[str, str]
    cwd: Path | None


class _StepError(Exception):
    """A step of the child failed: what it was, for the report."""

    def __init__(self, step: str, error: OSError, name: str) -> None:
        super().__init__(step)
        self.report = f"{step}\0{error.errno or 0}\0{name}"


def _run_child(program: _Program, *, setup: SignalSetup, gate: int, report: int) -> NoReturn:
    """Wait for the release, then become the program; never returns to the code of the parent."""
    try:
        setup.restore()
        if os.read(gate, 1) == _RELEASE:
            _become(program)
    except _StepError as error:
        os.write(report, os.fsencode(error.report))
    finally:
        # No clean-up of the parent's: no buffers flushed twice, no exit handlers.
        os._exit(_NEVER_RELEASED)


def _become(program: _Program) -> NoReturn:
    identity = program.identity
    if identity is not None:
        _step("user", str(identity.uid), lambda: _drop_to(identity))
    if program.cwd is not None:
        cwd = program.cwd
        _step("cwd", str(cwd), lambda: os.chdir(cwd))
    _execute(program.command, program.environment)


def _step(name: str, subject: str, action: Callable[[], None]) -> None:
    try:
        action()
    except OSError as error:
        raise _StepError(name, error, subject) from error


def _drop_to(identity: Identity) -> None:
    # In this order: without root there is no right left to change groups.
    os.setgroups(identity.groups)
    os.setresgid(identity.gid, identity.gid, identity.gid)
    os.setresuid(identity.uid, identity.uid, identity.uid)


def program_file(command: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """Return the file that the command will run, or None if that is not clear beforehand."""
    for candidate in _candidates(command[0], environment) if command else ():
        if os.access(candidate, os.X_OK) and Path(candidate).is_file():
            return Path(candidate)
    return None


def require_program(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise CommandNotFoundError where there is nothing that the command could run."""
    name = command[0]
    if not any(os.path.lexists(path) for path in _candidates(name, environment)):
        raise CommandNotFoundError(f"{name}: command not found")


def _candidates(name: str, environment: Mapping[str, str]) -> list[str]:
    """Return the paths to try; an empty entry of PATH is the current directory."""
    if "/" in name:
        return [name]
    if not name:
        return []
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    return [f"{folder or '.'}/{name}" for folder in folders]


def _execute(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Do what a shell does, which os.execvpe does not quite: scripts without #! run in sh."""
    refused: _StepError | None = None
    for path in _candidates(command[0], environment):
        error = _execute_path(path, command, environment)
        # A script whose interpreter is missing gives ENOENT too, though it is there itself.
        if error.errno in _NOT_HERE and not Path(path).exists():
            continue
        step = "interpreter" if error.errno == errno.ENOENT else "exec"
        refused = refused or _StepError(step, error, path)
        if error.errno not in _NOT_HERE and error.errno != errno.EACCES:
            break
    if refused:
        raise refused
    raise _StepError("find", FileNotFoundError(errno.ENOENT, ""), command[0])


def _execute_path(path: str, command: list[str], environment: dict[str, str]) -> OSError:
    """Become the program at `path`, or return why not."""
    try:
        try:
            os.execve(path, command, environment)
        except OSError as error:
            if error.errno != errno.ENOEXEC or not _is_text(path):
                raise
            os.execve("/bin/sh", ["sh", path, *command[1:]], environment)
    except OSError as error:
        return error


def _is_text(path: str) -> bool:
    """Return whether it can be a script, by bash's rule: no NUL in its beginning."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return b"\0" not in os.read(fd, 80)


def _launch_error(report: bytes, name: str) -> TracerError:
    """Return the error that the child reported."""
    step, number, subject = os.fsdecode(report).split("\0")
    reason = os.strerror(int(number)).lower()
    if step == "find":
        return CommandNotFoundError(f"{name}: command not found")
    if step == "interpreter":
        message = f"{subject} cannot be executed: the interpreter it names does not exist"
        return CommandNotExecutableError(message, hint=shell_line(["head", "-1", subject]))
    if step == "exec":
        hint = shell_line(["ls", "-l", subject])
        return CommandNotExecutableError(f"{subject} cannot be executed: {reason}", hint=hint)
    if step == "user":
        hint = "run it without sudo, as a user with CAP_BPF and CAP_PERFMON"
        return TracerError(f"{name} cannot run as user {subject}: {reason}", hint=hint)
    return TracerError(f"{subject} cannot be the working directory: {reason}")
