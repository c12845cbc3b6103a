"""Ranges of the Python package nvtx cost more than those of C: their processes are told apart."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from recording import Recorder, query, until
from rlscope_analysis.schema.vocabulary import PYTHON_RANGES
from rlscope_trace.spool.directory import PROBES_FILE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

COUNT = 100
# The child by fork has the package from its parent, the one by exec has not, and marks ranges in C.
PROGRAM = """
import os, subprocess, sys
import nvtx
input()
def mark():
    for _ in range(100):
        with nvtx.annotate("work"):
            pass
if os.fork() == 0:
    mark()
    os._exit(0)
os.wait()
mark()
subprocess.run([sys.argv[1], "kinds"], check=True, stdout=subprocess.DEVNULL)
subprocess.run(sys.argv[2:], check=True)
"""
NAMESPACE = ("unshare", "--time", "--monotonic=-2", "--fork")
# Two seconds behind ours: what it tells would lie before its start, or elsewhere.
OTHER_CLOCK = """
import nvtx
input()
for _ in range(100):
    with nvtx.annotate("work"):
        pass
"""
HITS = """
SELECT (p.pid = $1)::INTEGER, h.operation, h.event, h.part, sum(h.hits)::BIGINT
FROM probe_hits AS h JOIN process AS p ON p.process_id = h.process_id
WHERE h.event LIKE 'range%' GROUP BY ALL ORDER BY ALL
"""


def require_time_namespaces() -> None:
    """Skip where no process can have another clock, and say what is missing."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    done = subprocess.run(
        [*NAMESPACE, "true"], capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode:
        pytest.skip(f"needs time namespaces (CONFIG_TIME_NS) and CAP_SYS_TIME: {done.stderr}")


def has_noted(probes: Path, words: list[str]) -> bool:
    """Tell whether the recorder has written all of these down, as often as they stand here."""
    text = probes.read_text() if probes.exists() else ""
    return all(text.count(f'"{word}"') >= words.count(word) for word in words)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, client: Path) -> tuple[Path, str]:
    """Return a trace and the words of its recorder."""
    require_time_namespaces()
    trace = tmp_path_factory.mktemp("recorded") / "trace.duckdb"
    other = [*NAMESPACE, sys.executable, "-c", OTHER_CLOCK]
    recorder = Recorder(
        trace, "--no-auto", "--", sys.executable, "-c", PROGRAM, client, *other,
        stdin=subprocess.PIPE,
    )  # fmt: skip
    probes = recorder.spool / PROBES_FILE
    try:
        assert recorder.process.stdin is not None
        with recorder.process.stdin as stdin:
            # Of the program itself, then of the last process that it starts.
            for noted in (["nvtx_package"], ["nvtx_package", "nvtx_package", "other_clock"]):
                until(lambda noted=noted: has_noted(probes, noted), what=str(noted))
                stdin.write(b"\n")
                stdin.flush()
        assert recorder.wait() == 0, recorder.words()
    finally:
        recorder.close()
    return trace, recorder.words()


def test_a_range_is_told_by_its_client(recorded: tuple[Path, str]) -> None:
    trace, _ = recorded
    ((first,),) = query(trace, "SELECT min(pid) FROM process WHERE parent_process_id IS NULL")
    rows = query(trace, HITS, [first])
    of_python = [row for row in rows if row[2] == "range_python"]
    assert of_python == [
        (0, "(unannotated)", "range_python", "outside", COUNT),
        (0, "work", "range_python", "inside", COUNT),
        (1, "(unannotated)", "range_python", "outside", COUNT),
        (1, "work", "range_python", "inside", COUNT),
    ]
    assert {row[2] for row in rows if row[1] not in ("work", "(unannotated)")} == {"range"}
    ((reported,),) = query(
        trace, "SELECT count(*) FROM coverage WHERE kind = ? AND measured", [PYTHON_RANGES]
    )
    # The third one is that with another clock.
    assert reported == 3


def test_a_clock_that_is_not_ours_is_told_and_nothing_misplaced(recorded: tuple[Path, str]) -> None:
    trace, words = recorded
    assert "100 unmatched: operations of processes in a time namespace" in words
    assert query(trace, "SELECT count(*) FROM operation WHERE name = 'work'") == [(2 * COUNT,)]
    assert query(
        trace,
        "SELECT p.name LIKE 'python%', c.measured, c.code = 'other_clock'"
        " FROM coverage AS c JOIN process AS p USING (process_id) WHERE kind = 'operation'",
    ) == [(True, False, True)]
