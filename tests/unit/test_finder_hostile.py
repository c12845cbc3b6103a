"""The finder on files and memory that are made to mislead it."""

import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from finder_targets import extension, functions_of_file, running, start_and_site
from rlscope_trace._capture import PythonScan

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 only")

# What a finder follows: headers, dynamic section, hash table, function table.
DAMAGES = 400


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Return a copy of an extension module."""
    return Path(shutil.copy(extension("_json"), tmp_path / "code.so"))


def overwrite(file: Path, content: bytes) -> None:
    """Change a file in place, as it is mapped."""
    with file.open("r+b") as out:
        out.write(content)
        out.truncate(len(content))


def places(whole: bytes) -> list[tuple[int, int]]:
    """Return where the tables lie: (offset, bytes), from the program headers."""
    found = [(0, 64)]
    first = int.from_bytes(whole[32:40], "little")
    for number in range(int.from_bytes(whole[56:58], "little")):
        header = first + 56 * number
        found.append((header, 56))
        kind = int.from_bytes(whole[header : header + 4], "little")
        offset = int.from_bytes(whole[header + 8 : header + 16], "little")
        size = int.from_bytes(whole[header + 32 : header + 40], "little")
        if kind in (2, 0x6474E550) or (kind == 1 and offset == 0):  # dynamic, eh_frame, first load
            found.append((offset, size))
    return found


def test_damaged_files_are_survived(code: Path) -> None:
    whole = code.read_bytes()
    start, site = start_and_site(extension("_json"))
    dice = random.Random(5)
    interesting = places(whole)
    outcomes: set[object] = set()
    with functions_of_file(code, start) as target:
        scan = PythonScan(target.pid)
        assert [point[1] for point in scan.entry_points([str(code)])["points"]] == [site]
        for _ in range(DAMAGES):
            damaged = bytearray(whole)
            for _ in range(dice.choice((1, 1, 3, 20))):
                offset, size = dice.choice(interesting)
                at = offset + dice.randrange(max(1, min(size, 4096)))
                value = dice.choice((b"\xff" * 8, b"\x00" * 8, b"\x7f" * 4, dice.randbytes(4)))
                damaged[at : at + len(value)] = value
            overwrite(code, bytes(damaged[: len(whole)]))
            found = scan.entry_points([str(code)])
            scan.exported(str(code), ["PyInit__json", "PyInit__nothing"])
            scan.runtime()
            outcomes.update(point[4] for point in found["points"])
            outcomes.update(found["rejected"])
        overwrite(code, whole)
        assert [point[1] for point in scan.entry_points([str(code)])["points"]] == [site]
    # The damage was felt, and no other place was ever taken for the function.
    assert "not a function start" in outcomes
    assert {outcome for outcome in outcomes if isinstance(outcome, int)} == {start}


@pytest.mark.parametrize("kept", [0, 1, 63, 64, 200, 4096, 20_000])
def test_a_file_cut_short_is_survived(code: Path, kept: int) -> None:
    whole = code.read_bytes()
    start, _ = start_and_site(extension("_json"))
    with functions_of_file(code, start) as target:
        scan = PythonScan(target.pid)
        overwrite(code, whole[:kept])
        found = scan.entry_points([str(code)])
        assert scan.exported(str(code), ["PyInit__json"]) == {}
    assert found["points"] == []
    assert sum(found["rejected"].values()) >= 1


# Every word of 8 MiB is one of: the address of a type that the finder looks for, of a function, of
# the memory itself, a small number, or anything.
HOSTILE_MEMORY = """
import ctypes, random, sys, _json
import mmap
dice = random.Random(int(sys.argv[1]))
names = ["PyCFunction_Type", "PyMethodDescr_Type", "PyWrapperDescr_Type", "PyGetSetDescr_Type",
         "PyType_Type", "PyClassMethodDescr_Type"]
types = [ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name)) for name in names]
memory = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
words = (ctypes.c_uint64 * (1 << 16)).from_buffer(memory)
choices = [lambda: dice.choice(types), lambda: start + 8 * dice.randrange(1 << 20),
           lambda: dice.randrange(1, 2000), lambda: dice.getrandbits(64), lambda: 0x80001800]
for at in range(len(words)):
    words[at] = dice.choice(choices)()
for at in range(1, 16):
    memory[at << 19 : (at + 1) << 19] = memory[: 1 << 19]
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("seed", range(3))
def test_memory_full_of_false_objects_is_survived(seed: int) -> None:
    path = str(extension("_json"))
    with running(sys.executable, "-c", HOSTILE_MEMORY, str(seed)) as target:
        target.readline()
        found = PythonScan(target.pid).entry_points([path])
    sites = {point[1] for point in found["points"]}
    assert start_and_site(extension("_json"))[1] in sites


CROWD = """
import ctypes, mmap, sys
kind = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "PyCFunction_Type"))
memory = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE)
memory[:] = kind.to_bytes(8, "little") * (4 << 20)
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_crowd_of_false_objects_is_cut_off_and_said() -> None:
    with running(sys.executable, "-c", CROWD) as target:
        target.readline()
        found = PythonScan(target.pid).entry_points([str(extension("_json"))])
    assert found["rejected"]["too many objects"] == 1


def test_a_process_may_end_while_it_is_read() -> None:
    for _ in range(20):
        with running(sys.executable, "-c", "import _json; print(1, flush=True); input()") as target:
            target.readline()
            scan = PythonScan(target.pid)
            target.process.kill()
            # Nothing waits for it: it ends while we read, or before, or after.
            try:
                found = scan.entry_points([str(extension("_json"))])
            except ProcessLookupError:
                continue
            assert set(found) == {"points", "rejected", "scanned_bytes", "unscanned_bytes"}


def segments(*wanted: tuple[int, int, int, int]) -> bytes:
    """Return loaded segments of a file: (flags, address, bytes in the file, bytes in memory)."""
    return b"".join(
        struct.pack("<IIQQQQQQ", 1, flags, 0, address, address, in_file, in_memory, 4096)
        for flags, address, in_file, in_memory in wanted
    )


def elf(programs: bytes, sections: bytes) -> bytes:
    """Return a file of these two tables, with nothing in them."""
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 64 + len(programs), 0, 64, 56, len(programs) // 56, 64,
        len(sections) // 64, 0,
    )  # fmt: skip
    return head + programs + sections


def table(kind: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, 0, size, 0, 0, 8, 24)


def test_a_file_of_many_symbol_tables_is_read_once(code: Path) -> None:
    start, _ = start_and_site(extension("_json"))
    whole = elf(segments((5, 0, 1 << 22, 1 << 22)), table(11, 1 << 22) * 60_000)
    ask = (
        "import sys; from rlscope_trace._capture import PythonScan\n"
        "print(PythonScan(int(sys.argv[1])).exported(sys.argv[2], ['PyInit__json', 'a', 'b']))"
    )
    with functions_of_file(code, start) as target:
        overwrite(code, whole)
        reported = subprocess.run(
            [sys.executable, "-c", ask, str(target.pid), str(code)],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        overwrite(code, extension("_json").read_bytes())
    assert reported.stdout == "{}\n"


def test_tables_that_are_holes_take_no_memory(code: Path) -> None:
    """A few kB on disk: symbols and their names of 256 MiB each, as far as their headers say."""
    start, _ = start_and_site(extension("_json"))
    mib = 1 << 20
    tables = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at * mib, 256 * mib, 1, 0, 8, 24)
        for kind, at in ((11, 1), (3, 300))
    )
    ask = (
        "import resource, sys; from rlscope_trace._capture import PythonScan\n"
        "PythonScan(int(sys.argv[1])).exported(sys.argv[2], ['PyInit__json'])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(PythonScan(int(sys.argv[1])).exported(sys.argv[3], ['PyInit__json']))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10)"
    )
    with functions_of_file(code, start) as target:
        overwrite(code, elf(segments((5, 0, 1 << 22, 1 << 22)), tables))
        os.truncate(code, 600 * mib)
        reported = subprocess.run(
            [sys.executable, "-c", ask, str(target.pid), str(extension("_json")), str(code)],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        overwrite(code, extension("_json").read_bytes())
    assert reported.stdout == "{}\nTrue\n"
