"""Loops that wait on the CPU are told from work: against known shares, and against PyTorch."""

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conftest import Workload
from native_programs import build_library, build_program
from native_recording import (
    Launch,
    buckets,
    error_points,
    python_program,
    running_ns,
    sampled,
)
from recording import Recorder, query, rlscope, until
from rl_programs import require_modules

pytestmark = [pytest.mark.root, pytest.mark.slow]

POINTS = 5.0
SAMPLING = "--sample-hz=999"


def check(found: float, true: float, samples: int) -> None:
    """Hold a share to the true one, as points; two standard errors are granted on top."""
    granted = POINTS + 2 * error_points(true, samples)
    assert abs(100 * found - 100 * true) <= granted, (found, true, samples)


@pytest.mark.parametrize("percent", [0, pytest.param(40, marks=pytest.mark.matrix), 90])
def test_a_program_in_c(tmp_path: Path, percent: int, record: Callable[..., Recorder]) -> None:
    trace = tmp_path / "trace.duckdb"
    program = build_program("spin_share", tmp_path)
    target = Workload([str(program), "3", str(percent)])
    try:
        assert target.readline() == f"ready {target.pid}"
        recorder = record(trace, f"--pid={target.pid}", SAMPLING).live()
        target.go()
        truth: Any = target.truth(deadline_s=120)
        assert recorder.wait() == 0, recorder.words()
    finally:
        target.close()
    where = f"t.tid = {truth['tid']}"
    found = sampled(trace, truth["start_ns"], truth["end_ns"], where)
    cpu_ns = truth["spin_ns"] + truth["compute_ns"]
    # A sample per tick of its CPU time, unless the machine was too busy for the ticks.
    assert found.total() >= 0.5 * cpu_ns * 999e-9
    check(found["spin"] / found.total(), truth["spin_ns"] / cpu_ns, found.total())


def test_threads_under_python(tmp_path: Path, launch: Launch) -> None:
    require_modules("nvtx")
    trace = tmp_path / "trace.duckdb"
    library = build_library("spin_share", tmp_path)
    command = python_program("spin_share", "--wait", f"--library={library}", "--threads=2")
    program = launch(trace, command, (SAMPLING,)).ready()
    until(lambda: program.events("python"), what="Python is found")
    truth = program.finished()
    for thread in truth["threads"]:
        where = f"t.tid = {thread['tid']}"
        found = sampled(trace, truth["start_ns"], truth["end_ns"], where)
        true = thread["spin_ns"] / (thread["spin_ns"] + thread["compute_ns"])
        check(found["spin"] / found.total(), true, found.total())
    # The same as the summary has it.
    shown = buckets(trace, truth["pid"], "window")
    check(shown["spin"] / running_ns(shown), 0.4, 2000)


# It ends by itself: on a busy machine a signal may reach it late.
BPFTRACE = """
BEGIN {{ @from = nsecs; }}
profile:hz:997 /pid == {pid}/ {{ @ip[reg("ip")] = count(); }}
interval:s:3 {{ @until = nsecs; exit(); }}
"""


@dataclass
class Observed:
    """Where a process was on the CPU, by another tool."""

    from_ns: int = 0  # CLOCK_MONOTONIC
    until_ns: int = 0
    samples: dict[int, int] = field(default_factory=dict)  # by address

    def read(self, output: str) -> None:
        self.from_ns, self.until_ns = (
            int(found[1])
            for name in ("from", "until")
            if (found := re.search(rf"@{name}: (\d+)", output))
        )
        for ip, count in re.findall(r"@ip\[(-?\d+)\]: (\d+)", output):
            self.samples[int(ip) % 2**64] = int(count)

    def share(self, places: list[range]) -> float:
        inside = sum(
            count for ip, count in self.samples.items() if any(ip in place for place in places)
        )
        return inside / self.samples_taken()

    def samples_taken(self) -> int:
        return sum(self.samples.values())


@contextmanager
def observed(pid: int, reported: Observed) -> Iterator[None]:
    """Count where a process is on the CPU while it runs, for three seconds."""
    other = subprocess.Popen(
        ["bpftrace", "-e", BPFTRACE.format(pid=pid)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert "Attaching" in other.stdout.readline()
    try:
        yield
        output, _ = other.communicate(timeout=120)
    finally:
        other.kill()
        other.wait()
    reported.read(output)


def ranges_of(pid: int, name: str) -> list[range]:
    """Return where a file is mapped in a process."""
    ranges = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if name in line:
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            ranges.append(range(first, last))
    return ranges


def oversubscribed(
    launch: Launch, trace: Path, policy: str, reported: Observed | None = None
) -> tuple[Counter[str | None], list[range]]:
    """Record spin_torch.py; return its samples while it was observed, and where libgomp was."""
    command = ["env", f"OMP_WAIT_POLICY={policy}", *python_program("spin_torch", "--wait")]
    # Calibration would leave out times, and how much is spun differs from one time to the next.
    program = launch(trace, command, (SAMPLING,)).ready()
    until(lambda: program.events("python"), what="Python is found")
    pid = program.child()
    libgomp = ranges_of(pid, "libgomp")
    if reported is None:
        truth = program.finished()
    else:
        program.go()
        with observed(pid, reported):
            truth = program.truth(deadline_s=120)
        assert program.wait(deadline_s=120) == 0, program.words()
    window = (
        (reported.from_ns, reported.until_ns) if reported else (truth["start_ns"], truth["end_ns"])
    )
    return sampled(trace, *window, f"p.pid = {truth['pid']}"), libgomp


def test_pytorch_with_more_threads_than_free_cpus(tmp_path: Path, launch: Launch) -> None:
    """Most of what looks like work of the backend is waiting for a thread that has no CPU."""
    require_modules("torch")
    if (os.cpu_count() or 1) < 2:
        pytest.skip("needs two CPUs")
    reported = Observed() if shutil.which("bpftrace") else None
    active, libgomp = oversubscribed(launch, tmp_path / "active.duckdb", "active", reported)
    passive, _ = oversubscribed(launch, tmp_path / "passive.duckdb", "passive")
    spin = active["spin"] / active.total()
    assert spin > 0.5
    assert passive["spin"] / passive.total() < 0.05
    if reported:
        # Threads wait for whole time slices of others: what is sampled within 4 ms tells the same.
        # Both sides are samples: their errors add up as squares do.
        check(spin, reported.share(libgomp), reported.samples_taken() // 4 // 2)


def test_the_summary_names_it(tmp_path: Path, launch: Launch) -> None:
    require_modules("nvtx")
    trace = tmp_path / "trace.duckdb"
    library = build_library("spin_share", tmp_path)
    command = python_program(
        "spin_share", "--wait", f"--library={library}", "--seconds=0.5", "--percent=90"
    )
    program = launch(trace, command, (SAMPLING,)).ready()
    until(lambda: program.events("python"), what="Python is found")
    program.finished()
    assert query(trace, "SELECT measured FROM coverage WHERE kind = 'cpu_sample'") == [(True,)]
    done = rlscope("summarize", trace, "--all")
    assert done.returncode == 0
    assert re.search(r"observed .* is spinning", done.stdout)
    # In the table of buckets too.
    assert re.search(r"process +operation .* spin .*%", done.stdout)
