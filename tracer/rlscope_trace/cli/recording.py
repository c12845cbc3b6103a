"""A recording as `record` makes it: a session with its output, its live line and its words."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from rlscope_analysis.wording import count_of
from rlscope_trace.cli import messages
from rlscope_trace.cli.forked import in_a_fork
from rlscope_trace.cli.gpu import GpuCapture
from rlscope_trace.cli.interrupts import second_interrupt_stops
from rlscope_trace.cli.live_line import LiveLine, ProgressMode, shows_live_line
from rlscope_trace.cli.operations import OperationCapture
from rlscope_trace.errors import SpoolError, TracerError, UsageError, reason_of
from rlscope_trace.outputs.names import require_possible
from rlscope_trace.outputs.place import open_place
from rlscope_trace.record import target, watch
from rlscope_trace.record.bounded import has_left_behind
from rlscope_trace.record.calibrate.cache import boot_id, machine_key
from rlscope_trace.record.jax_profile import count_profiles, folder_beside
from rlscope_trace.record.last import PARTS
from rlscope_trace.record.limits import raise_lowered, require_room
from rlscope_trace.record.nvml.sampler import (
    INTERVAL_MS,
    WATCHED_INTERVAL_MS,
    CounterSampler,
)
from rlscope_trace.record.ray_facts import RaySettings, node_facts, reported_facts
from rlscope_trace.record.session import (
    Session,
    prepare_output,
    ring_bytes,
    spool_directory,
)
from rlscope_trace.record.shims import new_session
from rlscope_trace.record.surroundings import chosen_variables
from rlscope_trace.rights import become_recorder, become_saver, keep_for_folder
from rlscope_trace.signals import signals_wait
from rlscope_trace.spool.counter_file import COUNTERS_FILE
from rlscope_trace.spool.directory import open_spool, remove_files
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport
    from rlscope_trace.outputs.private import PrivateFolder
    from rlscope_trace.privileges import Identity
    from rlscope_trace.record.backends import Opened
    from rlscope_trace.record.jax_profile import JaxProfile
    from rlscope_trace.record.launch import Launched
    from rlscope_trace.record.lease import Lease
    from rlscope_trace.record.live.reading import Reading
    from rlscope_trace.record.probes.settings import ProbeSettings
    from rlscope_trace.record.session import Counters
    from rlscope_trace.record.shims import GpuSettings


class LoaderName(str, Enum):
    """What gets the programs into the OS kernel."""

    LIBBPF = "libbpf"
    BCC = "bcc"


class CaptureName(str, Enum):
    """Which backend captures the scheduling."""

    AUTO = "auto"
    BTF = "btf"
    TRACEFS = "tracefs"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one recording."""

    output: Path
    force: bool
    duration_s: float | None
    loader: LoaderName
    capture: CaptureName
    ring_mib: int
    strict: bool
    progress: ProgressMode
    nvtx: str
    auto: bool
    inject: bool
    probe_settings: ProbeSettings
    calibrate: bool
    nvml: bool
    gpu: GpuSettings
    mode: int
    """Of the trace: who may read it."""
    own_phases: str = ""
    """Rows of the user's for the table of phases."""
    jax_profile: JaxProfile | None = None
    """When a launched program is profiled by JAX, too."""
    watches: bool = False
    """Whether it is shown while it runs: only where last_s is given."""
    probes: bool = True
    """Whether it is measured how fast the machine is, when the target has ended."""
    last_s: float | None = None
    """Of how many seconds the end is kept, until keep(); None: all of it."""
    session: str | None = None
    """Where programs report that are started later; None: nobody hears of that."""
    lease: Lease | None = None
    """How long it may go on without whoever started it."""
    of_user: int | None = None
    """Whose processes may be named; None: anybody's."""
    ray: RaySettings = field(default_factory=RaySettings)


def opened(pids: Sequence[str], settings: Settings) -> list[target.Target]:
    """Open the processes of --pid, or raise what is wrong with them."""
    targets = target.resolve(pids, argv=sys.argv[1:])
    if settings.of_user is not None:
        target.require_user(targets, settings.of_user)
    return targets


class Recording:
    """A session with its output, its live line and its words."""

    def __init__(
        self, settings: Settings, facts: dict[str, object], identity: Identity | None
    ) -> None:
        """identity: the user that called sudo, whom the recording belongs to."""
        self._settings = settings
        self._identity = identity
        self._output = _absolute(settings.output)
        self._ring_bytes = ring_bytes(settings.ring_mib)
        self._facts = {
            "argv": sys.argv, "ring_mib": settings.ring_mib, "nvml": settings.nvml,
            "calibration_key": machine_key(), "boot_id": boot_id(), **facts,
        }  # fmt: skip
        self._session: Session | None = None
        self._spool: PrivateFolder | None = None
        self._counters: CounterSampler | None = None
        self._line = LiveLine(shown=False)
        self._ray_facts: dict[str, object] = {}
        self._reported_write_error = 0
        self._reported_refused: set[str] = set()
        self._operations = OperationCapture(
            auto=settings.auto,
            modules=settings.nvtx,
            gpu=GpuCapture(settings.gpu),
            own_phases=settings.own_phases,
            jax_profile=self._jax_variable(),
            session=settings.session or new_session(),
            is_named=settings.session is not None,
        )

    def _jax_variable(self) -> str:
        window = self._settings.jax_profile
        return "" if window is None else window.variable(folder_beside(self._output))

    def environment(
        self, command: list[str], environment: dict[str, str], identity: Identity | None
    ) -> dict[str, str]:
        """Return the environment of a program to launch, so that it reports its operations."""
        self._facts["environment_variables"] = chosen_variables(environment)
        return self._operations.environment(command, environment, identity)

    def start(self, processes: list[target.Target] | list[Launched], *, launched: bool) -> int:
        """Load, attach and enter the processes; return how many threads they have."""
        require_possible(self._output)
        require_room(sys.argv[1:])
        become_recorder(self._identity)
        opened = _open_capture(self._settings, self._ring_bytes, self._output)
        self._spool = self._prepare_output()
        self._facts |= self._operations.facts()
        self._ray_facts = node_facts([process.pid for process in processes])
        self._session = Session(
            opened, self._spool.path, self._facts,
            shim_session=self._operations.session, probe_settings=self._settings.probe_settings,
            listens=self._operations.has_shim, watches=self._settings.watches,
            probes=self._settings.probes,
            last_ns=None if self._settings.last_s is None else round(self._settings.last_s * 1e9),
        )  # fmt: skip
        try:
            threads = self._session.start(processes)
        except OSError as error:
            self.discard()
            raise _cannot_record(error, self._output) from error
        if self._settings.nvml:
            interval_ms = WATCHED_INTERVAL_MS if self._settings.watches else INTERVAL_MS
            self._counters = CounterSampler(
                self._spool.path / COUNTERS_FILE, interval_ms=interval_ms
            )
            self._counters.start()
        shown = shows_live_line(self._settings.progress, launched=launched)
        self._line = LiveLine(shown=shown)
        return threads

    def _prepare_output(self) -> PrivateFolder:
        try:
            with open_place(self._output) as place:
                keep_for_folder(self._identity, place.folder)
                return prepare_output(place, force=self._settings.force)
        except OSError as error:
            raise SpoolError(
                f"cannot write to {self._output.parent}: {error.strerror}",
                hint="-o names another place for the trace",
            ) from error

    def begin_operations(self, targets: Sequence[target.Target] = ()) -> None:
        """Load the shim into running processes, if that is asked for; say what cannot be had."""
        if self._settings.inject:
            self._operations.inject_late(targets, self._running())
        self._operations.tell(self._running(), targets)

    def deadline_s(self) -> float | None:
        """Return when the time of --duration is over, by time.monotonic."""
        duration_s = self._settings.duration_s
        return None if duration_s is None else time.monotonic() + duration_s

    @property
    def tick_s(self) -> float:
        """How often tick() is to be called."""
        last_s = self._settings.last_s
        return watch.TICK_S if last_s is None else min(watch.TICK_S, last_s / (2 * PARTS))

    def tick(self) -> None:
        """Draw the live line; report a full disk when it is full, not when all is over."""
        if self._settings.lease is not None:
            self._add(self._settings.lease.take_new_pids())
        counters = self._running().counters()
        self._forget_before()
        self._tell_write_error(counters)
        self._tell_refused(counters)
        self._line.update(counters)

    def _add(self, pids: Sequence[int]) -> None:
        """Trace more processes; those that have ended, or are none, need not be traced."""
        for pid in pids:
            self._add_one(pid)

    def _add_one(self, pid: int) -> None:
        try:
            self._running().add(opened([str(pid)], self._settings))
        except (TracerError, OSError) as error:
            messages.note(f"pid {pid} is not traced: {error}")

    def _tell_write_error(self, counters: Counters) -> None:
        if counters.write_error and counters.write_error != self._reported_write_error:
            self._line.clear()
            messages.warning(
                f"cannot write to {spool_directory(self._output)}:"
                f" {os.strerror(counters.write_error)}; records are dropped until there is room",
                "free space on that disk: what was recorded is kept",
            )
        self._reported_write_error = counters.write_error

    def _tell_refused(self, counters: Counters) -> None:
        counts = {"dropped": counters.dropped_operations, **counters.refused}
        for reason, (words, hint) in _REFUSED.items():
            if counts.get(reason) and reason not in self._reported_refused:
                self._reported_refused.add(reason)
                self._line.clear()
                messages.warning(words, hint)

    def housekeep(self) -> None:
        """Do what is due, looked at or not."""
        self._running().housekeep()
        self._forget_before()

    def look(self) -> Reading:
        """Return what the target did so far, where it is watched."""
        return self._running().look()

    def _forget_before(self) -> None:
        """Forget of the GPUs what is older than all else that is kept."""
        if self._counters is not None and self._running().kept_from_ns:
            self._counters.forget_before(self._running().kept_from_ns)

    def keep(self) -> None:
        """Keep what is there of the last seconds, and what follows."""
        self._running().keep()

    def gpu_utilization(self) -> float | None:
        """Return what the driver said last, of the busiest GPU: a share; None: not measured."""
        return None if self._counters is None else self._counters.utilization()

    def forget(self) -> None:
        """End a recording of which nothing was kept."""
        self._running().stop()
        self._session = None
        self.discard()

    def stop(self, reason: str) -> None:
        """Stop recording; the target runs on without us."""
        kept_from_ns = self._running().kept_from_ns
        raise_lowered()
        # By now those who know have written down whose the processes are.
        found = {**self._ray_facts, **reported_facts(self._settings.ray)}
        if found:
            self._facts["ray"] = found
        try:
            counters = self._running().stop()
        except OSError as error:
            shown = spool_directory(self._output)
            raise SpoolError(
                f"the recording could not be ended in order: {reason_of(error)}",
                hint=f"rlscope-trace recover {shell_line([str(shown)])}",
            ) from error
        self._stop_counters()
        self._line.clear()
        messages.say(
            f"{reason} after {counters.elapsed_ns / 1e9:.1f} s: {counters.records:,} records"
        )
        if kept_from_ns:
            kept_s = (time.monotonic_ns() - kept_from_ns) / 1e9
            messages.say(f"the last {kept_s:.1f} s are kept")
        if self._settings.jax_profile is not None:
            self._tell_profiles()

    def _tell_profiles(self) -> None:
        folder = folder_beside(self._output)
        count = count_profiles(folder)
        if not count:
            messages.warning(
                "JAX wrote no profile",
                "it begins FROM seconds after the import of JAX, which the program did not reach,"
                " or JAX refused: rlscope-trace summarize --all says why",
            )
            return
        messages.say(f"wrote {folder}: {count_of(count, 'profile')} of JAX")
        words = ["rlscope-trace", "import", "xplane", str(folder), "-o", f"{folder}.duckdb"]
        messages.say(f"more: {shell_line(words)}")

    def save(self) -> TraceReport:
        """Make the trace of the spool and say what it holds; TracerError where that fails."""
        if self._spool is None:
            raise RuntimeError("nothing was recorded")
        try:
            work = partial(self._save, self._spool)
            # A thread that the target holds up keeps its rights, and could be used by whoever takes
            # over what saves.
            return in_a_fork(work) if has_left_behind() else work()
        except (ImportError, OSError, MemoryError) as error:
            raise SpoolError(
                f"cannot save {self._output}: {reason_of(error)}",
                hint=f"rlscope-trace recover {shell_line([str(self._spool.shown)])}",
            ) from error

    def _save(self, spool: PrivateFolder) -> TraceReport:
        with second_interrupt_stops(spool.shown, is_leased=self._settings.lease is not None):
            # Here, not above: DuckDB takes longer to import than the probes take to load.
            with signals_wait():
                from rlscope_trace.cli.calibrating import add_to_spool
                from rlscope_trace.cli.saving import report, save_trace

            add_to_spool(
                spool.path,
                wanted=self._settings.calibrate,
                target_runs=self._running().target_runs,
            )
            become_saver(self._identity, self._output, mode=self._settings.mode)
            saved = save_trace(
                open_spool(spool.path, shown=spool.shown), self._output,
                overwrite=self._settings.force, mode=self._settings.mode,
            )  # fmt: skip
        report(saved)
        return saved.report

    def discard(self) -> None:
        """Remove the spool of a recording that never began."""
        if self._session is not None:
            # Why there is no recording is on its way: no reason to fail with something else.
            with suppress(OSError):
                self._session.abandon()
            self._session = None
        self._stop_counters()
        if self._spool is not None:
            with suppress(OSError):
                remove_files(self._spool.path, shown=self._spool.shown)
            self._spool.close()
            self._spool = None

    def _stop_counters(self) -> None:
        if self._counters is not None:
            self._counters.stop()
            self._counters = None

    def _running(self) -> Session:
        if self._session is None:
            raise RuntimeError("the recording has not been started")
        return self._session


# What of the operations is not taken, while it happens: all else is reported when all is over.
_REFUSED = {
    "dropped": (
        "operations are dropped: a process marks them faster than they are read",
        "mark fewer ranges, or leave the recorder a CPU",
    ),
    "limited": (
        "a process marks more operations than are kept: the rest is dropped",
        "mark fewer ranges",
    ),
    "damaged": (
        "a process wrote over the memory in which it reports its operations: some are lost",
        "look for a defect of the program that overwrites memory",
    ),
    "memories": (
        "more processes report operations than are read: those of the others are dropped",
        "trace fewer processes at once: --pid",
    ),
    "strangers": (
        "a process that is not traced sent operations: they were refused",
        "none is needed: nothing of it is in the trace",
    ),
}


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except FileNotFoundError:
        raise UsageError(
            "the current directory has been deleted", hint="cd somewhere else, or -o /ABSOLUTE/PATH"
        ) from None


def _open_capture(settings: Settings, ring: int, output: Path) -> Opened:
    # Here, because a broken native module must not keep --help and doctor from working.
    from rlscope_trace.record.backends import NothingWorksError, open_capture
    from rlscope_trace.record.preflight import explain_failure

    backend = None if settings.capture is CaptureName.AUTO else settings.capture.value
    try:
        return open_capture(loader=settings.loader.value, backend=backend, ring_bytes=ring)
    except NothingWorksError as error:
        raise explain_failure(str(error), argv=sys.argv[1:], output=output) from error


def _cannot_record(error: OSError, output: Path) -> TracerError:
    words = str(error.args[1]) if len(error.args) > 1 else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return TracerError(
            f"cannot write the spool of {output}: {os.strerror(error.errno)}",
            hint="-o names another place for the trace",
        )
    return TracerError(f"cannot start tracing: {words}", hint="rlscope-trace doctor")
