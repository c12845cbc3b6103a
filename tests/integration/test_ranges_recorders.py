"""NVTX ranges of a program that two recorders trace at once: one has them, the other says so."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recording import Recorder, query, rlscope

pytestmark = pytest.mark.root

PROGRAM = """
import sys, nvtx
nvtx.mark("begins")
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(500):
        nvtx.push_range("ours")
        nvtx.pop_range()
    print("done", flush=True)
"""


def ranges(trace: Path) -> int:
    ((count,),) = query(trace, "SELECT count(*) FROM operation WHERE name = 'ours'")
    return int(count)


def test_the_first_recorder_keeps_the_ranges(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    first, second = tmp_path / "first.duckdb", tmp_path / "second.duckdb"
    recorder = subprocess.Popen(
        [sys.executable, "-m", "rlscope_trace", "-o", str(first), "--no-auto", "--",
         sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert recorder.stdin is not None
    assert recorder.stdout is not None
    assert recorder.stdout.readline() == "ready\n"
    children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()

    def mark() -> None:
        print(file=recorder.stdin, flush=True)
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "done\n"

    again = record(second, f"--pid={children[0]}").live()
    again.wait_to_say("operations are not recorded: another recorder read the operations")
    mark()
    assert again.stop() == 0
    mark()
    _, words = recorder.communicate()
    assert recorder.returncode == 0, words
    assert (ranges(first), ranges(second)) == (1000, 0)
    reported = query(second, "SELECT measured, code FROM coverage WHERE kind = 'operation'")
    assert {measured for measured, _ in reported} == {False}
    assert all(str(code).startswith("other_recorder") for _, code in reported)
    assert "another recorder" in rlscope("summarize", second, "--all").stdout
