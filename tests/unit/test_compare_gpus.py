"""Comparisons of two GPUs: kernels are scaled by what is known of both, and that is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from compared_traces import MS, read
from rlscope_analysis.compare.answer import answer_of
from rlscope_analysis.compare.baseline import read_baseline, text_of
from rlscope_analysis.compare.comparison import compare
from rlscope_analysis.compare.gate import held, limit_of
from rlscope_analysis.compare.gpu_speed import gpus_of
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text
from trace_builder import INTERRUPT, TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.run import Run

GHZ, TB = 10**9, 10**12
# name, clock, bandwidth: all with as many multiprocessors.
Gpu = tuple[str, int | None, int | None]
OLD: Gpu = ("Old 1", GHZ, TB)
TWICE: Gpu = ("New 2", 2 * GHZ, 2 * TB)
ITERATIONS = 12


def recorded(
    folder: Path, name: str, gpus: Sequence[Gpu], *, kernel_ns: int, copy_ns: int = 3 * MS
) -> Run:
    """Return a run whose iterations wait for a copy and then a kernel, and compute for 10 ms."""
    builder = TraceBuilder(folder / f"{name}.duckdb")
    builder.coverage("thread_state")
    builder.coverage("gpu_activity")
    for number, (model, clock_hz, bandwidth) in enumerate(gpus):
        builder.device(number, model, clock_hz=clock_hz, memory_bandwidth=bandwidth)
    process = builder.process(pid=7)
    length = 2 * MS + copy_ns + kernel_ns + 10 * MS
    asleep = copy_ns + kernel_ns
    states = [run(2 * MS), sleep(asleep - 1), woken(1, by=INTERRUPT), run(10 * MS)] * ITERATIONS
    thread = builder.thread(process, tid=7, states=states)
    for index in range(ITERATIONS):
        begun = index * length
        copied = begun + 2 * MS + copy_ns
        device, ids = index % len(gpus), (2 * index + 1, 2 * index + 2)
        for place, what in enumerate(("memcpy", "launch")):
            start = begun + place * MS
            builder.cuda_call(
                thread, start, start + MS // 2, kind=what, name=what, correlation_id=ids[place]
            )
        builder.cuda_call(
            thread, begun + 2 * MS, copied + kernel_ns, kind="sync", name="cudaDeviceSynchronize"
        )
        builder.gpu_activity(
            process, begun + 2 * MS, copied, kind="memcpy", name="HtoD", device_id=device,
            correlation_id=ids[0], byte_count=1,
        )  # fmt: skip
        builder.gpu_activity(
            process, copied, copied + kernel_ns, name="gemm", device_id=device,
            correlation_id=ids[1],
        )  # fmt: skip
        builder.operation(thread, begun, begun + length, "iteration")
    return read(builder.write())


def facts_of(found: Comparison) -> dict[str, Any]:
    return dict(json.loads("".join(json_renderer.render(answer_of(found, is_first_screen=False)))))


def said_of(found: Comparison) -> str:
    return " ".join("".join(text.render(answer_of(found, is_first_screen=True), limit=30)).split())


def test_kernels_are_scaled_and_the_cpu_is_not(tmp_path: Path) -> None:
    base = recorded(tmp_path, "a", [OLD], kernel_ns=20 * MS)
    new = recorded(tmp_path, "b", [TWICE], kernel_ns=10 * MS)
    found = compare([base], [new])
    facts = facts_of(found)
    assert facts["gpus_normalised"] == {
        "gpu_factor": 0.5, "error": 0.12, "grade": "C", "gpus": ["Old 1", "New 2"],
        "by_memory": 0.5, "by_computing": 0.5,
    }  # fmt: skip
    assert facts["normalised"] is None
    parts = {(row["place"], row["cause"]): row for row in facts["changes"] if row["time"] == "wall"}
    assert {place: row["change_ns"] for place, row in parts.items()} == dict.fromkeys(parts, 0)
    assert {row["layer"] for row in facts["changes"] if row["place"] == "GPU"} == {
        "kernel", "memcpy",
    }  # fmt: skip
    assert facts["seen"] == []
    # CPU times are the same; a kernel may be off by as much as the factor.
    assert facts["verdict"] == "unknown"
    said = said_of(found)
    assert "kernels of BASE are multiplied by 0.500" in said
    assert "Old 1 against New 2: 0.500 by memory, 0.500 by multiprocessors and clock" in said
    assert "not normalised: times of GPUs" not in said


def test_what_changed_beyond_the_gpus_is_found(tmp_path: Path) -> None:
    base = recorded(tmp_path, "a", [OLD], kernel_ns=20 * MS)
    far = compare([base], [recorded(tmp_path, "b", [TWICE], kernel_ns=40 * MS)])
    assert far.verdict == "worse"
    assert far.cause is not None
    assert far.cause.key[1] == "GPU"
    (limit,) = held(far, [limit_of("iteration=+20%")])
    assert limit.outcome == "worse"
    near = compare([base], [recorded(tmp_path, "c", [TWICE], kernel_ns=11 * MS)])
    (limit,) = held(near, [limit_of("iteration=+1%")])
    assert limit.outcome == "cannot tell"


def test_what_bounds_the_kernels_is_not_known(tmp_path: Path) -> None:
    """Four times the bandwidth, as many cycles: anything between is possible."""
    base = recorded(tmp_path, "a", [OLD], kernel_ns=20 * MS)
    new = recorded(tmp_path, "b", [("Wide", GHZ, 4 * TB)], kernel_ns=10 * MS)
    gpus = gpus_of([base], [new])
    assert gpus.factor == 0.5
    assert gpus.bounds == (0.25, 1.0)
    # A standard error away lie both of them.
    assert gpus.error == pytest.approx(0.6931, abs=1e-4)


@pytest.mark.parametrize(
    "others",
    [
        [("New 2", None, 2 * TB)], [("New 2", 2 * GHZ, None)], [TWICE, OLD],
        [("New 2", 10_000 * GHZ, TB)], [OLD],
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_scaled(tmp_path: Path, others: list[Gpu]) -> None:
    base = recorded(tmp_path, "a", [OLD], kernel_ns=20 * MS)
    found = compare([base], [recorded(tmp_path, "b", others, kernel_ns=10 * MS)])
    assert facts_of(found)["gpus_normalised"] is None
    assert ("not normalised: times of GPUs" in said_of(found)) == (others != [OLD])


def test_runs_of_one_side_on_two_kinds(tmp_path: Path) -> None:
    old = recorded(tmp_path, "a", [OLD], kernel_ns=20 * MS)
    new = recorded(tmp_path, "b", [TWICE], kernel_ns=10 * MS)
    assert gpus_of([old], [new, new]).factor == 0.5
    assert gpus_of([old], [new, old]).factor == 1


def test_a_baseline_keeps_it(tmp_path: Path) -> None:
    old = recorded(tmp_path, "a", [OLD], kernel_ns=20 * MS)
    new = recorded(tmp_path, "b", [TWICE], kernel_ns=10 * MS)
    path = tmp_path / "base.json"
    path.write_text(text_of([old]))
    assert gpus_of(read_baseline(path), [new]).factor == 0.5
    for damaged in ("true", "-1", "0", "[]", '"1"', "1e400"):
        path.write_text(text_of([old]).replace(f'"clock_hz": {GHZ}', f'"clock_hz": {damaged}'))
        assert gpus_of(read_baseline(path), [new]).factor == 1
