"""`explain`: which iteration is meant, what it spent its time on, and what makes it differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from recording import rlscope
from rlscope_analysis.errors import TraceError
from rlscope_analysis.explain.answer import explain
from rlscope_analysis.renderers import text
from trace_builder import INTERRUPT, TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

# Of each iteration, how long it sleeps; it runs for 20 and waits 1 for a CPU.
SLEEPS = (500, 10, 12, 14, 90, 16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    process = builder.process(pid=7, name="python")
    states, start = [], 0
    for asleep in SLEEPS:
        states += [run(15), sleep(asleep), woken(1, by=INTERRUPT), run(5)]
        builder.wait(1, start + 15, start + 15 + asleep, "sleep")
        builder.operation(1, start, start + 21 + asleep, "update")
        start += 21 + asleep
    builder.thread(process, states=states)
    return builder.write()


def explained(path: Path, which: str) -> dict[str, Any]:
    with rlscope_analysis.open(path) as trace:
        return dict(explain(trace, which).facts)


@pytest.mark.parametrize(
    ("which", "number"),
    [("slowest", 5), ("p99", 5), ("median", 4), ("fastest", 2), ("1", 1), ("6", 6)],
)
def test_the_iteration_that_is_meant(path: Path, which: str, number: int) -> None:
    """The first one is none of those by duration: it is slower in most programs."""
    assert explained(path, which)["iteration"] == {
        "iteration_id": number, "source": "range", "name": "update", "iterations": 6,
        "duration_ns": SLEEPS[number - 1] + 21, "median_ns": 14 + 21,
        "first_ns": 500 + 21,
    }  # fmt: skip


@pytest.mark.parametrize(("which", "is_said"), [("slowest", True), ("1", False)])
def test_a_first_iteration_that_took_longer_is_named(
    path: Path, which: str, *, is_said: bool
) -> None:
    with rlscope_analysis.open(path) as trace:
        said = text.render(explain(trace, which), limit=20)
    assert ("--iteration 1" in said) == is_said


COMPILE, MAIN = "compile (jit.py:3)", "main (train.py:1)"


@pytest.mark.parametrize(("count", "expected"), [
    (10, [(COMPILE, 0.4, 0.6), (MAIN, 0.4, 1.0)]), (9, []),
])  # fmt: skip
def test_the_functions_that_most_of_it_is_in(
    tmp_path: Path, count: int, expected: list[tuple[str, float, float]]
) -> None:
    """Of ten samples two are deeper than COMPILE; those of other threads are not asked."""
    builder = TraceBuilder(tmp_path / "functions.duckdb")
    builder.thread(builder.process(pid=7), states=[run(100)])
    builder.thread(builder.process(pid=8), states=[run(100)])
    builder.operation(1, 0, 100, "update")
    stacks = [(MAIN,)] * 4 + [("...", MAIN, COMPILE)] * 4 + [(MAIN, COMPILE, "deep (jit.py:9)")] * 2
    for at, frames in enumerate(stacks[:count]):
        builder.sample(1, 5 + 9 * at, "python", frames=frames)
        builder.sample(2, 5 + 9 * at, "python", frames=("other (a.py:1)",))
    facts = explained(builder.write(), "1")
    assert [tuple(row.values()) for row in facts["functions"]] == expected


def test_what_makes_it_differ_adds_up(path: Path) -> None:
    """Typical are those of 12, 14 and 16: the middle half of all but the first."""
    facts = explained(path, "slowest")
    assert [
        (row["cause"], row["time_ns"], row["typical_ns"], row["difference_ns"])
        for row in facts["parts"]
    ] == [("timer", 90, 14, 76), ("running", 20, 20, 0), ("cpu_wait", 1, 1, 0)]


def test_its_steps_tile_it(path: Path) -> None:
    with rlscope_analysis.open(path) as trace:
        found = explain(trace, "5")
        steps = list(found.data.records())
        assert [(row["after_ns"], row["duration_ns"], row["cause"]) for row in steps] == [
            (0, 15, "running"), (15, 90, "timer"), (105, 1, "cpu_wait"), (106, 5, "running"),
        ]  # fmt: skip
        shown = text.render(found, limit=2)
    assert "5 of 6 (the range update), 0.000 ms; the median is 0.000 ms" in shown
    assert "(2 more rows; all of them: --all)" in shown


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("7", "has no iteration 7"),
        ("0", "no iteration 0"),
        ("new", "is no iter"),
        ("9" * 5000, "is no iter"),
    ],
)
def test_an_iteration_that_is_not_there(path: Path, which: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        explained(path, which)


def test_a_trace_without_iterations(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.duckdb has no iteration$"):
        explained(TraceBuilder(tmp_path / "trace.duckdb").write(), "slowest")


def test_the_command(path: Path) -> None:
    reported = json.loads(rlscope("explain", path, "--format", "json").stdout)
    assert reported["iteration"]["iteration_id"] == 5
    assert (
        sum(row["duration_ns"] for row in reported["rows"]) == reported["iteration"]["duration_ns"]
    )
    lines = rlscope("explain", path, "--iteration", "2", "--format", "csv").stdout.splitlines()
    assert len(lines) == 1 + 4
    failed = rlscope("explain", path, "--per", "epoch")
    assert (failed.returncode, failed.stderr.splitlines()[0]) == (
        1, "error: no operation is called 'epoch'",
    )  # fmt: skip
