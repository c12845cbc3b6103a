"""`import nsys`: a hostile SQLite file runs no code, writes nothing, ends, and stays small."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from import_child import run_child
from nsys_builder import NsysBuilder, imported
from rlscope_trace.errors import TracerError

if TYPE_CHECKING:
    from pathlib import Path

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_NVTX = "NVTX_EVENTS"
_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
_GROWTH_MIB = 512


@pytest.fixture
def export(tmp_path: Path) -> Path:
    builder = NsysBuilder(tmp_path / "report.sqlite")
    builder.call(10, 20, correlation=1)
    builder.kernel(100, 200, correlation=1)
    return builder.write()


@pytest.fixture(scope="module")
def usual_mib(tmp_path_factory: pytest.TempPathFactory) -> float:
    builder = NsysBuilder(tmp_path_factory.mktemp("small") / "small.sqlite")
    builder.call(10, 20, correlation=1)
    return run_child("nsys", builder.write()).peak_mib


def changed(path: Path, script: str) -> Path:
    # In a process of its own: importing limits the memory of SQLite, for the process that does.
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())"
    subprocess.run([sys.executable, "-c", program, str(path)], input=script, text=True, check=True)
    return path


def forged(path: Path, table: str, sql: str) -> Path:
    """Let the schema call something a table that is none."""
    with closing(sqlite3.connect(path)) as con:
        con.executescript(f"DROP TABLE IF EXISTS {table}; PRAGMA writable_schema = ON")
        row = ("table", table, table, 2, sql)
        con.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
        con.commit()
    return path


class TestCodeInTheSchema:
    def test_an_endless_view_is_no_table(self, export: Path) -> None:
        view = f"CREATE VIEW {_NVTX} AS {_ENDLESS} x AS start, x + 1 AS end FROM n"
        seen = run_child("nsys", changed(export, f"DROP TABLE IF EXISTS {_NVTX}; {view}"))
        assert seen.status == 0
        assert " 1 GPU activities" in seen.words

    def test_nor_is_one_that_the_schema_calls_so(self, export: Path) -> None:
        view = f"CREATE VIEW {_NVTX} AS {_ENDLESS} x AS start, x + 1 AS end FROM n"
        run_child("nsys", forged(export, _NVTX, view))

    def test_a_virtual_table(self, export: Path) -> None:
        script = (
            f"DROP TABLE IF EXISTS {_NVTX}; CREATE VIRTUAL TABLE {_NVTX} USING fts5(start, end)"
        )
        assert run_child("nsys", changed(export, script)).status == 0

    def test_a_column_that_is_computed(self, export: Path) -> None:
        script = (
            f"ALTER TABLE {_KERNEL} ADD COLUMN label AS (hex(zeroblob(1000000)));"
            f"ALTER TABLE {_KERNEL} ADD COLUMN rawTimestamp AS (printf('%.*c', 9000000, 'x'))"
        )
        run_child("nsys", changed(export, script))

    def test_an_index_that_knows_better(self, export: Path) -> None:
        seen = run_child(
            "nsys", changed(export, f"CREATE INDEX i ON {_KERNEL}(start, end, abs(end))")
        )
        assert seen.status == 0

    def test_a_trigger(self, export: Path) -> None:
        trigger = f"CREATE TRIGGER t AFTER INSERT ON {_KERNEL} BEGIN SELECT 1 / 0; END"
        assert run_child("nsys", changed(export, trigger)).status == 0


def shared_pages(path: Path, fan_out: int, levels: int) -> Path:
    """Make a table of which each page is part many times: fan_out ** levels times its rows."""
    with closing(sqlite3.connect(path)) as con:
        con.executescript(
            f"DROP TABLE IF EXISTS {_NVTX}; CREATE TABLE {_NVTX} (start, end);"
            f"INSERT INTO {_NVTX} VALUES (1, 2), (3, 4)"
        )
        (root,) = con.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (_NVTX,)
        ).fetchone()
        (size,) = con.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    page = lambda number: slice((number - 1) * size, number * size)  # noqa: E731
    leaf, pages = bytes(content[page(root)]), len(content) // size
    child = pages + 1
    content += leaf
    for level in range(levels):
        cells = [child.to_bytes(4, "big") + b"\x01"] * fan_out
        start = size - 5 * fan_out
        header = b"\x05\0\0" + fan_out.to_bytes(2, "big") + start.to_bytes(2, "big") + b"\0"
        offsets = b"".join((start + 5 * n).to_bytes(2, "big") for n in range(fan_out))
        body = (header + child.to_bytes(4, "big") + offsets).ljust(start, b"\0") + b"".join(cells)
        if level == levels - 1:
            content[page(root)] = body
        else:
            content += body
            child += 1
    content[28:32] = (len(content) // size).to_bytes(4, "big")
    path.write_bytes(content)
    return path


def test_pages_that_are_part_of_a_table_many_times(export: Path) -> None:
    seen = run_child("nsys", shared_pages(export, 400, 5))
    assert seen.status == 1
    assert "has more rows than the file has place for" in seen.words


class TestSizes:
    @pytest.mark.parametrize("value", ["zeroblob(300000000)", "hex(zeroblob(150000000))"])
    @pytest.mark.parametrize("table", ["StringIds", "PROCESSES"])
    def test_a_huge_value(self, export: Path, usual_mib: float, table: str, value: str) -> None:
        column = "value" if table == "StringIds" else "name"
        script = (
            "CREATE TABLE IF NOT EXISTS PROCESSES (globalPid, name);"
            f"INSERT INTO {table} ({column}) VALUES ({value})"
        )
        seen = run_child("nsys", changed(export, script))
        assert seen.peak_mib < usual_mib + _GROWTH_MIB

    def test_long_texts_are_cut_and_counted(self, export: Path) -> None:
        text = "hex(zeroblob(100000))"
        changed(export, f"UPDATE StringIds SET value = {text}")
        seen = run_child("nsys", export)
        assert "truncated: texts longer than 65,536 characters: cut" in seen.words

    def test_many_long_texts(self, export: Path, usual_mib: float) -> None:
        rows = f"{_ENDLESS} x FROM n LIMIT 1500"
        script = (
            f"INSERT INTO StringIds SELECT x + 100000, hex(randomblob(25000)) FROM ({rows});"
            f"INSERT INTO {_KERNEL} (start, end, demangledName, correlationId)"
            " SELECT 100, 101, id, 1 FROM StringIds"
        )
        seen = run_child("nsys", changed(export, script))
        assert "dropped: names" in seen.words
        assert seen.peak_mib < usual_mib + _GROWTH_MIB

    @pytest.mark.slow
    def test_many_tables(self, export: Path, usual_mib: float) -> None:
        tables = (f"CREATE TABLE t{n} (start, a{n})" for n in range(6000))
        script = f"BEGIN; {'; '.join(tables)}; COMMIT"
        seen = run_child("nsys", changed(export, script))
        assert "it has more than 5,000 tables" in seen.words
        assert seen.peak_mib < usual_mib + _GROWTH_MIB

    def test_many_threads(self, export: Path, usual_mib: float) -> None:
        script = (
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId)"
            f" {_ENDLESS} x, x + 1, x << 24 | x & 65535, x FROM n LIMIT 60000"
        )
        seen = run_child("nsys", changed(export, script))
        assert "belong to more than 50,000 processes and threads" in seen.words
        assert seen.peak_mib < usual_mib + _GROWTH_MIB

    def test_a_sparse_file(self, export: Path) -> None:
        os.truncate(export, 1 << 40)
        assert run_child("nsys", export).status == 0


class TestBesideTheFile:
    @pytest.mark.parametrize("suffix", ["-wal", "-journal"])
    def test_a_pipe_is_not_waited_for(self, export: Path, suffix: str) -> None:
        os.mkfifo(f"{export}{suffix}")
        assert "is locked" in run_child("nsys", export).words

    @pytest.mark.parametrize("suffix", ["-wal", "-journal"])
    def test_a_log_is_neither_played_nor_written(self, export: Path, suffix: str) -> None:
        changed(export, "PRAGMA journal_mode = WAL")
        export.with_name(f"{export.name}{suffix}").write_bytes(b"\x37\x7f\x06\x82" * 100)
        before = {path.name: path.read_bytes() for path in export.parent.iterdir()}
        with pytest.raises(TracerError, match="is locked"):
            imported(export)
        assert {path.name: path.read_bytes() for path in export.parent.iterdir()} == before


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a device"])
def test_other_than_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "report.sqlite"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    assert "is no file" in run_child("nsys", path).words


def test_control_characters_of_a_file_are_not_printed(export: Path) -> None:
    table = "\x1b]0;owned\x07" + "t" * 900
    seen = run_child("nsys", changed(export, f'CREATE TABLE "{table}" (start)'))
    assert seen.status == 0
    changed(export, f'INSERT INTO "{table}" VALUES (1)')
    seen = run_child("nsys", export)
    assert "rows of \\x1b]0;owned\\x07ttt" in seen.words
    assert "t" * 200 not in seen.words
