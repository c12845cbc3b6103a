"""`rlscope-trace record`: traces running processes, or a program from its first instruction."""

from __future__ import annotations

import errno
import os
import sys
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_trace import shims, target, watch
from rlscope_trace.cli import messages
from rlscope_trace.cli.live_line import LiveLine, ProgressMode, shows_live_line
from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.late import attach_late
from rlscope_trace.launch import SignalSetup, launch, program_file
from rlscope_trace.privileges import chown_to_invoker, invoking_environment, invoking_identity
from rlscope_trace.session import Session, prepare_output, ring_bytes
from rlscope_trace.store.spool import remove_files

if TYPE_CHECKING:
    from rlscope_trace.launch import Launched
    from rlscope_trace.privileges import Identity
    from rlscope_trace.probes import Opened
    from rlscope_trace.session import Counters
    from rlscope_trace.store.finalise import FinaliseReport

_SAVED_WITH_LOSSES = 3
_DEFAULT_OUTPUT = Path("trace.duckdb")
_NVTX_OFF = "off"
NOT_LAUNCHED = "the process was not started by rlscope-trace, so NVTX has no tool in it"
_HOW_TO_GET_THEM = "--inject loads one, or start the program with: rlscope-trace -- COMMAND"


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
class _Settings:
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


def record(  # noqa: PLR0913 - one parameter per option
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The program to launch, after --.", show_default=False),
    ] = None,
    pid: Annotated[
        list[str] | None,
        typer.Option("--pid", "-p", help="Processes to attach to: PID[,PID].", show_default=False),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration", "-d", min=0.001, help="Stop after this many seconds.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The trace to write.")
    ] = _DEFAULT_OUTPUT,
    force: Annotated[bool, typer.Option("--force", help="Replace the output.")] = False,
    loader: Annotated[
        LoaderName, typer.Option(help="What loads the probes: libbpf, or Debian's bcc.")
    ] = LoaderName.LIBBPF,
    capture: Annotated[
        CaptureName, typer.Option(help="The kind of probes; auto takes the best that works.")
    ] = CaptureName.AUTO,
    ring_mib: Annotated[
        int, typer.Option(help="Size of the ring buffer in MiB, a power of two.")
    ] = 32,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if anything was lost.")
    ] = False,
    progress: Annotated[
        ProgressMode, typer.Option(help="When to show the live line on stderr.")
    ] = ProgressMode.AUTO,
    auto: Annotated[
        bool,
        typer.Option(
            "--auto/--no-auto", help="Find the phases of RL programs that mark no operations."
        ),
    ] = True,
    nvtx: Annotated[
        str,
        typer.Option(
            help="Whose NVTX ranges to record besides those of Python, PyTorch, NCCL and programs:"
            " all, or some of cublas,cudnn,cufft,cusolver,cusparse,...; off: record none.",
            metavar="MODULES",
        ),
    ] = "",
    inject: Annotated[
        bool,
        typer.Option(
            "--inject",
            help="With --pid: load the shim into the running processes to record their operations.",
        ),
    ] = False,
) -> None:
    """Trace running processes (--pid), or launch a program and trace it from its start (--).

    Child processes and threads are traced too. Ctrl-C stops and saves. The exit code is 0, with
    --strict 3 if anything was lost; in launch mode it is the program's own.
    """
    if bool(command) == bool(pid):
        raise UsageError(
            "nothing to trace" if not command else "both --pid and a command to launch",
            hint="rlscope-trace --pid PID, or rlscope-trace -- python train.py",
        )
    if inject and not pid:
        raise UsageError(
            "--inject is for running processes (--pid)", hint="a launched program needs none"
        )
    modules = nvtx if nvtx == _NVTX_OFF else shims.parse_modules(nvtx)
    settings = _Settings(
        output, force, duration, loader, capture, ring_mib, strict, progress, modules, auto, inject
    )
    code = _attach(pid, settings) if pid else _launch(command or [], settings)
    raise typer.Exit(code)


def _attach(pids: list[str], settings: _Settings) -> int:
    targets = target.resolve(pids, argv=sys.argv[1:])
    facts: dict[str, object] = {"mode": "attach", "target_pids": [found.pid for found in targets]}
    recording = _Recording(settings, facts)
    with watch.signals_held():
        threads = recording.start(targets, launched=False)
        if not threads and target.alive(targets):
            recording.discard()
            raise TracerError(
                "the OS kernel shows tracing programs no thread of"
                f" {', '.join(str(found.pid) for found in targets)}",
                hint="rlscope-trace doctor; some systems hide their own processes",
            )
        names = ", ".join(f"{found.pid} ({found.comm})" for found in targets)
        messages.say(f"tracing pid {names}: {threads} threads; Ctrl-C stops and saves")
        if settings.inject:
            recording.inject_late(targets)
        recording.tell_of_operations()
        deadline_s = recording.deadline_s()
        reason = watch.watch_targets(targets, deadline_s=deadline_s, tick=recording.tick)
        recording.stop(reason)
    return _exit_code(0, recording.save(), settings)


def _launch(command: list[str], settings: _Settings) -> int:
    signals = SignalSetup.capture()
    identity = invoking_identity()
    recording = _Recording(settings, {"mode": "launch", "command": command})
    with watch.signals_held():
        # First of all: a fork is safest while this process has no other thread.
        environment = recording.inject(command, invoking_environment(identity), identity)
        launched = launch(command, identity=identity, environment=environment, signals=signals)
        try:
            recording.start([launched], launched=True)
            recording.tell_of_operations()
            launched.release()
        except BaseException:
            launched.abandon()
            recording.discard()
            raise
        deadline_s = recording.deadline_s()
        reason = watch.watch_program(launched, deadline_s=deadline_s, tick=recording.tick)
        recording.stop(reason)
        code = launched.poll()
        if code is None:
            # --duration is over: save at once, with signals still held for the program.
            saved = recording.save()
            watch.watch_program(launched, deadline_s=None, tick=lambda: None)
            code = launched.poll() or 0
            return _exit_code(code, saved, settings)
    return _exit_code(code, recording.save(), settings)


def _exit_code(code: int, saved: FinaliseReport, settings: _Settings) -> int:
    """Return the target's code, or the one that says that something was lost."""
    return _SAVED_WITH_LOSSES if settings.strict and saved.losses and code == 0 else code


class _Recording:
    """A session with its output, its live line and its words."""

    def __init__(self, settings: _Settings, facts: dict[str, object]) -> None:
        self._settings = settings
        self._output = _absolute(settings.output)
        self._ring_bytes = ring_bytes(settings.ring_mib)
        self._facts = {"argv": sys.argv, "ring_mib": settings.ring_mib, **facts}
        self._session: Session | None = None
        self._directory: Path | None = None
        self._line = LiveLine(shown=False)
        self._told_write_error = 0
        self._shim_session = shims.new_session()

    def inject(
        self, command: list[str], environment: dict[str, str], identity: Identity | None
    ) -> dict[str, str]:
        """Return the environment of a program to launch, so that it tells of its operations."""
        if self._settings.nvtx == _NVTX_OFF:
            self._note_operations(measured=False, reason="not asked for: --nvtx off")
            return environment
        injection = shims.inject(
            environment,
            session=self._shim_session,
            auto=self._settings.auto,
            modules=self._settings.nvtx,
            program=program_file(command, environment),
            identity=identity,
        )
        self._note_operations(measured=injection.measured, reason=injection.reason)
        return injection.environment

    def inject_late(self, targets: list[target.Target]) -> None:
        """Load the shim into running processes; what cannot be had is said and stored."""
        for found in targets:
            try:
                result = attach_late(
                    found.pid, shims.LIBRARY, auto=self._settings.auto,
                    environment=shims.late_environment(self._shim_session, self._settings.nvtx),
                )  # fmt: skip
            except TracerError as error:
                messages.warning(str(error), error.hint)
                self._running().note_late(found.pid, measured=False, reason=str(error))
                continue
            for sentence in result.captured:
                messages.say(f"pid {found.pid}: {sentence}")
            for sentence in result.missing:
                messages.note(f"pid {found.pid}: {sentence}")
            self._running().note_late(found.pid, measured=True, reason=result.reason)
        self._running().find_shims()

    def _note_operations(self, *, measured: bool, reason: str, hint: str | None = None) -> None:
        self._facts["operations"] = {"measured": measured, "reason": reason, "hint": hint}

    def tell_of_operations(self) -> None:
        """Say at the start, not only in the summary, that operations cannot be had."""
        told = self._facts["operations"]
        if isinstance(told, dict) and not told["measured"] and not self._running().find_shims():
            hint = None if self._settings.inject else told.get("hint")
            messages.warning(f"operations are not recorded: {told['reason']}", hint)

    def start(self, processes: list[target.Target] | list[Launched], *, launched: bool) -> int:
        """Load, attach and enter the processes; return how many threads they have."""
        opened = _open_capture(self._settings, self._ring_bytes, self._output)
        self._directory = prepare_output(self._output, force=self._settings.force)
        if not launched:
            self._note_operations(measured=False, reason=NOT_LAUNCHED, hint=_HOW_TO_GET_THEM)
        self._session = Session(opened, self._directory, self._facts, self._shim_session)
        try:
            threads = self._session.start(processes)
        except OSError as error:
            self.discard()
            raise _cannot_record(error, self._output) from error
        shown = shows_live_line(self._settings.progress, launched=launched)
        self._line = LiveLine(shown=shown)
        return threads

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
        self._line.clear()
        messages.say(
            f"{reason} after {counters.elapsed_ns / 1e9:.1f} s: {counters.records:,} records"
        )

    def save(self) -> FinaliseReport:
        """Make the trace of the spool and say what it holds."""
        # Here, not above: DuckDB takes longer to import than the probes take to load.
        from rlscope_trace.cli.saving import report, save_trace

        if self._directory is None:
            raise RuntimeError("nothing was recorded")
        try:
            saved = save_trace(self._directory, self._output, overwrite=self._settings.force)
        except BaseException:
            chown_to_invoker(self._directory, invoking_identity())
            raise
        report(saved)
        return saved

    def discard(self) -> None:
        """Remove the spool of a recording that never began."""
        if self._directory is not None:
            remove_files(self._directory)
            self._directory = None

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


def _open_capture(settings: _Settings, ring: int, output: Path) -> Opened:
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
