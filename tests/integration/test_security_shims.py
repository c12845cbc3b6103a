"""A target that writes what it likes into the memory of its shim, or sends what it likes."""

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import WORKLOADS, in_matrix
from recording import assert_conserved, query

pytestmark = pytest.mark.root

SECONDS = 3
# What is kept of one process at once, and of it for so long, and for its other blocks.
MOST_BYTES = 450_000_000
MOST_MEMORY_KB = 512 << 10


def attacked(trace: Path, attack: str) -> str:
    """Trace a program that attacks; return what the recorder said."""
    command = [
        sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-auto", "--",
        sys.executable, str(WORKLOADS / "shim_attacks.py"), attack, f"--seconds={SECONDS}",
    ]  # fmt: skip
    # It is ended where it hangs: its stdin stays open.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as recorder:
        try:
            _, words = recorder.communicate(timeout=60)
        finally:
            recorder.kill()
    assert recorder.returncode == 0, words
    assert "Traceback" not in words
    assert_conserved(trace)
    return words


def losses(trace: Path) -> dict[str, int | None]:
    return dict(query(trace, "SELECT code, count FROM trace_stat"))


@pytest.mark.parametrize("attack", ["heads", "tails"])
def test_rings_that_make_no_sense_are_told_as_a_loss(tmp_path: Path, attack: str) -> None:
    trace = tmp_path / "trace.duckdb"
    words = attacked(trace, attack)
    assert losses(trace)["operation_ring_overwritten"] is None
    assert "a process wrote over the memory in which it reports its operations" in words


def test_garbage_is_told_as_a_loss(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    words = attacked(trace, "garbage")
    assert "nothing lost" not in words
    assert (losses(trace)["operations_damaged"] or 0) > 1000


def test_memories_without_end_are_refused_and_counted(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    attacked(trace, "descriptors")
    refused = losses(trace)["processes_too_many"]
    assert refused is not None
    assert refused > 0


@pytest.mark.parametrize("attack", ["lease", "newborn", *in_matrix("pipe", "silent")])
def test_what_is_no_memory_of_a_shim_is_left_alone(tmp_path: Path, attack: str) -> None:
    trace = tmp_path / "trace.duckdb"
    attacked(trace, attack)
    assert query(trace, "SELECT count(*) FROM operation") == [(0,)]


def test_rings_that_are_always_full_do_not_fill_the_disk(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    recorder = subprocess.Popen(
        [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-auto", "--",
         sys.executable, str(WORKLOADS / "shim_attacks.py"), "bytes", f"--seconds={SECONDS}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    spool = tmp_path / "trace.duckdb.spool" / "shim.bin"
    written, memory_kb = 0, 0
    status = Path(f"/proc/{recorder.pid}/status")
    assert recorder.stdout is not None
    try:
        assert recorder.stdout.readline().startswith("ready")
        while recorder.poll() is None and (spool.exists() or not written):
            with suppress(subprocess.TimeoutExpired):
                recorder.wait(timeout=0.05)
            with suppress(OSError):
                found = re.search(r"VmHWM:\s+(\d+)", status.read_text())
                memory_kb = max(memory_kb, int(found[1]) if found else 0)
                written = spool.stat().st_size
        _, words = recorder.communicate(timeout=60)
    finally:
        recorder.kill()
        recorder.wait()
    assert recorder.returncode == 0, words
    assert 0 < written < MOST_BYTES
    assert memory_kb < MOST_MEMORY_KB
    assert "warning: a process marks more operations than are kept: the rest is dropped" in words
    assert query(trace, "SELECT count, code FROM trace_stat WHERE kind = 'rate-limited'") == [
        (None, "operations_rate_limited")
    ]
