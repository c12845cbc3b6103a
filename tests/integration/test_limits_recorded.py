"""What limits an iteration is what was planted into it, in programs that were recorded."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import pytest

from conftest import WORKLOADS
from recording import rlscope

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

ALWAYS = {"simulation", "gil_contention", "message_overhead"}
PLANTED = [
    *sorted(ALWAYS),
    *(
        pytest.param(name, marks=pytest.mark.matrix)
        for name in (
            "backpropagation", "inference", "timer_sleep", "cpu_contention", "worker_simulation",
            "other_code", "other_wait",
        )
    ),
]  # fmt: skip
# Whoever else uses the machine takes CPUs: that is no cause of the program.
OF_THE_MACHINE = {"cpu_wait"}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_was_planted_is_named_first(tmp_path: Path, planted: str) -> None:
    trace = tmp_path / "trace.duckdb"
    program = [sys.executable, WORKLOADS / "planted.py", planted, "40"]
    done = rlscope("-o", trace, "--", *program)
    assert done.returncode == 0, done.stderr
    view = ("--view", "limits", "--per", "iteration", "--format", "csv")
    rows = list(csv.DictReader(rlscope("summarize", trace, *view).stdout.splitlines()))
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1)
    named = [row["code"] for row in rows if row["code"] not in OF_THE_MACHINE]
    assert named[0] == {"worker_simulation": "simulation"}.get(planted, planted)
