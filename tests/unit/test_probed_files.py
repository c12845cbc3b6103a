"""Files of a target: which may be opened, and when a process has become another program."""

import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlscope_trace import _capture
from rlscope_trace.record.probes.modules import open_file
from rlscope_trace.record.probes.process import AddressSpace, Process, address_space

_EXEC = "import os, sys; print(flush=True); input(); os.execv(sys.executable, {again})"
_AGAIN = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]


def _own_mapping() -> tuple[str, int, int, int, int, int]:
    return next(
        mapping for mapping in _capture.PythonScan(os.getpid()).mappings()
        if Path(mapping[0]).name.startswith("_capture")
    )  # fmt: skip


def _elsewhere(place: list[int]) -> list[int]:
    """Return where nothing is mapped: the name is all there is."""
    start, end, offset = place
    return [start + 1, end + 1, offset]


def test_a_file_is_opened_by_name_where_its_mapping_may_not_be() -> None:
    path, device, inode, *place = _own_mapping()
    fd = open_file(os.getpid(), (path, device, inode, *_elsewhere(place)))
    try:
        assert os.fstat(fd).st_ino == inode
    finally:
        os.close(fd)


def test_another_file_of_the_same_name_is_not_opened(tmp_path: Path) -> None:
    path, device, inode, *place = _own_mapping()
    other = tmp_path / Path(path).name
    other.write_bytes(b"")
    with pytest.raises(OSError, match="cannot be opened"):
        open_file(os.getpid(), (str(other), device, inode, *_elsewhere(place)))


def test_a_fifo_of_the_same_name_does_not_block_us(tmp_path: Path) -> None:
    _, device, _, *place = _own_mapping()
    fifo = tmp_path / "module.so"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="cannot be opened"):
        open_file(os.getpid(), (str(fifo), device, fifo.stat().st_ino, *_elsewhere(place)))


def test_an_exec_of_the_same_interpreter_is_noticed() -> None:
    command = [sys.executable, "-c", _EXEC.format(again=_AGAIN)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdout.readline()
        process = Process(program.pid, is_new=False)
        process.note_program(address_space(program.pid))
        process.interpreter = (1, 2)
        process.note_program(address_space(program.pid))
        assert process.interpreter == (1, 2)
        program.stdin.write(b"\n")
        program.stdin.flush()
        program.stdout.readline()
        process.note_program(address_space(program.pid))
        assert process.interpreter is None
        program.stdin.close()


def test_the_address_space_of_a_process_that_is_gone_is_not_known() -> None:
    with subprocess.Popen(["true"]) as program:
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        assert address_space(program.pid).size_bytes == 0
    assert address_space(program.pid) == AddressSpace(0, 0)


def test_mappings_are_read_when_the_size_tells_of_a_change_and_now_and_then() -> None:
    """What this process maps changes its size; a size that is not known tells nothing."""
    process = Process(os.getpid(), is_new=True)

    def is_read(space: AddressSpace, now_ns: int) -> bool:
        process.note_program(space)
        return process.has_to_be_read(now_ns)

    before = address_space(process.pid)
    assert is_read(before, 1_000)
    process.update([_own_mapping()], 1_000)
    assert not is_read(before, 2_000)
    process.rest(2_000)
    assert process.is_settled
    with mmap.mmap(-1, 1 << 30):
        after = address_space(process.pid)
        assert after.stack_start == before.stack_start
        assert is_read(after, 3_000)
    process.update([_own_mapping()], 3_000)
    assert not is_read(after, 3_000 + 29_999_999_999)
    assert is_read(after, 3_000 + 30_000_000_000)
    unknown = AddressSpace(0, 0)
    assert is_read(unknown, 4_000)
    process.update([_own_mapping()], 4_000)
    assert is_read(unknown, 5_000)


def test_a_look_that_was_broken_off_reads_the_mappings_again() -> None:
    process = Process(os.getpid(), is_new=True)
    space = address_space(process.pid)
    process.note_program(space)
    process.update([_own_mapping()], 1_000)
    process.begin_again(2_000)
    process.note_program(space)
    assert process.has_to_be_read(2_000)


def test_a_scan_that_is_cancelled_ends() -> None:
    scan = _capture.PythonScan(os.getpid())
    path = _own_mapping()[0]
    assert scan.entry_points([path])["scanned_bytes"] > 0
    scan.cancel()
    with pytest.raises(OSError, match="reading process") as raised:
        scan.entry_points([path])
    assert raised.value.errno == errno.ECANCELED
