"""The benchmark of overhead: the untraced run sees copies of what is probed in the other one."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from bench_lib.figure import BenchError
from bench_lib.together import runs
from bench_lib.together.own_files import OwnFiles, may_mount
from bench_lib.together.runs import BothAtOnce
from rlscope_trace.privileges import Identity
from validated_runs import runner

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = str(Path(__file__).resolve().parents[2] / "scripts")
TELL = 'stat -c %i "$1"; id -u; id -G'
NOBODY = Identity(uid=65534, gid=65534, groups=(65534,), name="nobody")


@pytest.fixture
def probed() -> Iterator[Path]:
    # Not below the folders of pytest, which are for their user alone.
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(directory) / "library with a space.so"
        path.write_bytes(os.urandom(100_000))
        path.chmod(0o644)
        yield path


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    directory = tmp_path / "copies"
    directory.mkdir(mode=0o700)
    return directory


def test_what_is_no_file_or_there_already_is_not_copied(copies: Path, probed: Path) -> None:
    own = OwnFiles(copies)
    os.mkfifo(fifo := probed.with_name("fifo"))
    (link := probed.with_name("link")).symlink_to(probed)
    own.add(["/nowhere/libgone.so", str(copies), str(fifo), str(link)])
    assert own.copies == {}
    assert list(copies.iterdir()) == []
    own.add([str(probed)])
    first = Path(own.copies[str(probed)].path)
    assert first.read_bytes() == probed.read_bytes()
    assert first.stat().st_mtime_ns == probed.stat().st_mtime_ns
    own.add([str(probed)])
    assert [*copies.iterdir()] == [first]


def test_no_part_of_a_copy_takes_room(
    copies: Path, probed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    own = OwnFiles(copies)
    own.add([str(probed)])
    assert own.copies == {}
    assert list(copies.iterdir()) == []


@pytest.mark.root
def test_a_copy_is_never_more_than_the_file_was(copies: Path, probed: Path) -> None:
    os.chown(probed, NOBODY.uid, NOBODY.gid)
    probed.chmod(0o6755)
    own = OwnFiles(copies)
    own.add([str(probed)])
    found = Path(own.copies[str(probed)].path).stat()
    assert (found.st_uid, found.st_gid) == (NOBODY.uid, NOBODY.gid)
    assert stat.S_IMODE(found.st_mode) == 0o755


@pytest.mark.root
def test_what_the_user_may_not_read_is_not_copied(copies: Path, probed: Path) -> None:
    probed.chmod(0o600)
    own = OwnFiles(copies, NOBODY)
    own.add([str(probed)])
    assert own.copies == {}
    assert (os.geteuid(), os.getegid()) == (0, 0)


@pytest.mark.root
@pytest.mark.parametrize("identity", [None, NOBODY])
def test_the_command_alone_sees_the_copy(
    copies: Path, probed: Path, identity: Identity | None
) -> None:
    assert may_mount(copies)
    own = OwnFiles(copies, identity)
    own.add([str(probed)])
    done = subprocess.run(
        ["/bin/sh", "-c", TELL, "sh", str(probed)],
        preexec_fn=own.enter, capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    inode, uid, *groups = map(int, done.stdout.split())
    assert inode == Path(own.copies[str(probed)].path).stat().st_ino != probed.stat().st_ino
    assert uid == (identity.uid if identity else os.getuid())
    assert identity is None or groups == [65534]


@pytest.mark.root
def test_where_mounting_is_not_allowed_nothing_is_tried(copies: Path) -> None:
    program = (
        "import sys\n"
        f"sys.path.append({SCRIPTS!r})\n"
        "from pathlib import Path\n"
        "from bench_lib.together.own_files import may_mount\n"
        "print(may_mount(Path(sys.argv[1])))\n"
    )
    may_not = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    for prefix, reported in ((may_not, "False\n"), ([], "True\n")):
        command = [*prefix, sys.executable, "-c", program, str(copies)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == reported
        assert list(copies.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize("replacement", ["file", "link"])
def test_nothing_is_mounted_on_another_file(copies: Path, probed: Path, replacement: str) -> None:
    own = OwnFiles(copies)
    own.add([str(probed)])
    other = probed.with_name("other")
    other.write_text("not to be hidden")
    probed.unlink()
    if replacement == "file":
        other.rename(probed)
    else:
        probed.symlink_to(other)
    with pytest.raises(subprocess.SubprocessError):
        subprocess.run(["/bin/true"], preexec_fn=own.enter, check=False)


@pytest.mark.root
def test_the_untraced_run_of_a_pair_has_the_copy(
    tmp_path: Path, copies: Path, probed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import json, os\n"
        f"inode = os.stat({str(probed)!r}).st_ino\n"
        "with open(os.environ['RLSCOPE_TIMERS'], 'w') as file:\n"
        "    file.write(json.dumps({'operation': str(inode), 'cpu_ns': 1}))\n"
    )

    def start_traced(self: BothAtOnce, trace: Path, gate: Path) -> runs.Started:
        trace.touch()
        timers = self.runner.timers
        command = runs._at_gate(gate, self.runner.measured(runs.TRACED, timers))
        return self.runner.start(runs.TRACED, command, timers, preexec_fn=os.setpgrp)

    monkeypatch.setattr(BothAtOnce, "_start_traced", start_traced)
    own = OwnFiles(copies)
    both = BothAtOnce(runner(tmp_path, program, timers=tmp_path / "timers"), own)
    assert both.shared([str(probed)]) == [str(probed)]
    both.keep_apart([str(probed)])
    assert both.shared([str(probed)]) == []
    untraced, traced = both.together(tmp_path / "trace.duckdb")
    assert [*traced.timers_ns] == [str(probed.stat().st_ino)]
    assert [*untraced.timers_ns] == [str(Path(own.copies[str(probed)].path).stat().st_ino)]
    # Alone it has no need of one.
    assert [*both.runner.untraced().timers_ns] == [str(probed.stat().st_ino)]
    # What was replaced meanwhile ends the run before it begins, and nobody waits for it.
    probed.unlink()
    with pytest.raises(BenchError, match="the untraced run cannot have files of its own"):
        both.together(tmp_path / "trace.duckdb")
