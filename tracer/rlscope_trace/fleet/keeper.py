"""What runs on each node: it starts a recorder, keeps it alive, and gives back what it wrote.

A keeper is an actor of Ray and ends with the job that made it, or when somebody kills it. The
recorder is a process of its own, in no process group and no session of Ray's, so that it outlives
all of them; it saves by itself when nobody has renewed its lease (`rlscope_trace.record.lease`). So
a keeper that comes later can take it over by what `Started` says.

Nothing here imports Ray: the coordinator makes an actor of the class.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.fleet.members import MANIFEST, PARTIAL_SUFFIX
from rlscope_trace import __version__
from rlscope_trace.errors import TracerError
from rlscope_trace.fleet.bucket import Bucket, store_of
from rlscope_trace.fleet.clock_link import ClockAsker, ClockPairs, ClockServer
from rlscope_trace.installed import own_command, require_recorder
from rlscope_trace.procfs import is_running
from rlscope_trace.record.lease import renew
from rlscope_trace.spool.directory import process_start_time

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOCK_TICK_S = 0.1
_START_PATIENCE_S = 30.0
_WORDS_BYTES = 16_000
_LOG, _LEASE, _IDENTITY = "recorder.log", "lease", "ray.json"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node says of itself."""

    host: str
    version: str
    python: str
    raylet_pid: int
    refusal: str | None
    """Why nothing can be recorded there; None: it can be."""
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What a keeper is to record."""

    output: str
    """Where the trace is to be, on the node; or in an object store."""
    session: str
    """Where shims announce themselves, with the pid of their raylet behind it."""
    lease_s: float
    options: tuple[str, ...] = ()
    """More of `rlscope-trace record`'s."""
    pids: tuple[int, ...] = ()
    """Processes beside those of the raylet, such as drivers."""


@dataclass(frozen=True, slots=True)
class Started:
    """A recorder that runs; enough for another keeper to take it over."""

    pid: int
    born: str | None
    """When it was started, as /proc counts it: another process may get its pid."""
    folder: str
    output: str
    lease_s: float
    store: str | None = None
    """Where the trace is copied to in the end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a recorder left."""

    output: str
    has_trace: bool
    was_recovered: bool
    words: str
    """What it said, the last of it."""
    partial: bytes | None
    """The answer about the trace, as `fleet summarize` keeps it beside it."""
    mark: str | None
    """Of which trace that is."""
    pairs: list[tuple[int, int]] = field(default_factory=list)
    pair_bound_ns: int = 0
    knots: list[tuple[int, int, int]] = field(default_factory=list)


class Keeper:
    """Keeps one recorder on the node that it runs on."""

    def __init__(self) -> None:
        self._pids: tuple[int, ...] = ()
        self._pairs = ClockPairs()
        self._server: ClockServer | None = None
        self._asker: ClockAsker | None = None
        threading.Thread(target=self._read_clocks, name="rls-pairs", daemon=True).start()

    def facts(self) -> NodeFacts:
        """Say whether something can be recorded here."""
        refusal, remedy = _refusal()
        raylet = int(os.environ.get("RAY_RAYLET_PID", "0"))
        version = ".".join(map(str, sys.version_info[:3]))
        return NodeFacts(socket.gethostname(), __version__, version, raylet, refusal, remedy)

    def serve_clock(self, host: str, token: bytes) -> tuple[str, int]:
        """Answer the others what time it is; return where."""
        if self._server is None:
            self._server = ClockServer(host, token)
        return self._server.address

    def ask_clock(self, address: tuple[str, int], token: bytes, interval_s: float) -> None:
        """Ask another node for the time from now on."""
        if self._asker is None:
            self._asker = ClockAsker(address, token, interval_s)

    def start(self, order: Order) -> Started:
        """Start a recorder of the raylet here, and wait until it records. Raises TracerError."""
        folder = Path(tempfile.mkdtemp(prefix="rlscope-fleet-"))
        try:
            return self._start(folder, order)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _start(self, folder: Path, order: Order) -> Started:
        store = store_of(order.output)
        if store is not None:
            # Whether it can be had is known now, not when all is recorded.
            Bucket(store.rpartition("/")[0]).has(MANIFEST)
        output = folder / Path(order.output).name if store is not None else Path(order.output)
        output.parent.mkdir(parents=True, exist_ok=True)
        renew(folder / _LEASE, order.lease_s)
        raylet = os.environ.get("RAY_RAYLET_PID", "")
        pids = dict.fromkeys([raylet, *map(str, order.pids)])
        command = [
            *own_command("rlscope_trace"), "record", "--pid", ",".join(pid for pid in pids if pid),
            "--output", str(output), "--session", session_of(order.session, raylet),
            "--lease", str(folder / _LEASE), "--ray", str(folder / _IDENTITY),
            "--progress", "never", *order.options,
        ]  # fmt: skip
        pid = start_detached(command, folder / _LOG)
        born = process_start_time(pid)
        started = Started(pid, born, str(folder), str(output), order.lease_s, store)
        end_s = time.monotonic() + _START_PATIENCE_S
        while b"tracing pid" not in _words(folder / _LOG):
            if not _runs(started):
                raise _error_of(_words(folder / _LOG))
            if time.monotonic() > end_s:
                os.kill(pid, signal.SIGTERM)
                raise TracerError("the recorder did not start within 30 s")
            renew(folder / _LEASE, order.lease_s)
            time.sleep(0.02)
        return started

    def beat(self, started: Started, pids: Sequence[int] = ()) -> bool:
        """Renew the lease of a recorder, which another keeper may have started; say if it runs.

        pids: processes here that it is to trace, too.
        """
        self._pids = tuple(dict.fromkeys((*self._pids, *pids)))
        renew(Path(started.folder, _LEASE), started.lease_s, self._pids)
        return _runs(started)

    def stop(self, started: Started, identity: str | None, patience_s: float) -> Ended:
        """Let a recorder save; return what it wrote.

        identity: what is known of the processes of Ray, as JSON. Where the recorder was killed,
        what it had recorded is recovered.
        """
        folder = Path(started.folder)
        if identity is not None:
            written = folder / f"{_IDENTITY}.new"
            written.write_text(identity)
            written.replace(folder / _IDENTITY)
        if _runs(started):
            with suppress(ProcessLookupError):
                os.kill(started.pid, signal.SIGTERM)
        end_s = time.monotonic() + patience_s
        while _runs(started) and time.monotonic() < end_s:
            renew(folder / _LEASE, started.lease_s)
            time.sleep(0.05)
        return self._ended(started, folder)

    def _ended(self, started: Started, folder: Path) -> Ended:
        output = Path(started.output)
        words = _words(folder / _LOG).decode("utf-8", "replace")
        was_recovered = False
        if not output.exists() and not _runs(started) and Path(f"{output}.spool").is_dir():
            words += _recover(output)
            was_recovered = output.exists()
        has_trace = output.exists()
        partial, mark = _partial_of(output) if has_trace else (None, None)
        if has_trace and started.store is not None:
            failure = _uploaded(output, started.store, partial)
            has_trace, words = not failure, words + failure
        pairs, bound_ns = self._pairs.found()
        knots = self._asker.stop() if self._asker is not None else []
        if not _runs(started):
            shutil.rmtree(folder, ignore_errors=True)
        return Ended(
            started.store or str(output), has_trace, was_recovered, words[-4000:], partial, mark,
            pairs, bound_ns, [(knot.at_ns, knot.offset_ns, knot.bound_ns) for knot in knots],
        )  # fmt: skip

    def _read_clocks(self) -> None:
        while True:
            self._pairs.add()
            time.sleep(_CLOCK_TICK_S)


def session_of(session: str, raylet: object) -> str:
    """Return where the processes of one raylet report: a machine may have several."""
    return f"{session}-{raylet}"


def start_detached(command: list[str], log: Path) -> int:
    """Start a process whose parent, session and process group are not ours; return its pid.

    Ray ends the children of its workers with them.
    """
    read, write = os.pipe()
    with log.open("xb") as output:
        child = subprocess.Popen(
            [sys.executable, "-c", _DETACH, str(write), *command],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            pass_fds=[write], cwd="/", env=_environment(),
        )  # fmt: skip
    os.close(write)
    with os.fdopen(read, "rb") as reported:
        pid = reported.read()
    child.wait()
    if not pid:
        raise TracerError("cannot start a recorder", hint="is there memory for another process?")
    return int(pid)


# The first child ends at once, so that the second one belongs to nobody.
_DETACH = """
import os, sys
report = int(sys.argv[1])
if os.fork() == 0:
    os.write(report, str(os.getpid()).encode())
    os.close(report)
    os.execv(sys.argv[2], sys.argv[2:])
"""


def _environment() -> dict[str, str]:
    """Return our environment without what makes a process report itself, or belong to Ray."""
    dropped = ("RAY_", "RLSCOPE_SESSION", "RLSCOPE_AUTO", "NVTX_INJECTION", "CUDA_INJECTION")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


def _runs(started: Started) -> bool:
    return is_running(started.pid) and process_start_time(started.pid) == started.born


def _words(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _WORDS_BYTES, 0))
            return file.read()
    except OSError:
        return b""


def _error_of(words: bytes) -> TracerError:
    """Return what a recorder that did not start said of it."""
    lines = words.decode("utf-8", "replace").splitlines()
    errors, hints = (
        [line.removeprefix(kind) for line in lines if line.startswith(kind)]
        for kind in ("error: ", "hint: ")
    )
    why = "; ".join(errors) or "the recorder ended without a word"
    return TracerError(why, hint=hints[0] if hints else None)


def _refusal() -> tuple[str | None, str | None]:
    """Return why nothing can be recorded here, and what helps."""
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


def _uploaded(output: Path, store: str, partial: bytes | None) -> str:
    """Copy a trace, and the answer about it, to an object store; return why that failed."""
    folder, _, name = store.rpartition("/")
    try:
        bucket = Bucket(folder)
        bucket.put(output, name)
        if partial is not None:
            bucket.write(f"{name}{PARTIAL_SUFFIX}", partial)
    except TracerError as error:
        # What was recorded stays where it is.
        kept = Path(tempfile.mkdtemp(prefix="rlscope-kept-")) / name
        shutil.move(output, kept)
        return f"error: {error}; the trace is kept on its node: {kept}\n"
    return ""


def _recover(output: Path) -> str:
    done = subprocess.run(
        [*own_command("rlscope_trace"), "recover", f"{output}.spool", "--output", str(output)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        cwd="/", env=_environment(),
    )  # fmt: skip
    return done.stdout.decode("utf-8", "replace")


def _partial_of(output: Path) -> tuple[bytes | None, str | None]:
    """Let the answer about a trace be worked out where it lies; return it, and its mark."""
    # Here: it loads DuckDB.
    from rlscope_analysis.fleet.partial_file import fingerprint

    subprocess.run(
        [*own_command("rlscope_trace"), "fleet", "summarize", str(output), "--format", "json"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        check=False, cwd="/", env=_environment(),
    )  # fmt: skip
    try:
        partial = Path(f"{output}{PARTIAL_SUFFIX}").read_bytes()
        return partial, fingerprint(output, reader=__version__, per=None)
    except OSError:
        return None, None
