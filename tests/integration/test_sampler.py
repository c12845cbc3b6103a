"""What the sampler says of known programs: Python functions, layers, copies and other programs."""

import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from conftest import WORKLOADS, Workload
from native_programs import VERSIONS, build_library, python_of, system_python
from sampler_harness import (
    BY_STACK,
    HZ,
    OTHER,
    PYTHON,
    SIMULATOR,
    SPIN,
    Sample,
    Sampling,
    error,
    sampling,
    share,
)

pytestmark = pytest.mark.root

Truth = dict[str, Any]
Run = Callable[..., tuple[list[Sample], Truth]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Return `run(python, "functions")`: the samples of tests/workloads/sampled.py, its truth."""
    started: list[Workload] = []

    def sample(
        python: str, *arguments: str, prepare: Callable[[Sampling, int], object] | None = None
    ) -> tuple[list[Sample], Truth]:
        program = Workload([python, str(WORKLOADS / "sampled.py"), *arguments])
        started.append(program)
        assert program.readline() == f"ready {program.pid}"
        with sampling(tmp_path, program.pid) as made:
            (prepare or Sampling.note_python)(made, program.pid)
            program.go()
            truth = cast("Truth", program.truth())
            samples = made.finish()
            assert made.sampler.counters()["lost"] == 0
        inside = [s for s in samples if truth["start_ns"] < s.ts_ns < truth["end_ns"]]
        assert len(inside) > 100
        return inside, truth

    yield sample
    for program in started:
        program.close()


@pytest.mark.parametrize("version", [*VERSIONS, "system"])
def test_python_functions_get_their_share_of_the_cpu_time(run: Run, version: str) -> None:
    python = system_python() if version == "system" else python_of(version)
    samples, truth = run(python, "functions")
    total_ns = sum(function["cpu_ns"] for function in truth["functions"].values())
    for name, function in truth["functions"].items():
        qualified = "Kind.method" if name == "method" and "3.9 3.10".find(version) < 0 else name
        expected = function["cpu_ns"] / total_ns
        found = share(samples, lambda sample, name=qualified: sample.is_in(name))
        assert found == pytest.approx(expected, abs=error(expected, samples)), name
    assert share(samples, lambda sample: sample.layer == PYTHON) > 0.97
    assert share(samples, lambda sample: not sample.stack) < 0.02


def test_a_stack_is_told_from_the_outermost_function_on(run: Run) -> None:
    samples, _ = run(sys.executable, "functions")
    stacks = {sample.stack for sample in samples if sample.is_in("callback")}
    names = [tuple(frame.split(" (")[0] for frame in stack) for stack in stacks]
    assert ("<module>", "functions", "callback", "callback.<locals>.<lambda>", "note", "burn") in (
        names
    )
    source = (WORKLOADS / "sampled.py").read_text().splitlines()
    line = source.index("def callback() -> None:") + 1
    assert all(f"callback (sampled.py:{line})" in stack for stack in stacks)


def test_a_deep_stack_is_cut_at_its_outer_end(run: Run) -> None:
    samples, _ = run(sys.executable, "functions")
    deep = [sample.stack for sample in samples if sample.is_in("deep") and sample.is_in("burn")]
    assert deep
    for stack in deep:
        assert stack[0] == "..."
        assert stack[-1].startswith("burn (")
        assert len(stack) == 49


def test_a_program_in_step_with_a_clock_gets_its_shares(run: Run) -> None:
    """One of three clocks at one rate would meet one of the halves only: 17 points off."""
    clock_ns = 3.0279e9 / HZ
    samples, truth = run(sys.executable, "in_step", repr(clock_ns / 2))
    total_ns = sum(function["cpu_ns"] for function in truth["functions"].values())
    expected = truth["functions"]["first"]["cpu_ns"] / total_ns
    inside = [sample for sample in samples if sample.is_in("until")]
    assert len(inside) > 0.8 * len(samples)
    found = share(inside, lambda sample: sample.is_in("first"))
    # Samples between two changes of a rate are not independent: more than error() of as many.
    assert found == pytest.approx(expected, abs=0.08)


def test_each_thread_has_its_own_functions(run: Run) -> None:
    samples, truth = run(sys.executable, "threads")
    by_tid = {function["tid"]: name for name, function in truth["functions"].items()}
    assert len(by_tid) == 4
    for tid, name in by_tid.items():
        of_thread = [sample for sample in samples if sample.tid == tid and sample.is_in("burn")]
        assert of_thread
        assert all(sample.is_in(name) for sample in of_thread)


def test_a_forked_child_is_known_by_its_parent(run: Run) -> None:
    samples, truth = run(sys.executable, "fork")
    tid = truth["functions"]["child"]["tid"]
    child = [sample for sample in samples if sample.tid == tid]
    assert len(child) > 50
    assert share(child, lambda sample: sample.is_in("child") or sample.is_in("note")) > 0.9
    assert share(child, lambda sample: sample.layer == PYTHON) > 0.95


def test_the_code_that_runs_has_its_layer(run: Run, tmp_path: Path) -> None:
    library = build_library("sampled_work", tmp_path)
    samples, truth = run(sys.executable, "library", str(library))
    total_ns = sum(function["cpu_ns"] for function in truth["functions"].values())
    spun = truth["functions"]["spin_for"]["cpu_ns"] / total_ns
    found = share(samples, lambda sample: sample.layer == SPIN)
    assert found == pytest.approx(spun, abs=error(spun, samples))
    worked = 1 - spun
    found = share(samples, lambda sample: sample.layer == SIMULATOR)
    assert found == pytest.approx(worked, abs=error(worked, samples))
    copied = truth["functions"]["copy_for"]["cpu_ns"] / total_ns
    found = share(
        samples, lambda sample: sample.layer == SIMULATOR and bool(sample.flags & BY_STACK)
    )
    assert found == pytest.approx(copied, abs=error(copied, samples))


def test_another_program_has_no_functions_of_the_one_before(tmp_path: Path) -> None:
    source = "import os, sys; print('ready', flush=True); sys.stdin.readline(); os.execv(*{!r})"
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint('{}', flush=True); input()"
    after = (system_python(), ["python3", "-c", burn])
    program = Workload([sys.executable, "-c", source.format(after)])
    try:
        assert program.readline() == "ready"
        with sampling(tmp_path, program.pid) as made:
            made.note_python(program.pid)
            program.go()
            assert program.truth() == {}
            samples = made.finish()
    finally:
        program.close()
    late = samples[len(samples) // 2 :]
    assert len(late) > 50
    assert not any(sample.stack for sample in late)
    assert share(late, lambda sample: sample.layer == PYTHON) > 0.9


def test_a_wrong_address_gives_no_functions(run: Run) -> None:
    def mislead(made: Sampling, pid: int) -> None:
        runtime = made.note_python(pid)
        runtime["runtime_start"] += 4096
        assert made.sampler.note_python(pid, runtime) is None

    samples, _ = run(sys.executable, "fork", prepare=mislead)
    assert not any(sample.stack for sample in samples)
    assert share(samples, lambda sample: sample.layer == PYTHON) > 0.95


def test_interpreters_that_are_not_known_are_refused_with_the_reason(run: Run) -> None:
    def refuse(made: Sampling, pid: int) -> None:
        runtime = made.note_python(pid)
        assert made.sampler.note_python(pid, {**runtime, "version": (3, 99)}) == (
            "Python 3.99 is not known"
        )
        refused = made.sampler.note_python(pid, {**runtime, "free_threaded": True})
        assert refused is not None
        assert refused.startswith("free-threaded")

    samples, _ = run(sys.executable, "fork", prepare=refuse)
    assert {sample.layer for sample in samples} <= {0, PYTHON, OTHER}


def test_a_program_of_many_files_leaves_descriptors_to_others(tmp_path: Path) -> None:
    library = build_library("sampled_work", tmp_path)
    copies = [shutil.copy(library, tmp_path / f"copy{number}.so") for number in range(300)]
    preload = "LD_PRELOAD=" + ":".join(map(str, copies))
    program = Workload(["env", preload, sys.executable, str(WORKLOADS / "sampled.py"), "functions"])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        assert program.readline() == f"ready {program.pid}"
        with sampling(tmp_path, program.pid) as made:
            made.note_python(program.pid)
            program.go()
            program.truth()
            held = len(list(Path("/proc/self/fd").iterdir()))
            samples = made.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        program.close()
    assert held < 192
    assert share(samples, lambda sample: sample.layer == PYTHON) > 0.9
