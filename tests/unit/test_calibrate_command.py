"""`rlscope-trace calibrate` where the costs are known already: what it prints."""

import json
from pathlib import Path

import pytest

from recording import rlscope
from rlscope_analysis.schema.facts.qualities import quality
from rlscope_trace.record.calibrate import cache
from rlscope_trace.record.calibrate.cache import Calibration
from rlscope_trace.record.calibrate.results import failed
from rlscope_trace.spool.costs import Cost, read_cost

COSTS = [
    Cost("wakeup", "outside", "btf", 1234.5, 20.0, 9, -380.0, 1420.0, quality("zero")),
    Cost("call", None, "session", 150.0, 2.0, 9, 148.0, 152.0),
    Cost("cuda_call", None, quality=failed("no NVIDIA GPU")),
]


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cache know the costs of this machine."""
    facts = {"key": cache.machine_key(), "extent": "full", "taken": "2026-11-01", "load": 0.5}
    cache.save(tmp_path, Calibration(COSTS, facts))
    monkeypatch.setenv(cache.DIRECTORY_VARIABLE, str(tmp_path))


@pytest.mark.usefixtures("known")
def test_the_table_shows_numbers_intervals_and_reasons() -> None:
    done = rlscope("calibrate")
    assert (done.returncode, done.stderr) == (0, "")
    header, wakeup, call, cuda, *_ = done.stdout.splitlines()
    assert header.split() == [
        "event", "part", "by", "mean", "stddev", "n", "95", "%", "from", "to", "quality",
    ]  # fmt: skip
    assert wakeup.split() == [
        "wakeup", "outside", "btf", "1,234", "20", "9", "-380", "1,420",
        "uncertain:", "cannot", "be", "distinguished", "from", "0",
    ]  # fmt: skip
    assert call.split() == [
        "call", "session", "150", "2", "9", "148", "152", "ok",
    ]  # fmt: skip
    # Not a number anywhere: what was not measured is no 0.
    assert cuda.split() == ["cuda_call", "not", "measured:", "no", "NVIDIA", "GPU"]


@pytest.mark.usefixtures("known")
def test_json_holds_every_field() -> None:
    reported = json.loads(rlscope("calibrate", "--format=json").stdout)
    assert reported["key"] == cache.machine_key()
    assert [read_cost(entry) for entry in reported["costs"]] == COSTS
