"""The critical path has the shares that the program itself measures, within 5 points.

Only where nobody else has work for the machine: with -m matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from known_paths import Recorded

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.root, pytest.mark.matrix]
POINTS = 5
# Program -> what has each share that it measured.
PROGRAMS = {
    "two_workers": {
        "own": "p.pid = {pid} AND c.operation = 'work'",
        "worker_1": "p.pid = {worker_1} AND c.operation = 'work'",
    },
    "straggler": {
        "own": "p.pid = {pid} AND c.operation = 'work'",
        "worker_3": "p.pid = {worker_3} AND c.operation = 'work'",
    },
    "messages": {"no_work": "c.operation <> 'work'"},
    "three_stages": {"middle": "p.pid = {middle}"},
    "timer": {"timer": "c.cause = 'timer'"},
    "fsync": {"disk": "c.cause IN ('disk', 'device')"},
    "openmp": {"own": "c.operation = 'work'"},
    "loader": {"own": "p.pid = {pid} AND c.operation = 'work'"},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_shares_are_those_of_the_programs_own_clock(tmp_path: Path, name: str) -> None:
    found = Recorded(tmp_path, name, 60, workload="known_shares")
    pids = {"pid": found.truth["pid"]} | found.truth.get("pids", {})
    shares = {what: found.share(where.format(**pids)) for what, where in PROGRAMS[name].items()}
    assert shares == pytest.approx(
        {what: found.truth["shares"][what] for what in shares}, abs=POINTS / 100
    )
