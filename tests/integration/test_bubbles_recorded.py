"""Two ranks whose gradients are averaged over gloo: who waits for whom, held to timers inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from phases_harness import RL_PYTHON
from recording import rlscope
from rl_programs import require_modules
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.root, pytest.mark.matrix, pytest.mark.slow]

UPDATES = 40
# Of a thread's clock, which counts in ticks of the scheduler, and of what lies around backward.
CLOCK = 0.03


def test_a_rank_waits_for_the_gradients_of_the_slower_one(tmp_path: Path) -> None:
    require_modules("torch")
    trace = tmp_path / "run.duckdb"
    program = (RL_PYTHON, WORKLOADS / "ddp.py", tmp_path, f"--updates={UPDATES}")
    rlscope("-o", trace, "--", *program)
    fast, slow = (json.loads((tmp_path / str(rank)).read_text()) for rank in (0, 1))
    with rlscope_analysis.open(trace) as opened:
        rows = list(answer(opened, REPORTS["bubbles"]).data.records())
    learning = {row["pid"]: row for row in rows if row["phase"] == "backpropagation"}
    waiting = learning[fast["pid"]]
    for row in learning.values():
        parts = ("running_ns", "runnable_ns", "waits_ns", "idle_ns", "lost_ns")
        assert sum(row[name] for name in parts) == row["time_ns"]
    # Without a CPU it waited for one, or for gradients; the program cannot tell which.
    asleep_ns = waiting["waits_ns"] + waiting["idle_ns"]
    room_ns = CLOCK * waiting["time_ns"]
    assert asleep_ns <= fast["waited"] * UPDATES / (UPDATES - 1) + room_ns
    assert asleep_ns >= fast["waited"] - waiting["runnable_ns"] - room_ns
    # The other computes for 30 ms in each update that this one does not.
    assert waiting["waits_ns"] >= 0.9 * asleep_ns
    assert waiting["waits_for_pid"] == slow["pid"]
    assert waiting["waits_ns"] > 2 * learning[slow["pid"]]["waits_ns"]
