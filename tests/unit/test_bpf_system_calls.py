"""System calls have the numbers of the OS kernel's own headers, on each machine."""

import re
from pathlib import Path

import pytest

from trace_builder import REPOSITORY

BPF = REPOSITORY / "bpf"
READER = REPOSITORY / "tracer/native/spool/wait_kind.cpp"
HEADERS = {
    "x86_64": ("x86_64-linux-gnu/asm/unistd_64.h", "asm/unistd_64.h"),
    "arm64": ("asm-generic/unistd.h",),
}
# What the header of all machines calls otherwise.
OTHER_NAMES = {"__NR3264_": "__NR_"}
# Numbers that are no system calls.
BOUNDS = {"FIRST_SAME", "OTHER"}


def numbers_of(machine: str) -> dict[str, int]:
    found = [Path("/usr/include", name) for name in HEADERS[machine]]
    header = next((path for path in found if path.exists()), None)
    if header is None:
        pytest.skip(f"needs linux-libc-dev, with the numbers of {machine}")
    text = header.read_text()
    for other, name in OTHER_NAMES.items():
        text = text.replace(other, name)
    return {
        name: int(number)
        for name, number in re.findall(r"^#define __NR_(\w+)\s+(\d+)$", text, re.MULTILINE)
    }


def recorded() -> dict[str, int]:
    """Return the numbers that records have, by name."""
    text = (BPF / "system_calls.h").read_text()
    return {name: int(number, 0) for name, number in re.findall(r"SYS_(\w+) = (\w+)", text)}


def test_records_name_them_by_the_numbers_of_x86_64() -> None:
    numbers = numbers_of("x86_64")
    named = {name: number for name, number in recorded().items() if name not in BOUNDS}
    assert len(named) > 40
    # Newer than some headers.
    assert {name: numbers.get(name.lower(), number) for name, number in named.items()} == named


def test_those_of_arm64_become_those() -> None:
    numbers = numbers_of("arm64")
    text = (BPF / "machine_arm64.h").read_text()
    cases = re.findall(r"case (\d+):\n\s+(?:/\*.*\*/\n\s+)?return (?:.*\? )?SYS_(\w+)", text)
    assert len(cases) > 35
    # clone stands for vfork.
    meant = {name: "clone" if name == "VFORK" else name.lower() for _, name in cases}
    assert {name: int(number) for number, name in cases} == {
        name: numbers[call] for name, call in meant.items()
    }
    first_same = recorded()["FIRST_SAME"]
    same = {name for name, number in recorded().items() if number >= first_same} - BOUNDS
    absent = {"POLL", "SELECT", "EPOLL_WAIT"}
    assert set(recorded()) - BOUNDS - same - absent == {name for _, name in cases}


def test_the_reader_knows_them_by_the_same_numbers() -> None:
    found = re.findall(r"constexpr unsigned k(\w+) = (\d+);", READER.read_text())
    read = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(): int(number) for name, number in found}
    assert len(read) > 20
    written = recorded()
    both = read.keys() & written.keys()
    assert {"FUTEX", "WAITID", "PPOLL", "SEMTIMEDOP"} <= both
    assert {name: read[name] for name in both} == {name: written[name] for name in both}
