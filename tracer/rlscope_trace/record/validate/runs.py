"""Runs of the program, untraced and traced: the same child process starts and times it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.ending import wait_for
from rlscope_trace.errors import TracerError
from rlscope_trace.installed import own_command
from rlscope_trace.privileges import (
    acting_as,
    invoking_environment,
    invoking_identity,
    read_small,
)
from rlscope_trace.record.validate.failures import not_started, program_failed, recorder_failed
from rlscope_trace.record.validate.timers import read_timers, remove_timers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CHILD = Path(__file__).with_name("child.py")
# CPU time, wall time, pid, wait status, whether processes are left: in so many bytes at most.
_REPORTED, _REPORT_BYTES, _MOST_DIGITS = 5, 4096, 19
_NO_REPORT_HINT = "the program must leave the files beside its stderr alone"
UNTRACED, TRACED = "untraced", "traced"
# Ctrl-C reaches us alone, who then end the run.
_APART: dict[str, object] = {"start_new_session": True}


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
class Started:
    """A run that is under way."""

    kind: str
    process: subprocess.Popen[bytes]
    report: Path
    timers: Path | None


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs one command, again and again."""

    command: Sequence[str]
    record_options: Sequence[str]
    directory: Path
    """For what a run leaves; the user that the program runs as may write there, but not above."""
    timers: Path | None = None
    """The file that the program writes its timers to."""

    def untraced(self) -> Run:
        """Run the program alone, as the user and with the environment that `record` gives it."""
        started = self._start_untraced()
        wait_for(started.process)
        return self.run_of(started)

    def traced(self, trace: Path) -> Run:
        """Run the program under the recorder, which writes the trace."""
        started = self._start_traced(trace)
        wait_for(started.process)
        return self.traced_run_of(started, trace)

    def _start_untraced(self) -> Started:
        identity = invoking_identity()
        user: dict[str, object] = {}
        if identity is not None:
            user = {"user": identity.uid, "group": identity.gid, "extra_groups": identity.groups}
        command = self.measured(UNTRACED, self.timers)
        environment = invoking_environment(identity)
        return self.start(UNTRACED, command, self.timers, env=environment, **_APART, **user)

    def _start_traced(self, trace: Path) -> Started:
        command = self.recorded(trace, self.measured(TRACED, self.timers))
        return self.start(TRACED, command, self.timers, **_APART)

    def recorded(self, trace: Path, command: Sequence[str], *options: str) -> list[str]:
        """Return the command that runs another one under the recorder."""
        return [
            *own_command("rlscope_trace"), "record", *self.record_options, *options,
            "--progress", "never", "-o", str(trace), "--", *command,
        ]  # fmt: skip

    def traced_run_of(self, started: Started, trace: Path) -> Run:
        """Return what a traced run took that has ended."""
        run = self.run_of(started)
        if not trace.exists():
            raise recorder_failed(self._words(TRACED), 1)
        return run

    def measured(self, kind: str, timers: Path | None) -> list[str]:
        """Return the command that runs the program, and writes down what it took."""
        files = [str(path or "") for path in (self._report(kind), timers)]
        return [sys.executable, "-I", "-S", str(_CHILD), *files, *self.command]

    def _report(self, kind: str) -> Path:
        return self.directory / kind

    def _words_file(self, kind: str) -> Path:
        # Not in the folder that another user may write to.
        return self.directory.parent / f"{kind}.stderr"

    def _words(self, kind: str) -> str:
        return self._words_file(kind).read_text(errors="replace")

    def start(
        self, kind: str, command: Sequence[str], timers: Path | None, **how: object
    ) -> Started:
        """Start a run; `how`: more for Popen."""
        report = self._report(kind)
        with acting_as(invoking_identity()):
            for left in (report, pid_file(report)):
                left.unlink(missing_ok=True)
        remove_timers(timers)
        with self._words_file(kind).open("wb") as words:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words,
                **how,
            )  # type: ignore[call-overload]  # fmt: skip
        return Started(kind, process, report, timers)

    def run_of(self, started: Started) -> Run:
        """Return what a run took that has ended."""
        reported = (read_report(started.report) or "").split()
        if not reported:
            code = started.process.returncode
            raise recorder_failed(self._words(started.kind), code)
        if reported[0] == "error" and len(reported) == 2:
            raise not_started(self.command[0], _number(reported[1]))
        if len(reported) != _REPORTED:
            raise _no_report(started.report)
        cpu_ns, wall_ns, pid, status, left = map(_number, reported)
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
