"""Outputs and spools that exist already: nothing is overwritten unasked."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Workload
from recording import COMMAND, Recorder, assert_conserved, query, rlscope, until

pytestmark = pytest.mark.root


def test_the_output_exists(tmp_path: Path) -> None:
    trace, mark = tmp_path / "trace.duckdb", tmp_path / "mark"
    trace.write_text("of somebody")
    done = rlscope("-o", trace, "--", "touch", mark)
    assert done.returncode == 2
    assert f"error: {trace} exists" in done.stderr
    assert "hint: --force to replace it, or -o OTHER" in done.stderr
    assert trace.read_text() == "of somebody"
    assert list(tmp_path.iterdir()) == [trace]

    done = rlscope("-o", trace, "--force", "--", "touch", mark)
    assert done.returncode == 0
    assert mark.exists()
    assert_conserved(trace)


def test_the_output_appears_while_recording(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=3", wait=True)
    recorder = record(trace, f"--pid={target.pid}").live()
    trace.write_text("of somebody")
    target.go()
    assert recorder.wait() == 2
    assert f"error: {trace} exists already" in recorder.words()
    assert "hint: " in recorder.words()
    assert trace.read_text() == "of somebody"
    done = rlscope("recover", recorder.spool, "-o", tmp_path / "other.duckdb")
    assert done.returncode == 0
    assert_conserved(tmp_path / "other.duckdb")


def test_the_output_is_a_directory(tmp_path: Path) -> None:
    done = rlscope("-o", tmp_path, "--force", "--", "true")
    assert done.returncode == 2
    assert f"error: {tmp_path} is a directory" in done.stderr
    assert "hint: -o FILE.duckdb" in done.stderr
    assert tmp_path.is_dir()


def test_a_stale_spool(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=100000", "--sleep-ms=1", wait=True)
    killed = record(trace, f"--pid={target.pid}").live()
    target.go()
    until(lambda: (killed.spool / "records.bin").stat().st_size > 4096, what="the spool grows")
    killed.signal(signal.SIGKILL)
    killed.wait()

    done = rlscope("-o", trace, "--", "true")
    assert done.returncode == 2
    assert f"error: {killed.spool} is left from a recording that was not finished" in done.stderr
    assert f"hint: rlscope-trace recover {killed.spool}, or --force to discard it" in done.stderr
    assert (killed.spool / "records.bin").stat().st_size > 4096

    done = rlscope("-o", trace, "--force", "--", "true")
    assert done.returncode == 0
    assert not killed.spool.exists()
    assert query(trace, "SELECT count(*) FROM process WHERE pid = ?", [target.pid]) == [(0,)]


def test_what_is_no_spool_is_never_removed(tmp_path: Path) -> None:
    trace, folder = tmp_path / "trace.duckdb", tmp_path / "trace.duckdb.spool"
    folder.mkdir()
    (folder / "precious").write_text("data")
    done = rlscope("-o", trace, "--force", "--", "true")
    assert done.returncode == 2
    assert f"error: {folder} is in the way" in done.stderr
    assert "hint: move it away" in done.stderr
    assert (folder / "precious").read_text() == "data"

    linked = tmp_path / "linked.duckdb"
    (tmp_path / "linked.duckdb.spool").symlink_to(folder)
    done = rlscope("-o", linked, "--force", "--", "true")
    assert done.returncode == 2
    assert (folder / "precious").read_text() == "data"


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_spool_that_another_recorder_writes(
    tmp_path: Path,
    workload: Callable[..., Workload],
    record: Callable[..., Recorder],
    force: tuple[str, ...],
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=100000", wait=True)
    first = record(trace, f"--pid={target.pid}").live()
    target.go()
    second = rlscope("-o", trace, *force, f"--pid={target.pid}", "--duration=1")
    assert second.returncode == 2
    assert f"error: another recorder is writing {first.spool}" in second.stderr
    assert "hint: -o names another place for the trace" in second.stderr
    recover = rlscope("recover", first.spool)
    assert recover.returncode == 1
    assert f"error: the recorder with pid {first.pid} is still writing" in recover.stderr
    assert f"hint: stop it first: kill -INT {first.pid}" in recover.stderr
    # The first one has not noticed anything.
    assert first.stop() == 0
    assert_conserved(trace)


def test_two_recorders_of_one_target(
    tmp_path: Path, workload: Callable[..., Workload], record: Callable[..., Recorder]
) -> None:
    target = workload("sleeper", "--sleeps=23", wait=True)
    recorders = [
        record(tmp_path / f"{name}.duckdb", f"--pid={target.pid}").live() for name in ("one", "two")
    ]
    target.go()
    truth = target.truth()
    assert [recorder.wait() for recorder in recorders] == [0, 0]
    sql = "SELECT count(*) FROM thread_state WHERE state = 'sleeping' AND start_ns >= ?"
    counts = [query(recorder.output, sql, [truth["start_ns"]])[0][0] for recorder in recorders]
    assert counts == [23, 23]


def test_a_program_keeps_its_exit_code_where_its_trace_cannot_be_saved(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    command = ["--no-calibrate", "-o", trace, "--", "sh", "-c", f"echo mine > {trace}; exit 7"]
    done = rlscope(*command)
    assert done.returncode == 7
    assert f"error: {trace} exists already" in done.stderr
    assert trace.read_text() == "mine\n"
    spool = trace.with_name("trace.duckdb.spool")
    assert rlscope("recover", spool, "-o", tmp_path / "other.duckdb").returncode == 0
    trace.unlink()
    command[-1] = f"echo mine > {trace}"
    assert rlscope(*command).returncode == 0
    trace.unlink()
    assert rlscope("--strict", "--force", *command[:3], "--", "true").returncode == 0
    trace.unlink()
    # As root nothing of it can be written: a folder has its name.
    command[-1] = f"mkdir {trace}"
    assert rlscope("--strict", *command).returncode == 1


def test_an_empty_directory_of_a_spool_is_no_hindrance(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    trace.with_name("trace.duckdb.spool").mkdir()
    assert rlscope("--no-calibrate", "-o", trace, "--", "true").returncode == 0
    assert list(tmp_path.iterdir()) == [trace]


def test_no_module_comes_from_the_current_folder(tmp_path: Path) -> None:
    for name in ("typer", "duckdb", "rich", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken over')")
    done = subprocess.run(
        [*COMMAND, "-o", "trace.duckdb", "--no-calibrate", "--", "true"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "taken over" in done.stderr) == (0, False)


@pytest.mark.parametrize("name", ["/", "//", "a?b.duckdb", "a?b/out.duckdb", 248 * "x", 231 * "x"])
def test_a_name_that_cannot_be_written_is_refused_at_once(tmp_path: Path, name: str) -> None:
    ran = tmp_path / "ran"
    done = rlscope("record", "--no-calibrate", "-o", tmp_path / name, "--", "touch", ran)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_is_replaced_too(tmp_path: Path) -> None:
    trace = tmp_path / (230 * "x")
    for force in ((), ("--force",)):
        done = rlscope("record", "--no-calibrate", *force, "-o", trace, "--", "true")
        assert done.returncode == 0, done.stderr
