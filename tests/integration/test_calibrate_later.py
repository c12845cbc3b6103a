"""No cost is measured beside a target that still runs: it is added to its trace afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

from recording import assert_whole, query, rlscope
from rlscope_analysis.schema.vocabulary import EVENT_PARTS, EVENTS
from rlscope_trace.record.calibrate import cache
from rlscope_trace.spool.costs import Cost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Workload

pytestmark = pytest.mark.root

COST_NS = 100.0
# Switches of its own, so that there is something to correct.
WAITS = """
import os, time
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(0.001)
"""
CORRECTED = """
SELECT sum(time_ns)::BIGINT, sum(overhead_ns)::BIGINT, sum(corrected_ns)::BIGINT
FROM breakdown_corrected WHERE bucket = 'running'
"""


def calibration() -> cache.Calibration:
    """Return costs that nobody measured."""
    costs = [
        Cost(event, part, "", COST_NS, 1.0, 100, COST_NS - 1, COST_NS + 1)
        for event in EVENTS
        for part in EVENT_PARTS
    ]
    return cache.Calibration(costs, {"key": cache.machine_key(), "extent": "full"})


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a cache that is still empty."""
    monkeypatch.setenv(cache.DIRECTORY_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("RLSCOPE_CALIBRATE", "1")
    return tmp_path / "cache"


@pytest.fixture
def target(program: Callable[..., Workload]) -> Workload:
    """Return a program that runs until somebody ends it."""
    return program(WAITS)


@pytest.fixture
def postponed(tmp_path: Path, cached: Path, target: Workload) -> Path:
    """Return a trace whose target outlives its recording."""
    trace = tmp_path / "trace.duckdb"
    assert target.readline().startswith("ready")
    done = rlscope(
        "--pid",
        str(target.pid),
        "--duration=0.3",
        "--transitions=off",
        "--sample-hz=0",
        "-o",
        trace,
    )
    assert done.returncode == 0, done.stderr
    assert "note: the target still runs: " in done.stderr
    assert "measuring what recording costs" not in done.stderr
    assert_whole(done.stderr)
    assert not cached.exists()
    return trace


def refuse_of_another_machine(trace: Path) -> None:
    other = trace.with_name("other.duckdb")
    shutil.copy(trace, other)
    with duckdb.connect(str(other)) as connection:
        connection.execute("UPDATE meta SET value = '{}' WHERE key = 'calibration_key'")
    # Not the other trace either, though it could: all or none.
    done = rlscope("calibrate", trace, other)
    assert done.returncode == 1
    assert "was not recorded on this machine, with this OS kernel" in done.stderr
    for path in (trace, other):
        assert query(path, "SELECT count(mean_ns) FROM calibration") == [(0,)]


def refuse_while_it_runs(trace: Path, target: Workload) -> None:
    done = rlscope("calibrate", trace)
    assert done.returncode == 1
    assert f"error: pid {target.pid} of {trace} still runs: " in done.stderr
    assert query(trace, "SELECT count(mean_ns) FROM calibration") == [(0,)]


def test_costs_are_added_when_the_target_has_ended(
    postponed: Path, cached: Path, target: Workload
) -> None:
    ((time_ns, overhead_ns, corrected_ns),) = query(postponed, CORRECTED)
    assert time_ns > 0
    assert overhead_ns is corrected_ns is None
    cache.save(cached, calibration())
    cache.note_checked(cached, calibration(), calibration().costs)
    refuse_while_it_runs(postponed, target)
    target.process.kill()
    target.process.wait()
    refuse_of_another_machine(postponed)
    done = rlscope("calibrate", postponed)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"added the costs to {postponed}" in done.stderr
    ((after_ns, overhead_ns, corrected_ns),) = query(postponed, CORRECTED)
    ((hits, paid_ns),) = query(
        postponed,
        "SELECT sum(hits)::BIGINT, sum(hits * mean_ns) FROM probe_hits"
        " JOIN calibration USING (event, part) WHERE used",
    )
    assert after_ns == time_ns == corrected_ns + overhead_ns
    assert hits > 0
    assert overhead_ns == pytest.approx(paid_ns, abs=5)
    # What comes alone takes more than in its loop, but not five times as much.
    assert hits * COST_NS <= overhead_ns < 5 * hits * COST_NS
    # Once only: what is there is what was subtracted.
    again = rlscope("calibrate", postponed)
    assert again.returncode == 1
    assert "has its costs already\nhint: " in again.stderr


def test_a_launched_program_that_outlives_the_recording_is_left_alone(
    tmp_path: Path, cached: Path
) -> None:
    """The daemon that it leaves, too, is what was traced."""
    daemon = "import os, time; os.close(1); time.sleep(1000)"
    # The end of its output: the daemon runs.
    leaves = (
        "import subprocess, sys\n"
        f"made = subprocess.Popen([sys.executable, '-c', {daemon!r}], stdout=subprocess.PIPE,"
        " stderr=subprocess.DEVNULL)\n"
        "made.stdout.read()\n"
        "print(made.pid)\n"
        "import os; sys.stdout.flush(); os._exit(0)"
    )
    done = rlscope("-o", tmp_path / "t.duckdb", "--", sys.executable, "-c", leaves)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert "note: the target still runs: " in done.stderr
    assert not cached.exists()
