"""What workers of Ray did, by their titles: `ray::IDLE`, `ray::Class`, `ray::Class.method`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest

from rlscope_trace.ingest.store.ray_tasks import NO_RANGES, RayTasks, ray_tasks, with_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

END_NS = 1000
PID = 40
# (ts_ns, thread_id, what ps shows)
Title = tuple[int, int, str]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a trace of one worker: thread 1 is its main thread, both are known since 10 ns."""
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE process (process_id INTEGER, pid INTEGER)")
        connection.execute(
            "CREATE TABLE thread"
            " (thread_id INTEGER, process_id INTEGER, tid INTEGER, start_ns BIGINT, end_ns BIGINT)"
        )
        connection.execute(f"INSERT INTO process VALUES (7, {PID})")
        connection.execute(
            f"INSERT INTO thread VALUES (1, 7, {PID}, 10, {END_NS}), (2, 7, 41, 10, {END_NS})"
        )
        yield connection


def found(
    con: duckdb.DuckDBPyConnection,
    titles: Sequence[Title],
    *,
    attached: str | None = None,
    known: Mapping[int, str] | None = None,
) -> RayTasks:
    texts = ["", *dict.fromkeys(text for _, _, text in titles)]
    rows = [(ts_ns, thread_id, texts.index(text)) for ts_ns, thread_id, text in titles]
    kind = [("ts_ns", "i8"), ("thread_id", "u4"), ("text_id", "u4")]
    execs = [] if attached is None else [(5, 0, 0, 0, PID, 0, b"", attached.encode() + b"\0\0\0")]
    scan = SimpleNamespace(
        titles=lambda: np.array(rows, dtype=kind),
        title_texts=lambda: [text.encode() for text in texts],
        execs=lambda: execs,
    )
    return ray_tasks(scan, con, known or {})  # type: ignore[arg-type]


def ran(tasks: RayTasks) -> list[tuple[int, int, int, str]]:
    return [
        (thread.thread_id, start_ns, end_ns, tasks.names[name])
        for thread in tasks.threads.values()
        for start_ns, end_ns, name in zip(
            thread.starts_ns.tolist(), thread.ends_ns.tolist(), thread.names.tolist(), strict=True
        )
    ]


def test_methods_of_an_actor_lie_between_its_names(con: duckdb.DuckDBPyConnection) -> None:
    tasks = found(
        con,
        [
            (20, 1, "ray::IDLE"), (30, 1, "ray::Actor.__init__"), (40, 1, "ray::Actor"),
            (50, 1, "ray::Actor.step"), (60, 1, "ray::Actor"), (70, 1, "ray::Actor.step()"),
        ],
    )  # fmt: skip
    assert ran(tasks) == [
        (1, 30, 40, "Actor.__init__"), (1, 50, 60, "Actor.step"), (1, 70, END_NS, "Actor.step"),
    ]  # fmt: skip
    assert tasks.worked == {7: "Actor"}
    assert tasks.most_done() == {7: "Actor"}


def test_an_actor_with_a_name_is_called_by_its_class(con: duckdb.DuckDBPyConnection) -> None:
    """Only its making has the name in its title."""
    tasks = found(
        con,
        [
            (20, 1, "ray::best:Actor.__init__"), (30, 1, "ray::Actor"), (40, 1, "ray::Actor.step"),
            (50, 1, "ray::Actor"),
        ],
    )  # fmt: skip
    assert ran(tasks) == [(1, 20, 30, "best:Actor.__init__"), (1, 40, 50, "Actor.step")]
    assert tasks.most_done() == {7: "Actor"}


def test_a_worker_that_becomes_idle_again_runs_tasks(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever they are called: a program gives them names."""
    tasks = found(
        con,
        [
            (20, 1, "ray::collect"), (30, 1, "ray::IDLE"), (40, 1, "ray::my task"),
            (50, 1, "ray::IDLE"), (60, 1, "ray::a.b"), (90, 1, "ray::IDLE"),
        ],
        attached="ray::IDLE",
    )  # fmt: skip
    assert ran(tasks) == [(1, 20, 30, "collect"), (1, 40, 50, "my task"), (1, 60, 90, "a.b")]
    assert tasks.worked == {7: ""}
    assert tasks.most_done() == {7: "a.b"}


def test_what_ran_when_the_recording_began_is_known(con: duckdb.DuckDBPyConnection) -> None:
    tasks = found(con, [(60, 1, "ray::Actor")], attached="ray::Actor.step")
    assert ran(tasks) == [(1, 10, 60, "Actor.step")]


def test_one_long_task_is_told_from_an_actor_by_the_cluster(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """Both show a name without a method all the time."""
    assert ran(found(con, [], attached="ray::train", known={7: "worker"})) == [
        (1, 10, END_NS, "train")
    ]
    idle = found(con, [], attached="ray::Learner", known={7: "actor"})
    assert (ran(idle), idle.worked) == ([], {7: "Learner"})
    # Where nobody asked the cluster: it began to do so while it was recorded.
    assert ran(found(con, [(20, 1, "ray::train")], attached="ray::IDLE")) == [
        (1, 20, END_NS, "train")
    ]


def test_threads_of_an_actor_have_methods_of_their_own(con: duckdb.DuckDBPyConnection) -> None:
    tasks = found(
        con,
        [
            (20, 1, "ray::Actor.__init__"), (25, 1, "ray::Actor"), (30, 1, "ray::Actor.a"),
            (35, 2, "ray::Actor.b"), (40, 1, "ray::Actor"), (50, 2, "ray::Actor"),
        ],
    )  # fmt: skip
    assert ran(tasks) == [
        (1, 20, 25, "Actor.__init__"), (1, 30, 40, "Actor.a"), (2, 35, 50, "Actor.b"),
    ]  # fmt: skip


def test_methods_that_overlap_are_not_told_apart(con: duckdb.DuckDBPyConnection) -> None:
    """Of an async actor one thread begins the next before the last has ended."""
    tasks = found(
        con,
        [
            (20, 1, "ray::Actor.__init__"), (25, 1, "ray::Actor"), (30, 2, "ray::Actor.step"),
            (35, 2, "ray::Actor.step"), (40, 2, "ray::Actor"), (50, 2, "ray::Actor"),
        ],
    )  # fmt: skip
    assert (ran(tasks), tasks.overlapping, tasks.worked) == ([], [7], {7: "Actor"})


def test_a_worker_that_did_nothing(con: duckdb.DuckDBPyConnection) -> None:
    tasks = found(con, [(20, 1, "ray::IDLE")])
    assert (ran(tasks), tasks.idle, tasks.worked) == ([], [7], {})


@pytest.mark.parametrize("title", ["ray::DashboardAgent", "VLLM::Worker", "ray::", "python x.py"])
def test_who_is_no_worker_is_none(con: duckdb.DuckDBPyConnection, title: str) -> None:
    tasks = found(con, [(20, 1, title)], attached=title)
    assert (ran(tasks), tasks.idle, tasks.worked) == ([], [], {})


def test_a_phase_ends_with_the_task_in_which_it_began(con: duckdb.DuckDBPyConnection) -> None:
    """The program's own ranges are left as they are."""
    tasks = found(
        con,
        [
            (20, 1, "ray::A.__init__"), (30, 1, "ray::A"), (40, 1, "ray::A.step"),
            (60, 1, "ray::A"),
        ],
    ).threads[1]  # fmt: skip
    ranges = {name: np.zeros(3, column.dtype) for name, column in NO_RANGES.items()}
    ranges |= {
        "start_ns": np.array([45, 45, 70]), "end_ns": np.array([90, 80, 75]),
        "key": np.array([0, 1, 0], dtype=np.int32),
    }  # fmt: skip
    is_auto = np.array([1, 0], dtype=np.uint8)
    whole = with_tasks(ranges, tasks, 5, is_auto, (0, END_NS))
    rows = list(zip(*(whole[name].tolist() for name in ("start_ns", "end_ns", "key")), strict=True))
    assert rows == [(20, 30, 5), (40, 60, 6), (45, 60, 0), (45, 80, 1), (70, 75, 0)]
    assert whole["environment_steps"].tolist() == [-1, -1, 0, 0, 0]
    # Of a thread with many ranges a part at a time: the task goes on in the next one.
    parts = [with_tasks(NO_RANGES, tasks, 5, is_auto, span) for span in ((0, 50), (50, END_NS))]
    assert [
        list(zip(part["start_ns"].tolist(), part["end_ns"].tolist(), strict=True)) for part in parts
    ] == [[(20, 30), (40, 50)], [(50, 60)]]
