"""The writer of imported traces: stored order, NULLs, verification, and all or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from finalising import add_nothing, ended, report_nothing
from rlscope_trace.errors import OutputExistsError, TracerError, VerificationError
from rlscope_trace.ingest.importers.import_writer import write_import
from rlscope_trace.ingest.writer import trace_writer
from rlscope_trace.ingest.writer.trace_stats import TraceStat

if TYPE_CHECKING:
    from pathlib import Path

    from finalising import Derive
    from rlscope_trace.ingest.writer.trace_writer import TraceReport

# Threads whose ids do not follow those of their processes.
OWNERS = {
    "process": {"process_id": [2, 1], "pid": [None, 7], "name": ["b", None]},
    "thread": {"thread_id": [1, 2, 3], "process_id": [2, 1, 1], "start_ns": [0] * 3,
               "end_ns": [99] * 3, "ended": [True, None, False]},
}  # fmt: skip


def write(
    output: Path,
    tables: dict[str, Any] | None = None,
    *,
    losses: tuple[TraceStat, ...] = (),
    overwrite: bool = False,
    derive: Derive = add_nothing,
) -> TraceReport:
    made = write_import(
        output,
        OWNERS if tables is None else tables,
        meta={"loader": "import"},
        losses=losses,
        events=5,
        overwrite=overwrite,
        progress=report_nothing,
    )
    return ended(made, derive)


def rows(output: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(output), read_only=True) as con:
        return con.execute(query).fetchall()


@pytest.mark.parametrize("batch_rows", [1, 3, 1 << 20])
def test_rows_are_stored_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    monkeypatch.setattr(trace_writer, "BATCH_ROWS", batch_rows)
    calls = {
        "thread_id": np.array([1, 3, 2, 2, 2], dtype=np.int32),
        "start_ns": np.array([0, 5, 9, 5, 5]),
        "end_ns": np.array([1, 6, 10, 6, 8]),
        "layer": np.ones(5, dtype=np.uint8),
    }
    activities = {
        "process_id": np.array([2, 1, 1]),
        "start_ns": np.array([1, 4, 3]),
        "end_ns": np.array([2, 5, 4]),
        "correlation_id": np.ma.MaskedArray([8, 9, 7], mask=[True, False, False]),
    }
    output = tmp_path / "t.duckdb"
    report = write(output, {**OWNERS, "native_call_coded": calls, "gpu_activity_coded": activities})
    assert rows(output, "SELECT thread_id, start_ns, end_ns, depth FROM native_call_coded") == [
        (2, 5, 8, None), (2, 5, 6, None), (2, 9, 10, None), (3, 5, 6, None), (1, 0, 1, None),
    ]  # fmt: skip
    assert rows(output, "SELECT process_id, start_ns, correlation_id FROM gpu_activity_coded") == [
        (1, 3, 7), (1, 4, 9), (2, 1, None),
    ]  # fmt: skip
    assert rows(output, "SELECT process_id, pid, name FROM process") == [
        (1, 7, None), (2, None, "b"),
    ]  # fmt: skip
    assert rows(output, "SELECT ended FROM thread") == [(True,), (None,), (False,)]
    assert report.rows["native_call_coded"] == 5
    assert report.file_bytes == output.stat().st_size


def test_meta_and_losses(tmp_path: Path) -> None:
    output = tmp_path / "t.duckdb"
    losses = (
        TraceStat("nsys_table_skipped", 3, record="A"), TraceStat("nsys_half", 0, 1, record="B"),
    )  # fmt: skip
    report = write(output, losses=losses)
    assert report.losses == losses[:1]
    assert rows(output, "SELECT kind, code, count, first_ns, record FROM trace_stat") == [
        ("skipped", "nsys_table_skipped", 3, None, "A")
    ]
    assert dict(rows(output, "SELECT key, value FROM meta"))["loader"] == "import"
    assert {"schema_version", "tool_version"} <= dict(rows(output, "FROM meta")).keys()


def test_what_is_derived_goes_in_before_the_verification(tmp_path: Path) -> None:
    output = tmp_path / "t.duckdb"
    write(output, derive=lambda con: con.execute("CREATE VIEW derived AS SELECT 1 AS x") and None)
    assert rows(output, "FROM derived") == [(1,)]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM thread WHERE thread_id = 2",
        "UPDATE thread SET end_ns = end_ns + 1 WHERE thread_id = 2",
        "UPDATE process SET name = 'bc' WHERE name = 'b'",
        "UPDATE process SET pid = NULL",
        "INSERT INTO meta VALUES ('x', 'y')",
    ],
)
def test_a_wrong_database_is_not_kept(tmp_path: Path, damage: str) -> None:
    with pytest.raises(VerificationError, match=r"was not written: (count, sum|\d+ rows)"):
        write(tmp_path / "t.duckdb", derive=lambda con: con.execute(damage) and None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (RuntimeError("Query interrupted"), KeyboardInterrupt),
        (OSError(28, "No space left on device"), TracerError),
        (duckdb.IOException("disk"), TracerError),
        (duckdb.FatalException("disk"), TracerError),
        (duckdb.TransactionException("lock"), TracerError),
    ],
)
def test_failures_leave_everything_as_it_was(
    tmp_path: Path, raised: BaseException, seen: type[BaseException]
) -> None:
    output = tmp_path / "t.duckdb"
    output.write_bytes(b"mine")

    def fail(_con: duckdb.DuckDBPyConnection) -> None:
        raise raised

    with pytest.raises(seen) as caught:
        write(output, overwrite=True, derive=fail)
    if isinstance(caught.value, TracerError):
        assert str(caught.value).startswith(f"cannot write {output}: ")
        assert caught.value.hint
    assert output.read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["t.duckdb"]


def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    output = tmp_path / "t.duckdb"

    def import_too(_con: duckdb.DuckDBPyConnection) -> None:
        with pytest.raises(TracerError, match="another recorder is writing"):
            write(output)

    write(output, derive=import_too)
    assert rows(output, "SELECT count(*) FROM thread") == [(3,)]
    assert list(tmp_path.iterdir()) == [output]


def test_what_a_killed_import_left_is_no_hindrance(tmp_path: Path) -> None:
    output = tmp_path / "t.duckdb"
    left = tmp_path / "t.duckdb.partial"
    (left / "spill").mkdir(parents=True, mode=0o700)
    for name in ("trace", "trace.wal", "spill/duckdb_temp_storage-0.tmp"):
        (left / name).write_bytes(b"half")
    write(output)
    assert list(tmp_path.iterdir()) == [output]


def test_an_existing_output_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "t.duckdb"
    output.write_bytes(b"mine")
    with pytest.raises(OutputExistsError) as caught:
        write(output)
    assert caught.value.hint == "overwrite it with --force"
    assert output.read_bytes() == b"mine"


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TracerError, match="cannot write"):
        write(tmp_path / "none" / "t.duckdb")


def test_columns_of_different_lengths_are_a_bug(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="columns of site are not equally long"):
        write(tmp_path / "t.duckdb", {"site": {"site_id": [1, 2], "symbol": ["a"]}})
    assert list(tmp_path.iterdir()) == []
