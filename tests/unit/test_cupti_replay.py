"""Buffers that CUPTI filled, kept in a file and handed out again, tell the shim the same.

Here they come from the fake; those of a real GPU take the same way.
"""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from cupti_programs import record
from cupti_ring import GRAPH, KERNEL, MEMCPY, MEMSET, GpuRecords

MIXED = ("--api=runtime", "--launches=90", "--copies=3", "--sets=2", "--graphs=3", "--streams=2")


def did(records: GpuRecords) -> Counter[tuple[object, ...]]:
    """Return what the GPU did, without when: work, name, duration, bytes, stream, correlation."""
    return Counter(
        (
            found.work, found.name, found.end_ns - found.start_ns, found.bytes, found.stream,
            found.correlation,
        )
        for found in records.activities()
    )  # fmt: skip


@pytest.mark.parametrize("release", ["11.8", "13.0"])
def test_a_dump_that_is_played_back_tells_the_same(tmp_path: Path, release: str) -> None:
    recorded, _ = record(*MIXED, release=release, RLSCOPE_CUPTI_DUMP=str(tmp_path))
    (dump,) = tmp_path.glob("buffers.*")
    # The program that plays it does nothing with a GPU of its own.
    played, truth = record("--idle", release=release, FAKECUPTI_REPLAY=str(dump))
    assert sum(did(recorded).values()) > 100
    assert did(played) == did(recorded)
    names = Counter((call.name, call.result) for call in recorded.calls())
    assert Counter((call.name, call.result) for call in played.calls()) == names
    assert {call.tid for call in played.calls()} == {truth["pid"]}
    # Moved as a whole: the same gaps between them.
    first, again = (min(did.start_ns for did in got.activities()) for got in (recorded, played))
    assert sorted(did.start_ns - first for did in recorded.activities()) == sorted(
        did.start_ns - again for did in played.activities()
    )


H200 = Path(__file__).parents[1] / "data/gpu/h200"
# What the programs of scripts/gpu_check did while the buffers of a folder were filled.
KNOWN = {
    "plain": {KERNEL: 1000, MEMCPY: 40, MEMSET: 20},
    "graphs-graph": {GRAPH: 500},
    "late-driver": {KERNEL: 2000},
    "late-runtime": {KERNEL: 500},
}


def played(folder: str) -> GpuRecords:
    (dump,) = (H200 / folder).glob("buffers.*")
    return record("--idle", release="13.0", FAKECUPTI_REPLAY=str(dump))[0]


@pytest.mark.parametrize("folder", KNOWN)
def test_buffers_of_an_h200_hold_what_the_program_launched(folder: str) -> None:
    works = Counter(found.work for found in played(folder).activities())
    assert {work: works[work] for work in KNOWN[folder]} == KNOWN[folder]


def test_kernels_of_an_h200_are_those_that_torch_profiler_saw() -> None:
    """Of 320 steps, 300 of which the profiler saw in another run."""
    profiled = json.loads((H200 / "torch-kernels.json").read_text())
    names = [found.name for found in played("torch").activities() if found.work == KERNEL]
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True
    )
    kernels = Counter(done.stdout.splitlines())
    assert {name: kernels[name] for name in profiled} == {
        name: count * 320 // 300 for name, count in profiled.items()
    }
