"""A recording as `record` makes it: a session with its output, its live line and its words."""

from __future__ import annotations

import errno
import os
import sys
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from rlscope_trace.calibrate.cache import boot_id, machine_key
from rlscope_trace.cli import messages
from rlscope_trace.cli.gpu import GpuCapture
from rlscope_trace.cli.live_line import LiveLine, ProgressMode, shows_live_line
from rlscope_trace.cli.operations import OperationCapture
from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.nvml.counter_file import COUNTERS_FILE
from rlscope_trace.nvml.sampler import CounterSampler
from rlscope_trace.privileges import chown_to_invoker, invoking_identity
from rlscope_trace.session import Session, prepare_output, ring_bytes
from rlscope_trace.store.spool import remove_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlscope_trace import target
    from rlscope_trace.instruments.settings import InstrumentSettings
    from rlscope_trace.launch import Launched
    from rlscope_trace.privileges import Identity
    from rlscope_trace.probes import Opened
    from rlscope_trace.session import Counters
    from rlscope_trace.shims import GpuSettings
    from rlscope_trace.store.finalise import FinaliseReport


class LoaderName(str, Enum):
    """What gets the programs into the OS kernel."""

    LIBBPF = "libbpf"
    BCC = "bcc"


class CaptureName(str, Enum):
    """The rung of the ladder of captures."""

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
    instruments: InstrumentSettings
    calibrate: bool
    nvml: bool
    gpu: GpuSettings


class Recording:
    """A session with its output, its live line and its words."""

    def __init__(self, settings: Settings, facts: dict[str, object]) -> None:
        self._settings = settings
        self._output = _absolute(settings.output)
        self._ring_bytes = ring_bytes(settings.ring_mib)
        self._facts = {
            "argv": sys.argv, "ring_mib": settings.ring_mib, "nvml": settings.nvml,
            "calibration_key": machine_key(), "boot_id": boot_id(), **facts,
        }  # fmt: skip
        self._session: Session | None = None
        self._directory: Path | None = None
        self._counters: CounterSampler | None = None
        self._line = LiveLine(shown=False)
        self._told_write_error = 0
        self._operations = OperationCapture(
            auto=settings.auto, modules=settings.nvtx, gpu=GpuCapture(settings.gpu)
        )

    def environment(
        self, command: list[str], environment: dict[str, str], identity: Identity | None
    ) -> dict[str, str]:
        """Return the environment of a program to launch, so that it tells of its operations."""
        return self._operations.environment(command, environment, identity)

    def start(self, processes: list[target.Target] | list[Launched], *, launched: bool) -> int:
        """Load, attach and enter the processes; return how many threads they have."""
        opened = _open_capture(self._settings, self._ring_bytes, self._output)
        self._directory = prepare_output(self._output, force=self._settings.force)
        self._facts |= self._operations.facts()
        self._session = Session(
            opened, self._directory, self._facts,
            shim_session=self._operations.session, instruments=self._settings.instruments,
            listens=self._operations.has_shim,
        )  # fmt: skip
        try:
            threads = self._session.start(processes)
        except OSError as error:
            self.discard()
            raise _cannot_record(error, self._output) from error
        if self._settings.nvml:
            self._counters = CounterSampler(self._directory / COUNTERS_FILE)
            self._counters.start()
        shown = shows_live_line(self._settings.progress, launched=launched)
        self._line = LiveLine(shown=shown)
        return threads

    def begin_operations(self, targets: Sequence[target.Target] = ()) -> None:
        """Load the shim into running processes, if that is asked for; say what cannot be had."""
        if self._settings.inject:
            self._operations.inject_late(targets, self._running())
        self._operations.tell(self._running(), targets)

    def deadline_s(self) -> float | None:
        """Return when the time of --duration is over, by time.monotonic."""
        duration_s = self._settings.duration_s
        return None if duration_s is None else time.monotonic() + duration_s

    def tick(self) -> None:
        """Draw the live line; tell of a full disk when it is full, not when all is over."""
        counters = self._running().counters()
        self._tell_write_error(counters)
        self._line.update(counters)

    def _tell_write_error(self, counters: Counters) -> None:
        if counters.write_error and counters.write_error != self._told_write_error:
            self._line.clear()
            messages.warning(
                f"cannot write to {self._directory}: {os.strerror(counters.write_error)};"
                " records are dropped until there is room",
                "free space on that disk: what was recorded is kept",
            )
        self._told_write_error = counters.write_error

    def stop(self, reason: str) -> None:
        """Stop recording; the target runs on without us."""
        counters = self._running().stop()
        self._stop_counters()
        self._line.clear()
        messages.say(
            f"{reason} after {counters.elapsed_ns / 1e9:.1f} s: {counters.records:,} records"
        )

    def save(self) -> FinaliseReport:
        """Make the trace of the spool and say what it holds."""
        # Here, not above: DuckDB takes longer to import than the probes take to load.
        from rlscope_trace.cli.calibrating import add_to_spool
        from rlscope_trace.cli.saving import report, save_trace

        if self._directory is None:
            raise RuntimeError("nothing was recorded")
        add_to_spool(
            self._directory,
            wanted=self._settings.calibrate,
            target_runs=self._running().target_runs,
        )
        try:
            saved = save_trace(self._directory, self._output, overwrite=self._settings.force)
        except BaseException:
            chown_to_invoker(self._directory, invoking_identity())
            raise
        report(saved)
        return saved.report

    def discard(self) -> None:
        """Remove the spool of a recording that never began."""
        self._stop_counters()
        if self._directory is not None:
            remove_files(self._directory)
            self._directory = None

    def _stop_counters(self) -> None:
        if self._counters is not None:
            self._counters.stop()
            self._counters = None

    def _running(self) -> Session:
        if self._session is None:
            raise RuntimeError("the recording has not been started")
        return self._session


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except FileNotFoundError:
        raise UsageError(
            "the current directory has been deleted", hint="cd somewhere else, or -o /ABSOLUTE/PATH"
        ) from None


def _open_capture(settings: Settings, ring: int, output: Path) -> Opened:
    # Here, because a broken native module must not keep --help and doctor from working.
    from rlscope_trace.preflight import explain_failure
    from rlscope_trace.probes import NothingWorksError, open_capture

    rung = None if settings.capture is CaptureName.AUTO else settings.capture.value
    try:
        return open_capture(loader=settings.loader.value, rung=rung, ring_bytes=ring)
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
