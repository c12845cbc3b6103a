"""Recordings of programs that wait for pages, for memory, and without CPU quota."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from half_cpu import HalfCpu
from recording import query, rlscope

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root
MIB = 1 << 20
IN_CGROUP = 'echo $$ > "$0"/cgroup.procs && exec "$@"'


def held_ns(trace: Path) -> dict[str, int]:
    with rlscope_analysis.open(trace) as opened:
        rows = opened.sql(
            "SELECT code, sum(duration_ns)::BIGINT FROM limit_piece WHERE cause = 'blocked'"
            " GROUP BY code"
        ).fetchall()
    return dict(rows)


def read_mapped(folder: Path, *arguments: object, cgroup: Path | None = None) -> tuple[Path, int]:
    """Record the program; return the trace and the page faults that read the disk."""
    trace = folder / "trace.duckdb"
    into = [] if cgroup is None else ["sh", "-c", IN_CGROUP, cgroup]
    program = [sys.executable, WORKLOADS / "mapped_file.py", folder / "file", *arguments]
    done = rlscope("-o", trace, "--", *into, *program)
    assert done.returncode == 0, done.stderr
    return trace, json.loads(done.stdout.splitlines()[-1])["major_faults"]


def test_a_file_that_is_read_by_page_faults_is_a_disk_and_no_lack_of_memory(
    tmp_path: Path,
) -> None:
    trace, faults = read_mapped(tmp_path, 4, 30, "dropped")
    rows = query(trace, "SELECT value FROM os_counter WHERE name = 'major_faults' ORDER BY value")
    readings = [value for (value,) in rows]
    # Read while it ran: never more than it says itself.
    assert 0 < readings[-1] <= faults
    held = held_ns(trace)
    assert held["blocking_io"] > held.get("memory_pressure", 0)


@contextmanager
def _limited_memory(limit_bytes: int) -> Iterator[Path]:
    """Make a cgroup that may have so much memory."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    is_v1 = (v1 / "memory.limit_in_bytes").exists() or (v1 / "cgroup.procs").exists()
    folder = (v1 if is_v1 else v2) / f"rlscope-test-{os.getpid()}"
    name = "memory.limit_in_bytes" if is_v1 else "memory.max"
    try:
        folder.mkdir()
        (folder / name).write_text(str(limit_bytes))
    except OSError as error:
        pytest.skip(f"no cgroup with a limit on memory can be made here: {error}")
    try:
        yield folder
    finally:
        folder.rmdir()


def test_a_file_that_does_not_fit_into_memory_is_a_lack_of_it(tmp_path: Path) -> None:
    if not Path("/proc/pressure/memory").exists():
        pytest.skip("this OS kernel counts no stalls of memory (CONFIG_PSI)")
    with _limited_memory(24 * MIB) as cgroup:
        trace, _ = read_mapped(tmp_path, 64, 8, "kept", cgroup=cgroup)
    held = held_ns(trace)
    assert held["memory_pressure"] > 0.5 * sum(held.values())
    grown = "SELECT max(value) - min(value) FROM os_counter WHERE name = 'memory_stall_some'"
    ((stalled_ns,),) = query(trace, grown)
    assert stalled_ns > 0


def test_what_the_cpu_quota_took_is_read_of_the_cgroup(tmp_path: Path) -> None:
    try:
        cgroup = HalfCpu()
    except OSError as error:
        pytest.skip(f"no cgroup with a CPU quota can be made here: {error}")
    trace = tmp_path / "trace.duckdb"
    busy = "import time\nwhile time.process_time() < 1.2: pass"
    try:
        into = ["sh", "-c", IN_CGROUP, cgroup.folder]
        done = rlscope("-o", trace, "--", *into, sys.executable, "-c", busy)
        assert done.returncode == 0, done.stderr
        throttled_ns = cgroup.throttled_ns()
    finally:
        cgroup.folder.rmdir()
    rows = query(
        trace,
        "SELECT cgroup, max(value) FROM os_counter WHERE name = 'quota_throttled' GROUP BY cgroup",
    )
    # The last reading is of the end, when nothing is left to be stopped.
    assert rows == [(str(cgroup.folder), throttled_ns)]
    assert throttled_ns > 0
