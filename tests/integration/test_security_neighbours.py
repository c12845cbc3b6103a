"""Other users of the machine: they neither stop a recording, nor fill its disk, nor are in it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import WORKLOADS, Workload
from recording import Recorder, query, rlscope

pytestmark = pytest.mark.root

STRANGER = 12345
ATTACKS = ("lease", "bytes", "silent", "newborn", "descriptors", "pipe", "heads")
# Below what the attacks write within the seconds of a test, if they are let.
FEW_BYTES = 100_000_000
# A child makes the ranges: it has to be heard while the attack is under way.
MARKS = """
import os, subprocess, sys
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
for _ in range(5):
    subprocess.run([sys.argv[1], "storm", "1", "10"], stdout=subprocess.DEVNULL, check=True)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def neighbour() -> Iterator[Callable[[int, str], Workload]]:
    """Return `neighbour(recorder.pid, "lease")`: another user's attack, under way."""
    started: list[Workload] = []

    def start(recorder: int, attack: str) -> Workload:
        made = Workload(
            [
                sys.executable,
                str(WORKLOADS / "shim_attacks.py"),
                attack,
                f"--uid={STRANGER}",
                f"--recorder={recorder}",
            ]
        )
        started.append(made)
        assert made.readline() == f"ready {made.pid}"
        return made

    yield start
    for made in started:
        made.close()


def launched(trace: Path, client: Path) -> "subprocess.Popen[str]":
    """Return a recorder whose program waits for a line to mark ranges."""
    recorder = subprocess.Popen(
        [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-auto", "--",
         sys.executable, "-c", MARKS, str(client)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert recorder.stdout is not None
    assert recorder.stdout.readline().startswith("ready")
    return recorder


def say_line(recorder: "subprocess.Popen[str]") -> None:
    assert recorder.stdin is not None
    recorder.stdin.write("\n")
    recorder.stdin.flush()


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_program_is_recorded_beside_an_attack(
    tmp_path: Path, client: Path, neighbour: Callable[[int, str], Workload], attack: str
) -> None:
    trace = tmp_path / "trace.duckdb"
    recorder = launched(trace, client)
    try:
        stranger = neighbour(recorder.pid, attack)
        say_line(recorder)
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "done\n"
        shims = (tmp_path / "trace.duckdb.spool" / "shim.bin").stat()
        say_line(recorder)
        _, words = recorder.communicate(timeout=40)
        assert stranger.process.poll() is None
    finally:
        recorder.kill()
        recorder.wait()
    assert recorder.returncode == 0, words
    assert "Traceback" not in words
    assert shims.st_size < FEW_BYTES
    assert shims.st_mode & 0o777 == 0o600
    # Five processes of the target, each heard; and nobody else.
    assert query(trace, "SELECT count(*) FROM operation WHERE name = 'storm'") == [(50,)]
    assert query(trace, "SELECT count(*) FROM trace_stat WHERE code LIKE '%operation%'") == [(0,)]


@pytest.mark.parametrize("attack", ["lease", "silent", "newborn"])
def test_a_recording_ends_when_it_is_asked_to(
    tmp_path: Path,
    workload: Callable[..., Workload],
    record: Callable[..., Recorder],
    neighbour: Callable[[int, str], Workload],
    attack: str,
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=0", "--hold")
    recorder = record(trace, f"--pid={target.pid}").live()
    neighbour(recorder.pid, attack)
    recorder.wait_to_say("a process that is not traced sent operations: they were refused")
    recorder.signal(15)
    assert recorder.process.wait(timeout=20) == 0
    assert query(trace, "SELECT count(*) FROM operation") == [(0,)]


def test_a_duration_ends_beside_an_attack(
    tmp_path: Path,
    workload: Callable[..., Workload],
    record: Callable[..., Recorder],
    neighbour: Callable[[int, str], Workload],
) -> None:
    target = workload("sleeper", "--sleeps=0", "--hold")
    recorder = record(tmp_path / "trace.duckdb", f"--pid={target.pid}", "--duration=3")
    neighbours = [neighbour(recorder.pid, attack) for attack in ("lease", "newborn", "bytes")]
    assert recorder.process.wait(timeout=30) == 0, recorder.words()
    assert all(stranger.process.poll() is None for stranger in neighbours)


def test_the_spool_is_for_its_owner_alone(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    target = workload("sleeper", "--sleeps=0", "--hold")
    recorder = record(tmp_path / "trace.duckdb", f"--pid={target.pid}").live()
    modes = {path.name: path.stat().st_mode & 0o777 for path in recorder.spool.iterdir()}
    assert recorder.stop() == 0
    for name in ("shim.bin", "records.bin", "progress.bin"):
        assert modes[name] == 0o600


def test_some_of_a_disk_stays_free(small_disk: Callable[[str], Path], client: Path) -> None:
    disk = small_disk("64m")
    # 96 MB of records, on a disk of 64.
    done = rlscope("-o", disk / "trace.duckdb", "--no-auto", "--", client, "steady", "1500000")
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    assert free > 64_000_000 // 20 // 2
    assert "No space left on device; records are dropped until there is room" in done.stderr
