"""scripts/gpu_check: what it plans, how steps end, what its verdicts mean, what it brings home."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shim_builder import ShimBuilder

if TYPE_CHECKING:
    from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]
GPU_DATA = REPOSITORY / "tests/data/gpu"
NO_DRIVER = "no NVIDIA driver: libcuda.so.1 was not found"


@pytest.fixture
def lib(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the package of the script, with its modules loaded."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    import gpu_check_lib
    from gpu_check_lib import bundle, fixtures, home, plan, processes, records, runner, verdict
    from gpu_check_lib.steps import launches  # noqa: F401 - an attribute of the package then

    assert {bundle, fixtures, home, plan, processes, records, runner, verdict}
    return gpu_check_lib


# --- the plan ---


def test_every_step_has_a_module_and_fits_into_the_budget(lib: ModuleType) -> None:
    for step in lib.plan.STEPS:
        assert (REPOSITORY / f"scripts/gpu_check_lib/steps/{step.name}.py").exists()
        assert step.least_s <= step.limit_s
    assert sum(step.least_s for step in lib.plan.STEPS) < 480


def test_a_step_is_not_begun_without_what_it_needs_or_without_time(lib: ModuleType) -> None:
    step = lib.plan.Step("any", (lib.plan.GPU, lib.plan.TORCH), 60, 20)
    facts = lib.plan.Facts()
    assert lib.plan.obstacle(step, facts, 100) is None
    assert "24 s are left of the budget, it needs 20 s" in lib.plan.obstacle(step, facts, 24)
    facts.update({"missing": {"torch": "no PyTorch"}})
    assert lib.plan.obstacle(step, facts, 100) == "no PyTorch"
    assert lib.plan.limit(step, 30) == 25
    assert lib.plan.limit(step, 300) == 60


def test_the_first_step_always_runs_and_unknown_names_are_refused(lib: ModuleType) -> None:
    assert [step.name for step in lib.plan.select(["stack", "costs"])] == [
        "environment", "costs", "stack",
    ]  # fmt: skip
    assert lib.plan.select([]) == list(lib.plan.STEPS)
    with pytest.raises(ValueError, match="no step is called cost; there are environment"):
        lib.plan.select(["cost"])


# --- verdicts ---


@pytest.mark.parametrize(
    ("verdicts", "has_gpu", "allowed", "code"),
    [
        (["PASS", "INFO", "SKIP"], True, False, 0),
        (["PASS", "FAIL"], True, False, 1),
        (["SKIP"], False, False, 2),
        (["SKIP"], False, True, 0),
        (["FAIL"], False, True, 1),
    ],
)
def test_exit_codes(
    lib: ModuleType, verdicts: list[str], has_gpu: bool, allowed: bool, code: int
) -> None:
    made = [lib.verdict.Finding("s", "q", lib.verdict.Verdict(each)) for each in verdicts]
    assert lib.verdict.exit_code(made, has_gpu=has_gpu, allow_no_gpu=allowed) == code


def test_a_journal_that_was_cut_off_keeps_what_came_before(lib: ModuleType, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    assert lib.verdict.read(journal) == []
    finding = lib.verdict.Finding("s", "q", lib.verdict.Verdict.FAIL, "d", {"n": 3})
    lib.verdict.append(journal, finding)
    lib.verdict.append(journal, finding)
    journal.write_text(journal.read_text()[:-20])
    assert lib.verdict.read(journal) == [finding]


# --- the runner ---


# In a process of its own: it ends whatever descends from it.
HARNESS = """
import sys, time
from pathlib import Path
folder, steps, hung = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
from gpu_check_lib import home, plan, processes, runner
import gpu_check_lib.steps
processes.END_S = 0.2
def until_it_hangs(process, _limit_s):
    while process.poll() is None and not hung.exists():
        time.sleep(0.01)
    return process.poll() is not None
processes.ends_within = until_it_hangs
processes.adopt_orphans()
runner.SCRIPTS = f"{steps}:{runner.SCRIPTS}"
(folder / "steps").mkdir()
going = runner.Run(
    home=home.Home(folder / "out", folder / "home"), scratch=folder / "steps",
    python=sys.executable, target_python=sys.executable, target_path="", budget_s=60.0,
    facts=plan.Facts(), say=lambda line: None,
)
runner.run_all(going, [plan.Step("planted", (), 30.0, 0)])
"""


def run_step(tmp_path: Path, source: str) -> list[tuple[str, str, str]]:
    """Run a step of that source; return question, verdict and detail of its findings.

    Its time is over when it has made the file "hung".
    """
    package = tmp_path / "path/gpu_check_lib/steps"
    package.mkdir(parents=True)
    # The package of the scripts, with one more step.
    (package / "__init__.py").touch()
    for name in ("__init__", "step", "context", "verdict"):
        module = REPOSITORY / f"scripts/gpu_check_lib/{name}.py"
        (package.parent / module.name).write_text(module.read_text())
    (package / "planted.py").write_text(source)
    arguments = [str(path) for path in (tmp_path, tmp_path / "path", tmp_path / "hung")]
    subprocess.run(
        [sys.executable, "-c", HARNESS, *arguments],
        check=True, timeout=50, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "scripts")},
    )  # fmt: skip
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert (tmp_path / "out/logs.tar.gz").exists()
    return [
        (reported["question"], reported["verdict"], reported["detail"])
        for reported in report["findings"]
    ]


def test_findings_of_a_step_that_fails_are_kept(tmp_path: Path) -> None:
    source = (
        "def run(context):\n    context.check('one', True)\n    raise OSError('disk on fire')\n"
    )
    assert run_step(tmp_path, source) == [
        ("one", "PASS", ""), ("ended", "FAIL", "OSError: disk on fire"),
    ]  # fmt: skip


def test_what_cannot_go_on_here_is_skipped(tmp_path: Path) -> None:
    source = (
        "from gpu_check_lib.context import NotHereError\n"
        "def run(context):\n    context.tell('two', 'x')\n    raise NotHereError('no such thing')\n"
    )
    assert run_step(tmp_path, source) == [
        ("two", "INFO", "x"), ("the rest", "SKIP", "no such thing"),
    ]  # fmt: skip


def test_a_step_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids, hung = tmp_path / "pids", tmp_path / "hung"
    # A child in a session of its own that ignores every polite word.
    source = f"""
import os, signal, subprocess, sys
def run(context):
    context.check('three', False, 'seen')
    child = subprocess.Popen([sys.executable, '-c',
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True);"
        "signal.pause()"], start_new_session=True, stdout=subprocess.PIPE)
    child.stdout.readline()
    open({str(pids)!r}, 'w').write(f'{{child.pid}} {{os.getpid()}}')
    os.rename({str(pids)!r}, {str(hung)!r})
    signal.pause()
"""
    found = run_step(tmp_path, source)
    assert found[0] == ("three", "FAIL", "seen")
    assert found[1][:2] == ("ended", "FAIL")
    assert found[1][2].startswith("stopped after ")
    for pid in hung.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


# --- what is brought home ---


def test_what_is_too_large_stays_and_is_told(
    lib: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lib.home, "MOST_BYTES", 6000)
    home = lib.home.Home(tmp_path / "out", tmp_path / "home")
    (home.staging / "fixtures/small").write_bytes(b"x" * 100)
    (home.staging / "fixtures/noise").write_bytes(os.urandom(8000))
    (home.staging / "calibration.json").write_text("{}")
    home.pack()
    home.pack()
    assert home.left_out == ["fixtures/noise: 8000 bytes"]
    with tarfile.open(tmp_path / "out/fixtures.tar.gz") as archive:
        assert archive.getnames() == ["small"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "calibration.json", "fixtures.tar.gz",
    ]  # fmt: skip


def a_run(lib: ModuleType, folder: Path, dump: bytes) -> None:
    """Write what a run would bring home."""
    home = lib.home.Home(folder, folder.parent / "home")
    (home.staging / "fixtures/plain").mkdir()
    (home.staging / "fixtures/plain/buffers.7").write_bytes(dump)
    home.pack()
    home.write_json("report.json", {"known": {"cupti_api": 130001, "secret": "no"}})


def test_a_run_becomes_fixtures(lib: ModuleType, tmp_path: Path) -> None:
    buffers = [
        lib.fixtures.Buffer(130001, b"r" * 64, {8: b"kernel", 32: b""}),
        lib.fixtures.Buffer(130001, b"", {}),
    ]
    lib.fixtures.write_dump(tmp_path / "dump", buffers)
    whole = (tmp_path / "dump").read_bytes()
    assert lib.fixtures.read_dump(tmp_path / "dump") == buffers
    a_run(lib, tmp_path / "run", whole + whole[:40])
    target = tmp_path / "data/h200"
    names = lib.fixtures.bring_in(tmp_path / "run", target)
    assert names == ["plain/buffers.7", "versions.json"]
    # Of the second buffer only a part: the process was killed while it wrote.
    assert lib.fixtures.read_dump(target / "plain/buffers.7") == buffers
    versions = json.loads((target / "versions.json").read_text())
    assert versions["cupti_api"] == 130001
    assert "secret" not in versions
    with pytest.raises(lib.fixtures.FixtureError, match="is there already"):
        lib.fixtures.bring_in(tmp_path / "run", target)


@pytest.mark.parametrize(
    "dump",
    [
        b"not a buffer, but as long as the head of one",
        struct.pack("<8sIIQQ", b"RSLCUPTI", 18, 0, 4, 8) + b"rrrr" + struct.pack("<II", 4, 0),
        struct.pack("<8sIIQQ", b"RSLCUPTI", 18, 0, 4, 8) + b"rrrr" + struct.pack("<II", 0, 9),
        struct.pack("<8sIIQQ", b"RSLCUPTI", 18, 0, 4, 3) + b"rrrr" + b"nam",
    ],
)
def test_a_damaged_dump_is_refused_and_leaves_nothing(
    lib: ModuleType, tmp_path: Path, dump: bytes
) -> None:
    a_run(lib, tmp_path / "run", dump)
    with pytest.raises(lib.fixtures.FixtureError, match=r"buffers\.7: "):
        lib.fixtures.bring_in(tmp_path / "run", tmp_path / "data/bad")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    "folder", sorted(GPU_DATA.iterdir()) if GPU_DATA.exists() else [], ids=lambda path: path.name
)
def test_fixtures_that_are_there_are_whole(lib: ModuleType, folder: Path) -> None:
    assert json.loads((folder / "versions.json").read_text())["cupti_api"] > 0
    dumps = list(folder.rglob("buffers.*"))
    assert dumps
    for dump in dumps:
        assert lib.fixtures.read_dump(dump)


# --- what is installed ---


def test_a_bundle_holds_the_wheels_that_the_other_machine_lacks(
    lib: ModuleType, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("rlscope_trace-1-py3-none-any", "numpy-2-py3-none-any"):
        (wheels / f"{name}.whl").write_bytes(b"w")
    output = tmp_path / "new/bundle.tar.gz"
    assert lib.bundle.write(output, wheels, ["numpy"]) == output.stat().st_size
    with tarfile.open(output) as archive:
        assert archive.getnames() == ["manifest.json", "rlscope_trace-1-py3-none-any.whl"]


def test_what_is_no_bundle_is_refused(lib: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no archive")
    with pytest.raises(lib.bundle.BundleError, match="is no bundle") as caught:
        lib.bundle.install(tmp_path / "file", tmp_path)
    assert "gpu_check pack" in caught.value.hint


# --- judging what the shim told ---


def a_recording(lib: ModuleType, folder: Path, *, early_ns: int = 0, dropped: int = 0) -> object:
    """Return the records of two launches and their kernels, the second `early_ns` too early."""
    shim = ShimBuilder()
    shim.source(pid=70)
    shim.string("cuLaunchKernel")
    shim.string("a_kernel_whose_name_takes_more_than_one_cell_of_the_ring_as_most_do")
    launch, kernel = (
        cell for cell in map(lib_hash, ("cuLaunchKernel", LONG))
    )  # fmt: skip
    realtime = 1_790_000_000_000_000_000
    shim.cell(struct.pack("<HHIQQQ32x", 33, 0, 30, 1000, realtime + 1000, 0))
    for number, at in ((1, 1000), (2, 2000)):
        shim.cell(struct.pack("<HHIQQQIII20x", 18, 4, 71, at, at + 90, launch, number, 307, 0))
        start = realtime + at + 50 - (early_ns if number == 2 else 0)
        shim.cell(
            struct.pack("<HBBIQQQQIIIIII", 20, 1, 0, 0, start, start + 400, kernel, 0, number,
                        1, 7, 0, 0, 0)
        )  # fmt: skip
    shim.flush()
    shim.block(3, struct.pack("<6Q", dropped, 0, 0, 0, 0, 0))
    shim.block(3, struct.pack("<6Q", dropped, 0, 0, 0, 0, 0))
    shim.write(folder)
    return lib.records.read(folder / "shim.bin")


LONG = "a_kernel_whose_name_takes_more_than_one_cell_of_the_ring_as_most_do"


def lib_hash(text: str) -> int:
    from shim_builder import hash_of

    return hash_of(text)


class Judge:
    """A context that only keeps what it is told."""

    def __init__(self) -> None:
        self.answers: dict[str, bool] = {}

    def check(self, question: str, passed: bool, _detail: str = "", **_values: object) -> bool:
        self.answers[question] = passed
        return passed


@pytest.mark.parametrize(("early_ns", "dropped"), [(0, 0), (60, 0), (0, 5)])
def test_records_are_read_and_judged(
    lib: ModuleType, tmp_path: Path, early_ns: int, dropped: int
) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    found = a_recording(lib, folder, early_ns=early_ns, dropped=dropped)
    assert [(call.tid, call.name) for call in found.calls] == [(71, "cuLaunchKernel")] * 2
    assert [kernel.name for kernel in found.of(lib.records.KERNEL)] == [LONG] * 2
    assert found.dropped == dropped
    judge = Judge()
    reported = {"launches": 2, "tids": [71], "start_ns": 900, "end_ns": 3000}
    lib.steps.launches.check_counts(judge, "w", reported, found)
    lib.steps.launches.check_calls(judge, reported, found)
    assert judge.answers == {
        "w: as many kernels as launches": True,
        "w: nothing lost": dropped == 0,
        "w: each kernel has its call": True,
        # 50 ns after its call, less what it is early.
        "w: every kernel begins after its call": early_ns == 0,
        "calls have names": True,
        "calls name their threads": True,
        "calls lie where the program made them": True,
    }


def test_records_of_a_damaged_spool_are_an_error(lib: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "shim.bin").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="no block at byte 16"):
        lib.records.read(tmp_path / "shim.bin")


# --- the command ---


def test_without_a_gpu_every_question_says_so(tmp_path: Path) -> None:
    script = REPOSITORY / "scripts/gpu_check"
    command = [sys.executable, str(script), str(tmp_path / "out"), "--only", "launches,stack"]
    # A Python that is surely without PyTorch; NVIDIA's driver is out of reach in CI anyway.
    for more, code in ((["--allow-no-gpu"], 0), ([], 2)):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        if NO_DRIVER not in done.stdout:
            pytest.skip("this machine has an NVIDIA driver")
        assert done.returncode == code, done.stdout + done.stderr
        assert f"SKIP  launches: not asked: {NO_DRIVER}" in done.stdout
        assert f"SKIP  stack: not asked: {NO_DRIVER}" in done.stdout
        assert " 0 FAIL" in done.stdout
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["missing"]["gpu"] == NO_DRIVER
    assert report["tally"]["SKIP"] >= 3


def test_a_folder_that_is_no_run_is_one_error(tmp_path: Path) -> None:
    script = REPOSITORY / "scripts/gpu_check"
    done = subprocess.run(
        [sys.executable, str(script), "import", str(tmp_path), "--into", str(tmp_path / "data")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("error: ")
    assert done.stderr.splitlines()[1] == "hint: give the output folder of a run"


def test_without_a_library_of_nvidia_there_is_nothing_to_decode(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts/gpu_check"), "decode"], check=False,
        env={**os.environ, "RLSCOPE_CUPTI_WHEELS": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: none of NVIDIA's libcupti is there\nhint: scripts/test fetches them\n"
    )
