"""The first screen of `summarize`: it fits, it is true, and it says what it cannot."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
import time
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import first_screen
import rlscope_analysis
from conftest import in_matrix
from recording import rlscope
from rlscope_analysis.findings.catalog import CATALOG
from rlscope_analysis.note_sentences import NO_PHASE
from rlscope_analysis.overview.answer import answer_of, overview, program_of
from rlscope_analysis.renderers import text
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_analysis.trace_file import MEMORY_VARIABLE
from trace_builder import INTERRUPT, TraceBuilder, lost, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlscope_analysis.overview.values import Overview

MS = 1_000_000
META: dict[str, str | None] = {"schema_version": str(SCHEMA_VERSION), "cpus_allowed": "0-1"}
KINDS = ("thread_state", "operation", "wait", "cpu_sample")


@pytest.fixture
def builder(tmp_path: Path) -> TraceBuilder:
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=META)
    for kind in KINDS:
        builder.coverage(kind)
    return builder


def training(builder: TraceBuilder, workers: int) -> TraceBuilder:
    """Four rounds of a learner that waits for workers, the first of which answers last."""
    main = builder.process(
        pid=100, name="python", command="/usr/bin/python3 -u train.py --lr 1", end_ns=280 * MS
    )
    children = [
        builder.process(pid=200 + at, name="python", parent=main, end_ns=280 * MS)
        for at in range(workers)
    ]
    states = []
    for start in range(0, 280 * MS, 70 * MS):
        states += [run(10 * MS), sleep(20 * MS - 1), woken(1, by=2), run(40 * MS)]
        builder.wait(1, start + 10 * MS, start + 30 * MS - 1, "pipe")
        builder.operation(1, start, start + 30 * MS, "simulation", source="auto")
        builder.operation(1, start + 30 * MS, start + 70 * MS, "backpropagation", source="auto")
        for at in range(5):
            builder.sample(1, start + (31 + 7 * at) * MS, "python" if at == 0 else "backend")
    thread = builder.thread(main, states=states)
    assert thread == 1
    for child in children:
        answers = []
        for start in range(0, 280 * MS, 70 * MS):
            answers += [
                sleep(10 * MS - 1),
                woken(1, by=1),
                run(20 * MS - 1, cpu=1),
                sleep(40 * MS + 1),
            ]
            worker = 2 + children.index(child)
            builder.operation(worker, start + 10 * MS, start + 29 * MS, "simulation", source="auto")
        builder.thread(child, states=answers)
    return builder


def shown(builder: TraceBuilder) -> list[str]:
    with rlscope_analysis.open(builder.write()) as trace:
        return text.render(answer_of(overview(trace)), limit=20, width=100).splitlines()


@pytest.mark.parametrize("workers", [1, 4, 40])
def test_it_fits_on_a_screen(builder: TraceBuilder, workers: int) -> None:
    lines = shown(training(builder, workers))
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert lines[0] == (
        f"train.py   0.3 s   {workers + 1} processes on CPUs 0-1   GPU: not measured"
    )
    assert lines[2] == "Learner (pid 100) updates the model: 57 % of an iteration."
    assert lines[3].startswith(
        "3 iterations (updates, without the first) of 70.0 ms, 0.2 s in all, the slowest 70.0 ms;"
    )
    assert "CPUs. Of so few iterations shares are rough." in " ".join(lines[3:6])
    assert lines[-1].startswith("lost: nothing; cost of recording: not measured.")


@pytest.mark.parametrize("workers", [4, *in_matrix(1, 40)])
def test_its_numbers_are_those_of_the_views(builder: TraceBuilder, workers: int) -> None:
    training(builder, workers).loss("ring_full", count=7)
    first_screen.check(builder.write())


@pytest.mark.parametrize(
    ("command", "title", "name"),
    [
        # A program on the command line; a title is kept without the end of the line.
        ("python3 -c import env\n", "python3 -c import env", "worker 0 (pid 200)"),
        ("python3 -c import env\n", "ray::EnvRunner", "ray::EnvRunner (pid 200)"),
    ],
)
def test_a_process_is_called_by_a_title_that_it_gave_itself(
    builder: TraceBuilder, command: str, title: str, name: str
) -> None:
    path = training(builder, 1).write()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "UPDATE process SET command = $1, title = $2 WHERE pid = 200", [command, title]
        )
    with rlscope_analysis.open(path) as trace:
        lines = text.render(answer_of(overview(trace)), limit=20, width=100)
    assert f"\n{name} " in lines


def test_a_slow_first_iteration_is_said(builder: TraceBuilder) -> None:
    """It is in no figure of the screen."""
    main = builder.process(pid=100, name="python", command="python3 train.py", end_ns=700 * MS)
    thread = builder.thread(main, states=[run(700 * MS)])
    starts = [0, *range(400 * MS, 700 * MS, 100 * MS), 700 * MS]
    for start, end in itertools.pairwise(starts):
        builder.operation(thread, start, start + 60 * MS, "simulation", source="auto")
        builder.operation(thread, start + 60 * MS, end, "backpropagation", source="auto")
    path = builder.write()
    first_screen.check(path)
    with rlscope_analysis.open(path) as trace:
        lines = text.render(answer_of(overview(trace)), limit=20, width=100)
    words = " ".join(lines.split())
    assert (
        "of 100.0 ms, 0.3 s in all, the slowest 100.0 ms; the first iteration took 400.0 ms;"
        in words
    )


def test_phases_of_the_leading_process_are_left_out_last(one_screen: Overview) -> None:
    phases = tuple(one_screen.phases[0] | {"operation": f"phase {at}"} for at in range(5))
    others = tuple(one_screen.processes[1] | {"process_id": 100 + at} for at in range(9))
    findings = one_screen.findings[:1] * 4
    made = dataclasses.replace(
        one_screen, phases=phases, processes=(one_screen.processes[0], *others), findings=findings
    )
    lines = text.render(answer_of(made), limit=20, width=100)
    assert len(lines.splitlines()) <= first_screen.LINES
    assert all(f"phase {at}" in lines for at in range(5)), lines


@pytest.fixture(scope="module")
def one_screen(tmp_path_factory: pytest.TempPathFactory) -> Overview:
    builder = TraceBuilder(tmp_path_factory.mktemp("screen") / "trace.duckdb", meta=META)
    for kind in KINDS:
        builder.coverage(kind)
    training(builder, 2).loss("ring_full", count=7)
    with rlscope_analysis.open(builder.write()) as trace:
        return overview(trace)


NAME = "a name of many words that somebody gave " * 9
SIZES = (0, 1, 2, 3, 4, 5, 6, 60)


@pytest.mark.parametrize("seed", range(200))
def test_it_fits_whatever_the_trace_is_like(one_screen: Overview, seed: int) -> None:
    """Drawn at random: how many of each, how large, how long the names are, what is lacking."""
    drawn = random.Random(seed)

    def several(row: dict[str, Any], **others: Callable[[int], Any]) -> tuple[dict[str, Any], ...]:
        made = [row | {name: value(at) for name, value in others.items()}
                for at in range(drawn.choice(SIZES))]  # fmt: skip
        return tuple(made)

    lead, other = one_screen.processes[:2]
    large = drawn.choice((1, 10**6, 10**11))
    phase = one_screen.phases[0] | {"instances": large, "each_ns": large * MS}
    phases = several(phase, operation=lambda _: drawn.choice(("wait", NAME)),
                     time_ns=lambda _: large * MS)  # fmt: skip
    marked = drawn.random() < 0.5
    others = several(
        other, process_id=lambda at: 100 + at, is_marked=lambda _: marked,
        role=lambda _: drawn.choice(("other", "worker")), name=lambda _: drawn.choice(("x", NAME)),
        pid=lambda _: 4194304, running_ns=lambda at: 10**9 if at < 9 else 1,
    )  # fmt: skip
    codes = [limit for limit in CATALOG if limit.remedy]
    findings = several(
        one_screen.findings[0] | {"share": 0.5, "where": {"process_id": 100, "by_program": NAME}},
        code=lambda _: drawn.choice(codes).code,
    )
    ranks = drawn.choice((None, json.dumps([{"rank": 0, "world_size": 10**9}])))
    made = dataclasses.replace(
        one_screen,
        trace=NAME, phases=phases, processes=(lead, *others), findings=findings,
        no_phase={100 + at: drawn.choice(tuple(NO_PHASE)) for at in range(60)},
        reason=NAME, is_complete=drawn.random() < 0.5,
        pace=drawn.choice((None, one_screen.pace, one_screen.pace | {
            "source": "range", "name": NAME, "iterations": large, "mean_ns": 1e15, "p99_ns": 1e15,
            "first_ns": drawn.choice((None, 2e15)),
            "steps_per_s": 1e12, "evaluation_steps_per_s": 1e12,
        })),
        machine=one_screen.machine | {
            "command": NAME.replace(" ", "_"), "cpus": ",".join(map(str, range(0, 512, 2))),
            "has_states": drawn.random() < 0.5, "ranks": ranks,
        },
    )  # fmt: skip
    lines = text.render(answer_of(made), limit=20, width=drawn.choice((40, 100, 300)))
    assert len(lines.splitlines()) <= first_screen.LINES, lines
    assert max(map(len, lines.splitlines())) <= first_screen.COLUMNS, lines
    # What is most important is never left out, and what is left out is counted.
    assert "lost: 7 records" in lines
    if made.pace is None:
        return
    held = ("% of an iteration.", "an iteration could be")
    assert any(words in " ".join(lines.split()) for words in held) or not findings
    for rows, title in ((phases, "where the "), (others, "the other processes")):
        if rows:
            at = next(at for at, line in enumerate(lines.splitlines()) if line.startswith(title))
            reported = list(itertools.takewhile(bool, lines.splitlines()[at + 1 :]))
            counted = re.match(r"([\d,]+) more(?::|  )", reported[-1])
            rest = int(counted[1].replace(",", "")) if counted else 0
            assert len(reported) - (counted is not None) + rest == len(rows)


def test_whatever_is_to_try_fits() -> None:
    """The table is as wide as the widest of each column together."""
    listed = [limit for limit in CATALOG if limit.remedy]
    widest = [max(len(text) for text in column) for column in (
        [limit.code for limit in listed],
        [limit.advice(by_program="a program of 15") or "" for limit in listed],
        ["look at --view", *(limit.proof.removeprefix("--view ") for limit in listed)],
    )]  # fmt: skip
    assert sum(widest) + len("at stake %") + 3 * 2 <= first_screen.COLUMNS


def test_phases_add_up_to_the_training(builder: TraceBuilder) -> None:
    """From the end of the first update to the last; a fifth of the samples in updates is Python."""
    with rlscope_analysis.open(training(builder, 1).write()) as trace:
        rows = {row["operation"]: row for row in records(trace, "FROM training_phase")}
    assert sum(row["time_ns"] for row in rows.values()) == 210 * MS
    update = rows["backpropagation"]
    assert (update["time_ns"], update["instances"]) == (120 * MS, 3)
    assert (update["python_share"], update["native_share"]) == pytest.approx((0.2, 0.8))
    acting = rows["simulation"]
    assert acting["waits_share"] == pytest.approx((60 * MS - 3) / (90 * MS))
    assert acting["python_share"] is None  # no sample fell into it


def test_processes_have_roles(builder: TraceBuilder) -> None:
    with rlscope_analysis.open(training(builder, 2).write()) as trace:
        rows = records(trace, "FROM training_process")
    assert [(row["pid"], row["role"], row["number"]) for row in rows] == [
        (100, "learner", None), (200, "worker", 0), (201, "worker", 1)
    ]  # fmt: skip
    worker = rows[1]
    assert worker["cpu_share"] == pytest.approx(4 * (20 * MS - 1) / (280 * MS))
    assert worker["waits_for_process_id"] == rows[0]["process_id"]


def records(trace: rlscope_analysis.Trace, query: str) -> list[dict[str, Any]]:
    relation = trace.sql(query)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def test_what_takes_little_is_no_verdict(builder: TraceBuilder) -> None:
    """Ten in a hundred in a timer: told among what to try, but it does not limit the run."""
    builder.thread(builder.process(pid=1), states=[run(90), sleep(10), woken(0, by=INTERRUPT)])
    builder.wait(1, 90, 100, "sleep")
    builder.operation(1, 0, 100, "update")
    lines = shown(builder)
    assert lines[2].startswith("No single cause stands out. The largest part (90 %)")
    assert any(line.startswith("timer_sleep") for line in lines)


def test_a_busy_process_without_a_phase_is_named(builder: TraceBuilder) -> None:
    training(builder, 1)
    builder.thread(
        builder.process(pid=300, name="env", end_ns=280 * MS), states=[run(280 * MS, cpu=2)]
    )
    said = "no phase in env (pid 300), 50 % of the CPU time: it is no Python program"
    assert shown(builder)[-2] == said


@pytest.mark.parametrize(
    ("code", "measured", "command", "expected"),
    [
        (
            "nvtx_and_phases",
            True,
            "/usr/bin/python3 -u serve.py",
            "it used no known environment, model or framework",
        ),
        ("nvtx_ranges", True, "/usr/bin/python3 -u serve.py", "none was looked for (--no-auto)"),
        ("other_recorder", False, "/usr/bin/python3 serve.py", "its operations were not recorded"),
        ("nvtx_and_phases", True, "/usr/bin/pythonic", "it is no Python program"),
    ],
)
def test_why_a_busy_process_has_no_phase(
    tmp_path: Path, code: str, command: str, expected: str, *, measured: bool
) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb", meta=META)
    builder.coverage("thread_state")
    builder.coverage("operation", measured=measured, fact=Fact(code))
    builder.thread(builder.process(pid=1, command=command), states=[run(9)])
    with rlscope_analysis.open(builder.write()) as trace:
        lines = text.render(answer_of(overview(trace)), limit=20, width=100).splitlines()
    (said,) = [line for line in lines if line.startswith("no phase in ")]
    assert expected in said


@pytest.mark.parametrize(
    ("name", "command", "expected"),
    [
        ("python", "/usr/bin/python3.11 -u serve.py --port 1", "serve.py"),
        ("python3", "python3 -m torch.run x.py", "torch.run"),
        ("python", "python -c 'import x; x.main()'", "python"),
        ("python", "python -X importtime serve.py", "python"),
        ("python", "python '/a b/serve.py'", "python"),
        ("python", None, "python"),
        ("tee", "tee python serve.py", "tee"),
    ],
)
def test_another_process_is_called_as_what_python_runs_in_it(
    builder: TraceBuilder, name: str, command: str | None, expected: str
) -> None:
    main = builder.process(pid=1, command="python train.py")
    builder.thread(main, states=[run(90)])
    other = builder.process(pid=2, parent=main, name=name, command=command)
    builder.thread(other, states=[run(50, cpu=1), sleep(40)])
    with rlscope_analysis.open(builder.write()) as trace:
        (_, row) = trace.sql("SELECT name FROM training_process ORDER BY process_id").fetchall()
    assert row == (expected,)


class TestWhatCannotBeSaid:
    """Traces that lack something get an answer nevertheless."""

    def test_without_iterations(self, builder: TraceBuilder) -> None:
        builder.thread(builder.process(pid=1), states=[run(7 * MS), sleep(3 * MS)])
        lines = shown(builder)
        assert lines[3].startswith("No iterations were found: no updates, no range called")

    def test_steps_without_iterations(self, builder: TraceBuilder) -> None:
        thread = builder.thread(builder.process(pid=1), states=[run(10 * MS)])
        for start in range(0, 10 * MS, MS):
            end = start + MS // 2
            builder.operation(thread, start, end, "simulation", source="auto", steps=1)
        assert "(--per takes any); 1,000 environment steps/s." in " ".join(shown(builder))

    def test_without_a_thread(self, builder: TraceBuilder) -> None:
        assert "The trace holds no thread." in shown(builder)

    def test_without_states(self, tmp_path: Path) -> None:
        builder = TraceBuilder(tmp_path / "trace.duckdb")
        builder.coverage("operation")
        thread = builder.thread(builder.process(pid=1), states=[], end_ns=100)
        builder.operation(thread, 0, 50, "simulation", source="auto")
        builder.operation(thread, 50, 100, "backpropagation", source="auto")
        lines = shown(builder)
        assert any(line.startswith("backpropagation") and " - " in line for line in lines)

    def test_where_nobody_knows_who_ran(self, tmp_path: Path) -> None:
        """An import: 100 in calls of CUDA, and 40 of which nothing is known."""
        builder = TraceBuilder(tmp_path / "trace.duckdb")
        for kind in ("operation", "cuda_call"):
            builder.coverage(kind)
        builder.coverage("thread_state", measured=False)
        thread = builder.thread(builder.process(pid=1), states=[], end_ns=140)
        builder.operation(thread, 0, 140, "ProfilerStep#1")
        builder.cuda_call(thread, 40, 140, kind="sync", name="cudaDeviceSynchronize")
        lines = shown(builder)
        assert any(line.startswith("not recorded: when threads ran") for line in lines)
        with rlscope_analysis.open(builder.path) as trace:
            shares = dict(trace.sql("SELECT code, time_ns FROM limit_share").fetchall())
        assert shares == {"cuda_calls": 100, "not_measured": 40}

    @pytest.mark.parametrize(
        ("ranks", "said"),
        [
            ('[{"rank": 3, "world_size": 8}]', "1 of 8 ranks"),
            ('[{"rank": 0, "world_size": 1}]', None),
            ('[{"rank": 0, "world_size": null}]', None),
            ('{"rank": "damaged', None),
            ("[7]", None),
        ],
    )
    def test_one_rank_of_many(self, tmp_path: Path, ranks: str, said: str | None) -> None:
        builder = TraceBuilder(tmp_path / "trace.duckdb", meta={**META, "ranks": ranks})
        builder.coverage("thread_state")
        builder.thread(builder.process(pid=1), states=[run(100)])
        lines = shown(builder)
        assert any(said in line for line in lines if said) == (said is not None)
        path = builder.path
        reported = json.loads(rlscope("summarize", path, "--format", "json").stdout)
        assert [text[:12] for text in reported["not_known"]] == [said] * (said is not None)

    def test_of_a_tenth_of_a_second(self, builder: TraceBuilder) -> None:
        """One thread, which ran and slept; no operation, no sample."""
        builder.thread(
            builder.process(pid=1), states=[run(60 * MS), sleep(39 * MS), woken(MS, by=INTERRUPT)]
        )
        path = builder.write()
        lines = first_screen.check(path)
        assert lines[0].startswith("trace.duckdb   0.1 s   1 process")
        assert lines[2].endswith("which is not known: 39 % of the run.")
        reported = json.loads(rlscope("summarize", path, "--format", "json").stdout)
        assert reported["iterations"]["source"] == "whole"
        assert [found["code"] for found in reported["findings"]] == ["timer_or_device"]
        explained = rlscope("explain", path)
        assert "all of it: nothing looks like an iteration" in explained.stdout

    def test_with_losses_inside_an_iteration(self, builder: TraceBuilder) -> None:
        thread = builder.thread(builder.process(pid=1), states=[run(10), lost(80), run(10)])
        builder.operation(thread, 0, 100, "update")
        builder.loss("ring_full", count=7)
        lines = shown(builder)
        assert lines[-1].startswith("lost: 7 records; ")
        assert lines[2].startswith(
            "No single cause stands out. The largest part (80 %) has no records"
        )


def test_how_the_program_ended_is_said(tmp_path: Path) -> None:
    for code, said in ((1, "ended with exit status 1"), (137, "ended by SIGKILL"), (0, "")):
        builder = TraceBuilder(tmp_path / f"{code}.duckdb", meta=META)
        builder.coverage("thread_state")
        main = builder.process(pid=1, name="python", exit_code=code)
        builder.thread(main, states=[run(9 * MS)])
        # That of a child is not that of the program.
        builder.thread(builder.process(pid=2, parent=main, exit_code=3), states=[run(9 * MS)])
        first = first_screen.check(builder.write())[0]
        assert first.partition("ended")[2] == said.partition("ended")[2] + (
            "   2 processes on CPUs 0-1   GPU: not measured" if said else ""
        )


def test_spinning_is_said_where_it_is_much(builder: TraceBuilder) -> None:
    training(builder, 1)
    for at in range(4):
        builder.sample(1, (101 + 35 * at) * MS, "spin")
    lines = first_screen.check(builder.write())
    assert " of them spinning." in " ".join(lines)


def test_rows_that_are_left_out_are_named(one_screen: Overview) -> None:
    phases = tuple(one_screen.phases[0] | {"operation": f"phase {at}"} for at in range(9))
    lines = text.render(
        answer_of(dataclasses.replace(one_screen, phases=phases)), limit=20, width=100
    )
    assert "5 more: phase 4, phase 5, ..." in lines


def test_a_process_adds_up(builder: TraceBuilder) -> None:
    """Of one with one thread: on a CPU, waiting for one, asleep."""
    with rlscope_analysis.open(training(builder, 3).write()) as trace:
        for row in records(trace, "FROM training_process"):
            shares = [row[f"{name}_share"] for name in ("cpu", "queue", "sleeps")]
            assert sum(shares) == pytest.approx(1), row
            assert row["waits_share"] <= row["sleeps_share"]


def test_the_memory_of_a_recorder_is_enough(builder: TraceBuilder) -> None:
    """It ends with the verdict, with 128 MB; of a trace as small as this one it takes the least."""
    path = training(builder, 4).write()
    shown = rlscope("summarize", path, prefix=("env", f"{MEMORY_VARIABLE}=48MB"))
    assert "updates the model" in shown.stdout, shown.stdout + shown.stderr


def test_all_is_everything(builder: TraceBuilder) -> None:
    path = training(builder, 2).write()
    reported = rlscope("summarize", path, "--all").stdout
    assert "what to try first" in reported
    assert "whole trace" in reported
    assert "at stake: the most of an iteration that can be gained" in reported
    assert "scheduling, with run-queue latency" in reported


def test_a_sleep_on_nobody_is_the_wait_of_nobody(builder: TraceBuilder) -> None:
    builder.thread(builder.process(pid=1), states=[run(5), sleep(5), woken(1, by=INTERRUPT)])
    with rlscope_analysis.open(builder.write()) as trace:
        (row,) = records(trace, "FROM training_process")
    assert (row["waits_share"], row["waits_for_process_id"]) == (0, None)


def test_a_command_of_megabytes_is_not_split_to_its_end() -> None:
    # A stranger's trace may hold 4 MB of it: to split those took minutes.
    began = time.monotonic()
    assert program_of("python3 -u train.py " + "y" * 1_000_000) == "train.py"
    assert time.monotonic() - began < 2
