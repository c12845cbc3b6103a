"""The finder on Pythons that run: what it finds is what they say of themselves."""

import os
import shutil
import signal
import sys
import sysconfig
from pathlib import Path

import pytest

from finder_targets import (
    WAITS,
    extension,
    functions_of_file,
    running,
    start_and_site,
    truthful,
)
from rlscope_trace._capture import PythonScan, cheap_site

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 only")

MODULES = ("_json", "_ctypes", "_decimal", "_asyncio")


def test_points_and_rejections_are_the_truth() -> None:
    with truthful(sys.executable, *MODULES) as (target, truth):
        paths = [path for path in truth if "lib-dynload" in path]
        found = PythonScan(target.pid).entry_points(paths)
    assert paths
    for path in paths:
        code = Path(path).read_bytes()
        reported = {offset for offsets in truth[path].values() for offset in offsets}
        points = {point[4]: point for point in found["points"] if point[0] == path}
        assert points.keys() == reported
        for start, (_, site, *_, is_expensive) in points.items():
            assert 0 <= site - start < 64
            if is_expensive:
                assert site == start
                assert isinstance(cheap_site(code[start : start + 256]), str)
    assert found["scanned_bytes"] > 1 << 20
    assert found["unscanned_bytes"] == 0


def test_kinds_and_names_are_told() -> None:
    with running(sys.executable, "-c", f"import _json; {WAITS}") as target:
        target.readline()
        path = str(extension("_json"))
        points = PythonScan(target.pid).entry_points([path])["points"]
    kinds = {point[3] for point in points}
    assert kinds <= {"function", "method", "getter", "slot", "vectorcall"}
    assert "function" in kinds
    assert all(symbol and symbol.isprintable() for _, _, symbol, *_ in points)
    assert len({(path, site) for path, site, *_ in points}) == len(points)


def test_the_interpreter_is_described() -> None:
    with running(sys.executable, "-c", WAITS) as target:
        target.readline()
        runtime = PythonScan(target.pid).runtime()
        lines = Path(f"/proc/{target.pid}/maps").read_text().splitlines()
    assert runtime is not None
    assert runtime["implementation"] == "cpython"
    assert runtime["version"] == sys.version_info[:3]
    assert runtime["free_threaded"] is bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert runtime["interpreters"] == 1
    ranges = [[int(part, 16) for part in line.split()[0].split("-")] for line in lines]
    assert runtime["runtime_end"] - runtime["runtime_start"] > 512
    assert any(low <= runtime["runtime_start"] < high for low, high in ranges)
    address, offset = runtime["symbols"]["PyEval_SaveThread"]
    code = [line.split(None, 5) for line in lines if runtime["module_path"] in line]
    starts = [(int(row[0].split("-")[0], 16), int(row[2], 16)) for row in code if "x" in row[1]]
    assert any(address - start + first == offset for start, first in starts)


def test_the_sites_of_exported_functions() -> None:
    names = ["PyEval_SaveThread", "PyEval_RestoreThread", "PyNoSuchFunction", "PyType_Type"]
    with running(sys.executable, "-c", WAITS) as target:
        target.readline()
        scan = PythonScan(target.pid)
        runtime = scan.runtime()
        assert runtime is not None
        sites = scan.exported(runtime["module_path"], names)
    assert sites.keys() == {"PyEval_SaveThread", "PyEval_RestoreThread"}
    for name, site in sites.items():
        assert 0 <= site - runtime["symbols"][name][1] < 64


def test_only_the_start_of_a_function_gets_a_point(tmp_path: Path) -> None:
    file = tmp_path / "code.so"
    shutil.copy(extension("_json"), file)
    start, site = start_and_site(extension("_json"))
    data = file.stat().st_size - 8
    with functions_of_file(file, start, start + 1, start + 2, data) as target:
        found = PythonScan(target.pid).entry_points([str(file)])
    assert [(point[0], point[1], point[4]) for point in found["points"]] == [
        (str(file), site, start)
    ]
    assert found["rejected"]["not a function start"] == 2
    assert found["rejected"]["not in the file's text"] == 1


def test_a_deleted_file_is_read_all_the_same(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("/proc/PID/map_files needs root")
    start, site = start_and_site(extension("_json"))
    file = tmp_path / "code.so"
    shutil.copy(extension("_json"), file)
    with functions_of_file(file, start) as target:
        file.unlink()
        scan = PythonScan(target.pid)
        name = f"{file} (deleted)"
        assert name in {mapping[0] for mapping in scan.mappings()}
        assert [point[1] for point in scan.entry_points([name])["points"]] == [site]


def test_a_file_put_in_place_of_another_is_not_read_for_it(tmp_path: Path) -> None:
    file = tmp_path / "code.so"
    shutil.copy(extension("_json"), file)
    start, _ = start_and_site(extension("_json"))
    with functions_of_file(file, start) as target:
        file.rename(tmp_path / "other.so")
        shutil.copy(extension("_ctypes"), file)
        found = PythonScan(target.pid).entry_points([str(file)])
    assert found["points"] == []


def test_the_interpreter_itself_has_no_points() -> None:
    with running(sys.executable, "-c", WAITS) as target:
        target.readline()
        scan = PythonScan(target.pid)
        runtime = scan.runtime()
        assert runtime is not None
        assert scan.entry_points([runtime["module_path"]])["points"] == []


def test_other_programs_have_no_interpreter() -> None:
    with running("sh", "-c", "echo ready; read line") as target:
        target.readline()
        scan = PythonScan(target.pid)
        assert scan.runtime() is None
        assert scan.entry_points([mapping[0] for mapping in scan.mappings()])["points"] == []


def test_a_process_that_is_gone_is_said_so() -> None:
    with running("sh", "-c", "echo ready; read line") as target:
        target.readline()
        scan = PythonScan(target.pid)
        target.process.send_signal(signal.SIGKILL)
        target.process.wait()
        for call in (scan.mappings, scan.runtime, lambda: scan.entry_points(["/x"])):
            with pytest.raises(ProcessLookupError):
                call()
        with pytest.raises(ProcessLookupError):
            PythonScan(target.pid)


def test_a_process_that_became_another_program_is_said_so() -> None:
    program = "import os, sys; print('ready', flush=True); sys.stdin.readline();"
    program += "os.execvp('sh', ['sh', '-c', 'echo changed; read line'])"
    with running(sys.executable, "-c", program) as target:
        target.readline()
        scan = PythonScan(target.pid)
        assert scan.runtime() is not None
        target.go()
        assert target.readline() == "changed"
        with pytest.raises(ProcessLookupError):
            scan.entry_points(["/x"])
        assert PythonScan(target.pid).runtime() is None


def test_memory_that_was_never_touched_stays_so() -> None:
    program = f"import mmap; kept = mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE); {WAITS}"
    with running(sys.executable, "-c", program) as target:
        target.readline()
        before = account(target.pid)
        found = PythonScan(target.pid).entry_points(["/x"])
        after = account(target.pid)
    # The target itself may still have a page or two to come; reading all would take 512 kB of page
    # tables, and more where a page of zeros is a huge one.
    assert after["VmPTE"] - before["VmPTE"] < 128
    assert after["RssAnon"] - before["RssAnon"] < 1024
    assert found["scanned_bytes"] < 128 << 20


def account(pid: int) -> dict[str, int]:
    """Return what the OS kernel says of a process's memory, in kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    rows = (line.split() for line in lines if line.endswith(" kB"))
    return {name.removesuffix(":"): int(amount) for name, amount, _ in rows}


def test_a_budget_bounds_what_is_read() -> None:
    with running(sys.executable, "-c", WAITS) as target:
        target.readline()
        scan = PythonScan(target.pid)
        everything = scan.entry_points(["/x"])["scanned_bytes"]
        found = scan.entry_points(["/x"], budget_bytes=1 << 20)
    assert found["scanned_bytes"] == 1 << 20
    assert found["scanned_bytes"] + found["unscanned_bytes"] == everything


def test_the_caller_keeps_its_priority() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    PythonScan(os.getpid()).runtime()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
