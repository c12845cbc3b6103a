"""Threads become processes: lives, parents, commands and exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import finalise
from rlscope_trace.spool.directory import open_spool
from spool_builder import DEAD, FOUND, RUNNABLE, UNKNOWN_STATUS, SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tables = Callable[[str], list[tuple[object, ...]]]

END_NS = 1000


@pytest.fixture
def spool() -> SpoolBuilder:
    return SpoolBuilder()


@pytest.fixture
def query(spool: SpoolBuilder, tmp_path: Path) -> Tables:
    """Finalise the spool at the first query, and answer from the database."""
    output = tmp_path / "trace.duckdb"

    def answer(text: str) -> list[tuple[object, ...]]:
        if not output.exists():
            opened = open_spool(spool.write(tmp_path / "spool", end_ns=END_NS))
            finalise(
                opened,
                output,
            )
        with duckdb.connect(str(output), read_only=True) as con:
            return con.execute(text).fetchall()

    return answer


def die(spool: SpoolBuilder, thread_id: int, *, at_ns: int, status: int = UNKNOWN_STATUS) -> None:
    spool.exit(thread_id, ts_ns=at_ns - 1, status=status)
    spool.cycle(
        thread_id, off_ns=at_ns - 5, in_ns=at_ns - 5, out_ns=at_ns, off_state=RUNNABLE,
        out_state=DEAD,
    )  # fmt: skip


def test_found_threads_are_grouped_by_process(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=11, tgid=10, entered=FOUND, parent_tgid=1)
    spool.thread(2, ts_ns=100, tid=20, tgid=20, entered=FOUND, parent_tgid=10)
    spool.thread(3, ts_ns=100, tid=10, tgid=10, entered=FOUND, parent_tgid=1, comm=b"main")
    assert query("SELECT thread_id, process_id, tid FROM thread ORDER BY thread_id") == [
        (1, 1, 11), (2, 2, 20), (3, 1, 10),
    ]  # fmt: skip
    assert query("SELECT process_id, pid, parent_process_id, name FROM process") == [
        (1, 10, None, "main"), (2, 20, 1, "python"),
    ]  # fmt: skip


def test_a_found_child_can_enter_before_its_parent(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=20, entered=FOUND, parent_tgid=10)
    spool.thread(2, ts_ns=100, tid=10, entered=FOUND, parent_tgid=1)
    assert query("SELECT pid, parent_process_id FROM process") == [(20, 2), (10, None)]


def test_what_a_process_begins_before_it_is_entered_is_its_own(
    spool: SpoolBuilder, query: Tables
) -> None:
    """It is marked, and the walk that enters it comes to it later."""
    spool.thread(1, ts_ns=90, tid=11, tgid=10, parent_tgid=1)
    spool.thread(2, ts_ns=95, tid=20, parent_tgid=10)
    spool.thread(3, ts_ns=100, tid=10, entered=FOUND, parent_tgid=1)
    spool.exec(0, ts_ns=130, ns_tgid=10, args=b"python\0")
    assert query("SELECT thread_id, process_id FROM thread ORDER BY ALL") == [
        (1, 1), (2, 2), (3, 1),
    ]  # fmt: skip
    assert query("SELECT pid, parent_process_id, command FROM process") == [
        (10, None, "python"), (20, 1, "python"),
    ]  # fmt: skip


def test_a_process_whose_main_thread_has_ended_was_there_before(
    spool: SpoolBuilder, query: Tables
) -> None:
    spool.thread(1, ts_ns=100, tid=5, entered=FOUND)
    spool.exec(0, ts_ns=130, ns_tgid=5, args=b"shell\0")
    spool.thread(2, ts_ns=90, tid=11, tgid=10, parent_tgid=5)
    spool.thread(3, ts_ns=100, tid=12, tgid=10, entered=FOUND, parent_tgid=5)
    spool.exec(0, ts_ns=130, ns_tgid=10, args=b"worker\0")
    assert query("SELECT pid, parent_process_id, command FROM process") == [
        (5, None, "shell"), (10, 1, "worker"),
    ]  # fmt: skip


def test_rows_are_sorted_by_process(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    spool.thread(2, ts_ns=110, tid=20, creator=1)
    spool.thread(3, ts_ns=120, tid=12, tgid=10, creator=1)
    for thread_id in (1, 2, 3):
        spool.close(thread_id, off_ns=90 + 10 * thread_id)
    assert query("SELECT thread_id FROM thread_state_coded") == [(1,), (3,), (2,)]


def test_a_reused_pid_is_another_process(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    spool.thread(2, ts_ns=110, tid=20, creator=1)
    die(spool, 2, at_ns=150, status=0)
    spool.thread(3, ts_ns=200, tid=20, creator=1)
    spool.thread(4, ts_ns=210, tid=21, tgid=20, creator=3)
    spool.thread(5, ts_ns=220, tid=30, parent_tgid=20)
    assert query("SELECT thread_id, process_id FROM thread ORDER BY thread_id") == [
        (1, 1), (2, 2), (3, 3), (4, 3), (5, 4),
    ]  # fmt: skip
    assert query("SELECT process_id, pid, parent_process_id, end_ns FROM process") == [
        (1, 10, None, 1000), (2, 20, 1, 150), (3, 20, 1, 1000), (4, 30, 3, 1000),
    ]  # fmt: skip


def test_ids_are_those_of_the_recorders_namespace(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=5010, ns=(10, 10))
    spool.thread(2, ts_ns=100, tid=5011, tgid=5010, ns=(11, 10), creator=1)
    assert query("SELECT pid FROM process") == [(10,)]
    assert query("SELECT tid FROM thread") == [(10,), (11,)]


def test_the_last_name_counts(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10, comm=b"sh")
    spool.name(1, b"python")
    spool.name(1, "träiner".encode()[:3] + b"\0rest")
    assert query("SELECT process.name, thread.name FROM process, thread") == [("tr�", "tr�")]


@pytest.mark.parametrize(
    ("args", "args_total", "command"),
    [
        (b"python\0train.py\0--lr\0", 20, "python train.py --lr"),
        (b"python\0train.py\0--l", 900, "python train.py --l ..."),
        (b"echo\0\0two words\0", 16, "echo  two words"),
        (b"", 0, "/usr/bin/python"),
    ],
)
def test_an_exec_tells_the_command(
    spool: SpoolBuilder, query: Tables, args: bytes, args_total: int, command: str
) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    spool.exec(1, ts_ns=105, tid=10, filename=b"/bin/sh", args=b"sh\0")
    spool.exec(
        1, ts_ns=110, tid=10, filename=b"/usr/bin/python", args=args, args_total=args_total
    )  # fmt: skip
    assert query("SELECT command FROM process") == [(command,)]


def test_a_fork_has_the_command_its_parent_had_then(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10, entered=FOUND)
    spool.exec(0, ts_ns=130, ns_tgid=10, args=b"first\0")
    spool.thread(2, ts_ns=120, tid=20, creator=1)
    spool.exec(1, ts_ns=150, tid=10, args=b"second\0")
    spool.thread(3, ts_ns=160, tid=30, creator=1)
    spool.thread(4, ts_ns=170, tid=40, creator=3)
    spool.thread(5, ts_ns=180, tid=50, creator=1)
    spool.exec(5, ts_ns=190, tid=50, args=b"third\0")
    assert query("SELECT command FROM process ORDER BY process_id") == [
        ("second",), ("first",), ("second",), ("second",), ("third",),
    ]  # fmt: skip


def test_a_thread_that_execs_becomes_the_main_thread(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=5010, ns=(10, 10), comm=b"old")
    spool.thread(2, ts_ns=110, tid=5011, tgid=5010, ns=(11, 10), creator=1)
    die(spool, 1, at_ns=120)
    spool.exec(2, ts_ns=125, tid=5010, old_tid=5011, args=b"new\0")
    spool.name(2, b"new")
    assert query("SELECT thread_id, tid FROM thread") == [(1, 10), (2, 10)]
    assert query("SELECT name, command, exit_code FROM process") == [("new", "new", None)]


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (11 | 0x80, 139), (UNKNOWN_STATUS, None)],
)
def test_exit_codes_are_those_of_a_shell(
    spool: SpoolBuilder, query: Tables, status: int, exit_code: int | None
) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    die(spool, 1, at_ns=200, status=status)
    assert query("SELECT exit_code, end_ns FROM process") == [(exit_code, 200)]
    assert query("SELECT ended FROM thread") == [(True,)]


def test_the_last_thread_to_leave_tells_the_exit_code(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    spool.thread(2, ts_ns=110, tid=11, tgid=10, creator=1)
    die(spool, 1, at_ns=150, status=0)
    die(spool, 2, at_ns=200, status=4 << 8)
    assert query("SELECT exit_code FROM process") == [(4,)]


def test_a_process_that_still_runs_has_no_exit_code(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    spool.thread(2, ts_ns=110, tid=11, tgid=10, creator=1)
    die(spool, 1, at_ns=150, status=0)
    assert query("SELECT exit_code FROM process") == [(None,)]


def test_what_begins_after_the_end_is_not_in_the_trace(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    spool.thread(2, ts_ns=END_NS, tid=20, creator=1)
    spool.cycle(2, off_ns=END_NS, in_ns=END_NS + 1, out_ns=END_NS + 9, off_state=RUNNABLE)
    spool.exec(1, ts_ns=END_NS + 1, tid=10, args=b"late\0")
    die(spool, 1, at_ns=END_NS + 10, status=0)
    assert query("SELECT process_id, command, exit_code, end_ns FROM process") == [
        (1, None, None, END_NS)
    ]
    assert query("SELECT thread_id, ended FROM thread") == [(1, False)]


def test_threads_of_an_unknown_process_share_one(spool: SpoolBuilder, query: Tables) -> None:
    spool.thread(1, ts_ns=100, tid=10)
    spool.cycle(5, off_ns=110, in_ns=120, out_ns=130, off_state=RUNNABLE)
    spool.cycle(6, off_ns=110, in_ns=120, out_ns=130, off_state=RUNNABLE)
    spool.name(7, b"nameless")
    assert query("SELECT process_id, pid, name FROM process") == [
        (1, 10, "python"), (2, None, "(unknown)"),
    ]  # fmt: skip
    assert query("SELECT thread_id, process_id, tid, start_ns FROM thread") == [
        (1, 1, 10, 100), (5, 2, None, 110), (6, 2, None, 110),
    ]  # fmt: skip


def test_thousands_of_processes_can_lack_the_same(spool: SpoolBuilder, query: Tables) -> None:
    for thread_id in range(1, 3001):
        spool.thread(thread_id, ts_ns=100, tid=thread_id, comm=b"")
    assert query("SELECT count(*), count(name), count(command), count(exit_code) FROM process") == [
        (3000, 0, 0, 0)
    ]
    assert query("SELECT count(*), count(name) FROM thread") == [(3000, 0)]


def test_a_trace_without_threads_is_a_trace(spool: SpoolBuilder, query: Tables) -> None:
    spool.clock(100, 200, 300)
    assert query("SELECT count(*) FROM process") == [(0,)]
    assert query("SELECT value FROM meta WHERE key = 'end_ns'") == []
