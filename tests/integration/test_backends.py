"""Every backend and loader on the same workload: the same counts, and a trace that says which."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WORKLOADS, Workload
from recording import Recorder, assert_conserved, meta, query, rlscope
from rlscope_trace.record.calibrate.cache import DIRECTORY_VARIABLE

pytestmark = pytest.mark.root

BACKENDS = {
    "btf": ("--capture=btf",),
    "tracefs": ("--capture=tracefs",),
    "bcc": ("--loader=bcc",),
}
# 6 processes, 3 threads beside, 1 exec at the end; each child sleeps 4 times. No timing in it: the
# main thread waits for each in turn.
WORKLOAD = """
import ctypes, json, os, sys, threading, time
def work(index):
    ctypes.CDLL(None).prctl(15, b"worker-%d" % index)
    time.sleep(0.003)
def family():
    for index in range(3):
        thread = threading.Thread(target=work, args=(index,))
        thread.start()
        thread.join()
    for code in range(5):
        child = os.fork()
        if child == 0:
            for _ in range(4):
                time.sleep(0.003)
            os._exit(code)
        os.waitpid(child, 0)
        yield child
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(dict(pid=os.getpid(), children=list(family()))), flush=True)
os.execv("/bin/sh", ["sh", "-c", "exit 3"])
"""


@pytest.fixture
def counts(
    tmp_path: Path, program: Callable[..., Workload], record: Callable[..., Recorder]
) -> Callable[[str], dict[str, Any]]:
    def run(backend: str) -> dict[str, Any]:
        # A trace that says that the OS kernel hid something (see keep_to_cpu) cannot be compared.
        for attempt in range(6):
            found = attempt_at(backend, tmp_path / f"{backend}-{attempt}.duckdb")
            if found.pop("unmatched") == 0:
                return found
        pytest.fail("six times in a row the OS kernel hid a switch or a wakeup")

    def attempt_at(backend: str, trace: Path) -> dict[str, Any]:
        target = program(WORKLOAD)
        assert target.readline() == "ready"
        recorder = record(trace, *BACKENDS[backend], f"--pid={target.pid}").live()
        target.go()
        truth: Any = json.loads(target.readline())
        assert recorder.wait() == 0
        assert_conserved(trace)
        assert query(trace, "SELECT pid FROM process ORDER BY process_id") == [
            (pid,) for pid in (truth["pid"], *truth["children"])
        ]
        facts = meta(trace)
        assert facts["loader"] == ("bcc" if backend == "bcc" else "libbpf")
        assert facts["capture"] == ("btf" if backend == "btf" else "tracefs")
        codes = query(trace, "SELECT exit_code FROM process ORDER BY process_id")
        ((command,),) = query(trace, "SELECT command FROM process WHERE process_id = 1")
        if backend == "btf":
            assert codes == [(3,), (0,), (1,), (2,), (3,), (4,)]
            assert command == "sh -c exit 3"
        else:
            # Tracepoints tell neither the status nor the arguments: not known, which is not 0.
            assert codes == [(None,)] * 6
            assert command == "/bin/sh"
        return {
            "ends": query(trace, "SELECT ended FROM thread ORDER BY thread_id"),
            "names": query(trace, "SELECT name FROM thread WHERE ended ORDER BY thread_id"),
            "parents": query(trace, "SELECT parent_process_id FROM process ORDER BY process_id"),
            "unmatched": query(trace, "SELECT count(*) FROM trace_stat")[0][0],
            # Of the children.
            "sleeps": query(
                trace,
                "SELECT count(*) FROM thread_state AS s JOIN thread AS t USING (thread_id)"
                " WHERE s.state = 'sleeping' AND t.process_id > 1 GROUP BY thread_id"
                " ORDER BY thread_id",
            ),
            "switches": query(trace, "SELECT sum(switches)::BIGINT FROM thread_switch")[0][0],
        }

    return run


def same(counts: Callable[[str], dict[str, Any]], backend: str) -> None:
    """Hold a backend to the same counts as the first."""
    first, other = counts("btf"), counts(backend)
    # Voluntary ones are the workload's; how often it is preempted is the OS kernel's affair, and
    # depends on what else runs: a few per process as a rule.
    switches = [found.pop("switches") for found in (first, other)]
    assert first == other
    assert first["ends"] == [(True,)] * 9
    assert first["names"][1:4] == [("worker-0",), ("worker-1",), ("worker-2",)]
    assert first["sleeps"] == [(4,)] * 5
    # 20 sleeps of the children, 8 waits of the parent for them and the threads, 3 of the threads.
    assert all(20 + 8 + 3 <= count <= 200 for count in switches), switches


def test_tracefs_counts_as_btf_does(counts: Callable[[str], dict[str, Any]]) -> None:
    same(counts, "tracefs")


@pytest.mark.bcc
def test_bcc_counts_as_btf_does(counts: Callable[[str], dict[str, Any]]) -> None:
    same(counts, "bcc")


@pytest.mark.bcc
def test_bcc_launches(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    forker = [sys.executable, str(WORKLOADS / "forker.py"), "0", "5"]
    done = rlscope("-o", trace, "--loader=bcc", "--", *forker)
    assert done.returncode == 0, done.stderr
    pids = json.loads(done.stdout)["pids"]
    assert query(trace, "SELECT pid FROM process ORDER BY process_id")[1:] == [
        (pid,) for pid in pids
    ]
    assert_conserved(trace)


@pytest.mark.bcc
def test_bcc_has_no_btf_backend(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "t.duckdb", "--loader=bcc", "--capture=btf", "--", "true")
    assert done.returncode in (1, 2)
    assert "error: bcc has no BTF backend" in done.stderr
    assert "hint: leave out --capture btf" in done.stderr
    assert list(tmp_path.iterdir()) == []


PASS_THE_CPU = (sys.executable, str(WORKLOADS / "pingpong.py"), "--round-trips=2000")
# A switch from one traced thread to another.
HANDED_OVER = """
SELECT count(*) FROM thread_state AS a JOIN thread_state AS b
ON a.state = 'running' AND b.state = 'running' AND a.cpu = b.cpu AND a.end_ns = b.start_ns
AND a.thread_id <> b.thread_id
"""


@pytest.mark.parametrize("backend", ["btf", "tracefs", pytest.param("bcc", marks=pytest.mark.bcc)])
def test_both_threads_of_a_switch_note_the_same_instant(tmp_path: Path, backend: str) -> None:
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, *BACKENDS[backend], "--", *PASS_THE_CPU)
    assert done.returncode == 0, done.stderr
    # Two each way; others may run between them.
    assert query(trace, HANDED_OVER)[0][0] > 2000


HIDE_BTF = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]


def test_without_btf_the_next_backend_is_taken(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    forker = [sys.executable, str(WORKLOADS / "forker.py"), "0", "5"]
    done = rlscope("-o", trace, "--", *forker, prefix=HIDE_BTF)
    assert done.returncode == 0, done.stderr
    facts = meta(trace)
    assert facts["capture"] == "tracefs"
    btf, tracefs = json.loads(facts["backends"])
    assert btf["backend"] == "btf"
    assert "BTF" in btf["result"]
    assert tracefs == {"backend": "tracefs", "result": "taken"}
    pids = json.loads(done.stdout)["pids"]
    assert query(trace, "SELECT pid FROM process ORDER BY process_id")[1:] == [
        (pid,) for pid in pids
    ]
    assert_conserved(trace)


def test_without_btf_costs_are_those_of_the_next_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("RLSCOPE_CALIBRATE", "1")
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, "--", *PASS_THE_CPU, prefix=HIDE_BTF)
    assert done.returncode == 0, done.stderr
    assert query(trace, "SELECT mean_ns > 0 FROM calibration WHERE event = 'switch' AND used") == [
        (True,)
    ]
    ((measured_ns, overhead_ns),) = query(
        trace, "SELECT sum(time_ns), sum(overhead_ns) FROM breakdown_corrected"
    )
    assert 0 < overhead_ns < measured_ns
    refused = rlscope("calibrate", trace, prefix=HIDE_BTF)
    assert refused.returncode == 1
    assert "has its costs already" in refused.stderr


def test_without_btf_its_backend_is_refused(tmp_path: Path) -> None:
    command = ("-o", tmp_path / "trace.duckdb", "--capture=btf", "--", "true")
    done = rlscope(*command, prefix=HIDE_BTF)
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "BTF" in done.stderr
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []


NESTED = ["unshare", "--pid", "--fork", "--mount-proc"]


def test_a_nested_pid_namespace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    forker = [sys.executable, str(WORKLOADS / "forker.py"), "0", "5"]
    done = rlscope("-o", trace, "--", *forker, prefix=NESTED)
    assert done.returncode == 0, done.stderr
    assert meta(trace)["capture"] == "btf"
    truth = json.loads(done.stdout)
    # As seen inside: small numbers.
    assert max(truth["pids"]) < 1000
    assert query(trace, "SELECT pid, exit_code FROM process ORDER BY process_id") == [
        (truth["pid"], 0),
        (truth["pids"][0], 0),
        (truth["pids"][1], 5),
    ]
    assert query(trace, "SELECT tid FROM thread ORDER BY thread_id") == query(
        trace, "SELECT pid FROM process ORDER BY process_id"
    )
    assert_conserved(trace)


def test_a_nested_pid_namespace_from_outside(
    tmp_path: Path, record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    inside = "import os, sys; print(os.getpid(), flush=True); sys.stdin.readline()"
    with subprocess.Popen(
        [*NESTED, "--kill-child", sys.executable, "-c", inside],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as outer:
        assert outer.stdout
        assert outer.stdout.readline() == b"1\n"
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        recorder = record(trace, f"--pid={outer.pid}").live()
        assert recorder.stop() == 0
    # The numbers of where the recorder runs: it can use them with its /proc.
    pids = [outer.pid, *map(int, children)]
    assert query(trace, "SELECT pid FROM process ORDER BY pid") == [(pid,) for pid in sorted(pids)]
    assert_conserved(trace)


def test_tracefs_in_a_nested_pid_namespace_is_refused(tmp_path: Path) -> None:
    command = ("-o", tmp_path / "trace.duckdb", "--capture=tracefs", "--", "true")
    done = rlscope(*command, prefix=NESTED)
    assert done.returncode == 1
    assert "works only in the initial pid namespace" in done.stderr
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []
