"""A recording beside a driver that tells a known series, and beside one that hangs."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from fake_nvml import build_nvml
from recording import meta, query, rlscope
from said import said

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root
PROGRAM = ("--no-calibrate", "--sample-hz", "0", "--", "true")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


def recorded(folder: Path, **environment: str) -> Path:
    """Record a program that ends at once, with variables for the recorder."""
    trace = folder / "trace.duckdb"
    prefix = ["env", *(f"{name}={value}" for name, value in environment.items())]
    done = rlscope("record", "-o", trace, *PROGRAM, prefix=prefix)
    assert done.returncode == 0, done.stderr
    assert "NVML" not in done.stderr or "FAKE_NVML_HANG" in environment, done.stderr
    return trace


def coverage(trace: Path) -> list[tuple[object, ...]]:
    found = said(partial(query, trace), "kind = 'counter'")
    return [(process_id, *rest) for process_id, _, *rest in found]


def test_the_series_of_the_driver_is_in_the_trace(library: Path, tmp_path: Path) -> None:
    trace = recorded(tmp_path, LD_LIBRARY_PATH=str(library))
    facts = meta(trace)
    assert json.loads(facts["nvml_devices"]) == [
        {"device_id": 0, "uuid": "GPU-fake-0", "name": "Fake GPU"}
    ]
    rows = query(
        trace,
        "SELECT value, ts_ns BETWEEN $1 AND $2 FROM counter WHERE name = 'power' ORDER BY ts_ns",
        [int(facts["started_ns"]), int(facts["end_ns"])],
    )
    # A program may end before the driver has answered: then nothing was measured, and says so.
    assert rows == [((70000 + n) / 1000, True) for n in range(1, len(rows) + 1)]
    ((_, is_measured, reason),) = coverage(trace)
    assert is_measured == bool(query(trace, "FROM counter"))
    refused = "utilization_memory of GPU 0: Not Supported"
    assert not is_measured or reason == f"in part: {refused}"


def test_a_driver_that_hangs_costs_a_bounded_time(library: Path, tmp_path: Path) -> None:
    hanging = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_HANG": "nvmlInitWithFlags"}
    trace = recorded(tmp_path, **hanging)
    assert coverage(trace) == [(None, False, "NVML had not answered when the recording ended")]
    assert query(trace, "SELECT kind, count FROM trace_stat WHERE starts_with(code, 'nvml')") == [
        ("truncated", None)
    ]
