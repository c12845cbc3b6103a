"""What a recording holds for comparisons, and the gate with a program that it runs itself."""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from recording import rlscope

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root


def test_where_a_program_ran_is_in_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    trace = tmp_path / "trace.duckdb"
    # Long enough to be looked at after it has begun.
    program = "import time, mmap; end = time.monotonic() + 2.5\nwhile time.monotonic() < end: pass"
    done = rlscope("-o", trace, "--no-calibrate", "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    with rlscope_analysis.open(trace) as opened:
        meta = dict(opened.sql("SELECT key, value FROM meta WHERE value IS NOT NULL").fetchall())
    variables = json.loads(meta["environment_variables"])
    assert variables["OMP_NUM_THREADS"] == "3"
    assert "hidden" not in json.dumps(
        [meta[name] for name in ("environment", "environment_variables")]
    )
    environment = json.loads(meta["environment"])
    assert environment["python"] == ".".join(platform.python_version_tuple()[:2])
    assert environment["cpus"]
    probes = json.loads(meta["probes"])
    assert probes["single_core_mb_s"] > 0
    assert probes["launch_ns"] is None
    same = rlscope("compare", trace, trace)
    assert same.returncode == 0, same.stderr
    assert same.stdout.startswith("Same: ")


def test_a_gate_runs_the_program_itself(tmp_path: Path) -> None:
    """A baseline of two runs, then a limit that nothing breaks, with as many."""
    baseline = tmp_path / "base.json"
    program = (
        "--runs",
        "2",
        "--per",
        "iteration",
        "--",
        sys.executable,
        WORKLOADS / "known_path.py",
        "alone",
        "40",
    )
    saved = rlscope("gate", "--save", baseline, *program)
    assert saved.returncode == 0, saved.stderr
    assert len(json.loads(baseline.read_text())["runs"]) == 2
    done = rlscope("gate", "--max", "iteration=+100000%", "--base", baseline, *program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("Passed: 1 limit kept.")


def test_a_sweep_measures_the_rate_at_each_value(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    program = (
        "--",
        sys.executable,
        WORKLOADS / "env_steps.py",
        "async",
        "--envs={n}",
        "--calls=300",
    )
    done = rlscope("balance", "--sweep", "n=1,2", "--keep", kept, "--format", "json", *program)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["value"], row["actors"]) for row in rows] == [("1", 1), ("2", 2)]
    # The same numbers as the traces that were kept.
    assert sorted(path.name for path in kept.iterdir()) == ["1-1.duckdb", "2-2.duckdb"]
    alone = rlscope("balance", kept / "2-2.duckdb", "--format", "json")
    assert json.loads(alone.stdout)["steps_per_s"] == rows[1]["steps_per_s"]
    failing = rlscope("balance", "--sweep", "n=x", *program)
    assert failing.returncode == 1
    assert "no run tells of a rate" in failing.stderr
