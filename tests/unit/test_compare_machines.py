"""Comparisons of two machines: CPU times are normalised by what was measured, and that is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from compared_traces import MS, Step, read, write_trace
from rlscope_analysis.compare.answer import answer_of
from rlscope_analysis.compare.baseline import read_baseline, text_of
from rlscope_analysis.compare.comparison import compare
from rlscope_analysis.compare.gate import held, limit_of
from rlscope_analysis.compare.normalise import machines_of, probes_of
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.run import Run

SLOW = {"cpu": "Slow 1", "deflate": "1.3", "single_core_mb_s": 20.0, "memory_mb_s": 8000}
FAST = {"cpu": "Fast 2", "deflate": "1.3", "single_core_mb_s": 40.0, "memory_mb_s": 16000}
# Half as much of all that runs; the sleep is as long.
BASE = Step(asleep=8 * MS)
HALF = Step(
    simulation=20 * MS, inference=10 * MS, backpropagation=15 * MS, rest=MS // 2, asleep=8 * MS
)


def run(folder: Path, name: str, step: Step, probes: object) -> Run:
    meta = {} if probes is None else {"probes": json.dumps(probes)}
    return read(write_trace(folder / f"{name}.duckdb", [step] * 12, meta=meta))


def facts_of(found: Comparison) -> dict[str, Any]:
    return dict(json.loads("".join(json_renderer.render(answer_of(found, is_first_screen=False)))))


def text_of_answer(found: Comparison) -> str:
    return " ".join("".join(text.render(answer_of(found, is_first_screen=True), limit=30)).split())


def test_running_time_is_scaled_and_sleep_is_not(tmp_path: Path) -> None:
    base, new = run(tmp_path, "a", BASE, SLOW), run(tmp_path, "b", HALF, FAST)
    found = compare([base], [new])
    facts = facts_of(found)
    assert facts["normalised"]["cpu_factor"] == 0.5
    assert facts["normalised"]["grade"] == "C"
    causes = {(row["operation"], row["cause"]): row for row in facts["changes"]}
    assert causes["simulation", "timer"]["base_ns"] == causes["simulation", "timer"]["new_ns"]
    assert found.duration.change == pytest.approx(0, abs=1e-3)
    # What the program did is the same, as far as a factor can tell: never surer than that.
    assert found.duration.high is not None
    assert found.duration.high > 0.05 * 45 * MS
    assert facts["verdict"] == "unknown"
    said = text_of_answer(found)
    assert "CPU times of BASE are multiplied by 0.500" in said
    assert "Slow 1, 20.0 MB/s" in said


def test_a_factor_alone_is_no_change(tmp_path: Path) -> None:
    """5 % less than the factor says is within its error; twice as much is not."""
    base = run(tmp_path, "a", BASE, SLOW)
    near = run(tmp_path, "b", Step(21 * MS, 10 * MS, 8 * MS, 1, 16 * MS, MS // 2), FAST)
    assert compare([base], [near]).verdict == "unknown"
    far = compare([base], [run(tmp_path, "c", BASE, FAST)])
    assert far.verdict == "worse"
    assert far.cause is not None
    assert far.cause.key[2] == "simulation"
    (limit,) = held(far, [limit_of("iteration=+20%")])
    assert limit.outcome == "worse"
    (limit,) = held(compare([base], [near]), [limit_of("iteration=+2%")])
    assert limit.outcome == "cannot tell"


def test_memory_that_says_otherwise_widens_the_interval(tmp_path: Path) -> None:
    base = run(tmp_path, "a", BASE, SLOW)
    new = run(tmp_path, "b", HALF, FAST | {"memory_mb_s": 8000})
    assert machines_of([base], [new]).error == pytest.approx(0.3466, abs=1e-4)
    assert machines_of([base], [run(tmp_path, "c", HALF, FAST)]).error == 0.05


@pytest.mark.parametrize("other", [None, {"cpu": "Fast 2"}, FAST | {"deflate": "2.0"}])
def test_what_was_not_measured_is_said(tmp_path: Path, other: object) -> None:
    base, new = run(tmp_path, "a", BASE, SLOW), run(tmp_path, "b", BASE, other)
    found = compare([base], [new])
    assert facts_of(found)["normalised"] is None
    if other is not None:
        assert "not normalised: the CPUs differ" in text_of_answer(found)


def test_one_machine_at_two_times_is_not_normalised(tmp_path: Path) -> None:
    base = run(tmp_path, "a", BASE, SLOW)
    later = run(tmp_path, "b", BASE, SLOW | {"single_core_mb_s": 22.0})
    slowed = run(tmp_path, "c", BASE, SLOW | {"single_core_mb_s": 10.0})
    assert machines_of([base], [later]).factor == 1
    assert machines_of([base], [slowed]).factor == 2
    assert "One kind of CPU, at two speeds" in text_of_answer(compare([base], [slowed]))
    # Runs that overlap in speed are of one machine.
    assert machines_of([base, slowed], [slowed, slowed]).factor == 1
    fast = run(tmp_path, "d", BASE, FAST)
    assert machines_of([base, fast], [fast]).refused == "mixed"


@pytest.mark.parametrize(
    "value",
    [
        "", "null", "[]", "3", "{", '{"single_core_mb_s": "x", "cpu": 3}', "[" * 100_000,
        '{"single_core_mb_s": NaN}', '{"single_core_mb_s": -1}', '{"single_core_mb_s": 1e400}',
        '{"single_core_mb_s": true}',
    ],
)  # fmt: skip
def test_probes_of_a_stranger(value: str) -> None:
    assert probes_of({"probes": value}) == {}


def test_a_baseline_keeps_the_speed(tmp_path: Path) -> None:
    base, new = run(tmp_path, "a", BASE, SLOW), run(tmp_path, "b", HALF, FAST)
    path = tmp_path / "base.json"
    path.write_text(text_of([base]))
    assert machines_of(read_baseline(path), [new]).factor == 0.5
    path.write_text(path.read_text().replace('"single_core_mb_s": 20.0', '"single_core_mb_s": []'))
    assert machines_of(read_baseline(path), [new]).refused == "not_measured"
