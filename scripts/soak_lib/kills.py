"""Recorders killed at random moments: nothing readable is lost, nobody harmed, nothing left."""

from __future__ import annotations

import random
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from soak_lib.compare import compare, compare_progress, require_law
from soak_lib.home import MODULE, FailureError, Home, read_truth
from soak_lib.os_kernel import (
    held_objects,
    kill_all,
    processes_with,
    require_ended,
    require_gone,
    until,
)
from soak_lib.progress import Progress, say
from soak_lib.spool_walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MARK = "RLSCOPE_SOAK"
_MOMENTS = {"starting": 1.2, "recording": 1.0, "saving": 1.5}
"""When to kill: at most so many seconds after that has begun."""
_WEIGHTS = (2, 2, 2)
_DEADLINE_S = 120
_PAUSE_S = 0.002


@dataclass(frozen=True, slots=True)
class Plan:
    """One kill, all that chance decides of it."""

    launched: bool
    injected: bool
    moment: str
    delay_s: float
    duration_s: float
    rounds: int


def plan(chance: random.Random) -> Plan:
    """Return the next one."""
    (moment,) = chance.choices([*_MOMENTS], _WEIGHTS)
    return Plan(
        launched=chance.random() < 0.5,
        injected=chance.random() < 0.5,
        moment=moment,
        delay_s=chance.uniform(0, _MOMENTS[moment]),
        duration_s=chance.uniform(0.2, 1.2),
        rounds=chance.randint(20, 120),
    )


def run(home: Home, runs: int, seed: int) -> bool:
    """Kill so many recorders; tell whether all went well."""
    chance = random.Random(seed)
    progress = Progress(f"kills (seed {seed})", runs)
    say(f"kills: {runs:,} recorders, seed {seed}, in {home.folder}")
    try:
        for number in range(runs):
            chosen = plan(chance)
            folder = home.folder / f"kill-{number}"
            folder.mkdir()
            one = Kill(home, folder, chosen)
            try:
                one.run(progress)
            except FailureError as error:
                say(f"error: kill {number} ({chosen}): {error}\nhint: see {folder}")
                return False
            finally:
                one.close()
            shutil.rmtree(folder)
            progress.step()
    finally:
        say(progress.line())
    return True


class Kill:
    """One recorder, its program, and its end."""

    def __init__(self, home: Home, folder: Path, chosen: Plan) -> None:
        self._home = home
        self._plan = chosen
        self._trace = folder / "trace.duckdb"
        self._spool = folder / "trace.duckdb.spool"
        self._words = folder / "words"
        self._truth = folder / "truth.json"
        self._until = folder / "until"
        self._word = f"{_MARK}={secrets.token_hex(8)}"
        self._target: subprocess.Popen[bytes] | None = None
        self._recorder: subprocess.Popen[bytes] | None = None

    def run(self, progress: Progress) -> None:
        """Record, kill, recover, and look at everything."""
        if not self._plan.launched:
            self._start_target()
        self._recorder = self._start_recorder()
        self._wait_for_moment(self._recorder)
        held = held_objects(self._recorder.pid)
        self._recorder.kill()
        self._recorder.wait()
        progress.counts["launched" if self._plan.launched else "attached"] += 1
        require_ended(self._word, self._home.recorder)
        require_gone(held)
        self._end_target(progress)
        progress.counts[f"killed {self._recover(progress)}"] += 1

    def close(self) -> None:
        """End what still runs."""
        for process in (self._recorder, self._target):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        # A launched program outlives its recorder.
        kill_all(self._word)

    def _program(self, *more: object) -> list[str]:
        return self._home.program("worker", "--truth", self._truth, *more)

    def _start_target(self) -> None:
        self._target = subprocess.Popen(
            self._program("--until", self._until), env=self._home.environment(),
            start_new_session=True,
        )  # fmt: skip
        self._until_there(self._started_file(), self._target)

    def _started_file(self) -> Path:
        return self._truth.with_name(self._truth.name + ".started")

    def _until_there(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        until(lambda: path.exists() or process.poll() is not None, f"{path} is there", _DEADLINE_S)
        if not path.exists():
            raise FailureError(f"{process.args!r} ended with {process.returncode}")

    def _start_recorder(self) -> subprocess.Popen[bytes]:
        command = [self._home.recorder, "-o", str(self._trace), "--simulator", MODULE]
        if self._target is not None:
            command += ["--pid", str(self._target.pid), "-d", f"{self._plan.duration_s:.3f}"]
            command += ["--inject"] if self._plan.injected else []
        else:
            command += ["--", *self._program("--rounds", self._plan.rounds)]
        name, _, value = self._word.partition("=")
        with self._words.open("wb") as words:
            return subprocess.Popen(
                command, env=self._home.environment(**{name: value}), stdin=subprocess.DEVNULL,
                stdout=words, stderr=words, start_new_session=True,
            )  # fmt: skip

    def _wait_for_moment(self, recorder: subprocess.Popen[bytes]) -> None:
        begun: dict[str, Callable[[], bool]] = {
            "starting": lambda: True,
            "recording": (self._spool / "records.bin").exists,
            "saving": lambda: " records" in self._words.read_text(),
        }
        until(
            lambda: begun[self._plan.moment]() or recorder.poll() is not None,
            f"it is {self._plan.moment}",
            _DEADLINE_S,
        )
        end_s = time.monotonic() + self._plan.delay_s
        while time.monotonic() < end_s and recorder.poll() is None:
            time.sleep(_PAUSE_S)

    def _end_target(self, progress: Progress) -> None:
        """Let the program come to its end; hold it to its own count of what it did."""
        if self._target is not None:
            if self._target.poll() is not None:
                raise FailureError(f"the target ended with {self._target.returncode}")
            self._until.touch()
            if self._target.wait(_DEADLINE_S) != 0:
                raise FailureError(f"the target ended with {self._target.returncode}")
        else:
            until(lambda: not processes_with(self._word), "the program ended", _DEADLINE_S)
            if not self._started_file().exists():
                return
        progress.counts["rounds of work, none wrong"] += read_truth(self._truth)["rounds"]

    def _recover(self, progress: Progress) -> str:
        """Make a trace of what is left; return when the recorder was killed."""
        if not (self._spool / "records.bin").exists():
            if not self._trace.exists():
                return "before it recorded"
            require_law(self._trace)
            return "after it saved"
        was_saved = self._trace.exists()
        # Recovering deletes it: whoever looks into a failure needs both.
        shutil.copytree(self._spool, self._spool.with_name("kept.spool"))
        walked = walk(self._spool)
        done = self._home.run("recover", self._spool, *(["--force"] if was_saved else []))
        if not walked.records and done.returncode == 1 and "holds no record" in done.stderr:
            return "before it recorded"
        if done.returncode != 0 or "Traceback" in done.stderr:
            raise FailureError(f"recover ended with {done.returncode}: {done.stderr}")
        compare_progress(walked)
        compare(walked, self._trace, done.stderr)
        left = {path.name for path in self._trace.parent.glob("trace.duckdb?*")}
        if left:
            raise FailureError(f"recover left {sorted(left)}")
        for what, count in (
            ("records recovered, none missing", walked.records),
            ("calls", len(walked.calls)), ("samples", len(walked.samples)),
            ("ranges and marks", walked.ranges + walked.marks),
        ):  # fmt: skip
            progress.counts[what] += count
        if was_saved:
            return "after it saved"
        return "while it saved" if walked.end_ns else "while it recorded"
