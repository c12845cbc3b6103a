"""What cannot be imported of Nsight Systems: one error with a hint, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from finalising import ended, report_nothing
from nsys_builder import NsysBuilder, imported
from rlscope_trace.errors import OutputExistsError, TracerError, UsageError
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.nsys import import_nsys
from trace_builder import REPOSITORY

MOCK = REPOSITORY / "tests" / "data" / "nsys" / "mock.sqlite"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    builder = NsysBuilder(tmp_path / "report.sqlite")
    builder.call(10, 20, correlation=1)
    builder.kernel(100, 200, correlation=1)
    return builder.write()


def failure(*paths: Path) -> ImportFileError:
    """Import what cannot be imported; returns the error, once nothing is left behind."""
    directory = paths[0].parent
    before = sorted(directory.iterdir())
    with pytest.raises(ImportFileError) as caught:
        imported(*paths)
    assert sorted(directory.iterdir()) == before
    assert caught.value.hint
    return caught.value


class TestFilesOfAnotherKind:
    def test_missing(self, tmp_path: Path) -> None:
        assert "does not exist" in str(failure(tmp_path / "none.sqlite"))

    def test_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        assert "is no file" in str(failure(tmp_path / "folder"))

    def test_empty(self, tmp_path: Path) -> None:
        (tmp_path / "report.sqlite").touch()
        assert "is empty" in str(failure(tmp_path / "report.sqlite"))

    def test_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "report.sqlite").write_text('{"traceEvents": []}')
        error = failure(tmp_path / "report.sqlite")
        assert "is no SQLite database" in str(error)
        assert "nsys export --type sqlite" in str(error.hint)

    def test_another_database(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "other.sqlite")) as connection:
            connection.execute("CREATE TABLE StringIds (id, value)")
            connection.commit()
        assert "no export of Nsight Systems" in str(failure(tmp_path / "other.sqlite"))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_unreadable(self, export: Path) -> None:
        export.chmod(0)
        assert "cannot read" in str(failure(export))

    def test_nothing_to_import(self, tmp_path: Path) -> None:
        builder = NsysBuilder(tmp_path / "report.sqlite")
        builder.row("OSRT_API", start=1, end=2)
        error = failure(builder.write())
        assert "no event that a trace has a place for" in str(error)
        assert "--trace=cuda,nvtx" in str(error.hint)


class TestOutput:
    def test_an_existing_one_is_kept(self, export: Path, tmp_path: Path) -> None:
        output = tmp_path / "trace.duckdb"
        output.write_text("precious")
        with pytest.raises(OutputExistsError, match="exists already"):
            ended(import_nsys([export], output, overwrite=False, progress=report_nothing))
        assert output.read_text() == "precious"

    def test_a_file_to_import_is_never_overwritten(self, export: Path) -> None:
        content = export.read_bytes()
        with pytest.raises(UsageError, match="one of the files to import"):
            ended(import_nsys([export], export, overwrite=True, progress=report_nothing))
        assert export.read_bytes() == content

    def test_a_file_named_twice(self, export: Path) -> None:
        with pytest.raises(UsageError, match="named twice"):
            imported(export, export.parent / "." / export.name)

    @pytest.mark.parametrize("step", ["read", "write", "verify"])
    def test_an_interrupt_leaves_nothing(self, export: Path, tmp_path: Path, step: str) -> None:
        before = sorted(tmp_path.iterdir())

        def interrupt(now: str, _done: int, _total: int) -> None:
            if now == step:
                raise KeyboardInterrupt

        output = tmp_path / "trace.duckdb"
        with pytest.raises(KeyboardInterrupt):
            ended(import_nsys([export], output, overwrite=False, progress=interrupt))
        assert sorted(tmp_path.iterdir()) == before


def test_several_files_need_the_time_they_began(tmp_path: Path) -> None:
    paths = []
    for name, epoch_ns in (("a", 5), ("b", None)):
        builder = NsysBuilder(tmp_path / f"{name}.sqlite", epoch_ns=epoch_ns)
        builder.call(1, 2)
        paths.append(builder.write())
    error = failure(*paths)
    assert "b.sqlite does not tell when its recording began" in str(error)
    assert "alone" in str(error.hint)


class TestLocked:
    def test_by_another_program(self, export: Path) -> None:
        with closing(sqlite3.connect(export, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            error = failure(export)
        assert "is locked" in str(error)
        assert "nsys export" in str(error.hint)

    def test_an_export_with_a_log_is_read_without_writing_beside_it(self, export: Path) -> None:
        with closing(sqlite3.connect(export)) as writer:
            writer.execute("PRAGMA journal_mode = WAL")
        before = sorted(export.parent.iterdir())
        trace = imported(export)
        assert trace.rows("SELECT count(*) FROM gpu_activity") == [(1,)]
        trace.report.output.unlink()
        assert sorted(export.parent.iterdir()) == before


class TestDamaged:
    @pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
    def test_cut_off(self, tmp_path: Path, kept: float) -> None:
        content = MOCK.read_bytes()
        (tmp_path / "cut.sqlite").write_bytes(content[: int(len(content) * kept)])
        error = failure(tmp_path / "cut.sqlite")
        assert f"is cut off: {len(content):,} bytes were written" in str(error)
        assert "copy it once more" in str(error.hint)

    @settings(max_examples=20, deadline=None)
    @given(offset=st.integers(0, 299_007), garbage=st.binary(min_size=1, max_size=2_000))
    def test_overwritten_anywhere(self, offset: int, garbage: bytes) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "damaged.sqlite"
            content = MOCK.read_bytes()
            path.write_bytes(content[:offset] + garbage + content[offset + len(garbage) :])
            try:
                trace = imported(path)
            except TracerError as error:
                assert error.hint  # noqa: PT017 - either an error that helps, or a trace
                assert [file.name for file in Path(directory).iterdir()] == [path.name]
            else:
                assert trace.rows("SELECT count(*) FROM process") != [(0,)]

    @pytest.mark.parametrize(
        ("table", "values"),
        [
            ("CUPTI_ACTIVITY_KIND_RUNTIME", {"start": "soon", "end": 5}),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", {"start": b"\xff\x00", "end": 5}),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", {"start": 1, "end": (1 << 63) - 1}),
            ("CUPTI_ACTIVITY_KIND_MEMCPY", {"start": -(1 << 62), "end": 5}),
        ],
    )
    def test_times_that_are_none(
        self, tmp_path: Path, table: str, values: dict[str, object]
    ) -> None:
        builder = NsysBuilder(tmp_path / "report.sqlite")
        builder.row(table, **values)
        assert f"is damaged: {table} holds" in str(failure(builder.write()))

    def test_values_of_another_type_are_no_facts(self, tmp_path: Path) -> None:
        builder = NsysBuilder(tmp_path / "report.sqlite", epoch_ns=None)
        builder.call(1, 2)
        builder.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs="yesterday")
        builder.row("TARGET_INFO_GPU", id="zero", name=b"\xff", totalMemory=1.5)
        builder.row("PROCESSES", globalPid=b"\x01", name=17)
        builder.row("ANALYSIS_DETAILS", duration=-5)
        trace = imported(builder.write())
        assert trace.rows("SELECT name FROM process") == [(None,)]
        assert trace.rows("SELECT count(*) FROM gpu_device") == [(0,)]
        assert trace.rows("SELECT count(*) FROM clock") == [(0,)]

    def test_bytes_that_are_no_text(self, export: Path) -> None:
        with closing(sqlite3.connect(export)) as connection:
            connection.execute("UPDATE StringIds SET value = CAST(x'61ff62' AS TEXT)")
            connection.commit()
        assert imported(export).rows("SELECT name FROM gpu_activity") == [("a\ufffdb",)]


def test_the_command_shows_the_error_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlscope_trace.cli import main

    shutil.copy(MOCK, tmp_path / "mock.sqlite")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        main(["import", "nsys", "none.sqlite"])
    assert exit_.value.code == 1
    shown = capsys.readouterr().err
    assert "error: none.sqlite does not exist" in shown
    assert "hint: " in shown
    assert "Traceback" not in shown
    with pytest.raises(SystemExit) as exit_:
        main(["import", "nsys", "mock.sqlite"])
    assert not exit_.value.code
    assert (tmp_path / "trace.duckdb").exists()
