"""A library of another version, recorded: the trace says which adapter failed, and why."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fake_libraries import RENAMED_CLASS, RENAMED_METHOD, WHOLE, make_gymnasium
from recording import query

PROGRAM = """
import os
import gymnasium.core
class Own(getattr(gymnasium.core, "Env", object)):
    def reset(self, seed=None): return 0, {}
    def step(self, action): return 0, 0.0, False, False, {}
env = Own()
env.reset()
for _ in range(5): env.step(1)
child = os.fork()
if child == 0: os._exit(0)
os.waitpid(child, 0)
"""
FAILURES = (
    "SELECT process_id, measured AND part, code, subject, detail FROM coverage"
    " WHERE kind = 'operation:phases'"
)
SIMULATIONS = "SELECT count(*) FROM operation WHERE name = 'simulation'"


def run(*arguments: str, library: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rlscope_trace", *arguments],
        env={**os.environ, "PYTHONPATH": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def record(tmp_path: Path, core: str) -> tuple[Path, str]:
    """Record the program with such a library; return the trace and what the recorder said."""
    library = make_gymnasium(tmp_path / "library", core)
    trace = tmp_path / "trace.duckdb"
    done = run("-o", str(trace), "--", sys.executable, "-c", PROGRAM, library=library)
    assert done.returncode == 0, done.stderr
    return trace, done.stderr


@pytest.mark.root
@pytest.mark.parametrize(
    ("core", "what", "simulations"),
    [
        (RENAMED_METHOD, "type object 'Env' has no attribute 'reset'", 6),
        (RENAMED_CLASS, "has no attribute 'Env'", 0),
    ],
)
def test_a_changed_library_is_in_the_trace(
    tmp_path: Path, core: str, what: str, simulations: int
) -> None:
    trace, said = record(tmp_path, core)
    rows = query(trace, FAILURES)
    # The fork has no more than its parent.
    assert len({process_id for process_id, *_ in rows}) == len(rows) == 2
    ((*reported, detail),) = {row[1:] for row in rows}
    assert reported == [True, "phase_adapter_failed_once", "gymnasium.core"]
    assert "AttributeError: " in detail
    assert what in detail
    # What of the adapter could be installed is.
    assert query(trace, SIMULATIONS) == [(simulations,)]
    assert query(trace, "SELECT count(*) FROM mark") == [(0,)]
    assert "warning: automatic phases are incomplete: the adapter of gymnasium.core" in said
    summary = run("summarize", str(trace), "--all", library=tmp_path).stdout
    assert "operation:phases of python" in summary
    assert what in summary


@pytest.mark.root
def test_nothing_is_said_of_a_library_as_we_know_it(tmp_path: Path) -> None:
    trace, said = record(tmp_path, WHOLE)
    assert query(trace, FAILURES) == []
    assert query(trace, SIMULATIONS) == [(6,)]
    assert "phases" not in said
    assert "operation:phases" not in run("summarize", str(trace), "--all", library=tmp_path).stdout


@pytest.mark.parametrize(("core", "level"), [(WHOLE, "ok"), (RENAMED_METHOD, "warning")])
def test_the_doctor_tells_before_a_recording(tmp_path: Path, core: str, level: str) -> None:
    library = make_gymnasium(tmp_path, core)
    done = run("doctor", "--format", "json", "--python", sys.executable, library=library)
    findings = {found["name"]: found for found in json.loads(done.stdout)["findings"]}
    finding = findings["phases_gymnasium"]
    assert finding["level"] == level
    assert "gymnasium.core" in finding["what"]
    assert ("'reset'" in finding["what"]) == (level == "warning")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("#!/bin/sh\necho no JSON\n", "could not be asked"),
        ("#!/bin/sh\necho []\n", "could not be asked"),
        ("#!/bin/sh\nexit 3\n", "could not be asked"),
        (
            '#!/bin/sh\necho \'{"status": "\\u001b[2J", "modules": {}, "failures": []}\'\n',
            "no automatic phases in ",
        ),
    ],
)
def test_the_doctor_believes_no_program(tmp_path: Path, content: str, what: str) -> None:
    program = tmp_path / "python"
    program.write_text(content)
    program.chmod(0o755)
    done = run("doctor", "--python", str(program), library=tmp_path)
    (line,) = [line for line in done.stdout.splitlines() if "  phases  " in line]
    assert what in line
    assert line.isprintable()


LATE_FAILURE = ("late_phases_incomplete", "gymnasium.core")
WAITING = """
import gymnasium.core, sys
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.root
def test_an_attach_tells_what_it_could_not_install(tmp_path: Path) -> None:
    library = make_gymnasium(tmp_path / "library", RENAMED_METHOD)
    trace = tmp_path / "trace.duckdb"
    with subprocess.Popen(
        [sys.executable, "-c", WAITING],
        env={**os.environ, "PYTHONPATH": str(library)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as target:
        assert target.stdout is not None
        assert target.stdout.readline() == b"ready\n"
        options = ("-o", str(trace), "--no-calibrate", "--inject", "-d", "0.1")
        done = run(*options, "--pid", str(target.pid), library=library)
        target.communicate()
    assert done.returncode == 0, done.stderr
    what = "the adapter of gymnasium.core failed: AttributeError: type object 'Env' has no"
    assert what in done.stderr
    reported = query(trace, "SELECT code, subject, detail FROM coverage WHERE part")
    (detail,) = [row[2] for row in reported if row[:2] == LATE_FAILURE]
    assert detail.startswith("AttributeError: type object 'Env' has no")
    assert ("late_open_ranges", None, None) in reported
