"""Runs `rlscope-trace import` in a child, for tests that ask what it takes and what it prints.

seen = run_child("kineto", path)
assert seen.status == 0
assert seen.peak_mib < run_child("kineto", small).peak_mib + 512
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HANG_S = 120
# Between the test and the import: the peak of a process counts what its parent had when it began.
_MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@dataclass(frozen=True)
class Seen:
    """How an import in a child ended."""

    status: int
    words: str
    """What it printed; the names that it was given are left out."""
    peak_mib: float


def run_child(kind: str, *paths: Path, options: tuple[str, ...] = ()) -> Seen:
    """Import files with the command; it must end with few lines in printable words."""
    output = paths[0].with_name("child.duckdb")
    log = paths[0].with_name("child.log")
    command = [sys.executable, "-m", "rlscope_trace", "import", kind, *map(str, paths), *options]
    command = ["timeout", str(HANG_S), *command, "--force", "-o", str(output)]
    with log.open("wb") as file:
        reported = subprocess.run(
            [sys.executable, "-c", _MEASURE, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, check=True,
        ).stdout.split()  # fmt: skip
    status, peak_kib = map(int, reported)
    words = log.read_text()
    assert status in (0, 1), (status, words[:2000])
    assert "Traceback" not in words
    assert all(line.isprintable() for line in words.splitlines()), words[:2000]
    assert len(words) < 30_000
    return Seen(status, words, peak_kib / 1024)
