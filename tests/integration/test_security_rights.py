"""What a recorder may do while it records and while it saves: no more than it needs."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import in_matrix
from damaged_spool import build
from recording import COMMAND, USER, assert_conserved, query, rlscope, until
from rlscope_trace.confinement import CAPABILITIES, RECORDING
from rlscope_trace.installed import PACKAGE
from trace_builder import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.root

# Of the recorder that launched it, which is its parent.
SHOW_RECORDER = "cat /proc/$PPID/status"
# It is nobody's child: found by what it may do.
MASK = sum(1 << CAPABILITIES[name] for name in RECORDING)


def under_sudo(uid: int = USER) -> Mapping[str, str]:
    return {**os.environ, "SUDO_UID": str(uid), "SUDO_GID": str(uid), "SUDO_USER": "somebody"}


def record(output: Path, *command: str, environment: Mapping[str, str]) -> str:
    """Record and return what the program printed."""
    done = subprocess.run(
        [*COMMAND, "record", "--no-calibrate", "-o", str(output), "--", *command],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def capabilities(status: str) -> set[int]:
    return {int(mask, 16) for mask in re.findall(r"^Cap(?:Prm|Eff):\s*(\w+)$", status, re.M)}


def test_under_sudo_the_recorder_is_the_user(folder: Path) -> None:
    output = folder / "trace.duckdb"
    shown = record(output, "sh", "-c", SHOW_RECORDER, environment=under_sudo())
    recorder = shown.split("Name:")[1]
    assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in recorder
    assert f"Gid:\t{USER}\t{USER}\t{USER}\t{USER}" in recorder
    assert "NoNewPrivs:\t1" in recorder
    assert capabilities(recorder) == {MASK & next(iter(capabilities(recorder)))}
    found = output.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (USER, USER, 0o600)
    assert_conserved(output)


def test_root_itself_keeps_few_capabilities(tmp_path: Path) -> None:
    shown = record(
        tmp_path / "trace.duckdb", "sh", "-c", SHOW_RECORDER, environment=dict(os.environ)
    )
    recorder = shown.split("Name:")[1]
    assert all(mask & ~MASK == 0 for mask in capabilities(recorder))
    assert "NoNewPrivs:\t1" in recorder


ASIDE = """
import subprocess, sys, threading
from pathlib import Path
from rlscope_trace import _capture, confinement, rights
confinement._PERF_EVENT_PARANOID = Path(sys.argv[1])
rights.own_process()
rights.become_recorder(None)
ended = threading.Event()
beside = threading.Thread(target=ended.wait)
beside.start()

def held(name, status="/proc/thread-self/status"):
    words = dict(line.split(":") for line in Path(status).read_text().splitlines())
    return int(words[name], 16) >> confinement.CAPABILITIES["CAP_SYS_ADMIN"] & 1

print(held("CapPrm"), held("CapEff"), held("CapInh"), held("CapBnd"))
with _capture.PerfRight():
    print(held("CapEff"), held("CapEff", f"/proc/self/task/{beside.native_id}/status"))
print(held("CapEff"), flush=True)
subprocess.run(["grep", "CapPrm", "/proc/self/status"])
ended.set()
"""


@pytest.mark.parametrize(("value", "permitted"), [("2", 0), ("3", 1), ("4", 1)])
def test_the_right_to_perf_events_is_laid_aside(tmp_path: Path, value: str, permitted: int) -> None:
    """As for Debian and Ubuntu; what is started from there has it not."""
    (tmp_path / "paranoid").write_text(f"{value}\n")
    done = subprocess.run(
        [sys.executable, "-c", ASIDE, tmp_path / "paranoid"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    first, during, after, child = done.stdout.splitlines()[:4]
    assert first == f"{permitted} 0 0 0"
    assert during == f"{permitted} 0"
    assert after == "0"
    assert not int(child.split()[1], 16) >> CAPABILITIES["CAP_SYS_ADMIN"] & 1


def test_a_folder_that_is_closed_to_the_user_is_told_with_a_way_out(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [*COMMAND, "record", "-o", str(tmp_path / "trace.duckdb"), "--", "true"],
        env=under_sudo(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"error: cannot write to {tmp_path}: Permission denied" in done.stderr
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []


PLANTS = """
import os, sys
folder, victim, suffix, kind = sys.argv[1:]
at = os.path.join(folder, "trace.duckdb" + suffix)
if kind == "link":
    os.symlink(victim, at)
elif kind == "dangling":
    os.symlink(victim + ".new", at)
elif kind == "hard":
    os.link(os.path.join(folder, "own"), at)
elif kind == "folder":
    os.mkdir(at, 0o777)
    for name in ("trace", "trace.wal", "records.bin", "session.json", "spill", "shim.bin"):
        os.symlink(victim, os.path.join(at, name))
elif kind == "pipe":
    os.mkfifo(at, 0o666)
"""
SUFFIXES = (
    "", ".partial", ".partial.wal", ".partial.lock", ".wal", ".spill", ".spool", ".partial.spill",
)  # fmt: skip
KINDS = ("link", "dangling", "folder", "pipe")
# What the trace and its spool are called as everything, what DuckDB would write as links.
IN_CI = {("", kind) for kind in KINDS} | {(".spool", kind) for kind in KINDS}
IN_CI |= {(".partial", "link"), (".partial.wal", "link"), (".spill", "link")}
PLANTED = [
    pytest.param(suffix, kind, marks=() if (suffix, kind) in IN_CI else pytest.mark.matrix)
    for suffix in SUFFIXES
    for kind in KINDS
]


@pytest.mark.parametrize(("suffix", "kind"), PLANTED)
def test_nothing_planted_in_the_folder_of_the_output_leads_out_of_it(
    folder: Path, tmp_path: Path, suffix: str, kind: str
) -> None:
    """Root itself records into a folder of a stranger, who has planted something there."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    subprocess.run(
        [sys.executable, "-I", "-c", PLANTS, str(folder), str(victim), suffix, kind], check=True
    )
    for path in [folder, *folder.rglob("*")]:
        os.lchown(path, USER, USER)
    done = rlscope(
        "record", "--no-calibrate", "--force", "-o", folder / "trace.duckdb", "--", "echo", "words"
    )
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["victim"]
    output = folder / "trace.duckdb"
    if done.returncode == 0:
        assert not output.is_symlink()
        # What lies beside it is for whoever reads it there.
        assert_conserved(Path(shutil.copy(output, tmp_path / "copy.duckdb")))
    else:
        assert done.stderr.startswith("error: ")
        assert "hint: " in done.stderr


# A user of no account, who can read where the tests' Python lies.
def with_capabilities(*names: str) -> list[str]:
    given = ",".join(["-all", "+dac_read_search", *(f"+{name}" for name in names)])
    return [
        "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
        f"--inh-caps={given}", f"--ambient-caps={given}",
    ]  # fmt: skip


MARKING = """
import time, nvtx
end = time.monotonic() + 1
while time.monotonic() < end:
    with nvtx.annotate("step"):
        sum(range(10000))
"""


def test_a_user_with_two_capabilities_records_programs_of_theirs(folder: Path) -> None:
    output = folder / "trace.duckdb"
    done = rlscope(
        "record", "--no-calibrate", "-o", output, "--", sys.executable, "-c", MARKING,
        prefix=with_capabilities("bpf", "perfmon"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert output.stat().st_uid == USER
    assert_conserved(output)
    for table in ("thread_state", "operation", "cpu_sample"):
        assert query(output, f"SELECT count(*) > 0 FROM {table}") == [(True,)], table
    kinds = ("native_call:simulator", "wait", "operation")
    for kind in kinds:
        measured = query(output, "SELECT bool_and(measured) FROM coverage WHERE kind = ?", [kind])
        assert measured == [(True,)], kind


def test_a_third_one_records_programs_of_others(folder: Path) -> None:
    output = folder / "trace.duckdb"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as target:
        options = ["--no-calibrate", "-d", "0.2", "-o", output, f"--pid={target.pid}"]
        refused = rlscope("record", *options, prefix=with_capabilities("bpf", "perfmon"))
        assert refused.returncode == 1
        assert "belongs to user root" in refused.stderr
        assert not output.exists()
        done = rlscope("record", *options, prefix=with_capabilities("bpf", "perfmon", "sys_ptrace"))
        assert target.stdin
        target.stdin.close()
    assert done.returncode == 0, done.stderr
    assert query(output, "SELECT pid FROM process") == [(target.pid,)]


SAVER = """
import sys
from pathlib import Path
from rlscope_trace import rights
rights.own_process()
rights.become_recorder(None)
import duckdb, numpy
inside, outside = Path(sys.argv[1]), Path(sys.argv[2])
rights.become_saver(None, inside / "out")
for task in Path("/proc/self/task").iterdir():
    for line in (task / "status").read_text().splitlines():
        if line.startswith(("CapPrm", "CapEff")):
            print("rights", line.split()[1])
for folder in (inside, outside):
    try:
        (folder / "new").write_text("words")
    except PermissionError:
        print("refused", folder.name)
"""


def test_no_thread_keeps_rights_for_saving_nor_can_write_elsewhere(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SAVER, str(inside), str(outside)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    reported = [line.split() for line in done.stdout.splitlines()]
    masks = {int(words[1], 16) for words in reported if words[0] == "rights"}
    assert masks == {1 << CAPABILITIES["CAP_DAC_READ_SEARCH"]}
    assert [words[1] for words in reported if words[0] == "refused"] == ["outside"]
    assert (inside / "new").exists()


def test_under_sudo_a_trace_of_root_stays_closed(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.duckdb"
    record(secret, "true", environment=dict(os.environ))
    link = folder / "trace.duckdb"
    link.symlink_to(secret)
    for command in (["summarize"], ["sql"], ["export", "chrome", "-o", "-"]):
        query_words = ["SELECT 1"] if command == ["sql"] else []
        done = subprocess.run(
            [*COMMAND, *command, str(link), *query_words],
            env=under_sudo(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 1, command
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr


def test_an_installation_that_is_closed_to_the_user_works_and_opens_nothing_else(
    folder: Path, tmp_path: Path
) -> None:
    """As a virtual environment below /root; modules and the files beside them are read."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in ("rlscope_trace", "rlscope_analysis"):
        shutil.copytree(PACKAGE.parent / name, closed / name)
    environment = {**under_sudo(), "PYTHONPATH": str(closed)}
    record(folder / "trace.duckdb", "sleep", "0.2", environment=environment)
    record(tmp_path / "secret.duckdb", "true", environment=dict(os.environ))

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words], env=environment, cwd=folder,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    for words in (
        "summarize trace.duckdb --all", "explain trace.duckdb",
        "report trace.duckdb -o a.html", "export chrome trace.duckdb -o a.json",
    ):  # fmt: skip
        done = run(*words.split())
        assert done.returncode == 0, done.stderr
    done = run("summarize", tmp_path / "secret.duckdb")
    assert done.returncode == 1
    assert "is not permitted" in done.stderr


def test_nsys_has_no_right_that_the_user_has_not(folder: Path) -> None:
    export = shutil.copy(REPOSITORY / "tests/data/nsys/mock.sqlite", folder)
    nsys = folder / "nsys"
    nsys.write_text(f'#!/bin/sh\ngrep Cap /proc/self/status > {folder}/caps\ncp {export} "$5"\n')
    nsys.chmod(0o755)
    (folder / "run.nsys-rep").write_bytes(b"only nsys knows")
    done = subprocess.run(
        [*COMMAND, "import", "nsys", folder / "run.nsys-rep", "-o", folder / "trace.duckdb"],
        env={**under_sudo(), "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = dict(line.split(":") for line in (folder / "caps").read_text().splitlines())
    assert {name: int(kept[name], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {
        "CapEff": 0, "CapPrm": 0, "CapAmb": 0
    }  # fmt: skip


def test_what_reads_a_trace_can_write_nothing(tmp_path: Path) -> None:
    """Root itself asks a trace of anybody's: of what it could do, little is left."""
    trace = tmp_path / "trace.duckdb"
    record(trace, "true", environment=dict(os.environ))
    with subprocess.Popen(
        [*COMMAND, "sql", str(trace)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stdin
        # It waits for its query, with the trace open.
        until(lambda: str(trace) in open_files(asking.pid), what="the trace is open")
        status = Path(f"/proc/{asking.pid}/status").read_text()
        answer, _ = asking.communicate("SELECT 1 AS one")
    assert "one" in answer
    assert capabilities(status) == {1 << CAPABILITIES["CAP_DAC_READ_SEARCH"]}


def open_files(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found.append(str(entry.readlink()))
    return found


READER = """
import sys
from pathlib import Path
from rlscope_trace import rights
rights.own_process()
rights.become_reader(None)
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_analysis.spill import spill_directory
write_nothing_but()
scratch = spill_directory()
(scratch / "sort").write_text("words")
print(scratch)
for folder in sys.argv[1:]:
    try:
        (Path(folder) / "new").write_text("words")
    except PermissionError:
        print("refused")
"""


def test_a_reader_writes_only_what_does_not_fit_into_memory(tmp_path: Path, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path), str(folder)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    scratch, *reported = done.stdout.split()
    assert reported == ["refused", "refused"]
    assert not Path(scratch).exists()
    assert list(tmp_path.iterdir()) == []


REFUSED = """
import ctypes, os, socket, sys, threading, time
from rlscope_trace import rights
rights.own_process()
rights.become_recorder(None)
began = threading.Event()
libc = ctypes.CDLL(None, use_errno=True)

def attempts():
    own = os.open(sys.argv[1], os.O_RDONLY)
    yield "chmod", lambda: os.chmod(sys.argv[1], 0o4755)
    yield "fchmod", lambda: os.fchmod(own, 0o4755)
    yield "chown", lambda: os.chown(sys.argv[1], 0, 0)
    yield "utime", lambda: os.utime(sys.argv[1])
    yield "setxattr", lambda: os.setxattr(sys.argv[1], "user.a", b"b")
    yield "socket", lambda: socket.socket(socket.AF_UNIX)
    yield "exec", lambda: os.execv("/bin/true", ["true"])
    yield "unshare", lambda: called(libc.unshare(0x10000000))
    yield "clone", lambda: called(libc.syscall(CLONE, 0x10000000 | 17, 0, 0, 0, 0))
    yield "terminal", lambda: called(libc.ioctl(0, 0x5412, b"x"))

def called(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")

def attempt(who):
    for what, act in attempts():
        try:
            act()
        except PermissionError:
            print(who, "refused", what)
        except OSError as error:
            print(who, "failed", what, error)
        else:
            print(who, "done", what)

CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
earlier = threading.Thread(target=lambda: (began.wait(), attempt("earlier")))
earlier.start()
rights.become_saver(None)
began.set()
earlier.join()
attempt("ours")
later = threading.Thread(target=attempt, args=("later",))
later.start()
later.join()
os._exit(os.waitstatus_to_exitcode(os.waitpid(os.fork() or os._exit(7), 0)[1]))
"""


def test_a_saver_that_is_root_has_none_of_the_power_of_its_user_id(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("words")
    precious.chmod(0o600)
    before = precious.stat()
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(precious)],
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    reported = [line.split()[1] for line in done.stdout.splitlines()]
    assert reported == ["refused"] * 30, done.stdout
    assert (precious.stat().st_mode, precious.stat().st_mtime_ns) == (
        before.st_mode, before.st_mtime_ns,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["640", *in_matrix("600", "666")])
def test_a_trace_gets_the_permissions_that_are_asked_for(
    folder: Path, tmp_path: Path, mode: str
) -> None:
    """Also where it is copied from below /var/tmp."""
    for output in (tmp_path / "trace.duckdb", folder / "trace.duckdb"):
        done = rlscope("record", "--no-calibrate", f"--mode={mode}", "-o", output, "--", "true")
        assert done.returncode == 0, done.stderr
        assert stat.S_IMODE(output.stat().st_mode) == int(mode, 8)
        done = rlscope(
            "export", "chrome", output, "-o", output.with_suffix(".json"), f"--mode={mode}"
        )
        assert done.returncode == 0, done.stderr
        assert stat.S_IMODE(output.with_suffix(".json").stat().st_mode) == int(mode, 8)


def test_the_spool_of_another_user_is_read_and_stays(tmp_path: Path) -> None:
    """Root has no right to delete it; what its owner put there leads nowhere."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    spool = build(tmp_path / "trace.duckdb.spool")
    (spool / "more").symlink_to(victim)
    for path in (spool, *spool.iterdir()):
        os.lchown(path, USER, USER)
    done = rlscope("recover", spool)
    assert done.returncode == 0, done.stderr
    assert f"note: the spool {spool} stays: it cannot be deleted from here" in done.stderr
    assert (spool / "records.bin").exists()
    assert victim.read_text() == "precious"


RACER = """
import os, sys
folder, victim, kind = sys.argv[1:]
os.chdir(folder)
print("ready", flush=True)

def attempt(act, *names):
    try:
        act(*names)
    except OSError:
        pass

for turn in range(sys.maxsize):
    for name in os.listdir("."):
        if name.startswith("out"):
            attempt(os.rename, name, f"moved{turn % 50}")
            attempt(os.symlink, victim, name)
    for name in ("out", "out.partial", "out.spool"):
        attempt(os.symlink, os.path.dirname(victim) if turn % 2 else victim, name)
        attempt(os.unlink, name)
    if kind == "swap":
        attempt(os.rename, folder, folder + "2")
        attempt(os.symlink, os.path.dirname(victim), folder)
        attempt(os.unlink, folder)
        attempt(os.rename, folder + "2", folder)
"""


@pytest.mark.parametrize("kind", ["names", "swap"])
def test_the_owner_of_the_folder_who_is_quick_leads_nowhere(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    """Root records, and somebody renames and links all that appears, as fast as can be."""
    victim, inner = tmp_path / "victim", folder / "inner"
    victim.write_text("precious")
    inner.mkdir()
    os.chown(inner, USER, USER)
    command = ["/usr/bin/env", "python3", "-c", RACER, str(inner), str(victim), kind]
    with subprocess.Popen(
        command, user=USER, group=USER, extra_groups=[], stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin"},
    ) as racer:  # fmt: skip
        assert racer.stdout
        assert racer.stdout.readline() == b"ready\n"
        for _ in range(3):
            done = rlscope("record", "--no-calibrate", "--force", "-o", inner / "out", "--", "true")
            assert "Traceback" not in done.stderr
            assert done.returncode == 0 or done.stderr.startswith("error: "), done.stderr
        racer.kill()
    assert victim.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["victim"]
