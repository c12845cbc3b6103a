"""What the bytes of machine code say: wait loops and calls; where an interpreter has its frames."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from rlscope_trace import _capture

REPOSITORY = Path(__file__).parents[2]
PAUSE = b"\xf3\x90"
# clc: it is no `nop`, of which eight in a loop are a wait.
FILL = b"\xf8"


def loop(before: int, after: int) -> bytes:
    """Return a loop: `before` bytes, a pause, `after` bytes, a jump to its begin."""
    body = FILL * before + PAUSE + FILL * after
    return body + b"\xeb" + (-(len(body) + 2)).to_bytes(1, "little", signed=True)


def long_loop(before: int, after: int) -> bytes:
    """Return one with a jump that reaches farther; in it a shorter one seems to be."""
    body = FILL * before + PAUSE + b"\x75\xfc" + FILL * after
    return body + b"\xe9" + (-(len(body) + 5)).to_bytes(4, "little", signed=True)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 12), (12, 0), (30, 30)])
def test_every_byte_of_a_wait_loop_waits(before: int, after: int) -> None:
    code = FILL * 150 + loop(before, after) + FILL * 150
    waiting = [at for at in range(len(code)) if _capture.code_waits(code, at)]
    assert waiting == list(range(150, 150 + before + 2 + after + 2))


def test_a_loop_of_nops_waits() -> None:
    """As the threads of OpenBLAS do: eight nops, cmpq $0, (%rdx), jne."""
    inside = b"\x90" * 8 + b"\x48\x83\x3a\x00" + b"\x75\xf2"
    code = FILL * 100 + inside + FILL * 100
    waiting = [at for at in range(len(code)) if _capture.code_waits(code, at)]
    assert waiting == list(range(100, 100 + len(inside)))
    fewer = FILL * 100 + b"\x90" * 7 + b"\x48\x83\x3a\x00" + b"\x75\xf3" + FILL * 100
    assert not any(_capture.code_waits(fewer, at) for at in range(len(fewer)))
    straight = FILL * 100 + b"\x90" * 40 + FILL * 100
    assert not any(_capture.code_waits(straight, at) for at in range(len(straight)))


def test_a_conditional_jump_with_a_long_distance_closes_a_loop_too() -> None:
    body = b"\x8b\x07" + PAUSE + b"\x39\xd0"
    code = FILL * 100 + body + b"\x0f\x85" + (-12).to_bytes(4, "little", signed=True) + FILL * 100
    assert _capture.code_waits(code, 102)
    assert not _capture.code_waits(code, 99)


@pytest.mark.parametrize(
    "code",
    [
        FILL * 200,
        FILL * 100 + PAUSE + FILL * 98,  # no loop
        FILL * 100 + PAUSE + b"\xeb\x10" + FILL * 98,  # jumps on
        FILL * 50 + loop(0, 0) + FILL * 96 + loop(0, 0),  # beside loops
        FILL * 40
        + PAUSE
        + FILL * 110
        + b"\xe9"
        + (-117).to_bytes(4, "little", signed=True),  # long
        b"",
        PAUSE,
    ],
    ids=["none", "straight", "onward", "beside", "long", "empty", "short"],
)
def test_other_code_does_not_wait(code: bytes) -> None:
    assert not _capture.code_waits(code, min(102, len(code)))


@pytest.mark.parametrize(("before", "after"), [(300, 300), (900, 0), (0, 1010)])
def test_every_byte_of_a_long_wait_loop_waits_busily(before: int, after: int) -> None:
    around = FILL * 1100
    inside = long_loop(before, after)
    code = around + inside + around
    waiting = [at for at in range(len(code)) if _capture.code_waits_busily(code, at)]
    assert waiting == list(range(len(around), len(around) + len(inside)))
    shortest = len(around) + before
    waiting = [at for at in range(len(code)) if _capture.code_waits(code, at)]
    assert waiting == list(range(shortest, shortest + len(PAUSE) + 2))


@pytest.mark.parametrize(
    "code", [FILL * 2200, long_loop(520, 520), b""], ids=["none", "longer", ""]
)
def test_other_code_does_not_wait_busily(code: bytes) -> None:
    assert not _capture.code_waits_busily(code, min(10, len(code)))


@pytest.mark.parametrize(
    "call",
    [
        b"\xe8\x10\x20\x30\x40",  # call rel32
        b"\xff\xd0",  # call *%rax
        b"\x41\xff\xd4",  # call *%r12
        b"\xff\x10",  # call *(%rax)
        b"\xff\x50\x18",  # call *0x18(%rax)
        b"\xff\x14\x24",  # call *(%rsp)
        b"\xff\x54\x24\x08",  # call *0x8(%rsp)
        b"\xff\x90\x18\x02\x00\x00",  # call *0x218(%rax)
        b"\xff\x15\x10\x20\x30\x00",  # call *0x302010(%rip)
        b"\xff\x94\x24\x80\x00\x00\x00",  # call *0x80(%rsp)
        b"\xff\x14\xc5\x00\x10\x40\x00",  # call *0x401000(,%rax,8)
    ],
)
def test_calls_are_recognised(call: bytes) -> None:
    assert _capture.code_ends_in_call(FILL * 8 + call)


@pytest.mark.parametrize(
    "code",
    [
        FILL * 8,
        b"",
        b"\xff",
        b"\xff\xe0",  # jmp *%rax
        b"\xff\x60\x18",  # jmp *0x18(%rax)
        b"\xe8\x10\x20\x30",  # too short
        FILL * 4 + b"\xff\x50",  # its offset is missing
    ],
)
def test_other_code_is_no_call(code: bytes) -> None:
    assert not _capture.code_ends_in_call(code)


def test_the_offsets_are_those_of_the_headers() -> None:
    include = Path(sysconfig.get_path("include"))
    if not (include / "internal").is_dir() or shutil.which("cc") is None:
        pytest.skip("no C compiler, or no headers of this Python")
    reported = subprocess.run(
        [sys.executable, REPOSITORY / "scripts/python_offsets", include],
        check=True,
        capture_output=True,
        text=True,
    )
    table = (REPOSITORY / "tracer/native/samples/python_offsets.cpp").read_text()
    assert reported.stdout.strip() in table


def test_the_script_says_what_it_needs(tmp_path: Path) -> None:
    reported = subprocess.run(
        [sys.executable, REPOSITORY / "scripts/python_offsets", tmp_path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert reported.returncode == 1
    assert "hint:" in reported.stderr
    assert "Traceback" not in reported.stderr


def test_a_loop_that_works_and_has_a_wait_loop_inside_does_not_wait() -> None:
    inner = loop(2, 2)
    body = FILL * 20 + inner + FILL * 20
    code = FILL * 100 + body + b"\xeb" + (-(len(body) + 2)).to_bytes(1, "little", signed=True)
    waiting = [at for at in range(len(code)) if _capture.code_waits(code, at)]
    assert waiting == list(range(120, 120 + len(inner)))
