"""One long recording of a program that changes all the time: the recorder does not grow."""

from __future__ import annotations

import os
import re
import secrets
import statistics
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from soak_lib.compare import require_law
from soak_lib.footprint import Footprint, footprint
from soak_lib.home import MODULE, FailureError, Home, read_truth
from soak_lib.os_kernel import of_recorder, require_ended, until
from soak_lib.progress import say

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK = "RLSCOPE_SOAK"
_EVERY_S = 10
_LEAST_SAMPLES = 15
_WARM_UP = 0.2
"""The share of the time after which nothing may grow any more."""
_LEAST_S = 120
"""A shorter run tells no trend: what was found and probed at the start is most of it."""
_MOST_BYTES_PER_HOUR = 10e6
_NOISE_BYTES = 1e6
"""What memory may differ by however short the run is."""
_MOST_FDS = 5
_MOST_PEAK_BYTES = 350e6
"""As docs/cost.md says of saving so many threads."""
_DEADLINE_S = 600
_LOST = re.compile(r"(dropped|truncated|rate-limited):")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the processes of the recorder had at a time."""

    at_s: float
    by_pid: dict[int, Footprint]


def run(home: Home, minutes: float) -> bool:
    """Record for so long; tell whether all went well."""
    say(f"run: one recording of {minutes:g} minutes, in {home.folder}")
    long = LongRun(home, minutes * 60)
    try:
        long.start()
        long.watch()
    except FailureError as error:
        return _failed(home, error)
    except KeyboardInterrupt:
        say("run: interrupted; what there is, is looked at")
    try:
        long.end()
    except FailureError as error:
        return _failed(home, error)
    finally:
        long.close()
    return True


def _failed(home: Home, error: FailureError) -> bool:
    say(f"error: {error}\nhint: see {home.folder}")
    return False


class LongRun:
    """The recorder with its program, and what it took."""

    def __init__(self, home: Home, seconds: float) -> None:
        self._home = home
        self._seconds = seconds
        self._word = secrets.token_hex(8)
        self._samples: list[Sample] = []
        self._truth = home.folder / "truth.json"
        self._until = home.folder / "until"
        self._trace = home.folder / "trace.duckdb"
        self._words = home.folder / "words"
        self._recorder: subprocess.Popen[bytes] | None = None
        self._peak_bytes = 0

    def start(self) -> None:
        """Let the recorder launch the program."""
        copies = self._home.folder / "copies"
        copies.mkdir()
        program = self._home.program(
            "churner", "--truth", self._truth, "--until", self._until, "--copies", copies
        )
        command = [self._home.recorder, "-o", str(self._trace), "--simulator", MODULE]
        with self._words.open("wb") as words:
            self._recorder = subprocess.Popen(
                [*command, "--simulator", "copy_*", "--", *program],
                env=self._home.environment(**{_MARK: self._word}), stdin=subprocess.DEVNULL,
                stdout=words, stderr=words, start_new_session=True,
            )  # fmt: skip
        records = self._home.folder / "trace.duckdb.spool/records.bin"
        until(lambda: records.exists() or self._has_ended(), "it records", _DEADLINE_S)

    def watch(self) -> None:
        """Look at the recorder now and then, and say what it has."""
        every_s = min(_EVERY_S, self._seconds / _LEAST_SAMPLES)
        started_s = said_s = time.monotonic()
        while (at_s := time.monotonic() - started_s) < self._seconds:
            if self._has_ended():
                raise FailureError(f"the recorder ended: {self._words.read_text()}")
            self._samples.append(Sample(at_s, self._look()))
            if time.monotonic() - said_s >= _EVERY_S:
                said_s = time.monotonic()
                say(f"run: {at_s:.0f} of {self._seconds:.0f} s: {self._now()}")
            time.sleep(every_s)

    def end(self) -> None:
        """Let the program end and the recorder save; hold both to what they say."""
        self._until.touch()
        self._save()
        require_ended(self._word, self._home.recorder)
        truth = read_truth(self._truth)
        words = self._words.read_text()
        lost = [line for line in words.splitlines() if _LOST.search(line)]
        say(f"run: {', '.join(f'{count:,} {name}' for name, count in truth.items())}")
        say(f"run: {self._last_words(words)}; {self._peak_bytes / 1e6:.0f} MB at most, saving too")
        if lost:
            raise FailureError(f"something was lost: {'; '.join(lost)}")
        if self._peak_bytes > _MOST_PEAK_BYTES:
            raise FailureError(f"more than {_MOST_PEAK_BYTES / 1e6:.0f} MB were needed")
        self._compare(truth)
        self._require_flat()

    def close(self) -> None:
        """End what still runs."""
        self._until.touch()
        if self._recorder is not None and not self._has_ended():
            self._recorder.kill()
            self._recorder.wait()

    def _has_ended(self) -> bool:
        return self._recorder is None or self._recorder.poll() is not None

    def _look(self) -> dict[int, Footprint]:
        found = {}
        for pid in of_recorder(self._word, self._home.recorder):
            with suppress(OSError):
                found[pid] = footprint(pid)
        return found

    def _now(self) -> str:
        by_pid = sorted(self._samples[-1].by_pid.items())
        return "; ".join(f"{self._name(pid)}: {what}" for pid, what in by_pid)

    def _name(self, pid: int) -> str:
        is_recorder = self._recorder is not None and pid == self._recorder.pid
        return "the recorder" if is_recorder else "its helper"

    def _save(self) -> None:
        if self._recorder is None:
            raise FailureError("nothing was recorded")
        end_s = time.monotonic() + _DEADLINE_S
        done = 0
        while not done and time.monotonic() < end_s:
            done, status, usage = os.wait4(self._recorder.pid, os.WNOHANG)
            if done:
                self._recorder.returncode = os.waitstatus_to_exitcode(status)
                self._peak_bytes = usage.ru_maxrss * 1024
            time.sleep(0.05)
        if self._recorder.returncode != 0:
            raise FailureError(f"it did not save: {self._words.read_text()}")

    def _last_words(self, words: str) -> str:
        written = [line for line in words.splitlines() if line.startswith("wrote ")]
        return written[-1].partition(": ")[2] if written else words

    def _compare(self, truth: dict[str, int]) -> None:
        """Hold the trace to what the program counted."""
        require_law(self._trace)
        with duckdb.connect(str(self._trace), read_only=True) as con:
            counts = con.execute(
                "SELECT (SELECT count(*) FROM process), (SELECT count(*) FROM thread),"
                " (SELECT count(*) FROM operation_coded)"
            ).fetchone()
        # Every child has one thread, and marks what a round marks.
        children = truth["children"]
        expected = (1 + children, 1 + children + truth["threads"], 2 * (truth["rounds"] + children))
        # The shim has a thread of its own in the program, for a moment.
        with_shim = (expected[0], expected[1] + 1, expected[2])
        if counts not in (expected, with_shim):
            raise FailureError(f"processes, threads, ranges: {counts} in the trace, not {expected}")
        say("run: as many processes, threads and ranges in the trace as the program counted")

    def _require_flat(self) -> None:
        settled = [one for one in self._samples if one.at_s >= _WARM_UP * self._seconds]
        pids = set.intersection(*(set(one.by_pid) for one in settled)) if settled else set()
        if not pids:
            raise FailureError("the recorder could not be looked at")
        for pid in sorted(pids):
            seen = [one.by_pid[pid] for one in settled]
            hours = (settled[-1].at_s - settled[0].at_s) / 3600
            self._judge(self._name(pid), seen, hours)

    def _judge(self, name: str, seen: Sequence[Footprint], hours: float) -> None:
        quarter = max(len(seen) // 4, 1)
        parts = (seen[:quarter], seen[-quarter:])
        first, last = (statistics.median(one.anonymous_bytes for one in part) for part in parts)
        # Links come and go with the modules, so single readings differ.
        first_fds, last_fds = (statistics.median(one.fds for one in part) for part in parts)
        # Between the middles of the quarters three quarters of the time go by.
        allowed = max(_MOST_BYTES_PER_HOUR * hours * 0.75, _NOISE_BYTES)
        say(
            f"run: {name}: {(last - first) / 1e6:+.2f} MB of memory of its own in"
            f" {hours * 45:.1f} minutes (at most {allowed / 1e6:.1f}), {last_fds - first_fds:+.0f}"
            f" fds (at most {_MOST_FDS}); at the end {seen[-1]}"
        )
        if self._seconds < _LEAST_S:
            say("run: too short to tell a trend: that is not judged")
        elif last - first > allowed or last_fds - first_fds > _MOST_FDS:
            raise FailureError(f"{name} grows")
