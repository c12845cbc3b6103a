"""`import nsys` as a command: reports that nsys exports, and files that others could swap."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import ended, report_nothing
from nsys_builder import NsysBuilder
from rlscope_analysis import own_name
from rlscope_analysis.errors import TraceError
from rlscope_trace.cli.nsys_names import names_for_sqlite
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.nsys import import_nsys

if TYPE_CHECKING:
    from pathlib import Path

# A stand-in for nsys, whose export is the file that NSYS_EXPORT names.
NSYS = f"""#!{sys.executable}
import os, shutil, sys
assert sys.argv[1:5] == ["export", "--type", "sqlite", "--output"], sys.argv
if not os.environ["NSYS_EXPORT"]:
    sys.exit("unsupported report version")
shutil.copy(os.environ["NSYS_EXPORT"], sys.argv[5])
"""


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return exported(tmp_path / "report.sqlite", "kernel")


def exported(path: Path, kernel: str) -> Path:
    builder = NsysBuilder(path)
    builder.kernel(100, 200, correlation=1, name=kernel)
    return builder.write()


def kernels(trace: Path) -> list[str]:
    with duckdb.connect(str(trace), read_only=True) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM gpu_activity").fetchall()]


class TestReports:
    @pytest.fixture
    def report(self, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in ("bin", "temporary"):
            (tmp_path / name).mkdir()
        nsys = tmp_path / "bin" / "nsys"
        nsys.write_text(NSYS)
        nsys.chmod(0o755)
        monkeypatch.setenv("PATH", str(nsys.parent))
        monkeypatch.setenv("NSYS_EXPORT", str(export))
        monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
        path = tmp_path / "my run.nsys-rep"
        path.write_bytes(b"only nsys knows")
        return path

    def command(self, report: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Run it in a process of its own: only there does it give up its rights."""
        output = report.with_name("trace.duckdb")
        command = [sys.executable, "-m", "rlscope_trace", "import", "nsys", report, "-o", output]
        done = subprocess.run(
            [*command, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert list((report.parent / "temporary").iterdir()) == []
        return done

    def test_nsys_exports_them(self, report: Path) -> None:
        done = self.command(report)
        assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr
        trace = report.with_name("trace.duckdb")
        assert kernels(trace) == ["kernel"]
        with duckdb.connect(str(trace), read_only=True) as connection:
            origin = "SELECT value FROM meta WHERE key = 'imported_from'"
            assert connection.execute(origin).fetchall() == [('["my run.nsys-rep"]',)]

    def test_an_output_that_is_there_is_refused_before_nsys_runs(
        self, report: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        report.with_name("trace.duckdb").write_text("precious")
        monkeypatch.setenv("NSYS_EXPORT", "")
        done = self.command(report)
        assert (done.returncode, "exists already" in done.stderr) == (2, True), done.stderr
        assert "unsupported report version" in self.command(report, "--force").stderr
        assert report.with_name("trace.duckdb").read_text() == "precious"

    def test_nsys_fails(self, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NSYS_EXPORT", "")
        done = self.command(report)
        assert done.returncode == 1
        error, hint = done.stderr.splitlines()
        assert error.endswith("unsupported report version")
        assert "nsys export" in hint

    def test_without_nsys(self, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(report.parent))
        done = self.command(report)
        assert done.returncode == 1
        assert "nsys is not on PATH" in done.stderr
        # The command in the hint can be pasted, also where the name has a space.
        assert re.search(r"nsys export --type sqlite '.*my run.nsys-rep'", done.stderr)

    def test_one_that_is_missing(self, report: Path) -> None:
        done = self.command(report.with_name("none.nsys-rep"))
        assert (done.returncode, "does not exist" in done.stderr) == (1, True), done.stderr


class TestFilesThatOthersCanChange:
    @pytest.mark.parametrize(("mode", "is_copied"), [(0o777, True), (0o1777, False)])
    def test_what_is_put_in_its_place_is_not_opened(
        self, export: Path, tmp_path: Path, mode: int, is_copied: bool
    ) -> None:
        folder, output = tmp_path / "open", tmp_path / "trace.duckdb"
        folder.mkdir()
        folder.chmod(mode)
        path = export.rename(folder / export.name)
        other = exported(tmp_path / "other.sqlite", "planted")
        number = path.stat().st_ino
        with names_for_sqlite([path], output, overwrite=False) as names:
            assert (names[path].stat().st_ino != number) is is_copied
            other.replace(path)
            ended(import_nsys(
                [path], output, overwrite=False, progress=report_nothing, names=names
            ))  # fmt: skip
        assert kernels(output) == ["kernel"]
        assert not names[path].exists()

    def test_one_of_ours_is_opened_by_its_name(self, export: Path, tmp_path: Path) -> None:
        with names_for_sqlite([export], tmp_path / "o.duckdb", overwrite=False) as names:
            assert names == {export: export}

    @pytest.mark.root
    def test_a_pipe_of_another_user_is_not_waited_for(self, tmp_path: Path) -> None:
        pipe = tmp_path / "report.sqlite"
        os.mkfifo(pipe)
        os.chown(pipe, 12345, 12345)
        with (
            pytest.raises(ImportFileError, match="no regular file") as caught,
            names_for_sqlite([pipe], tmp_path / "o.duckdb", overwrite=False),
        ):
            pass
        assert caught.value.hint

    def test_one_that_grows_while_it_is_copied_is_refused(
        self, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever copies meets no lock of SQLite's."""
        tmp_path.chmod(0o777)
        copy = own_name.copy_file

        def beside_a_writer(source: int, target: int, *, most_bytes: int) -> None:
            copy(source, target, most_bytes=most_bytes)
            with export.open("ab") as file:
                file.write(b"more")

        monkeypatch.setattr(own_name, "copy_file", beside_a_writer)
        with (
            pytest.raises(TraceError, match="is being written") as caught,
            names_for_sqlite([export], tmp_path / "o.duckdb", overwrite=False),
        ):
            pass
        assert caught.value.hint

    def test_one_too_large_to_copy_is_refused(self, export: Path, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)
        with export.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, (4 << 30) + 4096)
        with (
            pytest.raises(TraceError, match="others can change") as caught,
            names_for_sqlite([export], tmp_path / "o.duckdb", overwrite=False),
        ):
            pass
        assert "copy" in str(caught.value.hint)
