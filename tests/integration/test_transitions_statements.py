"""Interpreters that cannot be measured, or only in part: the trace and the summary say so."""

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from conftest import Workload
from native_programs import python_of
from recording import Recorder, query, rlscope
from said import said

pytestmark = pytest.mark.root

# Computes for half a second of CPU time after a line, so that there is something to sample.
WORK = """
import os, sys, time
print("ready %d" % os.getpid())
sys.stdout.flush()
sys.stdin.readline()
end = time.process_time() + 0.5
while time.process_time() < end:
    sum(range(1000))
"""
MODULES = {"3.12": "_xxsubinterpreters", "3.13": "_interpreters"}
SUBINTERPRETERS = """
import os, sys, {module} as interpreters
ids = [interpreters.create() for _ in range(2)]
print("ready %d" % os.getpid(), flush=True)
sys.stdin.readline()
for made in ids:
    interpreters.run_string(made, '''
import time
end = time.process_time() + 0.5
while time.process_time() < end:
    sum(range(1000))
''')
"""


def traced(trace: Path, record: Callable[..., Recorder], command: list[str]) -> str:
    """Record a program by attaching to it; return what the summary says."""
    target = Workload(command)
    try:
        assert target.readline() == f"ready {target.pid}"
        recorder = record(trace, f"--pid={target.pid}", "--sample-hz=999").live()
        target.go()
        assert recorder.wait() == 0, recorder.words()
    finally:
        target.close()
    done = rlscope("summarize", trace, "--all")
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def reasons(trace: Path) -> str:
    """Return everything that the trace says of what was not measured, or in part."""
    return " ".join(sentence for *_, sentence in said(partial(query, trace)) if sentence)


def test_pypy(tmp_path: Path, record: Callable[..., Recorder]) -> None:
    pypy = shutil.which("pypy3")
    if pypy is None:
        pytest.skip("no PyPy (apt-get install pypy3)")
    trace = tmp_path / "trace.duckdb"
    summary = traced(trace, record, [pypy, "-c", WORK])
    assert "PyPy" in reasons(trace)
    assert "PyPy" in summary
    # No frame and no call of it is known: none is claimed.
    assert query(trace, "SELECT count(*) FROM native_call") == [(0,)]


def test_free_threaded_python(tmp_path: Path, record: Callable[..., Recorder]) -> None:
    python = shutil.which("python3.14t") or shutil.which("python3.13t")
    if python is None:
        pytest.skip("no free-threaded Python (python3.13t)")
    trace = tmp_path / "trace.duckdb"
    summary = traced(trace, record, [python, "-c", WORK])
    assert "free-threaded" in reasons(trace)
    assert "free-threaded" in summary
    assert query(trace, "SELECT count(*) FROM wait WHERE kind = 'gil'") == [(0,)]


@pytest.mark.parametrize("version", MODULES)
def test_subinterpreters(tmp_path: Path, record: Callable[..., Recorder], version: str) -> None:
    python = python_of(version)
    source = SUBINTERPRETERS.format(module=MODULES[version])
    trace = tmp_path / "trace.duckdb"
    summary = traced(trace, record, [python, "-c", source])
    assert "interpreters" in reasons(trace)
    assert "interpreters" in summary


def test_one_interpreter_of_cpython_needs_no_excuse(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, record, [python_of("3.11"), "-c", WORK])
    assert "interpreters" not in reasons(trace)
    ((samples, found),) = query(
        trace, "SELECT count(*), count(*) FILTER (WHERE layer = 'python') FROM cpu_sample"
    )
    assert found > 0.5 * samples > 100


def test_a_program_without_python(tmp_path: Path, record: Callable[..., Recorder]) -> None:
    trace = tmp_path / "trace.duckdb"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as target:
        recorder = record(trace, f"--pid={target.pid}").live()
    assert recorder.wait() == 0
    assert query(trace, "SELECT count(*) FROM native_call") == [(0,)]
    assert rlscope("summarize", trace).returncode == 0
