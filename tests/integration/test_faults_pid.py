"""Targets that cannot be traced, and users who may not trace: who is told what."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Workload
from recording import rlscope

pytestmark = pytest.mark.root

# Run as a module, it is named as what lies beside the Python.
ITSELF = Path(sys.executable).with_name("rlscope-trace")
# The user nobody, but able to read where the tests' Python lies.
AS_NOBODY = [
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
]  # fmt: skip


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """Make a directory that the user nobody can reach and write; pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="rlscope-test-"))
    os.chown(folder, 65534, 65534)
    yield folder
    shutil.rmtree(folder)


def ended_pid() -> int:
    """Return the pid of a process that has just ended."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def test_a_pid_that_is_absent(tmp_path: Path) -> None:
    pid = ended_pid()
    done = rlscope("-o", tmp_path / "trace.duckdb", f"--pid={pid}")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: no process has pid {pid}",
        "hint: find it with: pgrep -af python",
    ]
    assert list(tmp_path.iterdir()) == []


def test_all_wrong_pids_are_told_at_once(tmp_path: Path, workload: Callable[..., Workload]) -> None:
    target = workload("sleeper", "--sleeps=0", wait=True)
    pids = [ended_pid(), ended_pid()]
    done = rlscope("-o", tmp_path / "t.duckdb", f"--pid={pids[0]},{target.pid},{pids[1]}")
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if line.startswith("error:")] == [
        f"error: no process has pid {pid}" for pid in pids
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_pid_that_is_no_number(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "trace.duckdb", "--pid=train.py")
    assert done.returncode == 2
    assert "error: --pid 'train.py' is not a process id" in done.stderr
    assert "hint: rlscope-trace --pid 4242,4243" in done.stderr


def test_a_kernel_thread(tmp_path: Path) -> None:
    # Inside a pid namespace there is none to be seen; a unit test has a made-up one.
    name = Path("/proc/2/comm")
    if name.exists() and name.read_text() == "kthreadd\n":
        done = rlscope("-o", tmp_path / "trace.duckdb", "--pid=2")
        assert done.returncode == 1
        assert "error: pid 2 is a kernel thread (kthreadd): it runs no program" in done.stderr
        assert "hint: find it with: pgrep -af python" in done.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_zombie(tmp_path: Path, program: Callable[..., Workload]) -> None:
    target = program(
        "import os, sys\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0)\n"
        "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
        "print(child, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    zombie = int(target.readline())
    done = rlscope("-o", tmp_path / "trace.duckdb", f"--pid={zombie}")
    assert done.returncode == 1
    assert f"error: the process with pid {zombie} (python" in done.stderr
    assert "has ended" in done.stderr


def test_neither_pid_nor_command(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "trace.duckdb")
    assert done.returncode == 2
    assert "error: nothing to trace" in done.stderr
    assert "hint: rlscope-trace --pid PID, or rlscope-trace -- python train.py" in done.stderr


def test_both_pid_and_command(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path / "trace.duckdb", f"--pid={os.getpid()}", "--", "true")
    assert done.returncode == 2
    assert "error: both --pid and a command to launch" in done.stderr


def test_another_users_process_without_privilege(
    nobodys_folder: Path, workload: Callable[..., Workload]
) -> None:
    target = workload("sleeper", "--sleeps=0", wait=True)
    trace = nobodys_folder / "trace.duckdb"
    done = rlscope("-o", trace, f"--pid={target.pid}", prefix=AS_NOBODY)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: pid {target.pid} (python) belongs to user root",
        f'hint: sudo env "PATH=$PATH" {ITSELF} -o {trace} --pid={target.pid}',
    ]
    assert list(nobodys_folder.iterdir()) == []


def test_own_process_without_privilege(nobodys_folder: Path) -> None:
    trace = nobodys_folder / "trace.duckdb"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=65534, group=65534) as target:
        done = rlscope("-o", trace, f"--pid={target.pid}", prefix=AS_NOBODY)
    assert done.returncode == 1
    assert "error: tracing needs CAP_BPF and CAP_PERFMON" in done.stderr
    assert f'hint: sudo env "PATH=$PATH" {ITSELF} -o {trace}' in done.stderr
    assert list(nobodys_folder.iterdir()) == []


def test_launching_without_privilege(nobodys_folder: Path) -> None:
    mark = nobodys_folder / "mark"
    command = ("-o", nobodys_folder / "trace.duckdb", "--", "touch", mark)
    done = rlscope(*command, prefix=AS_NOBODY)
    assert done.returncode == 1
    assert "error: tracing needs CAP_BPF and CAP_PERFMON" in done.stderr
    assert f'hint: sudo env "PATH=$PATH" {ITSELF} -o' in done.stderr
    # The program runs traced or not at all.
    assert list(nobodys_folder.iterdir()) == []
