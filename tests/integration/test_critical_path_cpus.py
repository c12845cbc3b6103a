"""Waits for a CPU of real programs: it is known who had it, or that the CPU quota was used up.

Other programs of the machine want CPUs, too: the OS kernel's own counts are the truth.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import WORKLOADS
from half_cpu import HalfCpu
from known_paths import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root
CPU_MS = 1000


@contextlib.contextmanager
def neighbour(kind: str, cpu: int) -> Iterator[int]:
    """Let a program outside the trace run on a CPU; yield its pid."""
    command = [sys.executable, WORKLOADS / "neighbour.py", kind, str(cpu)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"begun\n"
        yield program.pid
        assert program.poll() is None
        program.kill()


@pytest.fixture
def cpu() -> int:
    return max(os.sched_getaffinity(0))


def record(folder: Path, cpu: int) -> Recorded:
    return Recorded(folder, "alone", CPU_MS, before=["taskset", "-c", str(cpu)])


def test_a_busy_program_outside_the_trace_is_named(
    tmp_path: Path, cpu: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with neighbour("busy", cpu) as pid:
        monkeypatch.setenv("NEIGHBOUR_PID", str(pid))
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        found = record(tmp_path, cpu)
    by_it = found.part_ns(f"c.by_program_pid = {pid}")
    assert by_it == found.part_ns(
        f"c.by_program = '{name}' AND c.by_program_pid = {pid}"
        f" AND c.cause = 'cpu_taken_by_other' AND p.pid = {found.truth['pid']}"
    )
    # Whatever the neighbour had of their CPU, the iteration waited for: half, if nobody else does.
    used_ns, others_ns = found.truth["cpu_ns"], found.truth["neighbour_cpu_ns"]
    assert found.part_ns("c.cause = 'running'") == pytest.approx(used_ns, rel=0.05)
    assert by_it / found.time_ns == pytest.approx(others_ns / found.time_ns, abs=0.05)
    assert others_ns > 0.25 * (used_ns + others_ns)
    # Hardly any wait has no name.
    named = found.part_ns("c.cause IN ('cpu_taken', 'cpu_taken_by_other')")
    assert found.part_ns("c.cause = 'cpu_wait'") < 0.05 * named


def test_a_quiet_program_outside_the_trace_takes_nothing(tmp_path: Path, cpu: int) -> None:
    with neighbour("quiet", cpu) as pid:
        found = record(tmp_path, cpu)
    assert found.part_ns(f"c.by_program_pid = {pid}") == 0
    assert found.part_ns("c.cause = 'cgroup_quota'") == 0
    assert found.part_ns("c.cause = 'cpu_taken_by_other'") == found.part_ns(
        "c.by_program IS NOT NULL"
    )


@pytest.fixture
def half_cpu() -> Iterator[HalfCpu]:
    try:
        cgroup = HalfCpu()
    except OSError as error:
        pytest.skip(f"no cgroup with a CPU quota can be made here: {error}")
    yield cgroup
    cgroup.folder.rmdir()


# Compares shares of two clocks: only where nobody else has work for the machine.
@pytest.mark.matrix
def test_a_cgroup_with_half_a_cpu(tmp_path: Path, cpu: int, half_cpu: HalfCpu) -> None:
    enter = f'echo $$ > {half_cpu.folder}/cgroup.procs && exec taskset -c {cpu} "$@"'
    found = Recorded(tmp_path, "alone", CPU_MS, before=["sh", "-c", enter, "sh"])
    stopped = found.part_ns("c.cause = 'cgroup_quota'")
    # The OS kernel counts of the whole program what the path tells of the iteration: nearly all.
    assert stopped / found.time_ns == pytest.approx(
        half_cpu.throttled_ns() / found.time_ns, abs=0.05
    )
    # Half of each period: a CPU that others have for a part of it is no quota of ours.
    others = found.part_ns("c.cause IN ('cpu_taken_by_other', 'cpu_wait', 'cpu_taken')")
    assert (stopped + others) / found.time_ns == pytest.approx(0.5, abs=0.05)
