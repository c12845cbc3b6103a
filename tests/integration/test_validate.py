"""`rlscope-trace validate` with the real recorder: pairs of runs of a little fixed work."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from recording import COMMAND
from rlscope_analysis.schema.vocabulary import EVENT_PARTS, EVENTS
from rlscope_trace.record.calibrate import cache
from rlscope_trace.spool.costs import Cost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.root

# Far too large: no doubt about which way the corrected time is off, however noisy the machine.
PLANTED_NS = 1e9
WORK = "for number in range(2_000_000): number * number\n"
CHILD = "import os\nif os.fork():\n    os.wait()\n"


@pytest.fixture
def planted(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which each event costs a second, without having been measured."""
    directory = tmp_path / "calibration"
    costs = [
        Cost(event, part, "", PLANTED_NS, 1.0, 100, PLANTED_NS, PLANTED_NS)
        for event in EVENTS
        for part in EVENT_PARTS
    ]
    facts: dict[str, object] = {"key": cache.machine_key(), "extent": "full"}
    cache.save(directory, cache.Calibration(costs, facts))
    return {**os.environ, cache.DIRECTORY_VARIABLE: str(directory)}


def validate(
    environment: dict[str, str], *arguments: str, program: str = WORK
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, "validate", *arguments, "--", sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_pairs_of_runs_and_the_verdict(planted: dict[str, str], tmp_path: Path) -> None:
    kept = tmp_path / "traces"
    arguments = ("--runs", "2", "--max-bias", "0", "--format", "json", "--keep", str(kept))
    done = validate(planted, *arguments, "--sample-hz=50", program=CHILD + WORK)
    assert done.returncode == 1, done.stderr
    reported = json.loads(done.stdout)
    assert reported["verdict"] == "biased"
    # The option that validate does not know is record's.
    assert reported["record_options"] == ["--sample-hz=50"]
    assert sorted(path.name for path in kept.iterdir()) == [
        "1.duckdb", "2.duckdb", "warm-up.duckdb",
    ]  # fmt: skip
    assert sorted(pair["first"] for pair in reported["pairs"]) == ["traced", "untraced"]
    for pair in reported["pairs"]:
        assert pair["corrected_cpu_ns"] == pair["traced_cpu_ns"] - pair["overhead_ns"]
        # At least the switch to the program, at a second each; nothing is clamped.
        assert pair["overhead_ns"] >= PLANTED_NS
        assert pair["corrected_cpu_ns"] < 0
        assert pair["wall_overhead_ns"] <= pair["overhead_ns"]
        # On one CPU at a time at most, each of the two processes.
        assert 0 < pair["untraced_cpu_ns"] < 2.1 * pair["untraced_wall_ns"]
    assert reported["figures"]["bias"]["median"] < -100
    assert any("less than 1 s says little" in text for text in reported["warnings"])
    assert {row["operation"] for row in reported["operations"]} == {"(unannotated)"}


def test_what_is_allowed_passes(planted: dict[str, str]) -> None:
    done = validate(planted, "--runs", "1", "--max-bias", "1e12")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("ok: corrected CPU time is off by -")
    assert "pair 1 of 1: CPU time untraced " in done.stderr


def test_a_program_that_fails_is_shown_before_any_pair(planted: dict[str, str]) -> None:
    done = validate(planted, program="raise SystemExit('no data set')")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: the program ended with exit code 1 in a traced run" in done.stderr
    assert "  no data set" in done.stderr


def test_ctrl_c_ends_the_run_and_shows_whole_pairs(
    planted: dict[str, str], tmp_path: Path, poll_until: Callable[..., object]
) -> None:
    words = tmp_path / "words"
    with words.open("wb") as stderr:
        process = subprocess.Popen(
            [*COMMAND, "validate", "--runs", "50", "--", sys.executable, "-c", WORK],
            env=planted,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    poll_until(lambda: b"pair 1 of 50" in words.read_bytes(), what="a pair is complete")
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, words.read_text()
    assert "Traceback" not in words.read_text()
    assert re.match(r"\d+ pairs? of an untraced and a traced run", printed)
    assert "stopped early" in printed


def test_ctrl_c_before_a_pair_leaves_nothing(
    planted: dict[str, str], tmp_path: Path, poll_until: Callable[..., object]
) -> None:
    begun, scratch = tmp_path / "begun", tmp_path / "scratch"
    scratch.mkdir()
    program = f"import os, time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(1000)"
    process = subprocess.Popen(
        [*COMMAND, "validate", "--", sys.executable, "-c", program],
        env={**planted, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    poll_until(begun.exists, what="the program runs")
    process.send_signal(signal.SIGINT)
    printed, words = process.communicate(timeout=60)
    assert (process.returncode, printed) == (128 + signal.SIGINT, "")
    assert words.splitlines()[-1] == "error: interrupted before a pair of runs was complete"
    assert list(scratch.iterdir()) == []
