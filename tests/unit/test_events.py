"""Calls, samples and what was probed: from the spool into the trace."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import finalise
from rlscope_trace.spool.directory import open_spool
from spool_builder import DISK, FOUND, PIPE, RUNNABLE, UNWOUND, VERSION, SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Query = Callable[[str], list[tuple[object, ...]]]

PROBE_SETTINGS = {"layers": ["simulator"], "sample_hz": 199, "gil": "waits", "not_measured": {}}
SESSION = {"probe_settings": PROBE_SETTINGS, "capture": "btf", "machine": "x86_64"}
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
            open_spool(directory), output,
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
        (1, 140, 170, "simulator", None, 0, 1, "unwound"),
        (1, 150, 160, "backend", "simulator", 1, 1, "returned"),
        (1, 490, 500, "simulator", None, 0, 1, "open"),
        (2, 300, 310, "simulator", None, 0, 1, "returned"),
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
    assert ask("FROM cpu_sample_coded") == [
        (1, 250, "python", False, False, 7), (2, 300, "spin", True, False, None),
    ]  # fmt: skip
    assert ask("FROM gil_release") == [(1, 10, 1, 450, 500, 50)]
    root, leaf = "outer (a.py:1)", "in\u00fcner (b.py:2)"
    assert ask("SELECT stack_id, frames, leaf FROM stack") == [(7, [root, leaf], leaf)]


def test_who_else_had_a_cpu_is_stored_by_cpu(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    spool.other_run(1, start_ns=200, end_ns=210, pid=8, name=b"kworker/1:0")
    spool.other_run(0, start_ns=300, end_ns=600, pid=7)
    spool.other_run(0, start_ns=250, end_ns=260, pid=8, name=b"cut off \xc3")
    spool.other_run(0, start_ns=150, end_ns=160, pid=7)
    spool.other_run(0, start_ns=500, end_ns=510, pid=9)
    # Damaged.
    spool.other_run(0, start_ns=160, end_ns=150, pid=7)
    spool.other_run(0, start_ns=150, end_ns=160, pid=2**31)
    spool.other_run(2**15, start_ns=150, end_ns=160, pid=7)
    spool.quota(1, ts_ns=2**63)
    spool.quota(2, ts_ns=310)
    spool.quota(1, ts_ns=320)
    spool.quota(1, ts_ns=120)
    # Of no thread of the trace, and after its end.
    spool.quota(9, ts_ns=130)
    spool.quota(1, ts_ns=500)
    ask = trace(spool, session=SESSION)
    assert ask("FROM other_program ORDER BY program_id") == [
        (1, 8, "kworker/1:0"), (2, 7, "busy"), (3, 8, "cut off \ufffd"),
    ]  # fmt: skip
    assert ask("FROM other_run") == [
        (0, 150, 160, 10, 2), (0, 250, 260, 10, 3), (0, 300, 500, 200, 2), (1, 200, 210, 10, 1),
    ]  # fmt: skip
    assert ask("FROM cpu_quota_wait") == [(1, 10, 1, 120), (1, 10, 1, 320), (2, 20, 2, 310)]
    losses = "SELECT code, count FROM trace_stat WHERE starts_with(code, 'events_') ORDER BY ALL"
    assert ask(losses) == [("events_unreadable", 4), ("events_without_thread", 1)]
    reported = (
        "SELECT kind, measured, code FROM coverage WHERE kind IN ('other_run', 'cpu_quota_wait')"
    )
    assert sorted(ask(reported)) == [("cpu_quota_wait", True, None), ("other_run", True, None)]


def test_a_capture_that_cannot_know_who_else_had_a_cpu_says_so(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION | {"capture": "tracefs"})
    reported = (
        "SELECT kind, measured, code FROM coverage WHERE kind IN ('other_run', 'cpu_quota_wait')"
    )
    assert sorted(ask(reported)) == [
        ("cpu_quota_wait", False, "btf_needed"), ("other_run", False, "btf_needed"),
    ]  # fmt: skip


def test_messages_that_nobody_slept_for_are_stored_by_reader(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    spool.message(2, sender=1, sent_ns=310, read_ns=320, file=PIPE)
    spool.message(1, sender=2, sent_ns=250, read_ns=260)
    spool.message(1, sender=2, sent_ns=150, read_ns=170)
    # Damaged; then of no thread of the trace, by none, and after its end.
    spool.message(1, sender=2, sent_ns=170, read_ns=160)
    spool.message(1, sender=2, sent_ns=160, read_ns=170, file=DISK)
    spool.message(9, sender=2, sent_ns=160, read_ns=170)
    spool.message(1, sender=9, sent_ns=160, read_ns=170)
    spool.message(1, sender=2, sent_ns=490, read_ns=500)
    ask = trace(spool, session=SESSION)
    assert ask("FROM early_message") == [
        (1, 170, 150, 2, "socket"), (1, 260, 250, 2, "socket"), (2, 320, 310, 1, "pipe"),
    ]  # fmt: skip
    losses = "SELECT code, count FROM trace_stat WHERE starts_with(code, 'events_') ORDER BY ALL"
    assert ask(losses) == [("events_unreadable", 2), ("events_without_thread", 2)]


def test_damaged_records_are_counted_not_stored(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    spool.call(1, start_ns=160, end_ns=150)
    spool.call(1, start_ns=150, end_ns=160, layer=7)
    spool.call(1, start_ns=150, end_ns=160, parent=7)
    spool.sample(1, ts_ns=2**63, layer=1)
    spool.stack(0, b"f\n")
    ask = trace(spool, probes=[{"event": "site"}, {"event": "dropped", "site_id": 5}])
    assert ask("SELECT count(*) FROM native_call_coded") == [(0,)]
    assert ask("SELECT code, count FROM trace_stat WHERE kind = 'dropped' ORDER BY ALL") == [
        ("events_unreadable", 5),
        ("probe_notes_damaged", 2),
    ]


def test_calls_and_samples_of_threads_that_are_not_in_the_trace_are_counted(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    # As a kill leaves them: the records of thread 9 itself were still on their way.
    spool.call(9, start_ns=150, end_ns=160)
    spool.gil_release(9, start_ns=150, end_ns=160)
    spool.sample(9, ts_ns=170, layer=1)
    # Of thread 10 a name has come, and of its states nothing.
    spool.name(10, b"worker")
    spool.sample(10, ts_ns=170, layer=1)
    ask = trace(spool)
    assert ask("SELECT count(*) FROM cpu_sample_coded") == [(0,)]
    assert ask("SELECT kind, code, count FROM trace_stat WHERE starts_with(code, 'events_')") == [
        ("unmatched", "events_without_thread", 4)
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
    assert ask("SELECT count FROM trace_stat WHERE code = 'probe_notes_damaged'") == [(1,)]


def test_a_site_tells_what_became_of_it(spool: SpoolBuilder, trace: Callable[..., Query]) -> None:
    ask = trace(
        spool,
        probes=[
            SITE,
            SITE | {"site_id": 2, "symbol": "get"},
            SITE | {"site_id": 0, "symbol": "late", "state": "not_probed", "code": "too_many"},
            {
                "event": "dropped",
                "site_id": 2,
                "code": "recorder_failed",
                "detail": "gone",
                "ts_ns": 300,
            },
            {"event": "hits", "site_id": 1, "hits": 5, "time_ns": 50},
        ],
    )
    query = "SELECT site_id, symbol, state, code, probed_ns, dropped_ns, hits, time_ns FROM site"
    assert ask(query) == [
        (1, "mj_step", "probed", None, 120, None, 5, 50),
        (2, "get", "dropped", "recorder_failed", 120, 300, None, None),
        (3, "late", "not_probed", "too_many", None, None, None, None),
    ]


PYTHON = {"event": "python", "pid": 10, "ts_ns": 150, "version": [3, 11, 2],
          "implementation": "cpython", "free_threaded": False, "interpreters": 1,
          "runtime_start": 4096, "runtime_end": 8192}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"free_threaded": True}, ["cpu_sample free_threaded", "wait free_threaded"]),
        ({"interpreters": 2}, ["wait subinterpreters"]),
        ({"runtime_end": 4096}, ["wait gil_not_found"]),
        ({"implementation": "pypy"}, ["cpu_sample pypy_samples", "native_call pypy"]),
    ],
)  # fmt: skip
def test_each_interpreter_tells_what_is_not_measured(
    changed: dict[str, object],
    expected: list[str],
    spool: SpoolBuilder,
    trace: Callable[..., Query],
) -> None:
    ask = trace(spool, session=SESSION, probes=[PYTHON | changed])
    reported = ask(
        "SELECT concat_ws(' ', kind, code) FROM coverage WHERE process_id = 1 ORDER BY ALL"
    )
    assert reported == [(words,) for words in expected]
    # Nobody looked at the other process.
    assert ask("SELECT kind, measured FROM coverage WHERE process_id = 2") == [
        ("native_call", False)
    ]


def test_capture_tells_which_layers_were_probed(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[])
    reported = ask("SELECT kind, measured FROM coverage WHERE process_id IS NULL ORDER BY ALL")
    assert reported == [
        ("cpu_quota_wait", True), ("cpu_sample", True), ("early_message:pipe", True),
        ("early_message:socket", True), ("gil_release", False),
        ("gpu_activity", False), ("native_call", True), ("native_call:backend", False),
        ("native_call:cuda_api", False), ("native_call:simulator", True), ("operation", False),
        ("os_counter", False), ("other_run", True), ("thread_state", True), ("wait", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            {"event": "gave_up", "fact": {"code": "stack_switching", "detail": "it broke"}},
            "stack_switching",
        ),
        ({"event": "failed", "reason": "it broke"}, "recorder_failed"),
    ],
)
def test_a_layer_whose_probes_were_taken_away_says_so(
    line: dict[str, object], code: str, spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[line])
    assert ask(
        "SELECT measured, part, code, detail FROM coverage WHERE kind = 'native_call:simulator'"
    ) == [(True, True, code, "it broke")]


def test_what_was_refused_is_told(spool: SpoolBuilder, trace: Callable[..., Query]) -> None:
    refused = PROBE_SETTINGS | {
        "not_measured": {
            "native_call": {"code": "probes_refused", "detail": "no uprobes"},
            "cpu_sample": {"code": "clock_refused", "detail": "no clock"},
        }
    }
    ask = trace(spool, session=SESSION | {"probe_settings": refused, "capture": "tracefs"})
    reported = dict(ask("SELECT kind, code FROM coverage WHERE NOT measured"))  # type: ignore[arg-type]
    assert reported["native_call"] == "probes_refused"
    assert reported["cpu_sample"] == "clock_refused"
    assert reported["wait"] == "btf_needed"


def test_a_fork_is_what_its_parent_is(spool: SpoolBuilder, trace: Callable[..., Query]) -> None:
    for child, creator in ((3, 1), (4, 2)):
        spool.thread(child, ts_ns=200, tid=10 * child, creator=creator)
        spool.cycle(child, off_ns=200, in_ns=210, out_ns=300, off_state=RUNNABLE)
        spool.close(child, off_ns=300)
    none = {"event": "no_python", "pid": 20, "ts_ns": 150}
    ask = trace(spool, session=SESSION, probes=[PYTHON, none])
    reported = ask("SELECT process_id, code FROM coverage WHERE process_id > 0 ORDER BY ALL")
    assert reported == [(2, "python_not_found"), (4, "python_not_found")]


def test_what_was_noted_before_what_is_kept_is_of_the_process_that_is_there(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    """With --last a process is looked at when it begins, long before its first record that is."""
    early = PYTHON | {"ts_ns": 50, "runtime_end": 4096}
    none = {"event": "no_python", "pid": 20, "ts_ns": 60}
    ask = trace(spool, session=SESSION, probes=[early, none])
    reported = ask("SELECT process_id, code FROM coverage WHERE process_id > 0 ORDER BY ALL")
    assert reported == [(1, "gil_not_found"), (2, "python_not_found")]


def test_a_process_that_ended_at_once_was_not_looked_at(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[PYTHON])
    reported = ask("SELECT process_id, code FROM coverage WHERE process_id > 0")
    assert reported == [(2, "ended_unseen")]


@pytest.mark.parametrize(
    ("changed", "probes", "expected"),
    [
        ({}, [], [(2, True, "gil_not_looked_for")]),
        ({}, [{"event": "no_python", "pid": 20, "ts_ns": 150}], []),
        # Nobody was to look, which is said of all.
        ({"probe_settings": None}, [], []),
    ],
)
def test_waits_of_a_process_that_nobody_looked_at_may_be_for_its_gil(
    changed: dict[str, object],
    probes: list[dict[str, object]],
    expected: list[tuple[int, bool, str]],
    spool: SpoolBuilder,
    trace: Callable[..., Query],
) -> None:
    # Another thread of each of the two processes.
    for thread_id in (1, 2):
        spool.thread(2 + thread_id, ts_ns=200, tid=11, tgid=10 * thread_id, creator=thread_id)
        spool.cycle(2 + thread_id, off_ns=200, in_ns=210, out_ns=300, off_state=RUNNABLE)
        spool.close(2 + thread_id, off_ns=300)
    ask = trace(spool, session=SESSION | changed, probes=[PYTHON, *probes])
    waits = "SELECT process_id, measured, code FROM coverage WHERE kind = 'wait' AND process_id > 0"
    assert ask(waits) == expected


def test_a_module_whose_path_is_not_utf8_is_stored(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[SITE | {"module": "/bad\udcff/mujoco.so"}])
    assert ask("SELECT module, state FROM site") == [("/bad?/mujoco.so", "probed")]


FULL = {"code": "gil_not_probed", "subject": "/bin/py", "detail": "No space left"}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([None], (True, False, None, None)),
        ([FULL], (False, False, "gil_not_probed", "No space left")),
        ([None, FULL], (True, True, "gil_not_probed", "No space left")),
    ],
)
def test_gil_releases_that_were_not_probed_are_told(
    states: list[object],
    expected: tuple[object, ...],
    spool: SpoolBuilder,
    trace: Callable[..., Query],
) -> None:
    full = SESSION | {"probe_settings": PROBE_SETTINGS | {"gil": "full", "layers": []}}
    probes = [{"event": "gil", "module": f"/bin/py{number}", "fact": state}
              for number, state in enumerate(states)]  # fmt: skip
    ask = trace(spool, session=full, probes=probes)
    query = "SELECT measured, part, code, detail FROM coverage WHERE kind = 'gil_release'"
    assert ask(query) == [expected]
    assert ask("SELECT measured, code, subject FROM coverage WHERE kind = 'native_call'") == [
        (False, "not_asked_for", "--transitions off")
    ]


def test_a_failure_of_the_recorder_is_a_loss(
    spool: SpoolBuilder, trace: Callable[..., Query]
) -> None:
    ask = trace(spool, session=SESSION, probes=[{"event": "failed", "reason": "KeyError(1)"}])
    assert ask("SELECT kind, code, count, detail FROM trace_stat") == [
        ("dropped", "instruments_failed", None, "KeyError(1)")
    ]


@pytest.mark.parametrize(
    ("reported", "losses"),
    [
        ({"held_up": 1, "unread": 7, "lost": 7}, [("dropped", "samples_unread", 7)]),
        ({"held_up": 1, "unread": 0, "lost": 0}, [("dropped", "samples_unread", 1)]),
        ({"held_up": 0, "unread": 0, "lost": 0}, []),
    ],
)
def test_samples_that_nobody_read_are_told_with_the_reason(
    spool: SpoolBuilder,
    trace: Callable[..., Query],
    reported: dict[str, int],
    losses: list[tuple[object, ...]],
) -> None:
    ask = trace(spool, session=SESSION, probes=[{"event": "sampler", **reported}])
    assert ask("SELECT kind, code, count FROM trace_stat") == losses


def test_what_lasted_when_a_kept_recording_begins_is_cut_there(tmp_path: Path) -> None:
    reported_first, since = SpoolBuilder(), SpoolBuilder()
    for thread_id in (1, 2):
        reported_first.thread(thread_id, ts_ns=300, tid=10 * thread_id, entered=FOUND)
        since.cycle(thread_id, off_ns=100, in_ns=290, out_ns=400, off_state=RUNNABLE)
        since.close(thread_id, off_ns=400)
    # Their records were on the way when the segment began.
    since.thread(3, ts_ns=250, tid=30)
    since.cycle(3, off_ns=250, in_ns=260, out_ns=280, off_state=RUNNABLE)
    since.cycle(3, off_ns=280, wake_ns=290, in_ns=310, out_ns=400)
    since.close(3, off_ns=400)
    since.call(1, start_ns=140, end_ns=299)
    since.call(1, start_ns=140, end_ns=320, depth=0)
    since.call(1, start_ns=310, end_ns=315, depth=1, parent=2)
    since.gil_release(1, start_ns=200, end_ns=350)
    since.other_run(0, start_ns=250, end_ns=305, pid=7)
    since.other_run(0, start_ns=240, end_ns=250, pid=7)
    since.sample(1, ts_ns=299, layer=1)
    since.sample(1, ts_ns=301, layer=1)
    since.message(1, sender=2, sent_ns=250, read_ns=310)
    since.message(1, sender=2, sent_ns=305, read_ns=311)
    directory = since.write(tmp_path / "t.spool", end_ns=500, session=SESSION)
    (directory / "records.bin").unlink()
    (directory / "progress.bin").rename(directory / "progress-3.bin")
    keyframe = b"".join(reported_first.frames)
    header = struct.pack("<8sII6Q", b"SLLSEGM1", VERSION, 64, 3, 2, 300, len(keyframe), 0, 0)
    (directory / "records-3.bin").write_bytes(header + keyframe + b"".join(since.frames))
    output = tmp_path / "t.duckdb"
    finalise(open_spool(directory), output)
    with duckdb.connect(str(output), read_only=True) as con:

        def ask(query: str) -> list[tuple[object, ...]]:
            return con.execute(query).fetchall()

        assert ask("SELECT start_ns, end_ns, depth FROM native_call_coded ORDER BY ALL") == [
            (300, 320, 0),
            (310, 315, 1),
        ]
        assert ask("FROM gil_release") == [(1, 10, 1, 300, 350, 50)]
        assert ask("SELECT cpu, start_ns, end_ns FROM other_run") == [(0, 300, 305)]
        assert ask("SELECT ts_ns FROM cpu_sample") == [(301,)]
        assert ask("SELECT sent_ns, read_ns FROM early_message") == [(305, 311)]
        assert ask("SELECT thread_id, start_ns, end_ns, lost_ns FROM thread ORDER BY ALL") == [
            (1, 300, 500, 0),
            (2, 300, 500, 0),
            (3, 300, 500, 0),
        ]
        states = "SELECT start_ns, end_ns, state::VARCHAR FROM thread_state_coded"
        assert ask(f"{states} WHERE thread_id = 1 ORDER BY ALL") == [
            (300, 400, "running"),
            (400, 500, "sleeping"),
        ]
        assert ask(f"{states} WHERE thread_id = 3 ORDER BY ALL") == [
            (300, 310, "runnable"),
            (310, 400, "running"),
            (400, 500, "sleeping"),
        ]
        assert ask("FROM trace_stat") == []
        assert ask("SELECT ts_ns FROM coverage WHERE code = 'kept_last'") == []
        assert ask("SELECT value FROM meta WHERE key = 'kept_from_ns'") == [("300",)]
