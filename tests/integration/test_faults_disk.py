"""A disk that is full or read-only: the target goes on, and what was recorded is kept."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Workload
from recording import Recorder, assert_conserved, assert_whole, query, rlscope, until

pytestmark = pytest.mark.root

# Two processes that hand one CPU to each other until a line comes: about 30 MB of records/s.
ENDLESS_YIELDER = """
import os, select, sys
sys.stdin.readline()
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
child = os.fork()
while not select.select([0], [], [], 0)[0]:
    for _ in range(1000):
        os.sched_yield()
if child:
    os.waitpid(child, 0)
    print("ends as it should", flush=True)
"""


def test_the_disk_fills_up_while_recording(
    tmp_path: Path,
    small_disk: Callable[[str], Path],
    program: Callable[..., Workload],
    record: Callable[..., Recorder],
) -> None:
    full = small_disk("3m")
    trace, elsewhere = full / "trace.duckdb", tmp_path / "elsewhere.duckdb"
    target = program(ENDLESS_YIELDER)
    recorder = record(trace, f"--pid={target.pid}", words=tmp_path / "words").live()
    target.go()
    recorder.wait_to_say("warning: cannot write to")
    assert f"{recorder.spool}: No space left on device; records are dropped" in recorder.words()
    assert "hint: free space on that disk: what was recorded is kept" in recorder.words()
    # The target is still there, and works on to its own end.
    target.go()
    assert target.readline() == "ends as it should"
    assert target.wait() == 0
    assert recorder.wait() == 1
    assert f"error: cannot write {trace}: " in recorder.words()
    assert f"hint: rlscope-trace recover {recorder.spool} -o " in recorder.words()
    assert not trace.exists()
    assert recorder.spool.is_dir()

    done = rlscope("recover", recorder.spool, "-o", elsewhere)
    assert done.returncode == 0, done.stderr
    assert re.search(r"warning: [\d,]+ dropped: spool cycle", done.stderr)
    assert "hint: free space, or record to another disk with -o" in done.stderr
    assert not recorder.spool.exists()
    ((lost,),) = query(
        elsewhere, "SELECT count FROM trace_stat WHERE code = 'spool_full' AND record = 'cycle'"
    )
    assert lost > 0
    # What was written before is all there, and nobody's lifetime is made up.
    assert query(elsewhere, "SELECT count(*) > 10000 FROM thread_state") == [(True,)]
    assert query(elsewhere, "SELECT count(*) FROM thread WHERE lost_ns > 0") >= [(1,)]
    assert_conserved(elsewhere)


def test_recording_goes_on_when_there_is_room_again(
    tmp_path: Path,
    small_disk: Callable[[str], Path],
    program: Callable[..., Workload],
    record: Callable[..., Recorder],
) -> None:
    disk = small_disk("8m")
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(6 << 20))
    trace = disk / "trace.duckdb"
    target = program(ENDLESS_YIELDER)
    recorder = record(trace, f"--pid={target.pid}", words=tmp_path / "words").live()
    target.go()
    recorder.wait_to_say("warning: cannot write to")
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
    ballast.unlink()
    records = recorder.spool / "records.bin"
    size = records.stat().st_size
    until(lambda: records.stat().st_size > size + 1_000_000, what="the spool grows again")
    target.go()
    assert recorder.wait() == 0
    assert re.search(r"warning: [\d,]+ dropped: spool cycle", recorder.words())
    ((lost_ns, end_ns),) = query(trace, "SELECT max(lost_ns), max(end_ns) FROM thread")
    assert lost_ns > 0
    # The states after the gap are there.
    assert query(trace, "SELECT max(end_ns) FROM thread_state") == [(end_ns,)]
    assert_conserved(trace)


def test_the_disk_is_too_small_for_the_trace(
    tmp_path: Path,
    small_disk: Callable[[str], Path],
    workload: Callable[..., Workload],
    record: Callable[..., Recorder],
) -> None:
    full = small_disk("400k")
    trace, elsewhere = full / "trace.duckdb", tmp_path / "elsewhere.duckdb"
    target = workload("sleeper", "--sleeps=23", wait=True)
    recorder = record(trace, f"--pid={target.pid}", words=tmp_path / "words").live()
    target.go()
    assert recorder.wait() == 1
    assert target.wait() == 0
    assert f"error: cannot write {trace}: " in recorder.words()
    assert f"hint: rlscope-trace recover {recorder.spool} -o " in recorder.words()
    assert list(full.iterdir()) == [recorder.spool]
    done = rlscope("recover", recorder.spool, "-o", elsewhere)
    assert done.returncode == 0, done.stderr
    assert_whole(done.stderr)
    assert list(full.iterdir()) == []
    assert_conserved(elsewhere)


def test_a_read_only_directory(
    tmp_path: Path, small_disk: Callable[[str], Path], workload: Callable[..., Workload]
) -> None:
    closed = small_disk("1m")
    subprocess.run(["mount", "-o", "remount,ro", str(closed)], check=True)
    target = workload("sleeper", "--sleeps=0", wait=True)
    done = rlscope("-o", closed / "trace.duckdb", f"--pid={target.pid}")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: cannot write to {closed}: Read-only file system",
        "hint: -o names another place for the trace",
    ]
    assert target.process.poll() is None


def test_a_launched_program_never_runs_if_it_cannot_be_recorded(
    tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    closed, mark = small_disk("1m"), tmp_path / "mark"
    subprocess.run(["mount", "-o", "remount,ro", str(closed)], check=True)
    done = rlscope("-o", closed / "trace.duckdb", "--", "touch", mark)
    assert done.returncode == 1
    assert f"error: cannot write to {closed}: Read-only file system" in done.stderr
    assert not mark.exists()


def test_no_room_for_the_spool(tmp_path: Path, small_disk: Callable[[str], Path]) -> None:
    full, mark = small_disk("64k"), tmp_path / "mark"
    (full / "ballast").write_bytes(bytes(64 << 10))
    done = rlscope("-o", full / "trace.duckdb", "--", "touch", mark)
    assert done.returncode == 1
    assert f"error: cannot write the spool of {full}/trace.duckdb: No space left" in done.stderr
    assert "hint: -o names another place for the trace" in done.stderr
    assert list(full.iterdir()) == [full / "ballast"]
    assert not mark.exists()


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "missing" / "trace.duckdb", "--", "true")
    assert done.returncode == 1
    assert f"error: cannot write to {tmp_path}/missing: No such file or directory" in done.stderr
    assert "hint: " in done.stderr
