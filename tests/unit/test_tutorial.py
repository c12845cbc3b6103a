"""The program of docs/tutorial.md runs, as it is and with what the tutorial changes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from phases_harness import RL_PYTHON
from rl_programs import require_modules

PROGRAM = Path(__file__).resolve().parents[2] / "docs/tutorial/train.py"


@pytest.mark.parametrize("each", ["step", "episode"])
def test_each_variant_trains(tmp_path: Path, each: str) -> None:
    require_modules("torch, gymnasium")
    done = subprocess.run(
        [RL_PYTHON, PROGRAM, "--updates", "1", "--threads", "1", "--log-each", each],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert re.fullmatch(r"[\d,]+ environment steps/s\n", done.stdout)
    lines = sum(len(path.read_text().splitlines()) for path in tmp_path.glob("rewards-*.log"))
    # Of 8 environments 128 steps or resets each; a random policy keeps the pole for 10 to 50.
    least, most = {"step": (900, 1024), "episode": (15, 110)}[each]
    assert least <= lines <= most
