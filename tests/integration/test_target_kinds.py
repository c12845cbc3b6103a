"""Targets that only a real machine has: kernel threads, and processes of another user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlscope_trace.errors import TracerError
from rlscope_trace.record import target

UNPRIVILEGED = """
import os, sys
from rlscope_trace.record import target
from rlscope_trace.errors import PermissionNeededError
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
try:
    target.resolve([sys.argv[1]], argv=["--pid", sys.argv[1]])
except PermissionNeededError as error:
    print(error)
    print(error.hint)
"""
# Ends its first thread and leaves another, which waits for stdin to be closed.
LEADERLESS = """
import ctypes, os, sys, threading
def work():
    while open(f"/proc/self/task/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    print("alone", flush=True)
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60, 0)
"""


@pytest.mark.root
def test_another_users_process() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        done = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, str(process.pid)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout.splitlines() == [
        f"pid {process.pid} (cat) belongs to user root",
        f'sudo env "PATH=$PATH" rlscope-trace --pid {process.pid}',
    ]


@pytest.mark.root
def test_a_real_kernel_thread() -> None:
    # Not seen from inside a pid namespace, where the unit test's made-up one has to do.
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
        with pytest.raises(TracerError, match=r"pid 2 is a kernel thread \(kthreadd\)"):
            target.resolve(["2"], argv=[])


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of exit(2) is x86_64's")
def test_a_process_that_outlives_its_first_thread_can_be_traced() -> None:
    command = [sys.executable, "-c", LEADERLESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"alone\n"
        (found,) = target.resolve([str(process.pid)], argv=[])
        assert target.alive([found]) == [found]
        target.close([found])
