"""In-run calibration: what is missing in its windows is missing exactly there, and said to be."""

import shutil
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from native_programs import build_extension
from native_recording import Launched, end, events, python_program
from recording import assert_conserved, query, rlscope, until
from rlscope_trace.record.calibrate import cache
from rlscope_trace.spool.costs import Cost

pytestmark = [pytest.mark.root, pytest.mark.slow]

OPTIONS = ("--simulator=native_cartpole", "--probe-budget=1000", "--in-run-calibration=full")
WINDOWS = "SELECT start_ns, end_ns FROM calibration_window WHERE probes = $1 ORDER BY start_ns"
CALLS = """
SELECT start_ns, end_ns FROM native_call WHERE pid = $1 ORDER BY start_ns
"""
ACCOUNT = """
SELECT start_ns, end_ns, event, sum(runs)::BIGINT AS runs, sum(time_ns)::BIGINT AS time_ns
FROM program_time WHERE event = $1 GROUP BY ALL ORDER BY ALL
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a program's own account of its calls, and the trace of it."""
    folder = tmp_path_factory.mktemp("recorded")
    modules = build_extension("native_cartpole", folder)
    log, trace = folder / "calls", folder / "trace.duckdb"
    command = python_program("timed_calls", "--wait", f"--log={log}")
    program = Launched(trace, command, OPTIONS, modules)
    try:
        program.ready().probed("native_cartpole", 7).go()
        until(lambda: has_windows(program.spool), what="two windows of calls, then an account")
        truth = program.finished()
        words = program.words()
    finally:
        end([program])
    times = array("q", log.read_bytes())
    pairs = list(zip(times[::2], times[1::2], strict=True))
    return {"trace": trace, "words": words, "times": pairs, **truth}


def has_windows(spool: Path) -> bool:
    """Tell whether there were two windows of calls, an account after the first, one of samples."""
    windows = [one for one in events(spool, "window") if one["end_ns"]]
    calls = [one for one in windows if one["probes"] == "calls"]
    accounts = events(spool, "programs")
    return len(windows) > len(calls) > 1 and accounts[-1]["start_ns"] > calls[0]["end_ns"]


def during(window: Sequence[int], start_ns: int, end_ns: int) -> bool:
    """Tell whether something lies in a window, or touches it."""
    return start_ns < window[1] and end_ns >= window[0]


def test_the_program_has_as_many_calls_as_it_says(recorded: dict[str, Any]) -> None:
    assert len(recorded["times"]) == recorded["calls"]


def test_calls_are_missing_in_the_windows_and_nowhere_else(recorded: dict[str, Any]) -> None:
    windows = query(recorded["trace"], WINDOWS, ["calls"])
    assert len(windows) >= 2
    starts = [start_ns for start_ns, _ in query(recorded["trace"], CALLS, [recorded["pid"]])]
    assert not [ns for ns in starts if any(first <= ns < last for first, last in windows)]
    left = iter([ns for ns in starts if recorded["start_ns"] <= ns <= recorded["end_ns"]])
    recorded_ns = next(left, None)
    missing = 0
    for before_ns, after_ns in recorded["times"]:
        is_there = recorded_ns is not None and before_ns <= recorded_ns <= after_ns
        if is_there:
            recorded_ns = next(left, None)
        else:
            # Calls that were under way when the window began, or ended, count as in it.
            assert any(during(window, before_ns, after_ns) for window in windows)
            missing += 1
    assert recorded_ns is None, "a call that the program did not make"
    assert missing > 100


def test_probes_come_and_go_inside_the_windows(recorded: dict[str, Any]) -> None:
    windows = query(recorded["trace"], WINDOWS, ["calls"])
    changing = query(recorded["trace"], WINDOWS, ["changing"])
    assert len(changing) == 2 * len(windows)
    pairs = zip(windows, changing[::2], changing[1::2], strict=True)
    for (start_ns, end_ns), (first_ns, away_ns), (back_ns, last_ns) in pairs:
        assert start_ns == first_ns < away_ns <= back_ns < last_ns == end_ns


def test_no_two_windows_at_once(recorded: dict[str, Any]) -> None:
    windows = sorted(
        query(recorded["trace"], WINDOWS, ["calls"])
        + query(recorded["trace"], WINDOWS, ["samples"])
        + query(recorded["trace"], "SELECT DISTINCT start_ns, end_ns FROM program_time")
    )
    assert all(a[1] <= b[0] for a, b in pairwise(windows))


def test_the_account_counts_each_entry_and_each_return(recorded: dict[str, Any]) -> None:
    calls = query(recorded["trace"], CALLS, [recorded["pid"]])
    accounts = query(recorded["trace"], ACCOUNT, ["call"])
    counted = 0
    for start_ns, end_ns, _, runs, time_ns in accounts:
        seen = sum(start_ns <= ns < end_ns for call in calls for ns in call)
        counted += seen
        # It begins a little before its window and ends a little after it; a run that is under way
        # at the end is counted when it is over. No other program has this module.
        assert seen - 2 <= runs <= 1.5 * seen + 100
        # In a window in which the program was waiting there is neither.
        assert time_ns > 50 * runs if runs else time_ns == 0
    assert counted > 1000


def test_the_account_counts_switches_of_other_programs_too(recorded: dict[str, Any]) -> None:
    for start_ns, end_ns, _, runs, time_ns in query(recorded["trace"], ACCOUNT, ["switch"]):
        ((seen,),) = query(
            recorded["trace"],
            "SELECT count(*) FROM thread_state WHERE state = 'running'"
            " AND start_ns >= $1 AND start_ns < $2",
            [start_ns, end_ns],
        )
        assert runs >= seen - 2
        assert time_ns > 0


def test_there_is_no_sample_where_none_was_taken(recorded: dict[str, Any]) -> None:
    windows = query(recorded["trace"], WINDOWS, ["samples"])
    assert windows
    ((inside, samples),) = query(
        recorded["trace"],
        "SELECT count(*) FILTER (EXISTS (FROM calibration_window AS w WHERE w.probes = 'samples'"
        " AND s.ts_ns >= w.start_ns AND s.ts_ns < w.end_ns)), count(*) FROM cpu_sample AS s",
    )
    assert inside == 0
    assert samples > 100


def test_the_trace_says_that_calls_are_missing(recorded: dict[str, Any]) -> None:
    windows = query(recorded["trace"], WINDOWS, ["calls"])
    losses = query(
        recorded["trace"],
        "SELECT count, first_ns FROM trace_stat WHERE code = 'calls_paused'",
    )
    assert losses == [(len(windows), windows[0][0])]
    rows = query(
        recorded["trace"],
        "SELECT kind, code, count FROM capture WHERE measured AND kind LIKE 'native_call%'"
        " AND process_id IS NULL",
    )
    code = "calls_paused" if len(windows) > 1 else "calls_paused_once"
    assert sorted(rows) == [
        (kind, code, len(windows)) for kind in ("native_call", "native_call:simulator")
    ]
    assert "rate-limited" in recorded["words"]


COSTS = [
    Cost("call", "inside", "micro", "", 500.0, 10.0, 9, 490.0, 510.0),
    Cost("call", "outside", "micro", "", 800.0, 10.0, 9, 790.0, 810.0),
    Cost("call", None, "program", "", 150.0, 5.0, 9, 145.0, 155.0),
    # Far less than what a run takes that writes a record, on whichever machine.
    Cost("bystander_call", None, "program", "", 5.0, 1.0, 9, 4.0, 6.0),
]


def test_probes_whose_records_never_arrived_are_told(
    recorded: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The OS kernel ran them, the trace has no event of them: that is no overhead of nothing."""
    facts: dict[str, object] = {"key": cache.machine_key(), "extent": "full"}
    cache.save(tmp_path, cache.Calibration(COSTS, facts))
    monkeypatch.setenv(cache.DIRECTORY_VARIABLE, str(tmp_path))
    whole, dropped = tmp_path / "whole.duckdb", tmp_path / "dropped.duckdb"
    for trace in (whole, dropped):
        shutil.copy(recorded["trace"], trace)
    with duckdb.connect(str(dropped)) as connection:
        connection.execute("DELETE FROM native_call_coded")
    assert rlscope("calibrate", whole, dropped).returncode == 0
    # The costs above are of no machine: this one may well contradict them, but not its own events.
    of_nothing = "SELECT event FROM calibration WHERE code = 'no_event_then'"
    assert query(whole, of_nothing) == []
    assert ("call",) in query(dropped, of_nothing)
    told = rlscope("summarize", dropped, "--all").stdout
    assert "the overhead of call is doubtful: the OS kernel counted " in told
    assert "the trace holds no such event then" in told


def test_states_are_whole_all_the_same(recorded: dict[str, Any]) -> None:
    assert_conserved(recorded["trace"])
