"""What runs on each node: it starts a recorder, keeps it alive, and gives back what it wrote.

A keeper is an actor of Ray and ends with the job that made it, or when somebody kills it. The
recorder outlives it (`rlscope_trace.fleet.recorder`), so that a keeper that comes later can take it
over by what `Started` says. Where the worker lacks the rights to record, the service of the machine
does it (`rlscope_trace.fleet.service`).

Nothing here imports Ray: the coordinator makes an actor of the class.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.fleet.members import MANIFEST, PARTIAL_SUFFIX
from rlscope_trace import __version__
from rlscope_trace.errors import TracerError
from rlscope_trace.fleet import recorder, service_link
from rlscope_trace.fleet.bucket import Bucket, store_of
from rlscope_trace.fleet.clock_link import ClockAsker, ClockPairs, ClockServer
from rlscope_trace.installed import own_command
from rlscope_trace.outputs.trusted import make_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOCK_TICK_S = 0.1


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

    recorder: recorder.Started | service_link.Served
    """Ours, or that of the service of the machine."""
    store: str | None = None
    """Where the trace is copied to in the end."""
    folder: str | None = None
    """What is removed when the trace is there."""

    @property
    def output(self) -> str:
        """Where the trace is to be, on the node."""
        return self.recorder.output


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
        self._is_served = False
        """Whether the service of the machine records: this process may not."""
        self._pairs = ClockPairs()
        self._server: ClockServer | None = None
        self._asker: ClockAsker | None = None
        threading.Thread(target=self._read_clocks, name="rls-pairs", daemon=True).start()

    def facts(self) -> NodeFacts:
        """Say whether something can be recorded here."""
        own = recorder.refusal()
        self._is_served = own[0] is not None
        refusal, remedy = _of_service(*own) if self._is_served else own
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
        make_folder(output.parent)
        raylet = int(os.environ.get("RAY_RAYLET_PID", "0"))
        full = recorder.Recording(
            str(output), session_of(order.session, raylet), order.lease_s,
            tuple(pid for pid in dict.fromkeys([raylet, *order.pids]) if pid), order.options,
        )  # fmt: skip
        started: recorder.Started | service_link.Served
        started = service_link.start(full) if self._is_served else recorder.start(full, folder)
        return Started(started, store, str(folder))

    def beat(self, started: Started, pids: Sequence[int] = ()) -> bool:
        """Renew the lease of a recorder, which another keeper may have started; say if it runs.

        pids: processes here that it is to trace, too.
        """
        self._pids = tuple(dict.fromkeys((*self._pids, *pids)))
        one = started.recorder
        if isinstance(one, service_link.Served):
            return service_link.go_on(one, self._pids)
        return recorder.go_on(one, self._pids)

    def stop(self, started: Started, identity: str | None, patience_s: float) -> Ended:
        """Let a recorder save; return what it wrote.

        identity: what is known of the processes of Ray, as JSON. Where the recorder was killed,
        what it had recorded is recovered.
        """
        one = started.recorder
        if isinstance(one, service_link.Served):
            left = service_link.end(one, identity, patience_s)
        else:
            left = recorder.end(one, identity, patience_s)
        return self._ended(started, left)

    def _ended(self, started: Started, left: recorder.Left) -> Ended:
        output, words = Path(started.output), left.words
        has_trace = output.exists()
        partial, mark = _partial_of(output) if has_trace else (None, None)
        if has_trace and started.store is not None:
            failure = _uploaded(output, started.store, partial)
            has_trace, words = not failure, words + failure
        pairs, bound_ns = self._pairs.found()
        knots = self._asker.stop() if self._asker is not None else []
        if isinstance(started.recorder, recorder.Started):
            recorder.forget(started.recorder)
        elif started.folder is not None:
            shutil.rmtree(started.folder, ignore_errors=True)
        return Ended(
            started.store or str(output), has_trace, left.was_recovered, words[-4000:], partial,
            mark, pairs, bound_ns, [(knot.at_ns, knot.offset_ns, knot.bound_ns) for knot in knots],
        )  # fmt: skip

    def _read_clocks(self) -> None:
        while True:
            self._pairs.add()
            time.sleep(_CLOCK_TICK_S)


def session_of(session: str, raylet: object) -> str:
    """Return where the processes of one raylet report: a machine may have several."""
    return f"{session}-{raylet}"


def _of_service(refusal: str | None, remedy: str | None) -> tuple[str | None, str | None]:
    """Return why the service of the machine cannot record either, and what helps.

    refusal, remedy: ours, which hold where there is no service.
    """
    try:
        service = service_link.facts()
    except TracerError as error:
        return str(error), next(iter(error.hints), None)
    if service is None:
        return refusal, remedy
    if service["version"] != __version__:
        return (
            f"its fleet serve has rlscope-trace {service['version']}, this is {__version__}",
            "install the same version for both",
        )
    return service["refusal"], service["remedy"]


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


def _partial_of(output: Path) -> tuple[bytes | None, str | None]:
    """Let the answer about a trace be worked out where it lies; return it, and its mark."""
    # Here: it loads DuckDB.
    from rlscope_analysis.fleet.partial_file import fingerprint

    subprocess.run(
        [*own_command("rlscope_trace"), "fleet", "summarize", str(output), "--format", "json"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        check=False, cwd="/", env=recorder.environment(),
    )  # fmt: skip
    try:
        partial = Path(f"{output}{PARTIAL_SUFFIX}").read_bytes()
        return partial, fingerprint(output, reader=__version__, per=None)
    except OSError:
        return None, None
