"""Causal edges and segments of a real recording, of a program whose edges are known."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from flow_checks import check_edges
from recording import rlscope
from segment_reference import check_tiling, rows_of, stored_sums, sums_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

ROUNDS = 23
# Everybody acts only once the other sleeps, as the OS kernel says: so each message, and the end of
# the child, is one that somebody waits for.
PROGRAM = """
import json, os, subprocess, sys, threading

def until_asleep(pid):
    while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "S":
        pass

rounds = int(sys.argv[1])
request, reply = os.pipe(), os.pipe()
parent, child = os.getpid(), os.fork()
if child == 0:
    for _ in range(rounds):
        os.read(request[0], 1)
        until_asleep(parent)
        os.write(reply[1], b"a")
    until_asleep(parent)
    os._exit(0)
for _ in range(rounds):
    until_asleep(child)
    os.write(request[1], b"q")
    os.read(reply[0], 1)
os.waitpid(child, 0)
threads = [threading.Thread(target=sum, args=(range(1000),)) for _ in range(3)]
for thread in threads:
    thread.start()
    thread.join()
program = subprocess.Popen(["/bin/sleep", "0.05"])
program.wait()
print(json.dumps(dict(parent=parent, child=child, program=program.pid)), flush=True)
"""
EDGES = """
SELECT count(*) FROM flow AS f
JOIN process AS a ON a.process_id = f.from_process_id
JOIN process AS b ON b.process_id = f.to_process_id
WHERE f.kind = ? AND a.pid = ? AND b.pid = ?
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    path = tmp_path_factory.mktemp("flow") / "trace.duckdb"
    done = rlscope(
        "-o", path, "--sample-hz=0", "--transitions=off", "--", sys.executable, "-c", PROGRAM,
        str(ROUNDS),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    truth: dict[str, int] = json.loads(done.stdout.splitlines()[0])
    return path, truth


def test_edges_are_those_of_the_program(recorded: tuple[Path, dict[str, int]]) -> None:
    path, truth = recorded
    parent, child, program = truth["parent"], truth["child"], truth["program"]

    def count(kind: str, from_pid: int, to_pid: int) -> int:
        ((found,),) = trace.connection.execute(EDGES, [kind, from_pid, to_pid]).fetchall()
        return int(found)

    with rlscope_analysis.open(path) as trace:
        check_edges(trace.connection)
        # One that is written while its reader still goes to sleep wakes nobody out of a wait.
        for sender, reader in ((parent, child), (child, parent)):
            assert ROUNDS - 3 <= count("message", sender, reader) <= ROUNDS
        assert count("fork", parent, child) == count("fork", parent, program) == 1
        assert count("fork", parent, parent) == 3
        assert count("exit", child, parent) == count("exit", program, parent) == 1
        assert count("exit", parent, child) == 0
        (begun,) = trace.sql(
            "SELECT count(*) FROM flow JOIN process ON process_id = from_process_id"
            f" WHERE pid = {program} AND kind = 'wakeup' AND wait = 'process'"
        ).fetchall()
        assert begun == (1,), "the wait for vfork"


def test_segments_tile_the_lives_of_threads(recorded: tuple[Path, dict[str, int]]) -> None:
    with rlscope_analysis.open(recorded[0]) as trace:
        rows: list[Any] = rows_of(rlscope_analysis.segments(trace))
        check_tiling(trace.connection, rows)
        assert sums_of(rows) == stored_sums(trace.connection)
