"""What the windows of a recording showed: from the notes of the probes into the trace."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import finalise
from rlscope_trace.ingest.store.probe_facts import read_probe_facts
from rlscope_trace.spool.directory import open_spool
from said import said
from spool_builder import RUNNABLE, SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Query = Callable[[str], list[tuple[object, ...]]]

SESSION = {
    "instruments": {"layers": ["simulator"], "sample_hz": 199, "gil": "waits", "not_measured": {}},
    "capture": "btf",
    "machine": "x86_64",
}
SAMPLES = {"event": "window", "probes": "samples", "start_ns": 120, "end_ns": 140}
OPENED = {"event": "window", "probes": "calls", "start_ns": 149, "end_ns": None}
CALLS = {"event": "window", "probes": "calls", "start_ns": 150, "away_ns": 155, "back_ns": 190,
         "end_ns": 200}  # fmt: skip
PROGRAMS = {"event": "programs", "start_ns": 210, "end_ns": 230, "always_on": False,
            "programs": {"on_switch": [10, 4000], "on_wakeup_new": [0, 0],
                         "session_call": [6, 900], "on_exec": [1, 70]}}  # fmt: skip
WINDOWS = "SELECT probes, start_ns, end_ns FROM calibration_window"
DAMAGED = [
    SAMPLES | {"start_ns": 141},
    SAMPLES | {"end_ns": -1},
    SAMPLES | {"end_ns": "late"},
    SAMPLES | {"start_ns": None},
    CALLS | {"away_ns": 195},
    CALLS | {"back_ns": 2**63},
    PROGRAMS | {"end_ns": 209},
    PROGRAMS | {"programs": 5},
    PROGRAMS | {"programs": None},
    PROGRAMS | {"programs": [1]},
    PROGRAMS | {"programs": {"on_switch": 7}},
    PROGRAMS | {"programs": {"on_switch": [1, 2, 3]}},
    PROGRAMS | {"programs": {"on_switch": [1, -2]}},
    PROGRAMS | {"programs": {"on_switch": [1.5, 2]}},
    {"event": "window"},
    {"event": "programs"},
    {"event": "no_windows"},
]


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Query]:
    """Return what makes a trace of one thread in [100, 500) with these notes, and asks it."""

    def make(*notes: dict[str, object], end_ns: int = 500) -> Query:
        spool = SpoolBuilder()
        spool.thread(1, ts_ns=100, tid=10)
        spool.cycle(1, off_ns=100, in_ns=110, out_ns=400, off_state=RUNNABLE)
        spool.close(1, off_ns=400)
        directory = spool.write(
            tmp_path / "t.spool", end_ns=end_ns, session=SESSION, probes=[*notes]
        )
        finalise(
            open_spool(directory), tmp_path / "t.duckdb",
        )  # fmt: skip

        def ask(query: str) -> list[tuple[object, ...]]:
            with duckdb.connect(str(tmp_path / "t.duckdb"), read_only=True) as con:
                return con.execute(query).fetchall()

        return ask

    return make


def reasons(ask: Query) -> set[object]:
    found = said(ask, "measured AND kind LIKE 'native_call%'")  # type: ignore[arg-type]
    return {sentence for *_, sentence in found}


def test_windows_are_told_by_time_and_when_probes_came_and_went(
    trace: Callable[..., Query],
) -> None:
    ask = trace(OPENED, CALLS, SAMPLES)
    assert ask(WINDOWS) == [
        ("samples", 120, 140),
        ("changing", 150, 155),
        ("calls", 150, 200),
        ("changing", 190, 200),
    ]


def test_an_account_is_told_program_by_program(trace: Callable[..., Query]) -> None:
    ask = trace(PROGRAMS)
    assert ask("FROM program_time ORDER BY program") == [
        ("on_exec", None, 210, 230, 1, 70),
        ("on_switch", "switch", 210, 230, 10, 4000),
        ("on_wakeup_new", "wakeup", 210, 230, 0, 0),
        ("session_call", "call", 210, 230, 6, 900),
    ]


def test_it_is_told_when_programs_are_timed_all_the_time(trace: Callable[..., Query]) -> None:
    ask = trace(PROGRAMS, PROGRAMS | {"always_on": True})
    assert ask("SELECT value FROM meta WHERE key = 'programs_always_timed'") == [("true",)]


def test_windows_without_calls_are_a_loss(trace: Callable[..., Query]) -> None:
    ask = trace(OPENED, CALLS, OPENED | {"start_ns": 249}, CALLS | {
        "start_ns": 250, "away_ns": 255, "back_ns": 290, "end_ns": 300})  # fmt: skip
    assert ask("SELECT kind, code, count, first_ns FROM trace_stat") == [
        ("rate-limited", "calls_paused", 2, 150)
    ]
    (reason,) = reasons(ask)
    assert str(reason).startswith("in part: the probes of calls were away 2 times, 0.0 s in all")


def test_windows_without_samples_are_none(trace: Callable[..., Query]) -> None:
    ask = trace(SAMPLES, PROGRAMS)
    assert ask("FROM trace_stat") == []
    assert reasons(ask) == {None}


def test_a_reason_to_give_up_is_said_as_well(trace: Callable[..., Query]) -> None:
    ask = trace(CALLS, {"event": "gave_up", "fact": {"code": "probes_gone", "detail": "greenlet"}})
    (reason,) = reasons(ask)
    assert str(reason).startswith(
        "in part: the probes did not come back: greenlet; the probes of calls were away once"
    )


@pytest.mark.parametrize(("end_ns", "until_ns"), [(500, 500), (0, 400)])
def test_a_window_that_a_kill_left_open_lasts_to_the_end(
    trace: Callable[..., Query], end_ns: int, until_ns: int
) -> None:
    ask = trace(CALLS, OPENED | {"start_ns": 320}, end_ns=end_ns)
    assert ask(WINDOWS)[-1] == ("calls", 320, until_ns)
    assert ask("SELECT count FROM trace_stat WHERE kind = 'rate-limited'") == [(2,)]
    (reason,) = reasons(ask)
    assert "away 2 times, 0.0 s in all and until the recorder was killed, to see" in str(reason)


def test_what_could_not_be_done_is_kept(trace: Callable[..., Query]) -> None:
    ask = trace({"event": "no_windows", "kind": "account", "reason": "Operation not permitted"})
    ((told,),) = ask("SELECT value FROM meta WHERE key = 'in_run_calibration_failed'")
    assert json.loads(str(told)) == {"account": "Operation not permitted"}


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_line_is_counted_and_costs_no_other(
    tmp_path: Path, line: dict[str, object]
) -> None:
    file = tmp_path / "probes.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in (line, SAMPLES, PROGRAMS)))
    facts = read_probe_facts(file)
    assert facts.damaged_lines == 1
    assert [(one.probes, one.start_ns, one.end_ns) for one in facts.windows] == [
        ("samples", 120, 140)
    ]
    assert len(facts.programs) == 4
    assert facts.no_windows == {}


def test_any_changed_byte_is_survived(tmp_path: Path) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in (OPENED, CALLS, SAMPLES, PROGRAMS)).encode()
    file = tmp_path / "probes.jsonl"
    chance = random.Random(3)
    for position in range(len(lines)):
        file.write_bytes(lines[:position] + bytes([chance.randrange(256)]) + lines[position + 1 :])
        facts = read_probe_facts(file)
        assert facts.damaged_lines <= 2
        assert len(facts.windows) <= 4
