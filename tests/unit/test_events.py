"""Calls, samples and what was probed: from the spool into the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_trace.store.finalise import finalise
from rlscope_trace.store.spool import open_spool
from spool_builder import OPEN, RUNNABLE, UNWOUND, SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Query = Callable[[str], list[tuple[object, ...]]]

INSTRUMENTS = {"layers": ["simulator"], "sample_hz": 199, "gil": "waits", "not_measured": {}}
SESSION = {"instruments": INSTRUMENTS, "capture": "btf", "machine": "x86_64"}
SITE = {"event": "site", "site_id": 1, "module": "/lib/mujoco.so", "symbol": "mj_step",
        "kind": "function", "layer": "simulator", "file_offset": 64, "state": "probed",
        "ts_ns": 120}  # fmt: skip


@pytest.fixture
def spool() -> SpoolBuilder:
    """Two threads of two processes that live in [100, 500)."""
    spool = SpoolBuilder()
    for thread_id in (1, 2):
        spool.thread(thread_id, ts_ns=100, tid=10 * thread_id)
        spool.cycle(thread_id, off_ns=100, in_ns=110, out_ns=200, off_state=RUNNABLE)
        spool.close(thread_id, off_ns=200)
    return spool


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Query]:
    """Return what makes a trace of a spool, and asks it."""

    def make(spool: SpoolBuilder, **written: object) -> Query:
        directory = spool.write(tmp_path / "t.spool", end_ns=500, **written)  # type: ignore[arg-type]
        output = tmp_path / "t.duckdb"
        finalise(
            open_spool(directory), output, overwrite=False,
            complete=lambda con: None, progress=lambda step, done, total: None,
        )  # fmt: skip

        def ask(query: str) -> list[tuple[object, ...]]:
            with duckdb.connect(str(output), read_only=True) as con:
                return con.execute(query).fetchall()

        return ask

    return make


def test_calls_are_stored_in_order_and_cut_at_the_end(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    spool.call(2, start_ns=300, end_ns=310)
    spool.call(1, start_ns=150, end_ns=160, layer=3, parent=2, depth=1)
    spool.call(1, start_ns=140, end_ns=170, flags=UNWOUND)
    spool.call(1, start_ns=490, end_ns=510)
    spool.call(1, start_ns=501, end_ns=510)
    ask = trace(spool)
    assert ask("FROM native_call_coded") == [
        (1, 140, 170, 2, 0, 0, 1, UNWOUND),
        (1, 150, 160, 3, 2, 1, 1, 0),
        (1, 490, 500, 2, 0, 0, 1, OPEN),
        (2, 300, 310, 2, 0, 0, 1, 0),
    ]


def test_samples_releases_and_stacks_are_stored(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    spool.sample(2, ts_ns=300, layer=5, flags=1)
    spool.sample(1, ts_ns=250, layer=1, stack=7)
    spool.sample(1, ts_ns=500, layer=1, stack=7)
    spool.stack(7, "outer (a.py:1)\nin\u00fcner (b.py:2)\n".encode())
    spool.gil_release(1, start_ns=450, end_ns=600)
    ask = trace(spool)
    assert ask("FROM cpu_sample_coded") == [(1, 250, 1, 0, 7), (2, 300, 5, 1, None)]
    assert ask("FROM gil_release") == [(1, 450, 500)]
    assert ask("FROM stack") == [(7, ["outer (a.py:1)", "in\u00fcner (b.py:2)"])]


def test_damaged_records_are_counted_not_stored(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    spool.call(1, start_ns=160, end_ns=150)
    spool.call(9, start_ns=150, end_ns=160)
    spool.call(1, start_ns=150, end_ns=160, layer=7)
    spool.sample(1, ts_ns=2**63, layer=1)
    spool.stack(0, b"f\n")
    ask = trace(spool, probes=[{"event": "site"}, {"event": "dropped", "site_id": 5}])
    assert ask("SELECT count(*) FROM native_call_coded") == [(0,)]
    assert ask("SELECT source, count FROM trace_stat WHERE kind = 'dropped' ORDER BY ALL") == [
        ("calls and samples that cannot be read", 5),
        ("notes of the probes", 2),
    ]


@pytest.mark.parametrize(
    "line",
    [
        SITE | {"site_id": 2**31},
        {"event": "python", "pid": 10, "ts_ns": 150, "version": [float("inf")],
         "runtime_start": None, "runtime_end": None},
    ],
    ids=["site_id", "version"],
)  # fmt: skip
def test_a_damaged_note_does_not_keep_the_rest_from_being_saved(
    line: dict[str, object], spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[line, SITE])
    assert ask("SELECT site_id, symbol FROM site") == [(1, "mj_step")]
    assert ask("SELECT count FROM trace_stat WHERE source = 'notes of the probes'") == [(1,)]


def test_a_site_tells_what_became_of_it(spool: SpoolBuilder, trace: Callable[..., Query]) -> None:
    ask = trace(
        spool,
        probes=[
            SITE,
            SITE | {"site_id": 2, "symbol": "get"},
            SITE | {"site_id": 0, "symbol": "late", "state": "not probed: too many"},
            {"event": "dropped", "site_id": 2, "reason": "too dear", "ts_ns": 300},
            {"event": "hits", "site_id": 1, "hits": 5, "time_ns": 50},
        ],
    )
    query = "SELECT site_id, symbol, state, probed_ns, dropped_ns, hits, time_ns FROM site"
    assert ask(query) == [
        (1, "mj_step", "probed", 120, None, 5, 50),
        (2, "get", "dropped: too dear", 120, 300, None, None),
        (3, "late", "not probed: too many", None, None, None, None),
    ]


PYTHON = {"event": "python", "pid": 10, "ts_ns": 150, "version": [3, 11, 2],
          "implementation": "cpython", "free_threaded": False, "interpreters": 1,
          "runtime_start": 4096, "runtime_end": 8192}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"free_threaded": True}, ["cpu_sample: in part: this Python is free-threaded",
                                   "wait: in part: this Python is free-threaded"]),
        ({"interpreters": 2}, ["wait: in part: it has several interpreters"]),
        ({"runtime_end": 4096}, ["wait: in part: where its GIL lies was not found"]),
        ({"implementation": "pypy"}, ["cpu_sample: in part: its Python functions",
                                      "native_call: it runs PyPy"]),
    ],
)  # fmt: skip
def test_each_interpreter_tells_what_is_not_measured(
    changed: dict[str, object],
    expected: list[str],
    spool: SpoolBuilder,
    trace: Callable[..., Query],
) -> None:
    ask = trace(spool, session=SESSION, probes=[PYTHON | changed])
    told = ask("SELECT kind || ': ' || reason FROM capture WHERE process_id = 1 ORDER BY ALL")
    assert len(told) == len(expected)
    assert all(str(row[0]).startswith(words) for row, words in zip(told, expected, strict=True))
    # Nobody looked at the other process.
    assert ask("SELECT kind, measured FROM capture WHERE process_id = 2") == [
        ("native_call", False)
    ]


def test_capture_tells_which_layers_were_probed(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[])
    told = ask("SELECT kind, measured FROM capture WHERE process_id IS NULL ORDER BY ALL")
    assert told == [
        ("cpu_sample", True), ("gil_release", False), ("gpu_activity", False),
        ("native_call", True), ("native_call:backend", False), ("native_call:cuda_api", False),
        ("native_call:simulator", True), ("operation", False), ("thread_state", True),
        ("wait", True),
    ]  # fmt: skip


@pytest.mark.parametrize("event", ["gave_up", "failed"])
def test_a_layer_whose_probes_were_taken_away_says_so(
    event: str, spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[{"event": event, "reason": "it broke"}])
    ((measured, reason),) = ask(
        "SELECT measured, reason FROM capture WHERE kind = 'native_call:simulator'"
    )
    assert measured
    assert str(reason).startswith("in part: ")
    assert str(reason).endswith("it broke")


def test_what_was_refused_is_told(spool: SpoolBuilder, trace: Callable[..., Query]) -> None:
    refused = INSTRUMENTS | {
        "not_measured": {"native_call": "no uprobes", "cpu_sample": "no clock"}
    }
    ask = trace(spool, session=SESSION | {"instruments": refused, "capture": "tracefs"})
    told = dict(ask("SELECT kind, reason FROM capture WHERE NOT measured"))  # type: ignore[arg-type]
    assert told["native_call"] == "no uprobes"
    assert told["cpu_sample"] == "no clock"
    assert told["wait"] == "needs the capture btf: x86-64, and an OS kernel with BTF"


def test_a_fork_is_what_its_parent_is(spool: SpoolBuilder, trace: Callable[..., Query]) -> None:
    for child, creator in ((3, 1), (4, 2)):
        spool.thread(child, ts_ns=200, tid=10 * child, creator=creator)
        spool.cycle(child, off_ns=200, in_ns=210, out_ns=300, off_state=RUNNABLE)
        spool.close(child, off_ns=300)
    none = {"event": "no_python", "pid": 20, "ts_ns": 150}
    ask = trace(spool, session=SESSION, probes=[PYTHON, none])
    told = ask("SELECT process_id, reason FROM capture WHERE process_id > 0 ORDER BY ALL")
    assert told == [(2, "no Python was found in it"), (4, "no Python was found in it")]


def test_a_process_that_ended_at_once_was_not_looked_at(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[PYTHON])
    told = ask("SELECT process_id, reason FROM capture WHERE process_id > 0")
    assert told == [(2, "it ended before it could be looked at")]


def test_a_module_whose_path_is_not_utf8_is_stored(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[SITE | {"module": "/bad\udcff/mujoco.so"}])
    assert ask("SELECT module, state FROM site") == [("/bad?/mujoco.so", "probed")]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["probed"], (True, None)),
        (["not probed: No space left"], (False, "/bin/py0: not probed: No space left")),
        (["probed", "not probed: gone"], (True, "in part: /bin/py1: not probed: gone")),
    ],
)
def test_gil_releases_that_were_not_probed_are_told(
    states: list[str],
    expected: tuple[bool, str | None],
    spool: SpoolBuilder,
    trace: Callable[..., Query],
) -> None:
    full = SESSION | {"instruments": INSTRUMENTS | {"gil": "full", "layers": []}}
    probes = [{"event": "gil", "module": f"/bin/py{number}", "state": state}
              for number, state in enumerate(states)]  # fmt: skip
    ask = trace(spool, session=full, probes=probes)
    assert ask("SELECT measured, reason FROM capture WHERE kind = 'gil_release'") == [expected]
    assert ask("SELECT measured, reason FROM capture WHERE kind = 'native_call'") == [
        (False, "not asked for: --transitions off")
    ]


def test_a_failure_of_the_recorder_is_a_loss(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[{"event": "failed", "reason": "KeyError(1)"}])
    assert ask("SELECT kind, source, count FROM trace_stat WHERE source LIKE '%failed%'") == [
        ("dropped", "calls and Python functions: the recorder failed: KeyError(1)", None)
    ]
