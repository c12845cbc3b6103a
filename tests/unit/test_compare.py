"""`compare`: what changed in programs of which that is known by construction."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from compared_traces import MS, WAKE, Step, read, write_trace
from recording import rlscope
from rlscope_analysis.compare.answer import answer_of
from rlscope_analysis.compare.comparison import compare
from rlscope_analysis.compare.cpu_time import _distinct, _Ran
from rlscope_analysis.compare.read import read_sides
from rlscope_analysis.compare.run import WALL
from rlscope_analysis.errors import TraceError
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import markdown, text
from rlscope_analysis.schema.facts.fact import Fact
from trace_builder import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.run import Run

COUNT = 24


def noisy(
    seed: int, *, step: Step | None = None, count: int = COUNT, part: float = 0.01
) -> list[Step]:
    """Return iterations whose times vary by about that part."""
    chance = random.Random(seed)
    step = step or Step()

    def vary(time_ns: int) -> int:
        return round(time_ns * (1 + part * chance.uniform(-1, 1)))

    return [
        replace(
            step, simulation=vary(step.simulation), inference=vary(step.inference),
            backpropagation=vary(step.backpropagation),
        )
        for _ in range(count)
    ]  # fmt: skip


def facts_of(found: Comparison) -> dict[str, Any]:
    whole = "".join(json_renderer.render(answer_of(found, is_first_screen=False)))
    return dict(json.loads(whole))


def runs(folder: Path, name: str, step: Step, seeds: range, **more: Any) -> list[Path]:  # noqa: ANN401
    return [
        write_trace(folder / f"{name}{seed}.duckdb", noisy(seed, step=step), **more)
        for seed in seeds
    ]


def read_all(paths: list[Path]) -> list[Run]:
    return read_sides(paths, [], per="iteration")[0]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return read_all(runs(tmp_path_factory.mktemp("base"), "a", Step(), range(4)))


def test_a_recording_beside_its_copy_is_no_second_run(tmp_path: Path) -> None:
    """Two runs that do not differ at all would make any difference a sure one."""
    trace = write_trace(tmp_path / "a.duckdb", noisy(1, count=2))
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(trace.read_bytes())
    with pytest.raises(TraceError, match="same recording twice on one side"):
        read_sides([], [trace, copy], per="iteration")
    before, after = read_sides([trace], [copy], per="iteration")
    assert compare(before, after).verdict == "same"


def test_changes_by_cause_add_up_to_that_of_the_iteration(tmp_path: Path) -> None:
    """Means of integers: to the nanosecond, and each part by what was changed in it."""
    before = noisy(1)
    after = [
        replace(
            s,
            simulation=s.simulation + 30_000_001,
            asleep=1_000_003,
            inference=s.inference - 500_000,
        )
        for s in before
    ]
    sides = [
        read(write_trace(tmp_path / f"{name}.duckdb", steps))
        for name, steps in (("a", before), ("b", after))
    ]
    found = compare(sides[:1], sides[1:])
    parts = {c.key: c.difference.change for c in found.changes if c.key[0] == WALL and not c.is_sum}
    assert found.duration.change == pytest.approx(30_000_001 + 1_000_003 - 500_000, abs=1e-3)
    assert sum(parts.values()) == pytest.approx(found.duration.change, abs=1e-3)
    assert {key[2:]: pytest.approx(change, abs=1e-3) for key, change in parts.items()} == {
        ("simulation", "", "running"): 30_000_001,
        ("simulation", "", "timer"): 1_000_003 - WAKE,
        ("simulation", "", "cpu_wait"): WAKE,
        ("inference", "", "running"): -500_000,
        ("backpropagation", "", "running"): 0,
        ("iteration", "", "running"): 0,
    }
    assert found.verdict == "worse"
    assert found.cause is not None
    assert found.cause.key == (WALL, "leading", "simulation", "", "running")


def test_a_trace_with_itself(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "a.duckdb", noisy(1, part=0.3))
    facts = facts_of(compare([read(path)], [read(path)]))
    assert facts["verdict"] == "same"
    assert {row["change_ns"] for row in facts["changes"] + facts["sums"]} == {0}
    assert facts["seen"] == facts["environment"] == []
    assert not any(row["differs"] for row in facts["counts"])


def test_the_order_of_runs_does_not_matter(tmp_path: Path, base: list[Run]) -> None:
    new = read_all(runs(tmp_path, "b", Step(simulation=42 * MS), range(10, 14)))
    there = facts_of(compare(base, new))
    assert there == facts_of(compare(base[::-1], [new[2], new[0], new[3], new[1]]))
    back = facts_of(compare(new, base))
    assert (there["verdict"], back["verdict"]) == ("worse", "better")
    changes = {
        tuple(row[n] for n in ("time", "operation", "layer", "cause")): row["change_ns"]
        for row in there["changes"]
    }
    for row in back["changes"]:
        assert (
            row["change_ns"]
            == -changes[tuple(row[n] for n in ("time", "operation", "layer", "cause"))]
        )


@pytest.mark.parametrize(
    ("step", "operation", "cause"),
    [
        (Step(simulation=42 * MS), "simulation", "running"),
        (Step(asleep=4 * MS), "simulation", "timer"),
        pytest.param(Step(inference=22 * MS), "inference", "running", marks=pytest.mark.matrix),
        pytest.param(
            Step(backpropagation=33 * MS), "backpropagation", "running", marks=pytest.mark.matrix
        ),
    ],
)
def test_what_was_made_slower_is_named(
    tmp_path: Path, base: list[Run], step: Step, operation: str, cause: str
) -> None:
    new = read_all(runs(tmp_path, "b", step, range(10, 14)))
    found = compare(base, new)
    assert found.verdict == "worse"
    assert found.units.kind == "runs"
    assert found.cause is not None
    assert found.cause.is_sure
    assert (found.cause.key[2], found.cause.key[4]) == (operation, cause)


def test_one_thread_more_is_cpu_time_of_what_it_helps(tmp_path: Path, base: list[Run]) -> None:
    """It has no operation of its own, and no part of the critical path."""
    new = read_all(runs(tmp_path, "b", Step(helper=10 * MS), range(4)))
    found = compare(base, new)
    assert found.verdict == "worse"
    assert found.cause is not None
    assert found.cause.key == ("cpu", "leading", "backpropagation", "")
    assert found.cause.difference.change == pytest.approx(10 * MS, rel=0.1)
    assert "CPU time" in text.render(answer_of(found, is_first_screen=True), limit=5)


def test_other_counts_are_another_program(tmp_path: Path, base: list[Run]) -> None:
    new = read_all(runs(tmp_path, "b", Step(backpropagations=2), range(10, 12)))
    facts = facts_of(compare(base, new))
    assert facts["verdict"] == "different"
    differing = {
        row["what"]: (row["base"], row["new"]) for row in facts["counts"] if row["differs"]
    }
    assert differing == {"leading: backpropagation": (1, 2)}
    codes = {(row["code"], row["name"]) for row in facts["counts"] if row["differs"]}
    assert codes == {("leading_operations", "backpropagation")}
    assert facts["cause"]["operation"] == "backpropagation"


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    def imported(builder: TraceBuilder, _: int) -> None:
        builder.coverage("operation", fact=Fact("kineto"))

    recorded = read(write_trace(tmp_path / "a.duckdb", noisy(1)))
    one, other = (
        read(
            write_trace(
                tmp_path / f"{seed}.duckdb", noisy(seed), meta={"loader": "import"}, extra=imported
            )
        )
        for seed in (2, 3)
    )
    with pytest.raises(TraceError, match=r"different kinds.*kineto and recording"):
        compare([recorded], [one])
    assert compare([one], [other]).kind == "kineto"


def test_iterations_have_to_be_the_same_thing(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "a.duckdb", noisy(1))
    with pytest.raises(TraceError, match=r"iteration is not the same.*inference and iteration"):
        compare([read(path)], [read(path, per="inference")])


def test_layers_by_samples_share_all_of_the_time(tmp_path: Path) -> None:
    def sampled(builder: TraceBuilder, _: int) -> None:
        for at, layer in enumerate(("python", "python", "backend")):
            builder.sample(1, 1 * MS + at, layer, frames=["main", "act"])

    found = read(write_trace(tmp_path / "a.duckdb", [Step()] * 6, extra=sampled))
    times = {key: int(sums.sum()) for key, sums in found.series.items() if key[0] in {WALL, "cpu"}}
    for part in (
        (WALL, "leading", "inference", "{}", "running"),
        ("cpu", "leading", "inference", "{}"),
    ):
        python, backend = (
            times[tuple(word.format(layer) for word in part)] for layer in ("python", "backend")
        )
        assert python + backend == 6 * Step().inference
        # Rounded in each iteration.
        assert python == pytest.approx(2 * backend, abs=6 * 3)
    assert times[WALL, "leading", "simulation", "", "running"] == 6 * Step().simulation


def test_the_cost_of_recording_is_taken_off_both_sides(tmp_path: Path) -> None:
    """Each range costs 1 ms: that is no time of the program."""

    def cost(builder: TraceBuilder, _: int) -> None:
        builder.cost("range", 1_000_000, part="inside")
        builder.cost("range", 0, part="outside")

    base, new = (
        read(write_trace(tmp_path / f"{name}.duckdb", [step] * COUNT, extra=cost))
        for name, step in (
            ("a", Step(backpropagation=20 * MS)),
            ("b", Step(backpropagation=21 * MS)),
        )
    )
    assert base.overhead is not None
    assert base.overhead["backpropagation"] == pytest.approx(1 / 20)
    found = compare([base], [new])
    assert found.is_corrected
    change = {c.key[2]: c.difference for c in found.changes if c.key[0] == WALL and len(c.key) == 5}
    assert change["backpropagation"].base == pytest.approx(19 * MS)
    without = compare([replace(base, overhead=None)], [new])
    assert not without.is_corrected
    assert without.duration.base == pytest.approx(112 * MS - 31 * MS)


def test_what_differs_around_the_program_is_listed(tmp_path: Path) -> None:
    def meta(cpus: str, threads: str) -> dict[str, str]:
        return {
            "kernel": "6.1",
            "cpus_allowed": cpus,
            "environment_variables": json.dumps({"OMP_NUM_THREADS": threads}),
        }

    base = read(write_trace(tmp_path / "a.duckdb", noisy(1), meta=meta("0-1", "1")))
    new = read(write_trace(tmp_path / "b.duckdb", noisy(2), meta=meta("0-3", "4")))
    found = compare([base], [new])
    assert found.environment == [("$OMP_NUM_THREADS", "1", "4"), ("cpus_allowed", "0-1", "0-3")]
    assert "$OMP_NUM_THREADS 1 -> 4" in text.render(answer_of(found, is_first_screen=True), limit=5)


def test_functions_and_waits_that_came_and_went(tmp_path: Path) -> None:
    def calling(function: str) -> Callable[[TraceBuilder, int], None]:
        def extra(builder: TraceBuilder, _: int) -> None:
            for at in range(COUNT * 3):
                builder.sample(1, at * 30 * MS + 1, "python", frames=["main", function])

        return extra

    meta = {"sampler": json.dumps({"period_ns": 10 * MS})}
    before, after = (
        read_all(runs(tmp_path, name, Step(), range(2), extra=calling(name), meta=meta))
        for name in ("old", "new")
    )
    seen = {
        (row["what"], row["name"]): row["change"]
        for row in facts_of(compare(before, after))["seen"]
    }
    assert seen == {("function", "old"): "went", ("function", "new"): "came"}


def with_kernels(path: Path, *kernels: tuple[str, int], steps: int = 1) -> Path:
    """Write iterations of 91 ms of which the CPU's part never differs; kernels: name, us."""

    def extra(builder: TraceBuilder, process: int) -> None:
        builder.coverage("gpu_activity")
        for step in range(steps):
            for at, (name, time_us) in enumerate(kernels):
                start = (91 * step + 40 + at) * MS
                builder.gpu_activity(process, start, start + time_us * 1000, name=name)

    return write_trace(path, [Step()] * steps, extra=extra)


@pytest.mark.parametrize("steps", [1, 12])
def test_kernels_that_came_went_or_moved_are_seen(tmp_path: Path, steps: int) -> None:
    """Also where they are a small part of an iteration, and where there is only one of these."""
    kernels = (("gemm", 60), ("copy", 2), ("norm", 30))
    other = (("gemm", 90), ("copy", 2), ("fused", 30))
    base = read(with_kernels(tmp_path / "a.duckdb", *kernels, steps=steps))
    new = read(with_kernels(tmp_path / "b.duckdb", *other, steps=steps))
    facts = facts_of(compare([base], [new]))
    assert {
        (row["name"], row["change"], row["base_ns"], row["new_ns"]) for row in facts["seen"]
    } == {
        ("gemm", "moved", 60_000, 90_000),
        ("norm", "went", 30_000, 0),
        ("fused", "came", 0, 30_000),
    }
    assert {row["is_sure"] for row in facts["seen"]} == {None if steps == 1 else True}
    # Of one run a side nothing is the same for certain.
    assert facts["verdict"] == "unknown"


def test_what_a_gpu_does_is_counted(tmp_path: Path) -> None:
    def extra(builder: TraceBuilder, process: int) -> None:
        builder.coverage("gpu_activity")
        builder.coverage("cuda_call")
        for at, kind in enumerate(("kernel", "kernel", "graph", "memcpy", "memset", "sync")):
            start = (40 + at) * MS
            builder.cuda_call(1, start, start + 10, kind="launch" if at < 3 else "memcpy")
            builder.gpu_activity(process, start, start + 100, kind=kind, byte_count=1 << at)

    run = read(write_trace(tmp_path / "a.duckdb", [Step()], extra=extra))
    counts = facts_of(compare([run], [run]))["counts"]
    of_gpu = [row for row in counts if row["name"] is None]
    assert [(row["code"], row["base"]) for row in of_gpu] == [
        ("cuda_launches", 3), ("gpu_bytes_copied", 8), ("gpu_graphs", 1), ("gpu_kernels", 2),
        ("gpu_memcpy_memset", 2),
    ]  # fmt: skip
    assert [row["what"] for row in of_gpu] == [
        "CUDA: launches", "GPU: bytes copied", "GPU: graphs", "GPU: kernels",
        "GPU: memcpy and memset",
    ]  # fmt: skip


def test_what_one_side_does_not_tell_did_not_go(tmp_path: Path) -> None:
    """A baseline keeps no kernels."""
    base = read(with_kernels(tmp_path / "a.duckdb", ("gemm", 60), steps=4))
    kept = {key: sums for key, sums in base.series.items() if not key[0].startswith("seen")}
    found = compare([replace(base, series=kept)], [base])
    assert found.seen == []
    assert found.verdict == "same"


def test_what_other_programs_took_is_no_verdict(tmp_path: Path) -> None:
    """An iteration is longer by half: somebody else had the CPU."""
    from trace_builder import TraceBuilder, preempted, run

    def disturbed(name: str, wait: int) -> Path:
        builder = TraceBuilder(tmp_path / f"{name}.duckdb")
        builder.coverage("thread_state")
        process, now, states = builder.process(pid=7), 0, []
        for _ in range(COUNT):
            builder.operation(1, now, now + 10 * MS + wait, "iteration")
            states += [run(9 * MS), preempted(wait), run(1 * MS)]
            if wait:
                builder.other_run(0, now + 9 * MS, now + 9 * MS + wait, pid=99, name="neighbour")
            now += 10 * MS + wait
        builder.thread(process, tid=7, states=states)
        return builder.write()

    found = compare([read(disturbed("a", 0))], [read(disturbed("b", 5 * MS))])
    assert found.duration.change == 5 * MS
    assert found.own.change == 0
    assert found.verdict == "unknown"  # one run a side
    assert "programs outside" in text.render(answer_of(found, is_first_screen=True), limit=5)


def test_formats_and_sides_of_the_command(tmp_path: Path) -> None:
    base = runs(tmp_path, "a", Step(), range(3))
    new = runs(tmp_path, "b", Step(simulation=44 * MS), range(3))
    ask = ("compare", "--base", *base, "--new", *new, "--per", "iteration")
    done = rlscope(*ask)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Worse: an iteration takes ")
    assert "simulation in the leading process" in done.stdout
    assert "3 runs against 3" in done.stdout
    facts = json.loads(rlscope(*ask, "--format", "json").stdout)
    assert facts["verdict"] == "worse"
    assert facts["changes"][0]["operation"] == "simulation"
    rows = list(csv.DictReader(io.StringIO(rlscope(*ask, "--format", "csv").stdout)))
    assert {row["operation"] for row in rows} >= {"simulation", "inference", "backpropagation"}
    assert "| leading | simulation |" in rlscope(*ask, "--format", "markdown").stdout


def test_the_trace_without_the_iteration_is_named(tmp_path: Path) -> None:
    base = write_trace(tmp_path / "a.duckdb", [Step()] * 3)
    other = TraceBuilder(tmp_path / "b c.duckdb")
    other.operation(other.thread(other.process(pid=1), states=[], end_ns=9), 0, 9, "epoch")
    done = rlscope("compare", base, other.write(), "--per", "iteration")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: no operation is called 'iteration' in {other.path}\n"
        f"hint: what there is: rlscope-trace summarize '{other.path}' --by operation\n"
    )


@pytest.mark.parametrize("given", [["a"], ["a", "b", "c"], ["--base", "a"], []])
def test_sides_that_are_none(given: list[str]) -> None:
    done = rlscope("compare", *given)
    assert done.returncode == 2
    assert "hint: rlscope-trace compare BASE NEW" in done.stderr


def test_markdown_holds_no_marks_of_a_stranger(tmp_path: Path) -> None:
    def named(builder: TraceBuilder, _: int) -> None:
        for at in range(COUNT):
            start = at * 91 * MS
            builder.operation(1, start + 1, start + 15 * MS, "<b>|@all`\x1b[31m")

    found = compare(
        [read(write_trace(tmp_path / "a.duckdb", [Step()] * COUNT))],
        [read(write_trace(tmp_path / "b.duckdb", [Step()] * COUNT, extra=named))],
    )
    said = "".join(markdown.render(answer_of(found, is_first_screen=False), limit=None))
    assert "<b>" not in said
    assert "\x1b" not in said
    assert r"\<b\>\|\@all\`" in said


def test_rows_are_told_apart_whatever_their_numbers() -> None:
    """With a table where numbers are close together, and with a sort where they are not."""
    chance = random.Random(9)
    for most in (1, 5, 10**12):
        columns = [np.array([chance.randint(-3, most) for _ in range(40)]) for _ in range(3)]
        rows, which = _distinct(*columns)
        written = list(zip(*(column.tolist() for column in columns), strict=True))
        assert rows == sorted(set(written))
        assert [rows[at] for at in which] == written
    assert _distinct(np.empty(0, np.int64))[0] == []


def test_between_edges_that_are_the_same_lies_no_piece() -> None:
    whole = _Ran({"start_ns": np.array([0, 5]), "end_ns": np.array([20, 10])})
    # Operation 1 ends where operation 2 begins; 0: none.
    cut = whole.cut(np.array([-1, 0, 10, 10, 20, 99]), "path_id", np.array([0, 1, 0, 2, 0])).columns
    columns = (cut[name].tolist() for name in ("start_ns", "end_ns", "path_id"))
    assert sorted(zip(*columns, strict=True)) == [(0, 10, 1), (5, 10, 1), (10, 20, 2)]
