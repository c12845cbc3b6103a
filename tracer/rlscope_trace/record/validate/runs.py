"""Runs of the program, untraced and traced: the same child process starts and times it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import TracerError
from rlscope_trace.privileges import (
    acting_as,
    invoking_environment,
    invoking_identity,
    read_small,
)
from rlscope_trace.record.validate.companion import companion, step_in
from rlscope_trace.record.validate.ending import end, wait_for
from rlscope_trace.record.validate.failures import not_started, program_failed, recorder_failed
from rlscope_trace.record.validate.gate import gates, let_go
from rlscope_trace.record.validate.timers import read_timers, remove_timers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlscope_trace.record.validate.own_files import OwnFiles

_CHILD = Path(__file__).with_name("child.py")
# CPU time, wall time, pid, wait status, whether processes are left: in so many bytes at most.
_REPORTED, _REPORT_BYTES, _MOST_DIGITS = 5, 4096, 19
_NO_REPORT_HINT = "the program must leave the files beside its stderr alone"
UNTRACED, TRACED = "untraced", "traced"


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    cpu_ns: int
    """CPU time of the program and of its processes that ended, as the OS kernel accounts it."""
    wall_ns: int
    """From its start, not that of the recorder, to its end."""
    pid: int
    timers_ns: Mapping[str, int] = field(default_factory=dict)
    """CPU time of each operation by the program's own timers; empty: it has none."""
    left_running: bool = False
    """Whether it left processes running, whose CPU time is not known."""

    @property
    def timed_ns(self) -> int:
        """Return the CPU time that has timers."""
        return sum(self.timers_ns.values())


@dataclass(frozen=True, slots=True)
class _Started:
    """A run that is under way."""

    kind: str
    process: subprocess.Popen[bytes]
    report: Path
    timers: Path | None

    def has_ended(self) -> bool:
        """Return whether the program has; the recorder around it may go on."""
        return self._told_pid() == "" or self.process.poll() is not None

    def niceness(self) -> int:
        """Return that of the program; ProcessLookupError: it does not run."""
        told = self._told_pid()
        if not told:
            raise ProcessLookupError
        return os.getpriority(os.PRIO_PROCESS, _number(told))

    def _told_pid(self) -> str | None:
        """Return what REPORT.pid holds; None: it is not there yet."""
        told = read_report(pid_file(self.report))
        return None if told is None else told.strip()


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs one command, again and again."""

    command: Sequence[str]
    record_options: Sequence[str]
    directory: Path
    """For what a run leaves; the user that the program runs as may write there, but not above."""
    timers: Path | None = None
    """The file that the program writes its timers to."""
    own_files: OwnFiles | None = None
    """What an untraced run beside a traced one has for itself; None: nothing."""

    def untraced(self) -> Run:
        """Run the program alone, as the user and with the environment that `record` gives it."""
        started = self._start_untraced(self.timers)
        wait_for(started.process)
        return self._run_of(started)

    def traced(self, trace: Path) -> Run:
        """Run the program under the recorder, which writes the trace."""
        started = self._start_traced(trace)
        wait_for(started.process)
        return self._traced_run_of(started, trace)

    def shared(self, files: Iterable[str]) -> tuple[str, ...]:
        """Return those that untraced runs beside traced ones do not have for themselves."""
        own = self.own_files.copies if self.own_files is not None else {}
        return tuple(file for file in files if file not in own)

    def keep_apart(self, files: Iterable[str]) -> None:
        """Let untraced runs beside traced ones have these files for themselves, from now on."""
        if self.own_files is not None:
            self.own_files.add(files)

    def _enter_own_files(self) -> None:
        assert self.own_files is not None
        os.setpgrp()
        self.own_files.enter()

    def together(self, trace: Path) -> tuple[Run, Run]:
        """Run it untraced and traced at the same time, on one CPU, from the same instant on."""
        cpu = max(os.sched_getaffinity(0))
        runs: list[_Started] = []
        with (
            gates(self.directory.parent, UNTRACED, TRACED) as both,
            companion(cpu) as other,
        ):
            try:
                runs.append(self._start_untraced(beside(self.timers), both[0]))
                runs.append(self._start_traced(trace, both[1]))
                let_go(((at, run.process) for at, run in zip(both, runs, strict=True)), cpu)
                step_in(other, runs)
            except BaseException:
                try:
                    # The programs may save their work: let them have the CPU for themselves.
                    other.end()
                finally:
                    end([run.process for run in runs])
                raise
            wait_for(*(run.process for run in runs))
        # What ended before the gate has more to say than what was not let go then.
        traced = self._traced_run_of(runs[1], trace)
        return self._run_of(runs[0]), traced

    def _start_untraced(self, timers: Path | None, gate: Path | None = None) -> _Started:
        identity = invoking_identity()
        user: dict[str, object] = {}
        if identity is not None:
            user = {"user": identity.uid, "group": identity.gid, "extra_groups": identity.groups}
        command = self._measured(UNTRACED, timers, gate)
        how = _apart(gate) | user
        if gate is not None and self.own_files is not None and self.own_files.copies:
            # Popen would become the user before it calls anything of ours.
            how = {"preexec_fn": self._enter_own_files}
        return self._start(UNTRACED, command, timers, env=invoking_environment(identity), **how)

    def _start_traced(self, trace: Path, gate: Path | None = None) -> _Started:
        # The costs are known since the warm-up: nothing is measured beside the untraced twin.
        known = [] if gate is None else ["--no-calibrate"]
        command = [
            *_recorder(), "record", *self.record_options, *known, "--progress", "never",
            "-o", str(trace), "--", *self._measured(TRACED, self.timers, gate),
        ]  # fmt: skip
        return self._start(TRACED, command, self.timers, **_apart(gate))

    def _traced_run_of(self, started: _Started, trace: Path) -> Run:
        run = self._run_of(started)
        if not trace.exists():
            raise recorder_failed(self._words(TRACED), 1)
        return run

    def _measured(self, kind: str, timers: Path | None, gate: Path | None) -> list[str]:
        files = [str(path or "") for path in (self._report(kind), timers, gate)]
        return [sys.executable, "-I", "-S", str(_CHILD), *files, *self.command]

    def _report(self, kind: str) -> Path:
        return self.directory / kind

    def _words_file(self, kind: str) -> Path:
        # Not in the folder that another user may write to.
        return self.directory.parent / f"{kind}.stderr"

    def _words(self, kind: str) -> str:
        return self._words_file(kind).read_text(errors="replace")

    def _start(
        self, kind: str, command: Sequence[str], timers: Path | None, **how: object
    ) -> _Started:
        report = self._report(kind)
        with acting_as(invoking_identity()):
            for left in (report, pid_file(report)):
                left.unlink(missing_ok=True)
        remove_timers(timers)
        with self._words_file(kind).open("wb") as words:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words,
                    **how,
                )  # type: ignore[call-overload]  # fmt: skip
            except subprocess.SubprocessError as error:
                raise TracerError(
                    f"the {kind} run cannot have files of its own: a probed file was replaced, or"
                    " mounting is not allowed any more",
                    hint="rlscope-trace validate without --together",
                ) from error
        return _Started(kind, process, report, timers)

    def _run_of(self, started: _Started) -> Run:
        """Return what a run took that has ended."""
        told = (read_report(started.report) or "").split()
        if not told:
            code = started.process.returncode
            raise recorder_failed(self._words(started.kind), code)
        if told[0] == "error" and len(told) == 2:
            raise not_started(self.command[0], _number(told[1]))
        if len(told) != _REPORTED:
            raise _no_report(started.report)
        cpu_ns, wall_ns, pid, status, left = map(_number, told)
        if status != 0:
            what = f"{'an' if started.kind == UNTRACED else 'a'} {started.kind} run"
            own_words = started.report.with_name(f"{started.kind}.stderr")
            raise program_failed(status, what, own_words, self.command)
        timers_ns = read_timers(started.timers) if started.timers else {}
        remove_timers(started.timers)
        return Run(cpu_ns, wall_ns, pid, timers_ns, bool(left))


def read_report(report: Path) -> str | None:
    """Return what a run wrote down, which the program can write, too; None: nothing yet."""
    try:
        with acting_as(invoking_identity()):
            return read_small(report, _REPORT_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _no_report(report) from error


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    raise TracerError(f"{text[:40]!r} is no number of a run", hint=_NO_REPORT_HINT)


def _no_report(report: Path) -> TracerError:
    return TracerError(f"{report} is not what a run writes there", hint=_NO_REPORT_HINT)


def pid_file(report: Path) -> Path:
    """Return the file that holds the pid of the program while it runs, and is empty afterwards."""
    return report.with_name(f"{report.name}.pid")


def beside(timers: Path | None) -> Path | None:
    """Return the timers of a run that goes on beside the one that they are named for."""
    return timers and timers.with_name(f"{timers.name}.{UNTRACED}")


def _apart(gate: Path | None) -> dict[str, object]:
    """Return how a run is started so that Ctrl-C reaches us alone, who then end it.

    Two at once stay in our session: the OS kernel shares out CPUs by session (autogroups), and what
    the recorder does on another CPU would be taken from its program, which so lags behind.
    """
    return {"start_new_session": True} if gate is None else {"preexec_fn": os.setpgrp}


def _recorder() -> list[str]:
    # Without -P the current directory would come first where modules are looked for.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", "rlscope_trace"]
