"""A recording of a raylet as a trace: whose the processes are, what they ran, what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from finalising import finalise
from rlscope_trace.ingest.store.ray_processes import of_other_jobs
from rlscope_trace.spool.directory import open_spool
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Ask = Callable[[str], list[tuple[object, ...]]]

END_NS = 1000
RAYLET, ACTOR, OTHER = 10, 20, 30
TOLD = {
    "node": {
        "node_id": "abc", "address": "10.0.0.1", "host": "box", "is_head": True, "cluster": "c",
    },
    "raylet_pid": RAYLET,
    "processes": [
        {"pid": ACTOR, "kind": "actor", "job_id": "01000000", "actor_class": "Player"},
        {"pid": OTHER, "kind": "worker", "job_id": "02000000"},
    ],
}  # fmt: skip


def recorded(
    tmp_path: Path,
    told: object,
    more: tuple[tuple[int, int, bytes], ...] = (),
    clocks: tuple[tuple[int, int], ...] = (),
) -> Ask:
    """Make a trace of a raylet with an actor of one job and a worker of another, which wakes it.

    more: titles, by time and thread_id. clocks: pairs of the times of the trace and of the wall.
    """
    spool = SpoolBuilder()
    for thread_id, tid in ((1, RAYLET), (2, ACTOR), (3, OTHER)):
        spool.thread(thread_id, ts_ns=100, tid=tid)
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=900)
    spool.cycle(2, off_ns=100, wake_ns=150, in_ns=160, out_ns=900, waker=3)
    spool.cycle(3, off_ns=100, in_ns=110, out_ns=900)
    for ts_ns, thread_id, title in (
        (200, 2, b"ray::Player.__init__"), (300, 2, b"ray::Player"), (400, 2, b"ray::Player.play"),
        (500, 2, b"ray::Player"), (600, 3, b"ray::work"), (700, 3, b"ray::IDLE"), *more,
    ):  # fmt: skip
        spool.title(thread_id, ts_ns=ts_ns, title=title)
    for ts_ns, realtime_ns in clocks:
        spool.clock(ts_ns, realtime_ns, ts_ns)
    directory = spool.write(tmp_path / "spool", end_ns=END_NS, session={"host": "box", "ray": told})
    (directory / "shim.bin").write_bytes(b"")
    output = tmp_path / "trace.duckdb"
    finalise(open_spool(directory), output)

    def ask(query: str) -> list[tuple[object, ...]]:
        with duckdb.connect(output, read_only=True) as connection:
            return connection.execute(query).fetchall()

    return ask


def test_what_workers_ran_are_operations(tmp_path: Path) -> None:
    ask = recorded(tmp_path, TOLD)
    assert ask("SELECT pid, name, source, start_ns, end_ns FROM operation ORDER BY start_ns") == [
        (ACTOR, "Player.__init__", "ray", 200, 300),
        (ACTOR, "Player.play", "ray", 400, 500),
        (OTHER, "work", "ray", 600, 700),
    ]
    assert ask("FROM node") == [("abc", "10.0.0.1", "box", True, "c")]
    known = "SELECT p.pid, r.kind, r.job_id, r.actor_class, p.title FROM ray_process AS r"
    assert ask(f"{known} JOIN process AS p USING (process_id) ORDER BY pid") == [
        (RAYLET, "raylet", None, None, None),
        (ACTOR, "actor", "01000000", "Player", "ray::Player"),
        (OTHER, "worker", "02000000", None, "ray::work"),
    ]
    # Nothing was left out.
    assert ask("SELECT count(*) FROM coverage WHERE kind = 'operation:ray'") == [(0,)]


def test_without_a_cluster_titles_say_what_they_can(tmp_path: Path) -> None:
    ask = recorded(tmp_path, None)
    assert ask("SELECT kind, job_id, actor_class FROM ray_process ORDER BY process_id") == [
        ("actor", None, "Player"), ("worker", None, None),
    ]  # fmt: skip
    assert ask("FROM node") == []


def test_async_actors_that_are_left_out_are_counted(tmp_path: Path) -> None:
    """One begins a method before the last has ended."""
    ask = recorded(tmp_path, TOLD, more=((420, 2, b"ray::Player.play"),))
    assert ask(
        "SELECT process_id, measured, part, code, count FROM coverage WHERE kind = 'operation:ray'"
    ) == [(None, True, True, "ray_async_actors", 1)]
    assert ask("SELECT name FROM operation WHERE source = 'ray'") == [("work",)]


def test_methods_of_async_actors_are_what_the_cluster_tells(tmp_path: Path) -> None:
    """On the wall clock, which goes 1 ns in 100 faster than that of the trace."""
    wall_ns = 1_700_000_000 * 10**9
    methods = [
        [ACTOR, "Player.play", wall_ns + 404, wall_ns + 505],
        [ACTOR, "Player.watch", wall_ns + 303, wall_ns + 606],
        # Longer than the process lived, before it, of one whose titles say it, and of nobody.
        [ACTOR, "Player.wait", wall_ns + 505, wall_ns + 10**9],
        [ACTOR, "Player.early", wall_ns + 1, wall_ns + 50],
        [OTHER, "other", wall_ns + 404, wall_ns + 505],
        [77, "nobody", wall_ns + 404, wall_ns + 505],
        # None at all.
        ["1", "x", 5, 6], [ACTOR, 5, 6, 7], [ACTOR, "x", 7.5, 8], [ACTOR, "x", 9, 8], [], None,
        [ACTOR, "x", -5, 8], [ACTOR, "x", 5, 1 << 62], [True, "x", 5, 6],
    ]  # fmt: skip
    ask = recorded(
        tmp_path, {**TOLD, "methods": methods}, more=((420, 2, b"ray::Player.play"),),
        clocks=((100, wall_ns + 101), (900, wall_ns + 909)),
    )  # fmt: skip
    assert ask("SELECT process_id, name, domain, start_ns, end_ns FROM async_range") == [
        (2, "Player.watch", "ray", 300, 600), (2, "Player.play", "ray", 400, 500),
        (2, "Player.wait", "ray", 500, END_NS),
    ]  # fmt: skip
    assert ask("SELECT part, code, count FROM coverage WHERE kind = 'operation:ray'") == [
        (True, "ray_async_methods", 1)
    ]
    assert ask("SELECT DISTINCT name FROM operation WHERE source = 'ray'") == [("work",)]


@pytest.mark.parametrize("methods", [5, "x", {"a": 1}, [[ACTOR, "x", 5]], None])
def test_methods_that_are_none_are_left_out(tmp_path: Path, methods: object) -> None:
    told = {**TOLD, "methods": methods}
    ask = recorded(tmp_path, told, more=((420, 2, b"ray::Player.play"),), clocks=((100, 5000),))
    assert ask("SELECT count(*) FROM async_range") == [(0,)]
    assert ask("SELECT code FROM coverage WHERE kind = 'operation:ray'") == [("ray_async_actors",)]


def test_titles_that_there_is_no_room_for_are_a_loss(tmp_path: Path) -> None:
    """Of 65,540 different ones the last five are not kept."""
    titles = tuple((750, 3, f"ray::work{number}".encode()) for number in range(65_535))
    ask = recorded(tmp_path, None, more=titles)
    lost = "SELECT kind, count FROM trace_stat WHERE code = 'titles_too_many'"
    assert ask(lost) == [("dropped", 5)]


def test_of_other_jobs_nothing_is_in_the_trace(tmp_path: Path) -> None:
    """Who was woken by one of their threads was woken from outside."""
    ask = recorded(tmp_path, {**TOLD, "jobs": ["01000000"]})
    assert ask("SELECT pid FROM process ORDER BY pid") == [(RAYLET,), (ACTOR,)]
    assert ask("SELECT DISTINCT name FROM operation ORDER BY name") == [
        ("Player.__init__",), ("Player.play",),
    ]  # fmt: skip
    wakers = "SELECT waker_kind, waker_thread_id FROM thread_state WHERE waker_kind IS NOT NULL"
    assert ask(f"{wakers} AND start_ns = 150") == [("outside", None)]
    assert ask("SELECT DISTINCT job_id FROM ray_process WHERE job_id IS NOT NULL") == [
        ("01000000",)
    ]


def test_what_keeps_the_recorders_is_left_out_of_all(tmp_path: Path) -> None:
    ask = recorded(tmp_path, {**TOLD, "hidden_jobs": ["01000000"]})
    assert ask("SELECT pid FROM process ORDER BY pid") == [(RAYLET,), (OTHER,)]


@pytest.mark.parametrize(
    "told",
    [
        None, [], {"jobs": 5}, {"jobs": ["01000000"], "processes": {}},
        {"jobs": ["01000000"], "processes": [None, 5, {}, {"pid": "x"}, {"pid": 1, "job_id": 7}]},
        {"hidden_jobs": ["01000000"], "processes": [{"pid": True, "job_id": "01000000"}]},
    ],
)  # fmt: skip
def test_what_is_not_of_its_shape_leaves_nothing_out(told: Any) -> None:  # noqa: ANN401
    assert of_other_jobs(told) == []


@pytest.mark.parametrize(
    "told",
    [
        {"node": 5}, {"node": {"node_id": 5}}, {"node": {"node_id": "x" * 10_000}},
        {"processes": [{"pid": ACTOR, "kind": "king"}, {"pid": ACTOR, "kind": ["actor"]}]},
        {"processes": [{"pid": ACTOR, "kind": "actor", "actor_class": {"a": 1}}]},
    ],
)  # fmt: skip
def test_what_is_not_of_its_shape_is_left_out(tmp_path: Path, told: object) -> None:
    ask = recorded(tmp_path, told)
    assert ask("SELECT actor_class FROM ray_process WHERE kind = 'actor'") == [("Player",)]
