"""Ranges of the Python package nvtx cost more than those of C: their processes are told apart."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from recording import Recorder, query, until
from rlscope_analysis.schema.vocabulary import PYTHON_RANGES
from rlscope_trace.store.spool import PROBES_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
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
"""
HITS = """
SELECT (p.pid = $1)::INTEGER, h.operation, h.event, h.part, sum(h.hits)::BIGINT
FROM probe_hits AS h JOIN process AS p ON p.process_id = h.process_id
WHERE h.event LIKE 'range%' GROUP BY ALL ORDER BY ALL
"""


def recorded(trace: Path, command: Sequence[str | Path], *, until_noted: str) -> Recorder:
    """Record a program that waits for a line, which it gets when the recorder noted something."""
    recorder = Recorder(trace, "--no-auto", "--", *command, stdin=subprocess.PIPE)
    try:
        probes = recorder.spool / PROBES_FILE
        until(lambda: probes.exists() and until_noted in probes.read_text(), what=until_noted)
        assert recorder.process.stdin is not None
        with recorder.process.stdin as stdin:
            stdin.write(b"\n")
        assert recorder.wait() == 0, recorder.words()
    finally:
        recorder.close()
    return recorder


def test_a_range_is_told_by_its_client(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    recorded(trace, [sys.executable, "-c", PROGRAM, client], until_noted="nvtx_package")
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
    ((told,),) = query(
        trace, "SELECT count(*) FROM capture WHERE kind = ? AND measured", [PYTHON_RANGES]
    )
    assert told == 2


# Two seconds behind ours: what it tells would lie before its start, or elsewhere.
OTHER_CLOCK = "unshare --time --monotonic=-2 --fork"
MARKS = """
import nvtx
input()
for _ in range(100):
    with nvtx.annotate("work"):
        pass
"""


def test_a_clock_that_is_not_ours_is_told_and_nothing_misplaced(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    command = [*OTHER_CLOCK.split(), sys.executable, "-c", MARKS]
    recorder = recorded(trace, command, until_noted="other_clock")
    assert "100 unmatched: operations of processes in a time namespace" in recorder.words()
    assert query(trace, "SELECT count(*) FROM operation") == [(0,)]
    assert query(
        trace,
        "SELECT p.name LIKE 'python%', c.measured, c.reason LIKE '%another clock%'"
        " FROM capture AS c JOIN process AS p USING (process_id) WHERE kind = 'operation'",
    ) == [(True, False, True)]
