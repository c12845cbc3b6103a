"""What the instructions of aarch64 say: calls, wait loops, where a probe goes. On any machine."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from trace_builder import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

NATIVE = REPOSITORY / "tracer/native"
# Each question as a function of C; -1 and -2 are the reasons for no site.
QUESTIONS = r"""
#include "finder/site.h"
#include "samples/code.h"

using Bytes = const std::uint8_t*;
extern "C" {
int waits(Bytes code, std::size_t count, std::size_t at) {
  return rls::IsInPauseLoop(code, count, at, rls::kLoopBytes);
}
int ends_in_call(Bytes code, std::size_t count) { return rls::EndsInCall(code, count); }
int ends_in_yield(Bytes code, std::size_t count) { return rls::EndsInYield(code, count); }
int site(Bytes code, std::size_t count) {
  const auto found = rls::FindCheapSite({code, code + count});
  if (const auto* at = std::get_if<std::uint64_t>(&found)) return static_cast<int>(*at);
  return std::get<rls::NoSite>(found) == rls::NoSite::kInLoop ? -2 : -1;
}
int may_be_stepped(Bytes code, std::size_t count) {
  return rls::MayBeStepped({code, code + count});
}
}
"""
NONE, LOOP = -1, -2
NOP, RET, YIELD, ISB, WFE = 0xD503201F, 0xD65F03C0, 0xD503203F, 0xD5033FDF, 0xD503205F
BTI_C, PACIASP = 0xD503245F, 0xD503233F
PUSH = 0xA9BE7BFD  # stp x29, x30, [sp, #-32]!
MOV = 0xAA0003E9  # mov x9, x0
ADD = 0x91000529  # add x9, x9, #1
ADR = 0x10000009  # adr x9, .
LDR = 0xB9400129  # ldr w9, [x9]


def branch(words: int) -> int:
    """Return b, so many instructions on."""
    return 0x14000000 | words & 0x3FFFFFF


def zero_branch(words: int) -> int:
    """Return cbz w9."""
    return 0x34000009 | (words & 0x7FFFF) << 5


def bit_branch(words: int) -> int:
    """Return tbnz w9, #0."""
    return 0x37000009 | (words & 0x3FFF) << 5


def equal_branch(words: int) -> int:
    """Return b.eq."""
    return 0x54000000 | (words & 0x7FFFF) << 5


def code_of(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("aarch64")
    (folder / "questions.cpp").write_text(QUESTIONS)
    library = folder / "questions.so"
    sources = (folder / "questions.cpp", NATIVE / "samples/code.cpp",
               NATIVE / "finder/site_aarch64.cpp")  # fmt: skip
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wconversion",
         "-Werror", "-DRLS_CODE_OF_AARCH64", f"-I{NATIVE}", "-o", library, *sources],
        check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(library))


def ask(questions: ctypes.CDLL, name: str, code: bytes, *more: int) -> int:
    answer = getattr(questions, name)
    answer.argtypes = [ctypes.c_char_p, ctypes.c_size_t, *(ctypes.c_size_t for _ in more)]
    return int(answer(code, len(code), *more))


CALLS = {
    "bl": (0x97FFFFFB, True),
    "blr x16": (0xD63F0200, True),
    "blraa x8, x9": (0xD73F0909, True),
    "blraaz x8": (0xD63F091F, True),
    "b": (branch(-5), False),
    "br x16": (0xD61F0200, False),
    "ret": (RET, False),
    "mov": (MOV, False),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_recognised(questions: ctypes.CDLL, name: str) -> None:
    word, is_call = CALLS[name]
    assert ask(questions, "ends_in_call", code_of(MOV, word)) == is_call
    assert not ask(questions, "ends_in_call", code_of(word)[1:])


def test_a_system_call_that_gives_way_is_recognised(questions: ctypes.CDLL) -> None:
    """As the C library makes it: mov x8, #124; svc #0."""
    assert ask(questions, "ends_in_yield", code_of(0xD2800F88, 0xD4000001))
    assert not ask(questions, "ends_in_yield", code_of(0xD2800F68, 0xD4000001))
    assert not ask(questions, "ends_in_yield", code_of(0xD4000001))


@pytest.mark.parametrize("pause", [YIELD, ISB, WFE])
@pytest.mark.parametrize("jump", [branch, zero_branch, bit_branch, equal_branch])
def test_every_instruction_of_a_wait_loop_waits(
    questions: ctypes.CDLL, pause: int, jump: type
) -> None:
    words = [ADD] * 40 + [LDR, pause, ADD, jump(-3)] + [ADD] * 40
    code = code_of(*words)
    waiting = [at for at in range(len(words)) if ask(questions, "waits", code, at * 4)]
    assert waiting == [40, 41, 42, 43]


def test_eight_nops_in_a_loop_wait_and_seven_do_not(questions: ctypes.CDLL) -> None:
    for nops, waits in ((8, True), (7, False)):
        code = code_of(*[ADD] * 40, LDR, *[NOP] * nops, zero_branch(-nops - 1), *[ADD] * 40)
        assert ask(questions, "waits", code, 41 * 4) == waits


def test_a_jump_on_and_a_pause_across_instructions_are_no_loop(questions: ctypes.CDLL) -> None:
    onward = code_of(*[ADD] * 10, YIELD, branch(5), *[ADD] * 10)
    assert not any(ask(questions, "waits", onward, at) for at in range(0, len(onward), 4))
    # The bytes of a pause, two of them in each of two instructions.
    crossing = code_of(*[ADD] * 10) + b"\0\0" + code_of(YIELD) + b"\0\0" + code_of(branch(-3))
    assert not any(ask(questions, "waits", crossing, at) for at in range(0, len(crossing), 4))


SITES = {
    "adr": ([ADR, RET], 0),
    "a branch": ([branch(100)], 0),
    "a branch where zero": ([zero_branch(8), PUSH, RET], 0),
    "a branch on a bit": ([bit_branch(8), PUSH, RET], 0),
    "a call": ([0x94001000], 0),
    "ret": ([RET], 0),
    "after bti and mov": ([BTI_C, MOV, zero_branch(8), RET], 8),
    "after nop and a load": ([NOP, LDR, equal_branch(8), RET], 8),
    "after cmp, whose result is no register": ([0xF100013F, equal_branch(8), RET], 4),
    "the return address is saved first": ([PUSH, ADR, RET], NONE),
    "the return address is signed first": ([PACIASP, ADR, RET], NONE),
    "the return address is copied first": ([0xAA1E03E9, 0x94001000, RET], NONE),
    "the stack is moved first": ([0xD10083FF, ADR, RET], NONE),
    "the stack is moved by a store first": ([0xF81F0FF3, ADR, RET], NONE),
    "the stack is aligned first": ([0x927CED3F, ADR, RET], NONE),
    "a system call first": ([0xD4000001, ADR, RET], NONE),
    "a system register first": ([0xD53BD049, ADR, RET], NONE),
    "nothing that is cheap": ([MOV, ADD, MOV], NONE),
    "a later jump leads to the site": ([MOV, ADR, ADD, zero_branch(-2), RET], LOOP),
    "a later jump leads to the start": ([MOV, ADR, ADD, branch(-3)], LOOP),
    "a later jump leads behind the site": ([MOV, ADR, ADD, zero_branch(-1), RET], 4),
    "it jumps to itself": ([branch(0)], LOOP),
    "nothing": ([], NONE),
}  # fmt: skip


@pytest.mark.parametrize("name", SITES)
def test_the_site_of(questions: ctypes.CDLL, name: str) -> None:
    words, site = SITES[name]
    assert ask(questions, "site", code_of(*words)) == site


def test_the_search_ends_soon_and_half_an_instruction_is_none(questions: ctypes.CDLL) -> None:
    assert ask(questions, "site", code_of(*[MOV] * 16, ADR, RET)) == NONE
    assert ask(questions, "site", code_of(*[MOV] * 15, ADR, RET)) == 60
    assert ask(questions, "site", code_of(ADR)[:3]) == NONE


def test_what_the_os_kernel_does_not_step_is_left_alone(questions: ctypes.CDLL) -> None:
    assert ask(questions, "may_be_stepped", code_of(PUSH, RET))
    for refused in (0x58000049, 0x98000049, 0xC85F7D09, 0x88097D0A):  # ldr =, ldrsw =, ldxr, stxr
        assert not ask(questions, "may_be_stepped", code_of(refused, RET))
    assert not ask(questions, "may_be_stepped", b"")


def test_what_a_compiler_makes_is_read_as_it_is(questions: ctypes.CDLL, tmp_path: Path) -> None:
    """The words above are by hand: those of an assembler are the same."""
    clang, objcopy = shutil.which("clang"), shutil.which("llvm-objcopy")
    if clang is None or objcopy is None:
        pytest.skip("needs clang and llvm-objcopy")
    text = (
        "yield\nisb\nwfe\nnop\nbti c\npaciasp\nret\nstp x29, x30, [sp, #-32]!\nmov x9, x0\n"
        "add x9, x9, #1\nadr x9, .\nldr w9, [x9]\nb .-12\ncbz w9, .-12\ntbnz w9, #0, .-12\n"
        "b.eq .-12\nsub sp, sp, #32\nstr x19, [sp, #-16]!\nand sp, x9, #-16\nsvc #0\n"
        "mrs x9, tpidr_el0\ncmp x9, #0\nmov x9, x30\nldxr x9, [x8]\nstxr w9, w10, [x8]\n"
        "blraa x8, x9\nblraaz x8\n"
    )
    (tmp_path / "a.s").write_text(".arch armv8.5-a+pauth\n" + text)
    subprocess.run(
        [clang, "--target=aarch64-linux-gnu", "-c", tmp_path / "a.s", "-o", tmp_path / "a.o"],
        check=True,
    )
    subprocess.run(
        [objcopy, "-O", "binary", "--only-section=.text", tmp_path / "a.o", tmp_path / "a.bin"],
        check=True,
    )
    assert (tmp_path / "a.bin").read_bytes() == code_of(
        YIELD, ISB, WFE, NOP, BTI_C, PACIASP, RET, PUSH, MOV, ADD, ADR, LDR, branch(-3),
        zero_branch(-3), bit_branch(-3), equal_branch(-3), 0xD10083FF, 0xF81F0FF3, 0x927CED3F,
        0xD4000001, 0xD53BD049, 0xF100013F, 0xAA1E03E9, 0xC85F7D09, 0x88097D0A,
        0xD73F0909, 0xD63F091F,
    )  # fmt: skip
