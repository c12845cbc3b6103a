"""Runs a program untraced and traced at the same time, on one CPU, from the same instant on.

A machine whose speed changes is then as fast for one as for the other. What would make one of them
cheaper is kept away: when one has ended, a companion keeps the CPU busy; costs are measured in the
first run only; the untraced run has copies of the files that are probed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_lib.figure import BenchError
from bench_lib.together.companion import companion, step_in
from bench_lib.together.gate import gates, let_go
from bench_lib.together.own_files import OwnFiles, may_mount
from rlscope_analysis.sentences import quality_sentence
from rlscope_analysis.trace import open_trace
from rlscope_trace.ending import end, wait_for
from rlscope_trace.privileges import invoking_environment, invoking_identity
from rlscope_trace.record.validate.pairs import Pair
from rlscope_trace.record.validate.runs import (
    TRACED,
    UNTRACED,
    Run,
    Runner,
    Started,
    pid_file,
    read_report,
)
from rlscope_trace.record.validate.trace_figures import TraceFigures, read_figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_AT_GATE = Path(__file__).with_name("at_gate.py")
_PROBED_FILES = "SELECT DISTINCT module FROM site WHERE probed_ns IS NOT NULL ORDER BY ALL"


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A run that is under way, as the companion looks at it."""

    started: Started

    def has_ended(self) -> bool:
        """Return whether the program has; the recorder around it may go on."""
        return self._pid() == "" or self.started.process.poll() is not None

    def niceness(self) -> int:
        """Return that of the program; ProcessLookupError: it does not run."""
        pid = self._pid()
        if not pid:
            raise ProcessLookupError
        return os.getpriority(os.PRIO_PROCESS, int(pid))

    def _pid(self) -> str | None:
        found = read_report(pid_file(self.started.report))
        return None if found is None else found.strip()


@dataclass(frozen=True, slots=True)
class BothAtOnce:
    """Makes pairs of runs of one command."""

    runner: Runner
    own_files: OwnFiles | None
    """What untraced runs have for themselves; None: mounting is not allowed here."""

    def together(self, trace: Path) -> tuple[Run, Run]:
        """Return what an untraced and a traced run took that shared their CPU to the end."""
        cpu = max(os.sched_getaffinity(0))
        runs: list[Started] = []
        with (
            gates(self.runner.directory.parent, UNTRACED, TRACED) as both,
            companion(cpu) as other,
        ):
            try:
                runs.append(self._start_untraced(both[0]))
                runs.append(self._start_traced(trace, both[1]))
                let_go(((at, run.process) for at, run in zip(both, runs, strict=True)), cpu)
                step_in(other, [_UnderWay(run) for run in runs])
            except BaseException:
                # The programs may save their work: let them have the CPU for themselves.
                other.end()
                end([run.process for run in runs])
                raise
            wait_for(*(run.process for run in runs))
        # What ended before the gate has more to say than what was not let go then.
        traced = self.runner.traced_run_of(runs[1], trace)
        return self.runner.run_of(runs[0]), traced

    def _start_untraced(self, gate: Path) -> Started:
        timers = beside(self.runner.timers)
        command = _at_gate(gate, self.runner.measured(UNTRACED, timers))
        identity = invoking_identity()
        how: dict[str, object] = {"preexec_fn": os.setpgrp}
        if self.own_files is not None and self.own_files.copies:
            # Popen would become the user before it calls anything of ours.
            how = {"preexec_fn": self._enter_own_files}
        elif identity is not None:
            how |= {"user": identity.uid, "group": identity.gid, "extra_groups": identity.groups}
        environment = invoking_environment(identity)
        try:
            return self.runner.start(UNTRACED, command, timers, env=environment, **how)
        except subprocess.SubprocessError as error:
            raise BenchError(
                "the untraced run cannot have files of its own: a probed file was replaced",
                hint="run the figure again",
            ) from error

    def _start_traced(self, trace: Path, gate: Path) -> Started:
        # In our session, as its twin: the OS kernel shares out CPUs by session (autogroups), and
        # what the recorder does on another CPU would be taken from its program.
        command = _at_gate(gate, self.runner.measured(TRACED, self.runner.timers))
        recorded = self.runner.recorded(trace, command, "--no-calibrate")
        return self.runner.start(TRACED, recorded, self.runner.timers, preexec_fn=os.setpgrp)

    def _enter_own_files(self) -> None:
        assert self.own_files is not None
        os.setpgrp()
        self.own_files.enter()

    def shared(self, files: Iterable[str]) -> list[str]:
        """Return those that untraced runs do not have for themselves."""
        own = self.own_files.copies if self.own_files is not None else {}
        return [file for file in files if file not in own]

    def keep_apart(self, files: Iterable[str]) -> None:
        """Let untraced runs have these files for themselves, from now on."""
        if self.own_files is not None:
            self.own_files.add(files)

    def pairs(self, count: int, trace: Path) -> Iterator[tuple[Pair, list[str]]]:
        """Yield pairs, each with the probed files that its untraced run paid for, too.

        A traced run that does not count comes first: files get cached, and costs calibrated.
        """
        _, probed = _read(trace, self.runner.traced(trace).pid)
        self.keep_apart(probed)
        for _ in range(count):
            untraced, traced = self.together(trace)
            figures, probed = _read(trace, traced.pid)
            # One that is loaded by chance, or late, may not have been probed before.
            shared = self.shared(probed)
            yield Pair(untraced, traced, figures, traced_first=False), shared
            self.keep_apart(shared)


def make_pairs(
    command: Sequence[str], options: Sequence[str], timers: Path, runs: int
) -> Iterator[tuple[Pair, list[str]]]:
    """Yield pairs of runs of a command; options: of record."""
    with tempfile.TemporaryDirectory(prefix="rlscope-bench-") as base:
        Path(base).chmod(0o711)
        run, copies = Path(base) / "run", Path(base) / "copies"
        run.mkdir()
        copies.mkdir(mode=0o700)
        own = OwnFiles(copies, invoking_identity()) if may_mount(copies) else None
        both = BothAtOnce(Runner(command, options, run, timers), own)
        yield from both.pairs(runs, Path(base) / "trace.duckdb")


def beside(timers: Path | None) -> Path | None:
    """Return the timers of a run that goes on beside the one that they are named for."""
    return timers and timers.with_name(f"{timers.name}.{UNTRACED}")


def _at_gate(gate: Path, command: Sequence[str]) -> list[str]:
    return [sys.executable, "-I", "-S", str(_AT_GATE), str(gate), *command]


def _read(trace: Path, pid: int) -> tuple[TraceFigures, list[str]]:
    """Return what a trace says, and which files were probed; remove it."""
    with open_trace(trace) as opened:
        figures = read_figures(opened.connection, pid=pid, words=quality_sentence)
        probed = [file for (file,) in opened.connection.execute(_PROBED_FILES).fetchall()]
    trace.unlink()
    return figures, probed
