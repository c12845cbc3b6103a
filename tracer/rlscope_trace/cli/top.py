"""`rlscope-trace top`: what running processes do, live, and a trace of it when asked for."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_trace.cli import messages
from rlscope_trace.cli.file_mode import DEFAULT_MODE, ForceOption, ModeOption, parse_mode
from rlscope_trace.cli.gpu import CuptiName, GraphsName, gpu_settings
from rlscope_trace.cli.last_option import last_seconds
from rlscope_trace.cli.live_line import ProgressMode
from rlscope_trace.cli.probe_options import check_patterns, default_sample_hz
from rlscope_trace.cli.recording import CaptureName, LoaderName, Recording, Settings
from rlscope_trace.cli.top_shown import Shown, ShownLines, ShownScreen, StopWatchingError
from rlscope_trace.cli.top_terminal import keys_at_once, streams_of_program, terminal_kept
from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.privileges import invoking_environment, invoking_identity
from rlscope_trace.record import target, watch
from rlscope_trace.record.launch import SignalSetup, launch
from rlscope_trace.record.live.follow import LiveReadings
from rlscope_trace.record.probes.settings import ProbeSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_trace.record.launch import Launched

_INTERVAL_S = 1.0
# How often keys are read.
_TICK_S = 0.1


class FormatName(str, Enum):
    """How it is shown."""

    AUTO = "auto"
    SCREEN = "screen"
    LINES = "lines"
    JSON = "json"


def top(  # noqa: PLR0913 - one parameter per option
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The program to launch, after --.", show_default=False),
    ] = None,
    pid: Annotated[
        list[str] | None,
        typer.Option("--pid", "-p", help="Processes to watch: PID[,PID].", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="The trace that r writes; default: top-DATE-TIME.duckdb.",
        ),
    ] = None,
    last: Annotated[
        str,
        typer.Option(
            "--last",
            metavar="TIME",
            help="How much from before r it has: 60 (seconds), 90s, 5m or 1h, and up to a quarter"
            " more. Until then the disk holds no more than that.",
        ),
    ] = "60s",
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep all from the beginning, as if r were pressed.")
    ] = False,
    shown_as: Annotated[
        FormatName,
        typer.Option(
            "--format",
            help="screen, lines (one a second) or json (one object a second); auto: a screen on a"
            " terminal, else lines.",
        ),
    ] = FormatName.AUTO,
    updates: Annotated[
        int | None,
        typer.Option(
            "--updates", "-n", min=1, help="End after so many updates.", show_default=False
        ),
    ] = None,
    inject: Annotated[
        bool,
        typer.Option(
            "--inject",
            help="With --pid: load the shim into the running processes to see their phases.",
        ),
    ] = False,
    sample_hz: Annotated[
        int | None,
        typer.Option(
            "--sample-hz",
            min=0,
            max=9999,
            show_default=False,
            help="Samples per second of each CPU, which tell Python from native code; 0: none.",
        ),
    ] = None,
    simulator: Annotated[
        list[str] | None,
        typer.Option("--simulator", metavar="NAME|GLOB", help="As for record.", show_default=False),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME|GLOB", help="As for record.", show_default=False),
    ] = None,
) -> None:
    """Show once a second what running processes (--pid), or a program (--), do.

    r keeps a trace of the last minute (--last) and of what follows, which is saved at the end;
    without it nothing is left. q or Ctrl-C ends it; the processes run on.
    """
    if bool(command) == bool(pid):
        raise UsageError(
            "nothing to watch" if not command else "both --pid and a command to launch",
            hint="rlscope-trace top --pid PID, or rlscope-trace top -- python train.py",
        )
    if inject and not pid:
        raise UsageError(
            "--inject is for running processes (--pid)", hint="a launched program needs none"
        )
    probe_settings = ProbeSettings(
        "off", tuple(simulator or ()), tuple(backend or ()),
        default_sample_hz() if sample_hz is None else sample_hz, "waits", 0.02, "off", "off",
    )  # fmt: skip
    check_patterns(probe_settings)
    settings = Settings(
        output or Path(time.strftime("top-%Y%m%d-%H%M%S.duckdb")), force, None, LoaderName.LIBBPF,
        CaptureName.AUTO, 32, False, ProgressMode.NEVER, "", True, inject, probe_settings, False,
        True, gpu_settings(CuptiName.ON, GraphsName.GRAPH, memory=False), parse_mode(mode),
        watches=True, last_s=last_seconds(last),
    )  # fmt: skip
    raise typer.Exit(_Top(settings, _format(shown_as), updates, keep=keep).run(pid, command or []))


def _format(asked: FormatName) -> FormatName:
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if asked is FormatName.AUTO:
        usable = has_terminal and os.environ.get("TERM", "dumb") != "dumb"
        return FormatName.SCREEN if usable else FormatName.LINES
    if asked is FormatName.SCREEN and not has_terminal:
        raise UsageError("there is no terminal to show a screen on", hint="--format lines")
    return asked


class _Top:
    """One run of `top`."""

    def __init__(
        self, settings: Settings, shown_as: FormatName, updates: int | None, *, keep: bool
    ) -> None:
        self._settings = settings
        self._format = shown_as
        self._updates = updates
        self._keeps_at_once = keep
        self._kept = False
        self._shown: Shown = ShownLines(as_json=shown_as is FormatName.JSON)
        self._recording: Recording | None = None
        self._live = LiveReadings((), 0)
        self._next_s = 0.0

    def run(self, pids: list[str] | None, command: list[str]) -> int:
        """Watch until all is over; return the exit code."""
        with ExitStack() as stack:
            if self._format is FormatName.SCREEN:
                # First of all: it forks.
                stack.enter_context(terminal_kept())
            return self._attach(pids) if pids else self._launch(command)

    def _attach(self, pids: list[str]) -> int:
        targets = target.resolve(pids, argv=sys.argv[1:])
        roots = [found.pid for found in targets]
        recording = Recording(
            self._settings, {"mode": "attach", "target_pids": roots}, invoking_identity()
        )
        with watch.signals_held():
            threads = recording.start(targets, launched=False)
            if not threads and target.alive(targets):
                recording.discard()
                raise TracerError(
                    "the OS kernel shows tracing programs no thread of"
                    f" {', '.join(map(str, roots))}",
                    hint="rlscope-trace doctor; some systems hide their own processes",
                )
            recording.begin_operations(targets)
            names = ", ".join(found.comm for found in targets)
            self._watch(
                recording, roots, names,
                lambda: watch.watch_targets(
                    targets, deadline_s=None, tick=self._tick, tick_s=_TICK_S
                ),
            )  # fmt: skip
        if self._kept:
            recording.save()
        return 0

    def _launch(self, command: list[str]) -> int:
        signals = SignalSetup.capture()
        identity = invoking_identity()
        recording = Recording(self._settings, {"mode": "launch", "command": command}, identity)
        with watch.signals_held():
            environment = recording.environment(command, invoking_environment(identity), identity)
            with streams_of_program(has_screen=self._format is FormatName.SCREEN):
                launched = launch(
                    command, identity=identity, environment=environment, signals=signals
                )
            try:
                recording.start([launched], launched=True)
                recording.begin_operations()
                launched.release()
            except BaseException:
                launched.abandon()
                recording.discard()
                raise
            self._watch(
                recording, [launched.pid], Path(command[0]).name,
                lambda: watch.watch_program(
                    launched, deadline_s=None, tick=self._tick, tick_s=_TICK_S
                ),
            )  # fmt: skip
            return self._end(recording, launched)

    def _end(self, recording: Recording, launched: Launched) -> int:
        """Save with signals still held for the program, and wait for that."""
        if self._kept:
            try:
                recording.save()
            except TracerError as failure:
                messages.failure(failure)
        if launched.poll() is None:
            messages.say(f"the program goes on: pid {launched.pid}")
            watch.watch_program(launched, deadline_s=None, tick=lambda: None)
        return launched.poll() or 0

    def _watch(
        self, recording: Recording, roots: list[int], program: str, wait: Callable[[], str]
    ) -> None:
        self._recording = recording
        self._live = LiveReadings(roots, time.monotonic_ns())
        if self._keeps_at_once:
            self._keep(recording)
        reason = "stopped"
        try:
            with ExitStack() as stack:
                if self._format is FormatName.SCREEN:
                    stack.enter_context(keys_at_once())
                    self._shown = stack.enter_context(ShownScreen(program))
                    if self._kept:
                        self._shown.kept()
                reason = wait()
        except StopWatchingError:
            pass
        finally:
            if not self._kept:
                recording.forget()
        if self._kept:
            recording.stop(reason)

    def _keep(self, recording: Recording) -> None:
        recording.keep()
        self._kept = True

    def _tick(self) -> None:
        recording = self._recording
        if recording is None:
            return
        if "r" in self._shown.keys() and not self._kept:  # noqa: SIM118 - no mapping
            self._keep(recording)
            self._shown.kept()
        recording.housekeep()
        if time.monotonic() < self._next_s:
            return
        self._next_s = max(self._next_s + _INTERVAL_S, time.monotonic() + _INTERVAL_S / 2)
        view = self._live.add(recording.look(), recording.gpu_utilization())
        if view is None:
            return
        self._shown.show(view)
        if self._updates is not None:
            self._updates -= 1
            if self._updates == 0:
                raise StopWatchingError
