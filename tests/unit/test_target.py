"""Which processes `--pid` takes, and what it says of the others."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlscope_trace.errors import (
    PermissionNeededError,
    TargetGoneError,
    TracerError,
    UsageError,
)
from rlscope_trace.procfs import users_of
from rlscope_trace.record import target

ARGV = ("--pid", "4242")
# Who can read where the tests' Python lies, and has no other right.
NOBODY = [
    "setpriv", "--reuid=54321", "--regid=54321", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
]  # fmt: skip
# Above every kernel's pid_max, below what pidfd_open takes.
ABSENT = 4194304


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that lives until its stdin is closed."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


def resolve(*values: str, proc: Path = target.PROC) -> list[target.Target]:
    return target.resolve(values, argv=ARGV, proc=proc)


def test_parse_pids() -> None:
    assert target.parse_pids(["4242"]) == [4242]
    assert target.parse_pids(["4243, 4242", "4243", "7"]) == [4243, 4242, 7]


@pytest.mark.parametrize(
    "value", ["x", "", "4242,", "-1", "0", "+1", "1_0", "12a", "1.5", "٣", "9" * 5000]
)
def test_not_a_pid(value: str) -> None:
    with pytest.raises(UsageError, match="is not a process id") as caught:
        target.parse_pids(["4242", value])
    assert caught.value.exit_code == 2


def test_all_wrong_words_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        target.parse_pids(["a,4242", "b", "a"])
    assert str(caught.value).splitlines() == [
        "--pid 'a' is not a process id",
        "--pid 'b' is not a process id",
    ]


def test_a_running_process(child: "subprocess.Popen[bytes]") -> None:
    (found,) = resolve(str(child.pid), f"{child.pid},{child.pid}")
    assert (found.pid, found.comm) == (child.pid, "cat")
    assert found.uid == os.geteuid()
    assert not found.includes_recorder
    assert target.alive([found]) == [found]
    child.kill()
    child.wait()
    assert target.alive([found]) == []
    target.close([found])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(found.pidfd)


def test_an_ancestor_is_known_to_include_the_recorder() -> None:
    (found,) = resolve(str(os.getppid()))
    assert found.includes_recorder
    target.close([found])


def test_the_recorder_itself() -> None:
    with pytest.raises(UsageError, match=f"pid {os.getpid()} is rlscope-trace itself") as caught:
        resolve(str(os.getpid()))
    assert caught.value.hint


@pytest.mark.parametrize("pid", [ABSENT, ABSENT + 1, 9999999999])
def test_an_absent_pid(pid: int) -> None:
    with pytest.raises(TargetGoneError, match=f"no process has pid {pid}") as caught:
        resolve(str(pid))
    assert caught.value.exit_code == 1
    assert caught.value.hint == "find it with: pgrep -af python"


def test_a_zombie_has_ended(child: "subprocess.Popen[bytes]") -> None:
    pidfd = os.pidfd_open(child.pid)
    child.kill()
    assert select.select([pidfd], [], [], 10)[0]
    os.close(pidfd)
    with pytest.raises(TargetGoneError, match=rf"pid {child.pid} \(cat\) has ended"):
        resolve(str(child.pid))


THREADED = """
import threading, sys
started = threading.Event()
def work():
    print(threading.get_native_id(), flush=True)
    sys.stdin.read()
threading.Thread(target=work).start()
"""


def test_a_thread_is_told_with_its_process() -> None:
    command = [sys.executable, "-c", THREADED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        tid = int(process.stdout.readline())
        words = rf"{tid} is a thread \(.*\) of the process with pid {process.pid}"
        with pytest.raises(UsageError, match=words) as caught:
            resolve(str(tid))
        assert caught.value.hint == f"rlscope-trace --pid {process.pid}"


def make_process(proc: Path, pid: int, *, comm: str, flags: int = 0, uid: int = 0) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} ({comm}) S 2 0 0 0 -1 {flags} 0 0\n")
    (folder / "status").write_text(f"Name:\t{comm}\nTgid:\t{pid}\nUid:\t9\t{uid}\t9\t9\n")
    (folder / "cmdline").write_bytes(b"")


def test_a_kernel_thread(child: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    make_process(tmp_path, child.pid, comm="kworker/0:1 (x)", flags=0x04208060)
    words = rf"pid {child.pid} is a kernel thread \(kworker/0:1 \(x\)\)"
    with pytest.raises(TracerError, match=words) as caught:
        resolve(str(child.pid), proc=tmp_path)
    assert caught.value.exit_code == 1


def test_another_users_process_without_privilege(
    child: "subprocess.Popen[bytes]", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_process(tmp_path, child.pid, comm="python", uid=os.geteuid() + 65534)
    monkeypatch.setattr(target, "_may_read_others", lambda: True)
    target.close(resolve(str(child.pid), proc=tmp_path))
    monkeypatch.setattr(target, "_may_read_others", lambda: False)
    with pytest.raises(PermissionNeededError, match="belongs to user") as caught:
        resolve(str(child.pid), proc=tmp_path)
    assert caught.value.hint == 'sudo env "PATH=$PATH" rlscope-trace --pid 4242'


def test_a_process_that_proc_hides(child: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    with pytest.raises(PermissionNeededError, match="hidepid"):
        resolve(str(child.pid), proc=tmp_path)


def test_all_wrong_pids_are_told_at_once_and_nothing_stays_open(
    child: "subprocess.Popen[bytes]",
) -> None:
    before = set(map(str, Path("/proc/self/fd").iterdir()))
    with pytest.raises(TracerError) as caught:
        resolve(f"{child.pid},{ABSENT},{os.getpid()}", str(ABSENT + 1))
    assert str(caught.value).splitlines() == [
        f"no process has pid {ABSENT}",
        f"pid {os.getpid()} is rlscope-trace itself",
        f"no process has pid {ABSENT + 1}",
    ]
    assert set(map(str, Path("/proc/self/fd").iterdir())) == before
    with pytest.raises(TargetGoneError):
        resolve(f"{ABSENT},{ABSENT + 1}")


def test_a_pidfd_names_the_process_not_the_number(child: "subprocess.Popen[bytes]") -> None:
    (found,) = resolve(str(child.pid))
    signal.pidfd_send_signal(found.pidfd, signal.SIGKILL)
    child.wait()
    with pytest.raises(ProcessLookupError):
        signal.pidfd_send_signal(found.pidfd, 0)
    target.close([found])


def test_of_a_user_are_those_that_it_may_trace_itself(
    child: "subprocess.Popen[bytes]",
) -> None:
    (found,) = resolve(str(child.pid))
    target.require_user([found], os.getuid())
    with pytest.raises(PermissionNeededError, match=f"pid {child.pid} .* is not of user 54321"):
        target.require_user([found], 54321)
    # It has closed what it was given.
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(found.pidfd)
    (found,) = resolve(str(child.pid))
    child.communicate()
    with pytest.raises(PermissionNeededError):
        target.require_user([found], os.getuid())


HIDDEN = """
import ctypes, sys
ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
print("hidden", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs of others")
def test_what_its_user_may_not_trace_is_not_the_users() -> None:
    command = [sys.executable, "-c", HIDDEN]
    with subprocess.Popen(
        [*NOBODY, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"hidden\n"
        assert users_of(process.pid) == {54321, 0}
        (found,) = resolve(str(process.pid))
        with pytest.raises(PermissionNeededError):
            target.require_user([found], 54321)
