"""Names that a person recognises: titles, and what Python calls processes and threads."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import WORKLOADS
from recording import Recorder, query, until
from rlscope_analysis.trace import open_trace

pytestmark = pytest.mark.root

NAMED = str(WORKLOADS / "named.py")


def recorded(trace: Path, *arguments: str) -> dict[str, dict[str, str]]:
    """Record the program that names things; return its truth."""
    command = [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-calibrate"]
    done = subprocess.run(
        [*command, "--", sys.executable, NAMED, *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    truth: dict[str, dict[str, str]] = json.loads(done.stdout)
    return truth


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_have_the_names_of_multiprocessing(tmp_path: Path, method: str) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = recorded(trace, "--method", method)["processes"]
    assert set(truth.values()) > {"actor 7"}
    found = query(trace, "SELECT pid, python_name FROM process WHERE python_name IS NOT NULL")
    assert {str(pid): name for pid, name in found} == truth
    # What helps multiprocessing, and the main process, nobody named.
    assert query(trace, "SELECT count(*) FROM process")[0][0] > len(truth)


def test_threads_have_the_names_of_python(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = recorded(trace, "--threads")["threads"]
    found = query(trace, "SELECT tid, python_name FROM thread WHERE python_name IS NOT NULL")
    assert {str(tid): name for tid, name in found} == truth
    assert {"learner", "after"} < set(truth.values())
    # They are told by marks of ours, which are none of the program's.
    assert query(trace, "SELECT count(*) FROM mark") == [(0,)]
    with open_trace(trace, end="1000s") as opened:
        named = "SELECT count(*) FROM thread WHERE python_name IS NOT NULL"
        assert opened.connection.execute(named).fetchall() == [(3,)]


def test_without_phases_nobody_tells(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    command = [sys.executable, "-m", "rlscope_trace", "-o", str(trace), "--no-auto"]
    subprocess.run(
        [*command, "--no-calibrate", "--", sys.executable, NAMED, "--threads"],
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert query(trace, "SELECT count(python_name), count(*) > 3 FROM thread") == [(0, True)]


def test_a_title_is_what_ps_shows_at_the_end(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    with subprocess.Popen(
        [sys.executable, NAMED, "--title", "ray::PPO.train()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as target:  # fmt: skip
        assert target.stdout is not None
        truth = json.loads(target.stdout.readline())
        recorder = record(trace, f"--pid={target.pid}", "--no-calibrate").live()
        assert recorder.stop() == 0, recorder.words()
        target.communicate()
    assert query(trace, "SELECT pid, name, title FROM process") == [
        (truth["pid"], "ray::PPO.train(", "ray::PPO.train()")
    ]


def test_the_title_of_a_process_that_ended_is_the_last_one_seen(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    command = [sys.executable, NAMED, "--title", "VLLM::Worker"]
    recorder = record(trace, "--no-calibrate", "--", *command, stdin=subprocess.PIPE)
    log = recorder.spool / "probes.jsonl"
    until(lambda: log.exists() and '"VLLM::Worker"' in log.read_text(), what="it has seen it")
    recorder.process.communicate()
    assert recorder.process.returncode == 0, recorder.words()
    assert query(trace, "SELECT name, title, contains(command, 'named.py') FROM process") == [
        ("VLLM::Worker", "VLLM::Worker", True)
    ]
