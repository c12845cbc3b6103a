"""validate --together: the untraced run sees copies of what is probed in the other one."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.errors import TracerError
from rlscope_trace.privileges import Identity
from rlscope_trace.validate import runs
from rlscope_trace.validate.own_files import OwnFiles, may_mount
from rlscope_trace.validate.runs import Runner
from validated_runs import runner

if TYPE_CHECKING:
    from collections.abc import Iterator

TELL = 'stat -c %i "$1"; id -u; id -G'
NOBODY = Identity(uid=65534, gid=65534, groups=(65534,), name="nobody")


@pytest.fixture
def probed() -> Iterator[Path]:
    # Not below the folders of pytest, which are for their user alone.
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(directory) / "library with a space.so"
        path.write_bytes(os.urandom(100_000))
        yield path


def test_what_is_gone_or_there_already_is_not_copied(tmp_path: Path, probed: Path) -> None:
    own = OwnFiles(tmp_path / "copies")
    own.add(["/nowhere/libgone.so", str(tmp_path)])
    assert own.copies == {}
    assert not (tmp_path / "copies").exists()
    own.add([str(probed)])
    first = own.copies[str(probed)]
    assert first.read_bytes() == probed.read_bytes()
    inode = first.stat().st_ino
    own.add([str(probed)])
    assert (len(own.copies), first.stat().st_ino) == (1, inode)


def test_a_copy_that_cannot_be_made_is_one_clear_error(tmp_path: Path, probed: Path) -> None:
    (tmp_path / "copies").write_text("in the way")
    with pytest.raises(TracerError, match=r"cannot copy .*, whose functions are probed") as failure:
        OwnFiles(tmp_path / "copies").add([str(probed)])
    assert failure.value.hint is not None


@pytest.mark.root
@pytest.mark.parametrize("identity", [None, NOBODY])
def test_the_command_alone_sees_the_copy(
    tmp_path: Path, probed: Path, identity: Identity | None
) -> None:
    assert may_mount()
    own = OwnFiles(tmp_path / "copies")
    own.add([str(probed)])
    command = own.command(["/bin/sh", "-c", TELL, "sh", str(probed)], identity)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    inode, uid, *groups = map(int, done.stdout.split())
    assert inode == own.copies[str(probed)].stat().st_ino != probed.stat().st_ino
    assert uid == (identity.uid if identity else os.getuid())
    assert identity is None or groups == [65534]


@pytest.mark.root
def test_a_place_that_is_gone_is_told(tmp_path: Path, probed: Path) -> None:
    own = OwnFiles(tmp_path / "copies")
    own.add([str(probed)])
    probed.unlink()
    done = subprocess.run(
        own.command(["/bin/true"], None), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: cannot mount {probed} for the untraced run: ")


@pytest.mark.root
def test_the_untraced_run_of_a_pair_has_the_copy(
    tmp_path: Path, probed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import json, os\n"
        f"inode = os.stat({str(probed)!r}).st_ino\n"
        "with open(os.environ['RLSCOPE_TIMERS'], 'w') as file:\n"
        "    file.write(json.dumps({'operation': str(inode), 'cpu_ns': 1}))\n"
    )

    def start_traced(self: Runner, trace: Path, gate: Path | None = None) -> runs._Started:
        trace.touch()
        command = self._measured(runs.TRACED, self.timers, gate)
        return self._start(runs.TRACED, command, self.timers, preexec_fn=os.setpgrp)

    monkeypatch.setattr(Runner, "_start_traced", start_traced)
    own = OwnFiles(tmp_path / "copies")
    both = replace(runner(tmp_path, program, timers=tmp_path / "timers"), own_files=own)
    both.keep_apart([str(probed)])
    untraced, traced = both.together(tmp_path / "trace.duckdb")
    assert [*traced.timers_ns] == [str(probed.stat().st_ino)]
    assert [*untraced.timers_ns] == [str(own.copies[str(probed)].stat().st_ino)]
    # Alone it has no need of one.
    assert [*both.untraced().timers_ns] == [str(probed.stat().st_ino)]
