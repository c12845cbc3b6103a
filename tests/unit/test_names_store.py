"""What processes and threads are called: as the target and /proc told it, of the right lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import finalise
from rlscope_trace.ingest.store import python_locks, python_names
from rlscope_trace.ingest.store.process_titles import titles_of
from rlscope_trace.ingest.store.processes import Life
from rlscope_trace.spool.directory import open_spool
from shim_builder import MARK, ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, FINISH = 100, 1000
# Thread id, tid, pid, begin, end: process 10 with two threads, its child 20, and pid 20 once more,
# which is no child of it; one that was there before.
THREADS = (
    (1, 10, 10, 100, 990), (2, 11, 10, 110, 400), (3, 20, 20, 120, 300), (4, 30, 30, 130, 990),
    (5, 11, 10, 500, 990),
)  # fmt: skip


def save(folder: Path, *marks: tuple[int, str]) -> Path:
    """Write a spool in which process 10 marks texts at instants; return its trace."""
    spool = SpoolBuilder()
    for thread_id, tid, pid, begin, end in THREADS:
        parent = {20: 10, 30: 1}.get(pid, 0)
        spool.thread(thread_id, ts_ns=begin, tid=tid, tgid=pid, parent_tgid=parent)
        spool.cycle(thread_id, off_ns=begin, wake_ns=begin, in_ns=begin + 5, out_ns=end - 5)
        spool.close(thread_id, off_ns=end - 5)
    spool.write(folder, end_ns=FINISH, session={"host": "box"})
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.thread(tid=10, ts_ns=BEGIN)
    for ts_ns, text in marks:
        shim.event(MARK, text, ts_ns, 0, domain="rlscope")
    shim.write(folder)
    output = folder.with_name("trace.duckdb")
    finalise(open_spool(folder), output, overwrite=True)
    return output


def named(path: Path, table: str) -> list[tuple[object, ...]]:
    query = f"SELECT {table}_id, python_name FROM {table} WHERE python_name IS NOT NULL"
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(query + " ORDER BY 1").fetchall()


def test_threads_are_named_by_the_life_of_their_id(tmp_path: Path) -> None:
    path = save(
        tmp_path / "spool", (120, "thread name\t11\tfirst"), (450, "thread name\t11\trenamed late"),
        (510, "thread name\t11\tsecond"), (130, "thread name\t30\tof another process"),
    )  # fmt: skip
    assert named(path, "thread") == [(2, "renamed late"), (5, "second")]
    assert named(path, "process") == []


def test_processes_are_named_by_those_above_them(tmp_path: Path) -> None:
    path = save(
        tmp_path / "spool", (140, "process name\t20\tProcess-1"), (350, "process name\t20\tlast"),
        # What a process in a pid namespace calls 30 is another one.
        (150, "process name\t30\tstranger"), (150, "process name\t10\tmyself"),
    )  # fmt: skip
    assert named(path, "process") == [(2, "last")]
    assert named(path, "thread") == []


@pytest.mark.parametrize(
    "text",
    [
        "thread name", "thread name\t11", "thread name\t11\ta\tb", "thread name\t-1\ta",
        "thread name\t\ta", "thread name\t99999999999\ta", "name\t11\ta", "",
    ],
)  # fmt: skip
def test_other_texts_name_nothing(tmp_path: Path, text: str) -> None:
    assert named(save(tmp_path / "spool", (200, text)), "thread") == []


def test_a_title_is_the_last_one_of_the_last_program() -> None:
    first, second = Life(1, 10, 0, 100, ()), Life(2, 10, 0, 500, (700,))
    reported = [
        (10, 300, "ray::IDLE"), (10, 200, "python"), (10, 600, "of the program before"),
        (99, 300, "nobody"), (10, 50, "too early"),
    ]  # fmt: skip
    assert titles_of([first, second], reported) == {1: "ray::IDLE"}
    assert titles_of([first, second], [*reported, (10, 800, "of this")])[2] == "of this"


def test_locks_that_python_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_locks, "MAX_LOCKS", 2)
    texts = [
        "lock",
        "lock\t",
        "lock\t-5",
        "lock\t9\t9",
        f"lock\t{10**15}",
        "block\t3",
        "lock\t28672",
    ]
    marks = [(120 + at, text) for at, text in enumerate([*texts, *texts, "lock\t7", "lock\t8"])]
    path = save(tmp_path / "spool", *marks)
    with duckdb.connect(str(path), read_only=True) as con:
        assert con.execute("FROM python_lock").fetchall() == [(7,), (28672,)]


def test_names_without_end_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_names, "MAX_NAMES", 2)
    marks = [(120 + at, f"thread name\t11\tname {at}") for at in range(5)]
    path = save(tmp_path / "spool", *marks, (140, "process name\t20\tProcess-1"))
    assert named(path, "thread") == [(2, "name 1")]
    with duckdb.connect(str(path), read_only=True) as con:
        reported = con.execute("SELECT code, count FROM trace_stat").fetchall()
    assert reported == [("names_reported_too_often", 3)]
