"""Late attach to programs that use the Python package nvtx."""

import importlib.util
import sys
from collections.abc import Iterator

import pytest

from late_programs import Program
from late_ring import LateRing, find_memfd
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.record import inject

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(importlib.util.find_spec("nvtx") is None, reason="needs the package nvtx"),
]

SHIM = SHIM_FOLDER / "librlscope_shim.so"
PROGRAM = """
import sys, nvtx
nvtx.push_range("before"); nvtx.pop_range()
with nvtx.annotate("before", domain="dom"): pass
@nvtx.annotate("decorated before", domain="dom")
def before(): pass
kept = nvtx.annotate("kept", domain="dom", category="some", payload=3)
unnamed = nvtx.annotate(domain="dom")
open_range = nvtx.annotate("open", domain="dom")
open_range.__enter__()
print("ready", flush=True)
sys.stdin.readline()
open_range.__exit__(None, None, None)
for _ in range(5):
    before()
    with kept: pass
    with nvtx.annotate("fresh", domain="dom", color="red"): pass
    nvtx.push_range("pushed", domain="other"); nvtx.pop_range(domain="other")
@unnamed
def named_after_function(): pass
named_after_function()
try:
    with nvtx.annotate("raising", domain="dom"): raise ValueError
except ValueError:
    print("done")
"""


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program(sys.executable, "-c", PROGRAM)
    assert made.readline() == "ready"
    yield made
    made.close()


def test_ranges_made_after_the_attach_are_captured(program: Program) -> None:
    result = inject.inject_shim(program.pid, SHIM, auto=False)
    assert Fact("late_package_ranges") in result.captured
    path = find_memfd(program.pid)
    assert path is not None
    ring = LateRing(path)
    ring.listen()
    program.go()
    assert program.end() == "done"
    found = ring.ranges()
    ring.close()
    # Only versions before 0.2.12 leave a trace of functions that were decorated before.
    is_lost = Fact("late_decorated") in result.missing
    assert found.pop(("dom", "decorated before"), 0) == (0 if is_lost else 5)
    assert found == {
        ("dom", "kept"): 5,
        ("dom", "fresh"): 5,
        ("other", "pushed"): 5,
        ("dom", "named_after_function"): 1,
        ("dom", "raising"): 1,
    }


def test_nvtx_disabled_by_the_user_stays_disabled() -> None:
    text = "import sys, nvtx\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    text += "with nvtx.annotate('x'): pass\nprint('done')"
    program = Program(
        sys.executable,
        "-c",
        text,
        environment={"NVTX_DISABLE": "1", "PYTHONPATH": ":".join(sys.path)},
    )
    assert program.readline() == "ready"
    result = inject.inject_shim(program.pid, SHIM, auto=False)
    assert Fact("late_nvtx_disabled") in result.missing
    path = find_memfd(program.pid)
    assert path is not None
    ring = LateRing(path)
    ring.listen()
    program.go()
    assert program.end() == "done"
    assert ring.ranges() == {}
    ring.close()
    program.close()
