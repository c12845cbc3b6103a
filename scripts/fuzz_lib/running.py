"""Runs one target for a while and says what came of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuzz_lib.targets import BUILD, SOURCES, Target

if TYPE_CHECKING:
    from pathlib import Path

# Per input. Far above what any takes on a busy machine with sanitizers; libFuzzer tells of inputs
# that took longer than _SLOW_S.
_HANG_S = 20
_SLOW_S = 2
# Of the whole target; the sanitizers keep freed memory for a while.
_MEMORY_MB = 2048
_LARGEST_ALLOCATION_MB = 512
# What it takes to start, to load its corpus, and to end.
_GRACE_S = 300

_SHOWN = re.compile(
    r"runtime error|^==\d+== ?ERROR|^SUMMARY|does not hold|Uncaught Python exception|^\w*Error"
)
_STATUS = re.compile(r"^#(\d+)\s.*cov: (\d+)", re.MULTILINE)
_ARTIFACT = re.compile(r"Test unit written to (\S+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a target did in its time."""

    target: Target
    seconds: float
    runs: int
    covered: int
    crash: Path | None
    is_failed: bool
    shown: tuple[str, ...]

    def lines(self) -> list[str]:
        """Say it in text."""
        line = f"{self.target.name:<14} {self.seconds:>5.0f} s {self.runs:>9} inputs"
        line += f" {self.covered:>6} branches"
        if not self.is_failed:
            return [line]
        reported = [f"{line}  FAILED", *(f"  {text}" for text in self.shown)]
        if self.crash is not None:
            command = " ".join([*self.target.command, str(self.crash)])
            reported += [f"  input: {self.crash}", f"  again: {command}"]
        return reported


def options(target: Target, seconds: int) -> list[str]:
    """Return the arguments of libFuzzer, for either kind of target."""
    return [
        f"-max_total_time={seconds}",
        f"-timeout={_HANG_S}",
        f"-report_slow_units={_SLOW_S}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-malloc_limit_mb={_LARGEST_ALLOCATION_MB}",
        f"-max_len={target.largest_input}",
        f"-artifact_prefix={BUILD / 'crashes' / target.name}-",
    ]


def environment() -> dict[str, str]:
    """Return the environment of a target."""
    return {
        # Memory that was freed is kept back, to find its use; 256 MB of it count as ours.
        "ASAN_OPTIONS": "quarantine_size_mb=32:detect_leaks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        **os.environ,
    }


def run(target: Target, seconds: int, seeds: list[Path]) -> Outcome:
    """Run a target on its corpus, the seeds, and whatever becomes of them."""
    corpus = BUILD / "corpus" / target.name
    for folder in (corpus, BUILD / "crashes"):
        folder.mkdir(parents=True, exist_ok=True)
    dictionary = SOURCES / "dictionaries" / f"{target.name}.txt"
    more = [f"-dict={dictionary}"] if dictionary.exists() else []
    command = [*target.command, *options(target, seconds), *more, str(corpus), *map(str, seeds)]
    if shutil.which("nice"):
        command = ["nice", "-n", "10", *command]
    started_s = time.monotonic()
    try:
        done = subprocess.run(
            command, env=environment(), cwd=BUILD, stdin=subprocess.DEVNULL, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds + _GRACE_S,
        )  # fmt: skip
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, output = 124, (error.stdout or b"") + b"\nERROR: it did not end\n"
    text = output.decode(errors="replace")
    (BUILD / f"{target.name}.log").write_text(text)
    return _outcome(target, time.monotonic() - started_s, status, text)


def _outcome(target: Target, seconds: float, status: int, text: str) -> Outcome:
    reported = _STATUS.findall(text)
    runs, covered = (int(number) for number in reported[-1]) if reported else (0, 0)
    artifact = _ARTIFACT.search(text)
    shown = [line.strip() for line in text.splitlines() if _SHOWN.search(line)]
    if status != 0 and not shown:
        shown = text.splitlines()[-5:]
    return Outcome(
        target=target,
        seconds=seconds,
        runs=runs,
        covered=covered,
        crash=BUILD / artifact[1] if artifact else None,
        is_failed=status != 0,
        shown=tuple(line[:200] for line in shown[:5]),
    )
