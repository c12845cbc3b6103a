"""What limits an iteration is what was planted into it, in programs that were recorded."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from conftest import WORKLOADS
from recording import rlscope

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

# What is planted, and the code that names it.
CODES = {
    "simulation": "serial_simulation",
    "backpropagation": "learner_bound",
    "inference": "inference_bound",
    "worker_simulation": "simulation_bound",
}
ALWAYS = ("simulation", "gil_contention", "message_overhead", "straggler")
PLANTED = [
    *ALWAYS,
    *(
        pytest.param(name, marks=pytest.mark.matrix)
        for name in (
            "backpropagation", "inference", "timer_sleep", "cpu_contention", "worker_simulation",
            "python_overhead", "network_wait", "lock_contention", "blocking_io", "idle_workers",
            "worker_bound", "data_bound", "worker_start_up", "start_up",
        )
    ),
]  # fmt: skip
# Whoever else uses the machine takes CPUs: that is no cause of the program.
OF_THE_MACHINE = {"cpu_wait", "cpu_taken_by_others"}


def findings(tmp_path: Path, planted: str) -> list[dict[str, Any]]:
    trace = tmp_path / "trace.duckdb"
    program = [sys.executable, WORKLOADS / "planted.py", planted, "40"]
    done = rlscope("-o", trace, "--", *program)
    assert done.returncode == 0, done.stderr
    shown = rlscope("summarize", trace, "--per", "iteration", "--format", "json")
    told = json.loads(shown.stdout)["findings"]
    return [found for found in told if found["code"] not in OF_THE_MACHINE]


@pytest.mark.parametrize("planted", PLANTED)
def test_what_was_planted_is_named_first(tmp_path: Path, planted: str) -> None:
    told = findings(tmp_path, planted)
    assert told[0]["code"] == CODES.get(planted, planted), told
    assert [found["share"] for found in told] == sorted(
        (found["share"] for found in told), reverse=True
    )


def test_a_balanced_program_has_no_cause(tmp_path: Path) -> None:
    assert [found for found in findings(tmp_path, "balanced") if found["share"] >= 0.1] == []
