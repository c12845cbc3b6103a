"""Traces that a process opens after others have the same views, which were copied."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import duckdb
import pytest

import rlscope_analysis
from rlscope_analysis import kept_views
from rlscope_analysis.kept_views import KeptViews
from rlscope_analysis.relations import show
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from pathlib import Path

VIEWS = (
    "SELECT table_name, column_name, data_type FROM duckdb_columns()"
    " WHERE database_name = 'memory' AND schema_name = 'main' ORDER BY ALL"
)
TYPES = (
    "SELECT type_name, labels FROM duckdb_types()"
    " WHERE database_name = 'memory' AND labels IS NOT NULL ORDER BY ALL"
)
DATABASES = "SELECT database_name FROM duckdb_databases() WHERE NOT internal ORDER BY ALL"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_views, "_kept", kept_views._Kept())
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setattr(kept_views, "spill_directory", lambda: folder)
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1, end_ns=20), states=[run(12), sleep(8)])
    return builder.write()


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the databases whose views were created, as those are."""
    names: list[str] = []

    def note(
        connection: duckdb.DuckDBPyConnection, database: str, present: dict[str, dict[str, object]]
    ) -> frozenset[str]:
        names.append(database)
        return show(connection, database, present)

    monkeypatch.setattr(kept_views, "show", note)
    return names


def seen(path: Path) -> list[object]:
    with rlscope_analysis.open(path) as trace:
        return [
            *(trace.connection.sql(query).fetchall() for query in (VIEWS, TYPES, DATABASES)),
            trace.sql("SELECT bucket, time_ns FROM breakdown ORDER BY ALL").fetchall(),
            trace.sql("FROM finding").fetchall(),
            trace.sql("SELECT name FROM process").fetchall(),
        ]


def test_the_third_trace_has_what_the_first_one_has(path: Path, created: list[str]) -> None:
    first, *others = [seen(path) for _ in range(4)]
    assert others == [first] * 3
    assert created == ["trace"] * 2
    assert ("memory",) in first[2]  # type: ignore[operator]


def test_a_trace_of_another_version_has_views_of_its_own(
    path: Path, tmp_path: Path, created: list[str]
) -> None:
    older = tmp_path / "older.duckdb"
    older.write_bytes(path.read_bytes())
    with duckdb.connect(str(older)) as connection:
        for (view,) in connection.sql(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall():
            connection.execute(f'DROP VIEW "{view}"')
        connection.execute("DROP TABLE ray_process; ALTER TABLE process DROP COLUMN name")
    before = seen(older)
    assert [seen(path) for _ in range(3)].count(before) == 0
    created.clear()
    assert seen(older) == before
    assert created == ["trace"]


def test_what_cannot_be_kept_is_created(
    path: Path, created: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_views, "spill_directory", lambda: path.parent / "none")
    assert [seen(path) for _ in range(3)] == [seen(path)] * 3
    assert created == ["trace"] * 4
    # Kept, and gone: whoever cleans up temporary files does not ask.
    monkeypatch.setattr(kept_views, "spill_directory", lambda: path.parent)
    first = seen(path)
    assert kept_views._kept.path is not None
    kept_views._kept.path.unlink()
    created.clear()
    assert seen(path) == first
    assert created == ["trace"]


def test_a_child_that_was_forked_has_nothing_of_its_parents(path: Path) -> None:
    for _ in range(3):
        seen(path)
    kept = kept_views._kept.path
    assert kept is not None
    child = os.fork()
    if child == 0:
        KeptViews().attach(duckdb.connect())
        os._exit(kept_views._kept.path is not None)
    assert os.waitpid(child, 0)[1] == 0
