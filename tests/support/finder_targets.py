"""Programs that the finder looks at; the functions of one lie in a file that a test writes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import WORKLOADS, Workload
from rlscope_trace._capture import PythonScan

WAITS = "import sys; print('ready', flush=True); sys.stdin.readline()"

# Maps a file as code and makes a built-in function of each address in it (offset from the start of
# the file), then waits. Nothing of it is ever called.
FUNCTIONS_OF_FILE = """
import ctypes, mmap, sys

class Definition(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]

make = ctypes.pythonapi.PyCFunction_NewEx
make.restype = ctypes.py_object
make.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object]
with open(sys.argv[1], "rb") as file:
    code = mmap.mmap(file.fileno(), 0, prot=5, flags=mmap.MAP_PRIVATE)
with open("/proc/self/maps") as lines:
    ours = next(line for line in lines if line.rstrip().endswith(sys.argv[1]))
start = int(ours.split("-")[0], 16)
kept = []
for number, offset in enumerate(sys.argv[2:]):
    definition = Definition(b"function_%d" % number, start + int(offset), 1, None)
    kept.append((definition, make(ctypes.addressof(definition), None, "made")))
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def running(*command: str) -> Iterator[Workload]:
    """Run a program that says a line when it is ready; it is killed at the end."""
    made = Workload([*command])
    try:
        yield made
    finally:
        made.close()


@contextmanager
def functions_of_file(file: Path, *offsets: int) -> Iterator[Workload]:
    """Run a Python with built-in functions at these offsets of a file."""
    with running(sys.executable, "-c", FUNCTIONS_OF_FILE, str(file), *map(str, offsets)) as made:
        assert made.readline() == "ready"
        yield made


@contextmanager
def truthful(
    python: str, *modules: str
) -> Iterator[tuple[Workload, dict[str, dict[str, list[int]]]]]:
    """Run entry_points.py; give what it says: path -> how -> file offsets."""
    with running(python, str(WORKLOADS / "entry_points.py"), *modules) as made:
        reported = json.loads(made.readline(deadline_s=120))
        yield made, reported["functions"]


def has_modules(python: str, *modules: str) -> bool:
    """Return whether a Python can import these."""
    command = [python, "-c", f"import {','.join(modules)}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def extension(name: str) -> Path:
    """Return the file of a module of the standard library."""
    found = __import__(name).__file__
    assert found is not None
    return Path(found).resolve()


def start_and_site(path: Path) -> tuple[int, int]:
    """Return some function of an extension module, and its site."""
    with running(sys.executable, "-c", f"import {path.name.split('.')[0]}; {WAITS}") as target:
        target.readline()
        point = PythonScan(target.pid).entry_points([str(path)])["points"][0]
    return point[4], point[1]
