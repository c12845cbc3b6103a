"""The recorder under test: starts it, waits until it traces, stops it, reads its accounts."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bench_lib.figure import BenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
_DEADLINE_S = 120
_HELPER_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")


@dataclass(frozen=True, slots=True)
class Bench:
    """Where to measure, with what, how often."""

    recorder: str
    python: str
    directory: Path
    runs: int
    only: frozenset[str] = frozenset()
    """Workloads to measure, in groups that have several; empty: all."""
    cpu: int = field(default_factory=lambda: max(os.sched_getaffinity(0)))
    """The CPU that pinned programs run on."""

    def helper(self, name: str, *flags: str) -> str:
        """Compile a helper program, if that has not been done; return its path."""
        program = self.directory / name
        source = Path(__file__).with_name(f"{name}.c")
        if not program.exists():
            compiler = shutil.which("cc") or shutil.which("clang")
            if compiler is None:
                raise BenchError("no C compiler for the helpers", hint="apt-get install gcc")
            command = [compiler, *_HELPER_FLAGS, *flags, "-o", str(program), str(source)]
            subprocess.run(command, check=True)
        return str(program)

    def pinned(self) -> list[str]:
        """Return what a command is prefixed with to run on one CPU."""
        return ["taskset", "--cpu-list", str(self.cpu)]

    def calibrate(self) -> None:
        """Let the recorder know in full what its events cost here, unless it does."""
        subprocess.run([self.recorder, "calibrate"], check=True, capture_output=True)

    def trace(self, name: str) -> Path:
        """Return the path of a trace that does not exist."""
        path = self.directory / f"{name}.duckdb"
        path.unlink(missing_ok=True)
        return path

    def record(self, output: Path, command: Sequence[str]) -> tuple[str, Ended]:
        """Launch a command under the recorder; return what it printed, and the recorder's end."""
        recorder = Recorder.start(self, ["-o", str(output), "--", *command])
        printed = recorder.process.stdout.read() if recorder.process.stdout else ""
        return printed, recorder.ended()

    def attach(self, pid: int, output: Path, *options: str) -> Recorder:
        """Attach the recorder to a process; it traces when this returns."""
        recorder = Recorder.start(self, ["--pid", str(pid), "-o", str(output), *options])
        recorder.wait_for("tracing pid")
        return recorder

    def query(self, trace: Path, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query on a trace."""
        answer = subprocess.run(
            [self.recorder, "sql", str(trace), query, "--format", "json", "--all"],
            check=True,
            capture_output=True,
            text=True,
        )
        rows: list[dict[str, Any]] = json.loads(answer.stdout)
        return rows


@dataclass(frozen=True, slots=True)
class Ended:
    """What a recorder said, and what the OS kernel says of it."""

    said: str
    exit_code: int
    cpu_s: float
    wall_s: float
    peak_rss_bytes: int

    def count(self, what: str) -> int:
        """Return a count of its last words: records, thread states."""
        found = re.search(rf"wrote .* ([\d,]+) {what}", self.said)
        if found is None:
            raise BenchError(
                f"the recorder wrote no trace, exit code {self.exit_code}: {self.said.strip()}",
                hint="rlscope-trace doctor",
            )
        return int(found[1].replace(",", ""))


@dataclass(slots=True)
class Recorder:
    """A running recorder."""

    process: subprocess.Popen[str]
    started_s: float
    said: str = ""

    @classmethod
    def start(cls, bench: Bench, arguments: Sequence[str], prefix: Sequence[str] = ()) -> Recorder:
        """Start it with these arguments."""
        process = subprocess.Popen(
            [*prefix, bench.recorder, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return cls(process, time.monotonic())

    def wait_for(self, words: str) -> None:
        """Wait until it says so."""
        stream = self.process.stderr
        while words not in self.said:
            # Not readline: what that has buffered, select does not see.
            is_ready = stream and select.select([stream], [], [], _DEADLINE_S)[0]
            part = os.read(stream.fileno(), 4096).decode() if stream and is_ready else ""
            self.said += part
            if not part:
                raise BenchError(
                    f"the recorder did not get as far as '{words}': {self.said.strip()}",
                    hint="rlscope-trace doctor",
                )

    def stop(self) -> Ended:
        """Interrupt it; return when it has saved its trace."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def kill(self) -> None:
        """Kill it with no chance to clean up."""
        self.process.kill()
        self.process.wait()

    def ended(self) -> Ended:
        """Wait for its end."""
        if self.process.stderr:
            self.said += self.process.stderr.read()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(
            said=self.said,
            exit_code=self.process.returncode,
            cpu_s=usage.ru_utime + usage.ru_stime,
            wall_s=time.monotonic() - self.started_s,
            peak_rss_bytes=usage.ru_maxrss * 1024,
        )

    def cpu_ns(self, thread_name: str = "") -> int:
        """Return the CPU time of its threads so far, or of those of one name."""
        return sum(
            int((task / "schedstat").read_text().split()[0])
            for task in Path(f"/proc/{self.process.pid}/task").iterdir()
            if not thread_name or (task / "comm").read_text().strip() == thread_name
        )


@dataclass(slots=True)
class Peer:
    """A program that does a part of its work at each line it is sent, and answers with a line."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, command: Sequence[str]) -> Peer:
        """Start it; it is ready when it has said its first line."""
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        peer = cls(process)
        peer.answer()
        return peer

    def send(self, line: str) -> None:
        """Send a line."""
        if self.process.stdin:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def answered_within(self, seconds: float) -> bool:
        """Wait for an answer to come, at most so long."""
        return bool(select.select([self._stdout], [], [], seconds)[0])

    def answer(self) -> str:
        """Return the next answer."""
        if not self.answered_within(_DEADLINE_S):
            raise BenchError("the measured program does not answer", hint="see its output above")
        line = self._stdout.readline()
        if not line:
            raise BenchError("the measured program has ended", hint="see its output above")
        return line

    def close(self) -> None:
        """End it by ending its input."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait()
        self._stdout.close()

    @property
    def _stdout(self) -> IO[str]:
        if self.process.stdout is None:
            raise RuntimeError("started without a pipe")
        return self.process.stdout
