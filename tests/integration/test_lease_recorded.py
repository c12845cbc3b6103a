"""A recorder that is kept by others: its lease ends it, and names what else is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recording import assert_whole, query, rlscope
from rlscope_trace.record.lease import renew
from rlscope_trace.record.shims import Request, inject

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Workload
    from recording import Recorder

pytestmark = pytest.mark.root
# Works until its input ends.
WORKS = """
import select, sys
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    sum(range(1000))
"""
# Starts, when it is asked to, a program with some variables that marks so many ranges.
STARTS = """
import os, subprocess, sys
marks = '''
import nvtx
for _ in range(700):
    with nvtx.annotate("turn"):
        pass
'''
print("ready", flush=True)
sys.stdin.readline()
variables = dict(pair.split("=", 1) for pair in sys.argv[1:])
subprocess.run([sys.executable, "-c", marks], env={**os.environ, **variables}, check=True)
print("done", flush=True)
sys.stdin.read()
"""


def test_it_saves_when_nobody_renews_its_lease(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    """And a process that the lease names later is traced from then on; others stay as they are."""
    lease, output = tmp_path / "lease", tmp_path / "trace.duckdb"
    renew(lease, 3600)
    first, later = program(WORKS), program(WORKS)
    assert [first.readline(), later.readline()] == ["ready", "ready"]
    recorder = record(output, "--pid", str(first.pid), "--lease", lease).live()
    nobody = 4_194_300
    renew(lease, 3600, [first.pid, later.pid, nobody])
    recorder.wait_to_say(f"pid {nobody} is not traced")
    renew(lease, 0.2, [first.pid, later.pid, nobody])
    assert recorder.wait() == 0, recorder.words()
    assert "nobody renewed its lease after" in recorder.words()
    found = query(output, "SELECT pid, end_ns - start_ns FROM process ORDER BY start_ns")
    assert [pid for pid, _ in found] == [first.pid, later.pid]
    assert found[0][1] > found[1][1] > 100_000_000
    assert_whole(recorder.words())
    assert query(output, "SELECT count(*) FROM thread WHERE lost_ns > 0") == [(0,)]


def test_who_is_started_after_the_recorder_reports_every_range(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    output = tmp_path / "trace.duckdb"
    variables = inject({}, Request("run-0123456789"), program=None, identity=None).environment
    parent = program(STARTS, *(f"{name}={value}" for name, value in variables.items()))
    assert parent.readline() == "ready"
    recorder = record(output, "--pid", str(parent.pid), "--session", "run-0123456789").live()
    parent.go()
    assert parent.readline() == "done"
    assert recorder.stop() == 0, recorder.words()
    assert query(output, "SELECT count(*) FROM operation WHERE name = 'turn'") == [(700,)]
    assert_whole(recorder.words())


@pytest.mark.parametrize("name", ["short", "with space", "x" * 61, "../../etc/passwd"])
def test_a_session_has_a_name_of_letters(tmp_path: Path, name: str) -> None:
    done = rlscope("--pid", "1", "--session", name, "-o", tmp_path / "trace.duckdb")
    assert done.returncode == 2
    assert "letters, digits, - and _" in done.stderr
