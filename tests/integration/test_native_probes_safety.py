"""The traced program comes first: whatever happens to the probes, it goes on as it would."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import WORKLOADS, Workload
from native_harness import SIMULATOR, UNWOUND, build, code_differs, entry_offsets, probing
from native_programs import build_extension

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the compiled programs."""
    made = tmp_path_factory.mktemp("native")
    build(WORKLOADS / "native_nesting.c", made / "native_nesting")
    build(WORKLOADS / "native_churn.c", made / "native_churn")
    build(WORKLOADS / "native_leaf.c", made / "native_leaf.so", "-shared", "-fPIC")
    return made


def test_probes_come_and_go_under_a_program_that_loads_forks_executes_and_crashes(
    ready: Callable[..., Workload], folder: Path, tmp_path: Path
) -> None:
    library, program = folder / "native_leaf.so", folder / "native_churn"
    churn = ready(program, library)
    cycles = 40
    with probing(tmp_path / "spool", churn.pid) as run:
        for _ in range(cycles):
            run.probe(program, ["churn_step"], first_site=0)
            run.probe(library, ["native_leaf"], first_site=1)
            run.probes.drop([1])
            run.probes.detach()
        counters = run.probes.counters()
        churn.go()
        truth = churn.truth()
        run.finish()
    assert churn.wait() == 0
    assert truth["wrong"] == 0
    assert int(str(truth["rounds"])) > 0
    assert counters[0][0] > cycles


@pytest.mark.slow
def test_a_hundred_cycles_on_a_program_under_load(
    ready: Callable[..., Workload], folder: Path, tmp_path: Path
) -> None:
    program = folder / "native_churn"
    churn = ready(program, folder / "native_leaf.so")
    offset = entry_offsets(program)["churn_step"]
    with probing(tmp_path / "spool", churn.pid) as run:
        for _ in range(100):
            run.probe(program, ["churn_step"])
            run.probes.detach()
            assert code_differs(churn.pid, program, [offset]) == []
        churn.go()
        truth = churn.truth()
    assert churn.wait() == 0
    assert truth["wrong"] == 0


RECORDER = """
import sys
from pathlib import Path
from native_harness import probing
with probing(Path(sys.argv[1]), int(sys.argv[2])) as run:
    run.probe(Path(sys.argv[3]), sys.argv[4:])
    print("probing", flush=True)
    sys.stdin.read()
"""


def test_a_recorder_that_is_killed_leaves_no_probe(
    ready: Callable[..., Workload],
    folder: Path,
    tmp_path: Path,
    poll_until: Callable[..., object],
) -> None:
    program = folder / "native_nesting"
    names = ["outer", "middle", "inner", "hold"]
    offsets = [entry_offsets(program)[name] for name in names]
    target = ready(program, "halves", 20)
    recorder = Workload(
        [
            *["env", f"PYTHONPATH={os.pathsep.join(sys.path)}", sys.executable, "-c", RECORDER],
            *[str(tmp_path / "spool"), str(target.pid), str(program), *names],
        ]
    )
    try:
        assert recorder.readline() == "probing"
        target.go()
        assert target.readline() == "half"
        assert sorted(code_differs(target.pid, program, offsets)) == sorted(offsets)
        recorder.process.send_signal(signal.SIGKILL)
        recorder.process.wait()
    finally:
        recorder.close()
    poll_until(
        lambda: code_differs(target.pid, program, offsets) == [], what="the code is the original"
    )
    # It is inside hold(), whose return was armed.
    target.go()
    assert target.truth()["sink"] == 121
    target.go()
    assert target.wait() == 0


EXCEPTIONS = """
import sys
sys.path.insert(0, sys.argv[1])
import native_throw
print("ready", __import__("os").getpid(), flush=True)
sys.stdin.readline()
translated = passed = 0
def fails():
    native_throw.translate()
def nested():
    native_throw.through_python(fails)
for _ in range(200):
    assert native_throw.catch_own() == 1
    for function in (native_throw.translate, lambda: native_throw.through_python(nested)):
        try:
            function()
        except RuntimeError:
            translated += 1
print('{"translated": %d, "counts": "%s"}' % (translated, native_throw.counts()), flush=True)
"""


def test_exceptions_below_a_probed_boundary(tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    build_extension("native_throw", module, sys.executable)
    (library,) = module.glob("native_throw*.so")
    names = {
        short: next(name for name in entry_offsets(library) if short in name)
        for short in ("CatchOwn", "Translate", "ThroughPython")
    }
    program = Workload([sys.executable, "-c", EXCEPTIONS, str(module)])
    try:
        assert program.readline() == f"ready {program.pid}"
        with probing(tmp_path / "spool", program.pid) as run:
            run.probe(library, list(names.values()))
            program.go()
            truth = program.truth()
            recorded = run.finish()
        assert program.wait() == 0
    finally:
        program.close()
    assert truth["translated"] == 400
    assert [len(recorded.of_site(site)) for site in range(3)] == [200, 400, 400]
    # All of them returned: the exceptions were caught inside.
    assert {call.flags for call in recorded.calls} == {0}
    assert {call.depth for call in recorded.of_site(2)} == {0, 1}


GIL = """
import os, sys, threading, time
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
for _ in range(10):
    time.sleep(0.05)
print('{"tid": %d}' % threading.get_native_id(), flush=True)
"""


def test_gil_releases_are_recorded_from_the_release_to_the_return(tmp_path: Path) -> None:
    program = Workload([sys.executable, "-c", GIL])
    try:
        assert program.readline() == f"ready {program.pid}"
        interpreter = interpreter_of(program.pid)
        offsets = entry_offsets(interpreter)
        with probing(tmp_path / "spool", program.pid) as run:
            run.probes.attach_gil(
                str(interpreter),
                [offsets["PyEval_SaveThread"]],
                [offsets["PyEval_RestoreThread"]],
            )
            program.go()
            program.truth()
            recorded = run.finish()
        assert program.wait() == 0
    finally:
        program.close()
    slept = [end - start for _, start, end in recorded.gil_releases if end - start >= 50_000_000]
    assert len(slept) == 10
    threads = {thread for thread, _, _ in recorded.gil_releases}
    assert {recorded.tids[thread][0] for thread in threads} == {program.pid}


def interpreter_of(pid: int) -> Path:
    """Return the file with the code of the interpreter, with symbols."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if "libpython3" in path:
            return Path(path)
    return Path(f"/proc/{pid}/exe").readlink()


def test_a_thread_that_is_ended_from_a_probed_function_ends(
    ready: Callable[..., Workload], folder: Path, tmp_path: Path
) -> None:
    target = ready(folder / "native_nesting", "leave_thread", 1, 8)
    with probing(tmp_path / "spool", target.pid) as run:
        run.probe(folder / "native_nesting", ["leave_thread"])
        target.go()
        assert target.truth()["answer"] == 0
        recorded = run.finish()
    target.go()
    assert target.wait() == 0
    assert [call.flags for call in recorded.calls] == [UNWOUND] * 8
    assert {call.layer for call in recorded.calls} == {SIMULATOR}
