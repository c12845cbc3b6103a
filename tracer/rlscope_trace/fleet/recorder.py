"""A recorder of this machine that outlives whoever started it: started, kept alive, and ended.

It is a process of its own, in no process group and no session of the starter's, and saves by itself
when nobody has renewed its lease (`rlscope_trace.record.lease`). So whoever comes later can go on
with it by what `Started` says.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import Said, TracerError
from rlscope_trace.installed import own_command, require_recorder
from rlscope_trace.procfs import is_running
from rlscope_trace.record.lease import renew
from rlscope_trace.spool.directory import process_start_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_START_PATIENCE_S = 30.0
_TICK_S = 0.02
_ABANDON_S = 5.0
_WORDS_BYTES = 16_000
_LOG, _LEASE, _IDENTITY = "recorder.log", "lease", "ray.json"


@dataclass(frozen=True, slots=True)
class Recording:
    """What is to be recorded, and where."""

    output: str
    """Where the trace is to be."""
    session: str
    """Where shims announce themselves."""
    lease_s: float
    pids: tuple[int, ...]
    """Processes to record: a raylet, and its drivers."""
    options: tuple[str, ...] = ()
    """More of `rlscope-trace record`'s."""
    of_user: int | None = None
    """Whose processes may be named; None: anybody's."""


@dataclass(frozen=True, slots=True)
class Started:
    """A recorder that runs; enough for others to take it over."""

    pid: int
    born: str | None
    """When it was started, as /proc counts it: another process may get its pid."""
    folder: str
    """Where its lease and its log are."""
    output: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class Left:
    """What a recorder left."""

    words: str
    """What it said, the last of it."""
    was_recovered: bool
    """Whether it was killed, and its trace made of what it had recorded."""


def refusal() -> tuple[str | None, str | None]:
    """Return why this process cannot record here, and what helps."""
    try:
        require_recorder()
        from rlscope_trace.record.preflight import run_checks, tracing_works

        findings = run_checks(None, argv=["doctor"])
    except TracerError as error:
        return str(error), next(iter(error.hints), None)
    if tracing_works(findings):
        return None, None
    first = next(one for one in findings if one.level == "error")
    return first.what, first.remedy


def start(order: Recording, folder: Path) -> Started:
    """Start a recorder, and wait until it records. Raises TracerError, OSError.

    folder: one of its own.
    """
    renew(folder / _LEASE, order.lease_s)
    command = [
        *own_command("rlscope_trace"), "record", "--pid", ",".join(map(str, order.pids)),
        "--output", order.output, "--session", order.session,
        "--lease", str(folder / _LEASE), "--ray", str(folder / _IDENTITY),
        "--progress", "never", *order.options,
        *(() if order.of_user is None else ("--of-user", str(order.of_user))),
    ]  # fmt: skip
    pid = _start_detached(command, folder / _LOG)
    started = Started(pid, process_start_time(pid), str(folder), order.output, order.lease_s)
    end_s = time.monotonic() + _START_PATIENCE_S
    while b"tracing pid" not in _words(folder):
        if not runs(started):
            raise _error_of(_words(folder))
        if time.monotonic() > end_s:
            abandon(started)
            raise TracerError(f"the recorder did not start within {_START_PATIENCE_S:.0f} s")
        renew(folder / _LEASE, order.lease_s)
        time.sleep(_TICK_S)
    return started


def go_on(started: Started, pids: Iterable[int] = ()) -> bool:
    """Renew the lease of a recorder, and tell whether it runs.

    pids: processes that it is to trace, too.
    """
    renew(Path(started.folder, _LEASE), started.lease_s, pids)
    return runs(started)


def end(started: Started, identity: str | None, patience_s: float) -> Left:
    """Let a recorder save, or recover what it had recorded where it was killed.

    identity: what is known of the processes of Ray, as JSON. Who comes while another one does that
    waits for it. Raises OSError.
    """
    folder, output = Path(started.folder), Path(started.output)
    with _alone(folder):
        if identity is not None:
            written = folder / f"{_IDENTITY}.new"
            written.write_text(identity)
            written.replace(folder / _IDENTITY)
        stop(started)
        end_s = time.monotonic() + patience_s
        while runs(started) and time.monotonic() < end_s:
            with suppress(OSError):
                renew(folder / _LEASE, started.lease_s)
            time.sleep(_TICK_S)
        words, was_recovered = _words(folder).decode("utf-8", "replace"), False
        if not output.exists() and not runs(started) and Path(f"{output}.spool").is_dir():
            words += _recover(output, patience_s)
            was_recovered = output.exists()
    return Left(words, was_recovered)


def stop(started: Started) -> None:
    """Tell a recorder to save and end."""
    if runs(started):
        with suppress(ProcessLookupError):
            os.kill(started.pid, signal.SIGTERM)


def abandon(started: Started) -> None:
    """End a recorder that nobody will ask after, in whatever state it is."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end_s = time.monotonic() + _ABANDON_S
        while runs(started) and time.monotonic() < end_s:
            with suppress(ProcessLookupError):
                os.kill(started.pid, number)
            time.sleep(_ABANDON_S / 10)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep all others out that end the same recorder."""
    with (folder / "ending").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def runs(started: Started) -> bool:
    """Tell whether a recorder still runs."""
    return is_running(started.pid) and process_start_time(started.pid) == started.born


def forget(started: Started) -> None:
    """Remove what belongs to a recorder that has ended, besides its trace."""
    if not runs(started):
        shutil.rmtree(started.folder, ignore_errors=True)


def environment() -> dict[str, str]:
    """Return our environment without what makes a process report itself, or belong to Ray."""
    dropped = ("RAY_", "RLSCOPE_SESSION", "RLSCOPE_AUTO", "NVTX_INJECTION", "CUDA_INJECTION")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


def _start_detached(command: Sequence[str], log: Path) -> int:
    """Start a process whose parent, session and process group are not ours; return its pid.

    Ray ends the children of its workers with them.
    """
    with log.open("xb") as output:
        child = subprocess.Popen(
            [sys.executable, "-c", _DETACH, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, close_fds=True,
            start_new_session=True, cwd="/", env=environment(),
        )  # fmt: skip
        with child:
            pid = child.stdout.read() if child.stdout is not None else b""
    if not pid:
        raise TracerError("cannot start a recorder", hint="is there memory for another process?")
    return int(pid)


# The first child ends at once, so that the second one belongs to nobody.
_DETACH = """
import os, sys
if os.fork() == 0:
    os.write(1, str(os.getpid()).encode())
    os.dup2(2, 1)
    os.execv(sys.argv[1], sys.argv[1:])
"""


def _words(folder: Path) -> bytes:
    log = folder / _LOG
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _WORDS_BYTES, 0))
            return file.read()
    except OSError:
        return b""


def _error_of(words: bytes) -> TracerError:
    """Return what a recorder that did not start said of it."""
    said = Said.of(words.decode("utf-8", "replace"))
    why = "; ".join(said.errors) or "the recorder ended without a word"
    return TracerError(why, hint=said.hints[0] if said.hints else None)


def _recover(output: Path, patience_s: float) -> str:
    try:
        done = subprocess.run(
            [*own_command("rlscope_trace"), "recover", f"{output}.spool", "--output", str(output)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, cwd="/", env=environment(), timeout=patience_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"error: its spool was not recovered within {patience_s:.0f} s\n"
    return done.stdout.decode("utf-8", "replace")
