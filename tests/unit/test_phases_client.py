"""The NVTX client under the phases: what reaches a tool, and what happens where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

import phases_harness
from phases_harness import Harness

IMPORT = "from rlscope_phases import _nvtx\n"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def run(harness: Harness, text: str) -> phases_harness.Recording:
    return harness.script(
        f"import sys; sys.path.insert(0, {str(harness.folder)!r})\n{IMPORT}{text}"
    )


def test_ranges_reach_the_tool_by_name(harness: Harness) -> None:
    made = run(
        harness,
        "assert _nvtx.available()\n"
        "names = [_nvtx.register(name) for name in ('one', 'zwei äöü')]\n"
        "for name in names:\n"
        "    _nvtx.push(name)\n"
        "    _nvtx.pop()\n",
    )
    assert made.names() == ["one", "zwei äöü"]
    made.check_nesting()


def test_time_is_inside_the_range(harness: Harness) -> None:
    made = run(
        harness,
        "import time\n"
        "name = _nvtx.register('work')\n"
        "before = time.monotonic_ns(); _nvtx.push(name); inner = time.monotonic_ns()\n"
        "end = time.monotonic_ns(); _nvtx.pop(); after = time.monotonic_ns()\n"
        "print(before, inner, end, after)\n",
    )
    before, inner, end, after = map(int, made.stdout.split())
    (only,) = made.ranges
    assert before <= only.start_ns <= inner
    assert end <= only.end_ns <= after


def test_every_thread_has_ranges_of_its_own(harness: Harness) -> None:
    made = run(
        harness,
        "import threading\n"
        "name = _nvtx.register('work')\n"
        "barrier = threading.Barrier(8)\n"
        "def work():\n"
        "    barrier.wait()\n"
        "    for _ in range(1000):\n"
        "        _nvtx.push(name)\n"
        "        _nvtx.pop()\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n",
    )
    made.check_nesting()
    assert made.counts() == {"work": 8000}
    assert len({only.tid for only in made.ranges}) == 8


NO_TOOL = (
    "assert not _nvtx.available()\n"
    "assert not _nvtx.start()\n"
    "assert _nvtx.register('work') == 0\n"
    "_nvtx.push(0); _nvtx.pop(); _nvtx.end()\n"
    "print('alive')\n"
)


@pytest.mark.parametrize("tool", [None, "", "/nonexistent/tool.so", "declines"])
def test_without_a_tool_nothing_happens(harness: Harness, tmp_path: Path, tool: str | None) -> None:
    environment = harness.environment(None)
    if tool == "declines":
        source = tmp_path / "declines.c"
        source.write_text("int InitializeInjectionNvtx2(void* table) { return table == 0; }\n")
        tool = str(phases_harness.build(tmp_path / "declines.so", source))
    if tool is not None:
        environment["NVTX_INJECTION64_PATH"] = tool
    text = f"import sys; sys.path.insert(0, {str(harness.folder)!r})\n{IMPORT}{NO_TOOL}"
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("alive\n", "", 0)


@pytest.mark.parametrize(
    "call", ["push('x')", "push(-1 << 80)", "register(3)", "decide(99)", "Hook(3, 0)"]
)
def test_nonsense_is_an_exception(harness: Harness, call: str) -> None:
    made = run(
        harness,
        f"try:\n    _nvtx.{call}\nexcept (TypeError, ValueError, OverflowError,"
        " AttributeError):\n    print('refused')\n",
    )
    assert made.stdout == "refused\n"
