"""Where a probe goes within a function: the first instruction that the OS kernel emulates."""

import pytest

from rlscope_trace._capture import cheap_site

RET = "c3"
NONE = "no cheap instruction"
LOOP = "in a loop"

CASES = {
    "push rbp": ("55", 0),
    "push r15": ("41 57", 0),
    "nop": ("90", 0),
    "a nop of two bytes": ("66 90", 0),
    "jmp elsewhere": ("e9 00 10 00 00", 0),
    "call": ("e8 00 10 00 00", 0),
    "after endbr64": ("f3 0f 1e fa 55", 4),
    "after mov and test: jne": ("48 89 f8 48 85 ff 75 10", 6),
    "a long jcc": ("48 85 ff 0f 84 00 01 00 00", 3),
    "after lea": ("48 8d 05 00 00 00 00 53", 7),
    "sub rsp comes first": ("48 83 ec 18 55", NONE),
    "and rsp comes first": ("48 83 e4 e0 55", NONE),
    "lea r10, [rsp+8]; and rsp": ("4c 8d 54 24 08 48 83 e4 e0 41 ff 72 f8 55", NONE),
    "mov rsp comes first": ("48 89 fc 55", NONE),
    "pop comes first": ("5f 55", NONE),
    "enter comes first": ("c8 10 00 00 55", NONE),
    "ret comes first": ("c3 55", NONE),
    "an indirect jmp comes first": ("ff e0 55", NONE),
    "an indirect call comes first": ("ff d0 55", NONE),
    "syscall comes first": ("0f 05 55", NONE),
    "hlt comes first": ("f4 55", NONE),
    "int3 comes first": ("cc 55", NONE),
    # These the kernel steps, or emulates from some version on only.
    "nop of five bytes, then push": ("0f 1f 44 00 00 55", 5),
    "pause, then push": ("f3 90 55", 2),
    "xchg r8, rax, then push": ("49 90 55", 2),
    "push of an immediate": ("6a 01 55", NONE),
    "push of memory": ("ff 30 55", NONE),
    # jnz to the dec before it: one call would pass several times.
    "the site ends a loop": ("b9 0a 00 00 00 ff c9 75 fc", LOOP),
    "a later jump leads to the start": ("55 48 89 e5 eb fa", LOOP),
    "a later jump leads to the site": ("48 89 f8 90 ff c9 eb fb", LOOP),
    "a later jump leads elsewhere": ("48 89 f8 90 ff c9 eb fc", 3),
    "nothing": ("", NONE),
    "half an instruction": ("48", NONE),
    "no instruction": ("06", NONE),
    "no instruction after the site": ("55 06", LOOP),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_site_of(name: str) -> None:
    code, site = CASES[name]
    end = "" if name in {"nothing", "half an instruction"} else RET
    assert cheap_site(bytes.fromhex(code + end)) == site


def test_the_search_ends_soon() -> None:
    assert cheap_site(bytes.fromhex("48 89 f8" * 40 + "55 c3")) == NONE
