"""`gate`: limits, exit codes, baselines, annotations."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from compared_traces import MS, Step, write_trace
from recording import rlscope
from rlscope_analysis.compare.baseline import read_baseline, text_of
from rlscope_analysis.compare.comparison import compare
from rlscope_analysis.compare.gate import _keys, held, limit_of, outcome_of
from rlscope_analysis.compare.read import read_sides
from rlscope_analysis.compare.run import WALL
from rlscope_analysis.errors import TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.run import Run
    from trace_builder import TraceBuilder


def write(folder: Path, name: str, *simulation_ms: float) -> list[Path]:
    """Write a trace for each: all of its iterations take that long in simulation."""
    return [
        write_trace(folder / f"{name}{at}.duckdb", [Step(simulation=round(ms * MS))] * 12)
        for at, ms in enumerate(simulation_ms)
    ]


def runs_of(paths: list[Path]) -> list[Run]:
    return read_sides(paths, [], per="iteration")[0]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Write runs of 91 ms an iteration, of 4 ms more, and of 0 to 8 ms more."""
    folder = tmp_path_factory.mktemp("gate")
    return {
        "base": write(folder, "base", 39.9, 40.0, 40.1),
        "new": write(folder, "new", 43.9, 44.0, 44.1),
        "noisy": write(folder, "noisy", 40.0, 44.0, 48.0),
    }


@pytest.fixture(scope="module")
def compared(sides: dict[str, list[Path]]) -> dict[str, Comparison]:
    base = runs_of(sides["base"])
    return {side: compare(base, runs_of(paths)) for side, paths in sides.items()}


@pytest.mark.parametrize(
    ("side", "limit", "outcome"),
    [
        ("new", "iteration=+3%", "worse"),
        ("new", "iteration=+10%", "ok"),
        ("new", "simulation=+3ms", "worse"),
        ("new", "cpu:simulation=+5ms", "ok"),
        ("new", "inference=+1%", "ok"),
        ("noisy", "iteration=+3%", "cannot tell"),
        ("base", "cpu=+1%", "ok"),
    ],
)
def test_limits(compared: dict[str, Comparison], side: str, limit: str, outcome: str) -> None:
    (result,) = held(compared[side], [limit_of(limit)])
    assert result.outcome == outcome
    assert (result.runs is not None and result.runs > 3) == (outcome == "cannot tell")
    assert outcome_of([result]) == outcome


@pytest.mark.parametrize(
    "text", ["iteration", "iteration=3", "iteration=+3pp", "gpu_idle=+3%", "=+3%"]
)
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(TraceError):
        limit_of(text)


def test_a_limit_of_nothing_names_what_there_is(sides: dict[str, list[Path]]) -> None:
    found = compare(runs_of(sides["base"]), runs_of(sides["new"]))
    for text, words in (("sim=+3%", "sim"), ("gpu_idle=+1pp", "GPU"), ("step=+1%", "steps")):
        with pytest.raises(TraceError, match=words):
            held(found, [limit_of(text)])


def test_an_operation_of_one_side_took_no_time_on_the_other(
    sides: dict[str, list[Path]], tmp_path: Path
) -> None:
    base = runs_of(sides["base"])
    new = runs_of([write_trace(tmp_path / "new.duckdb", [Step(backpropagations=0)] * 12)])
    for before, after, change in ((base, new, -30 * MS), (new, base, 30 * MS)):
        (result,) = held(compare(before, after), [limit_of("backpropagation=+2ms")])
        assert result.difference.change == pytest.approx(change)
        assert result.outcome == ("worse" if change > 0 else "ok")


def test_an_operation_whose_name_begins_with_cpu_is_one(
    sides: dict[str, list[Path]], tmp_path: Path
) -> None:
    """And names are shown so that none of them looks like a line of ours."""

    def extra(builder: TraceBuilder, _: int) -> None:
        for at in range(12):
            # Of the 40 ms of simulation, the path is in this one for 10.
            start = (91 * at + 30) * MS
            builder.operation(1, start, start + 10 * MS, "cpu_collate")
            builder.operation(1, start, start + 1 * MS, "x\nhint: y")

    runs = runs_of([write_trace(tmp_path / "a.duckdb", [Step()] * 12, extra=extra)])
    found = compare(runs, runs)
    assert _keys(found.sides[0], "cpu_collate") == [(WALL, "leading", "cpu_collate", "", "running")]
    with pytest.raises(TraceError, match="called 'cpu_'") as error:
        held(found, [limit_of("cpu_=+3%")])
    assert error.value.hint is not None
    assert "x\\nhint: y" in error.value.hint
    # Two that were never recorded are no kept limit.
    for what in ("cpu", "cpu:simulation"):
        with pytest.raises(TraceError, match="no CPU time"):
            held(replace(found, cpu=None), [limit_of(f"{what}=+3%")])


def test_a_baseline_says_the_same_as_its_traces(
    sides: dict[str, list[Path]], tmp_path: Path
) -> None:
    before, after = runs_of(sides["base"]), runs_of(sides["new"])
    stored = tmp_path / "base.json"
    stored.write_text(text_of(before))
    assert stored.stat().st_size < 20_000 * len(before)
    direct, by_file = compare(before, after), compare(read_baseline(stored), after)
    assert by_file.verdict == direct.verdict == "worse"
    assert by_file.own.change == pytest.approx(direct.own.change)
    assert by_file.own.low == pytest.approx(direct.own.low)


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"format": "rlscope-trace baseline", "version": 3, "runs": []}',
             '{"format": "rlscope-trace baseline", "version": 3, "runs": [{"iterations": [0]}]}',
             '{"format": "rlscope-trace baseline", "version": 4, "runs": []}'],
)  # fmt: skip
def test_what_is_no_baseline(tmp_path: Path, text: str) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(path)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("facts", {"lost": math.inf}), ("facts", {"lost": "\x1b[31m"}), ("facts", {"states": []}),
        ("facts", [["lost", 1]]), ("overhead", {"a": 10**400}), ("overhead", {"a": math.nan}),
        ("overhead", {"a": -1e308}), ("overhead", {"a": "nan"}), ("overhead", 7),
    ],
)  # fmt: skip
def test_odd_values_of_a_baseline(
    sides: dict[str, list[Path]], tmp_path: Path, where: str, value: object
) -> None:
    path = tmp_path / "base.json"
    stored = json.loads(text_of(runs_of(sides["base"][:1])))
    stored["runs"][0][where] = value
    path.write_text(json.dumps(stored))
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(path)


def test_the_command(sides: dict[str, list[Path]], tmp_path: Path) -> None:
    stored, junit = tmp_path / "base.json", tmp_path / "junit.xml"
    saved = rlscope("gate", "--save", stored, "--per", "iteration", *sides["base"])
    assert saved.returncode == 0, saved.stderr
    ask = ("gate", "--base", stored, "--per", "iteration", "--max", "iteration=+3%")
    worse = rlscope(*ask, "--max", "inference=+1%", "--new", *sides["new"], "--junit", junit)
    assert worse.returncode == 1, worse.stderr
    assert worse.stdout.startswith("Failed: worse by more than is allowed.")
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    noisy = rlscope(*ask, "--new", *sides["noisy"], "--format", "github")
    assert noisy.returncode == 4
    assert noisy.stdout.startswith(
        "::warning title=rlscope-trace gate::cannot tell: iteration=+3%25"
    )
    kept = rlscope(*ask, "--new", *sides["base"], "--format", "json")
    assert kept.returncode == 0
    assert json.loads(kept.stdout)["outcome"] == "ok"


def test_a_gate_without_a_limit_is_an_error() -> None:
    done = rlscope("gate", "a.duckdb", "b.duckdb")
    assert done.returncode == 2
    assert "hint: rlscope-trace gate --max" in done.stderr


@pytest.mark.parametrize("limit", ["iteration", "iteration=soon", "iteration=+3pp"])
def test_what_is_no_limit_is_not_said_to_be_worse(limit: str) -> None:
    done = rlscope("gate", "--max", limit, "a.duckdb", "b.duckdb")
    assert done.returncode == 2
    assert "hint: --max iteration=" in done.stderr


@pytest.mark.parametrize("wrong", ["missing", "no baseline", "output exists", "no limit's base"])
def test_what_is_wrong_is_said_before_anything_is_recorded(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "there.xml").write_text("")
    options = {
        "missing": ("--base", tmp_path / "nope.json"),
        "no baseline": ("--base", tmp_path / "bad.json"),
        "output exists": ("--save", tmp_path / "there.xml"),
        "no limit's base": (),
    }[wrong]
    done = rlscope("gate", "--max", "iteration=+3%", *options, "--", "touch", tmp_path / "has run")
    assert done.returncode in {1, 2}
    assert "hint: " in done.stderr
    assert "run 1 of" not in done.stderr
    assert not (tmp_path / "has run").exists()


WHOLE = ["wall", "leading", "op", "", "running"]


def stored(folder: Path, name: str, runs: list[dict[str, Any]], *, version: int = 3) -> Path:
    """Write a baseline of runs with these iterations and series, and nothing else."""
    rest = {"name": "a", "kind": "recording", "iteration": "step", "overhead": None,
            "environment": {}, "facts": {"states": True, "lost": 0}}  # fmt: skip
    path = folder / f"{name}.json"
    found = [rest | run for run in runs]
    text = {"format": "rlscope-trace baseline", "version": version, "runs": found}
    path.write_text(json.dumps(text))
    return path


def judged(folder: Path, limit: str, *sides: list[dict[str, Any]]) -> str:
    paths = [stored(folder, f"side{at}", runs) for at, runs in enumerate(sides)]
    found = compare(*(read_baseline(path) for path in paths))
    return held(found, [limit_of(limit)])[0].outcome


def test_a_baseline_of_version_1_is_read(tmp_path: Path) -> None:
    """Words were its keys of counts."""
    keys = {
        "environment steps": ("environment_steps", ""),
        "leading: a: b": ("leading_operations", "a: b"),
        "other: GPU: kernels": ("other_operations", "GPU: kernels"),
        "GPU: kernels": ("gpu_kernels", ""),
        "GPU: graphs": ("gpu_graphs", ""),
        "GPU: memcpy and memset": ("gpu_memcpy_memset", ""),
        "GPU: bytes copied": ("gpu_bytes_copied", ""),
        "CUDA: launches": ("cuda_launches", ""),
    }
    counts = [[["count", words], [at]] for at, words in enumerate(keys)]
    runs = [{"iterations": [1], "series": [[WHOLE, [9]], *counts]}]
    (run,) = read_baseline(stored(tmp_path, "old", runs, version=1))
    assert {key: sums.tolist() for key, sums in run.series.items()} == {
        tuple(WHOLE): [9], **{("count", *key): [at] for at, key in enumerate(keys.values())},
    }  # fmt: skip
    as_codes = [[list(key), sums.tolist()] for key, sums in run.series.items()]
    new = [{"iterations": [1], "series": as_codes}]
    assert compare([run], read_baseline(stored(tmp_path, "new", new))).verdict == "same"
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(stored(tmp_path, "mixed", runs))
    for words in ("resets", "GPU: fans", ""):
        odd = [{"iterations": [1], "series": [[["count", words], [1]]]}]
        with pytest.raises(TraceError, match="no baseline"):
            read_baseline(stored(tmp_path, "odd", odd, version=1))


@pytest.mark.parametrize("version", [1, 2])
def test_older_baselines_do_not_tell_kernels_from_copies(tmp_path: Path, version: int) -> None:
    of_gpu = [["wall", "GPU", "train", "", "gpu"], [5]]
    runs = [{"iterations": [1], "series": [[WHOLE, [9]], of_gpu]}]
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(stored(tmp_path, "old", runs, version=version))


@pytest.mark.filterwarnings("error")
def test_a_run_that_took_no_time_is_not_idle(tmp_path: Path) -> None:
    def runs(busy_ns: int) -> list[dict[str, Any]]:
        series = [[WHOLE, [0] * 4], [["gpu_busy"], [busy_ns, 0, busy_ns, 0]]]
        return [{"iterations": [1] * 4, "series": series}] * 2

    assert judged(tmp_path, "gpu_idle=+5pp", runs(1), runs(3)) == "ok"


def test_a_spread_that_rounding_takes_below_none_is_none(tmp_path: Path) -> None:
    def runs(first: int) -> list[dict[str, Any]]:
        return [
            {"iterations": [1, 99_999], "series": [[WHOLE, [at, 10**8 + at]]]}
            for at in range(first, first + 20)
        ]

    assert judged(tmp_path, "iteration=+3%", runs(0), runs(50)) == "ok"


def test_counts_of_very_many_iterations_are_held_apart_at_once(tmp_path: Path) -> None:
    def runs(count: int) -> list[dict[str, Any]]:
        many = 1_900_000
        counts = [["count", "other_operations", "x"], [count, count * many]]
        series = [[WHOLE, [count, count * many]], counts]
        return [{"iterations": [1, many], "series": series}]

    # Worked out exactly, how likely that is by chance, it takes minutes.
    assert judged(tmp_path, "iteration=+3%", runs(5), runs(8)) == "worse"


def test_a_few_bytes_that_tell_of_very_many_iterations_are_refused(tmp_path: Path) -> None:
    run = {"iterations": [1, 999_999], "series": [[WHOLE, [1, 999_999]]]}
    assert len(read_baseline(stored(tmp_path, "most", [run] * 4))) == 4
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(stored(tmp_path, "more", [run] * 5))
    series = [[["wall", "leading", f"op{at}", "", "running"], [1, 999_999]] for at in range(101)]
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(stored(tmp_path, "wide", [{"iterations": [1, 999_999], "series": series}]))
    many = {f"k{at}": "" for at in range(1001)}
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(stored(tmp_path, "facts", [run | {"environment": many}]))
    # Their sum as a number of 64 bits is below 0.
    wraps = {"iterations": [2**62 - 1] * 3, "series": [[WHOLE, [1] * 3]]}
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(stored(tmp_path, "wraps", [wraps]))
    below = {"iterations": [1], "series": [[WHOLE, [-1]]]}
    with pytest.raises(TraceError, match="no baseline"):
        read_baseline(stored(tmp_path, "below", [below]))
