"""Costs for a trace that has none: which trace can have them, and that it gets all or none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pytest

from known_costs import COSTS, measured
from rlscope_analysis.overhead import estimate as overhead_costs
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_trace.cli import calibrate as command
from rlscope_trace.cli import calibrating
from rlscope_trace.cli.answers import AnswerFormat
from rlscope_trace.cli.calibrate_trace import add_costs, check_trace
from rlscope_trace.confinement import CAPABILITIES, READING, RECORDING
from rlscope_trace.errors import TracerError
from rlscope_trace.record.calibrate import cache
from rlscope_trace.spool.costs import Cost
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from pathlib import Path

KEY = {"machine": "m"}
KNOWN = cache.Calibration([Cost("switch", "outside", "btf", 9.0, 1.0, 9, 8.0, 10.0)], {})


def since_boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def recorded(tmp_path: Path, *, ended: bool, end_ns: int, boot: str) -> Path:
    """Write a trace of this very process, which runs, recorded until an instant since the boot."""
    meta: dict[str, str | None] = {
        "schema_version": str(SCHEMA_VERSION), "calibration_key": json.dumps(KEY), "boot_id": boot,
        "capture": "btf",
    }  # fmt: skip
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=meta)
    # Suspended for a second: the clock of the trace stood still then.
    start_ns = end_ns - 100 - 10**9
    builder._clocks.append((start_ns, 0, start_ns + 10**9))
    process = builder.process(pid=os.getpid(), start_ns=start_ns, end_ns=start_ns + 100)
    builder.thread(process, states=[run(100)], start_ns=start_ns, ended=ended)
    return builder.write()


def test_a_trace_whose_target_still_runs_is_not_calibrated_beside_it(tmp_path: Path) -> None:
    trace = recorded(tmp_path, ended=False, end_ns=since_boot_ns(), boot=cache.boot_id())
    with pytest.raises(TracerError, match=rf"^pid {os.getpid()} of .* still runs: ") as caught:
        check_trace(trace, KEY)
    assert str(caught.value.hint).endswith("when it has ended")


@pytest.mark.parametrize(
    "facts",
    [
        {"ended": True},
        {"boot": "another"},
        # A process that was there before this one had its pid.
        {"end_ns": 5 * 10**9},
    ],
)
def test_one_whose_target_has_ended_is(tmp_path: Path, facts: dict[str, object]) -> None:
    reported = {"ended": False, "end_ns": since_boot_ns(), "boot": cache.boot_id()} | facts
    assert check_trace(recorded(tmp_path, **reported), KEY)["capture"] == "btf"  # type: ignore[arg-type]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace that can have the costs."""
    return recorded(tmp_path, ended=True, end_ns=since_boot_ns(), boot=cache.boot_id())


def test_what_cannot_be_written_is_told_before_anything_is_measured(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write whatever the mode says, but not everywhere.
    monkeypatch.setattr(os, "access", lambda path, _mode: path != trace)
    with pytest.raises(TracerError, match=r"cannot write .*: permission denied") as caught:
        check_trace(trace, KEY)
    assert "copy" in str(caught.value.hint)


READER = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=True)
print("open", flush=True)
input()
"""


def test_one_that_is_open_is_told_before_anything_is_measured(trace: Path) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(trace)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"open\n"
        with pytest.raises(TracerError, match="Could not set lock") as caught:
            check_trace(trace, KEY)
        reader.kill()
    assert caught.value.hint == "is it open in another program?"


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("Query interrupted"),
        duckdb.InterruptException("INTERRUPT Error: Interrupted!"),
        KeyboardInterrupt(),
        duckdb.IOException("IO Error: No space left"),
    ],
)
def test_what_stops_the_writing_leaves_the_trace_as_it_was(
    trace: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    costs = "FROM calibration_measured"
    with duckdb.connect(str(trace)) as con:
        con.execute("INSERT INTO calibration_measured (event, quality) VALUES ('old', 'none')")
        before = con.execute(costs).fetchall()
    written = []

    def fail(con: duckdb.DuckDBPyConnection) -> None:
        written.append(con.execute(costs).fetchall())
        raise failure

    monkeypatch.setattr(overhead_costs, "store", fail)
    is_error = isinstance(failure, duckdb.IOException)
    with pytest.raises(TracerError if is_error else KeyboardInterrupt):
        add_costs(trace, {"capture": "btf"}, KNOWN)
    assert written != [before]
    with duckdb.connect(str(trace), read_only=True) as con:
        assert con.execute(costs).fetchall() == before


def test_costs_that_are_contradicted_are_measured_again_before_a_trace_has_them(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = [
        replace(cost, mean_ns=2 * cost.mean_ns, low_ns=2 * cost.low_ns, high_ns=2 * cost.high_ns)
        for cost in COSTS
        if cost.mean_ns and cost.low_ns and cost.high_ns
    ]
    monkeypatch.setenv(cache.DIRECTORY_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "machine_key", lambda: KEY)
    cache.save(tmp_path / "cache", cache.Calibration(costs, {"key": KEY, "extent": "full"}))
    measured(monkeypatch, COSTS)
    monkeypatch.setattr(calibrating, "_require_tracing", lambda: None)
    command.calibrate([trace], AnswerFormat.TABLE, force=False)
    with duckdb.connect(str(trace)) as connection:
        query = "SELECT DISTINCT mean_ns, quality FROM calibration_measured WHERE event = 'range'"
        rows = connection.execute(query).fetchall()
    assert rows == [(30.0, "ok")]


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        # One with the name of a function that the costs are worked out with.
        ("macro", "CREATE MACRO least(a, b) AS b + (SELECT content::INT FROM read_text('/x'))"),
        ("macro", "CREATE MACRO duckdb_functions() AS TABLE SELECT 1 AS x"),
        ("index", "CREATE INDEX slow ON calibration_measured (repeat(event, 1000))"),
        ("default", "ALTER TABLE calibration_measured ALTER subject SET DEFAULT repeat('x', 9)"),
        ("constraint", "ALTER TABLE calibration_measured ALTER event SET NOT NULL"),
    ],
)
def test_code_of_the_trace_is_not_run(trace: Path, kind: str, statement: str) -> None:
    with duckdb.connect(str(trace)) as con:
        con.execute(statement)
        before = con.execute("FROM calibration_estimate").fetchall()
    with pytest.raises(TracerError, match=f"holds the {kind} "):
        add_costs(trace, {"capture": "btf"}, KNOWN)
    with duckdb.connect(str(trace), read_only=True) as con:
        assert con.execute("FROM calibration_estimate").fetchall() == before


def test_the_holes_of_a_trace_are_not_written(trace: Path) -> None:
    os.truncate(trace, 1 << 36)
    add_costs(trace, {"capture": "btf"}, KNOWN)
    assert trace.stat().st_blocks * 512 < 1 << 28
    with duckdb.connect(str(trace), read_only=True) as con:
        assert con.execute("SELECT count(*) > 0 FROM calibration_measured").fetchall() == [(True,)]


READ_BY = """
import sys
from rlscope_trace.cli import calibrate_trace, main
real = calibrate_trace.open_trace
def shown(*given, **named):
    with open("/proc/thread-self/status") as status:
        sys.stdout.write(status.read())
    return real(*given, **named)
calibrate_trace.open_trace = shown
main()
"""


@pytest.mark.root
def test_a_trace_is_read_without_the_rights_that_measuring_needs(trace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ_BY, "calibrate", str(trace)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "was not recorded on this machine" in done.stderr
    assert "Seccomp:\t2" in done.stdout
    (effective,) = re.findall(r"CapEff:\t(\w+)", done.stdout)
    assert not int(effective, 16) & sum(1 << CAPABILITIES[name] for name in RECORDING - READING)
