"""Partials of traces: merged in any order and grouping they give what one pass over all gives."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from compared_traces import MS, Step, write_trace
from random_traces import traces
from rlscope_analysis.errors import TraceError
from rlscope_analysis.fleet.histogram import quantile
from rlscope_analysis.fleet.merge import Key, Merged, merged, of_one
from rlscope_analysis.fleet.partial import GROUPS, KINDS, LIMITS, Facts, Partial, Row, partial_of
from rlscope_analysis.fleet.partial_file import (
    PartialReader,
    fingerprint,
    partial_path,
    write_partial,
)
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run

if TYPE_CHECKING:
    from pathlib import Path

FACTS = Facts("host", "boot", "1", "2", True, 1, 1, 0, 9, 0, None, None)
TIMES = st.integers(0, 2**62)
WORDS = st.sampled_from([None, "a", "b"])


@st.composite
def partials(draw: st.DrawFn) -> Partial:
    rows: dict[tuple[object, ...], Row] = {}
    for _ in range(draw(st.integers(0, 6))):
        row = Row(
            draw(st.sampled_from(KINDS)), draw(WORDS), draw(WORDS), draw(WORDS),
            draw(st.integers(0, 2)), draw(TIMES), draw(TIMES), draw(st.none() | TIMES),
            draw(st.none() | TIMES), draw(TIMES), draw(TIMES),
        )  # fmt: skip
        rows[row[:5]] = row
    return Partial(FACTS, tuple(rows.values()))


@given(st.lists(partials(), max_size=7), st.randoms(use_true_random=False))
def test_order_and_grouping_do_not_matter(found: list[Partial], chance: random.Random) -> None:
    parts = [(f"m{at}", partial) for at, partial in enumerate(found)]
    at_once = merged(parts)
    # As a tree of tasks does it: any two are merged, until there is one.
    groups = [of_one(*part) for part in parts]
    while len(groups) > 1:
        chance.shuffle(groups)
        groups.append(groups.pop() + groups.pop())
    assert reduce(lambda _, one: one, groups, Merged()) == at_once


# Each example opens traces: most of its time. With -m matrix more of them are tried.
@pytest.mark.parametrize(
    "examples", [2, pytest.param(40, marks=[pytest.mark.matrix, pytest.mark.slow])]
)
def test_merged_traces_have_what_one_query_over_all_of_them_finds(
    tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )
    @given(st.lists(traces(), min_size=2, max_size=2))
    def holds(builders: list[TraceBuilder]) -> None:
        compare_with_one_query(tmp_path_factory.mktemp("fleet"), builders)

    holds()


def compare_with_one_query(folder: Path, builders: list[TraceBuilder]) -> None:
    found, expected = {}, duckdb.connect()
    expected.execute("CREATE TABLE b (bucket VARCHAR, time_ns BIGINT, on_gpu BIGINT)")
    lifetimes = 0
    for at, builder in enumerate(builders):
        path = replace(builder, path=folder / f"{at}.duckdb").write()
        try:
            opened = open_trace(path)
        except TraceError as error:
            # What no writer writes is refused before anything is asked.
            assert "not a trace" in str(error)  # noqa: PT017
            continue
        with opened as trace:
            found[path.stem] = partial_of(trace)
            rows = trace.connection.execute(
                "SELECT bucket, time_ns, CASE WHEN gpu_busy THEN time_ns ELSE 0 END FROM breakdown"
            ).fetchall()
            ((lived,),) = trace.connection.execute(
                "SELECT coalesce(sum(end_ns - start_ns), 0) FROM thread"
            ).fetchall()
        lifetimes += lived
        if rows:
            expected.executemany("INSERT INTO b VALUES (?, ?, ?)", rows)
    whole = merged(found.items())
    sums = dict(
        expected.execute("SELECT bucket, sum(time_ns)::BIGINT FROM b GROUP BY bucket").fetchall()
    )
    assert {key.bucket: one.time_ns for key, one in whole.of_kind("bucket").items()} == sums
    assert whole.time_of("process") == whole.time_of("operation") == lifetimes
    assert whole.time_of("cause") == sum(
        one.time_ns for member in whole.iterations.values() for one in member
    )


def test_a_partial_comes_back_as_it_was_written(tmp_path: Path) -> None:
    trace_path = write_trace(tmp_path / "a.duckdb", [Step()] * 5, meta={"host": "it's one"})
    with open_trace(trace_path) as trace:
        partial = partial_of(trace, per="iteration")
    mark = fingerprint(trace_path, reader="1", per="iteration")
    write_partial(partial, partial_path(trace_path), mark)
    with PartialReader([trace_path]) as reader:
        assert reader.read(trace_path, mark) == partial
        assert partial.facts.host == "it's one"
        assert partial.facts.iterations == 5
        other = fingerprint(trace_path, reader="2", per="iteration")
        assert reader.read(trace_path, other) is None


def test_a_partial_of_very_many_processes_and_operations_stays_small(tmp_path: Path) -> None:
    """And still adds up: what has no row of its own is in the row of the others."""
    builder = TraceBuilder(tmp_path / "a.duckdb")
    builder.coverage("thread_state")
    chance = random.Random(5)
    spent = 0
    for at in range(60):
        process = builder.process(pid=at + 1, name="".join(chance.choices("abcdefgh", k=15)))
        length = chance.randrange(10**9)
        spent += 2 * length
        thread = builder.thread(process, states=[run(length), *[run(1)] * 0, run(length)])
        builder.operation(thread, 0, length, "".join(chance.choices("abcdefghij", k=200)))
    for at in range(1200):
        builder.operation(1, at * 1000 + 1, at * 1000 + 900, "iteration")
    builder.write()
    with open_trace(builder.path) as trace:
        partial = partial_of(trace, per="iteration")
    whole = merged([("a", partial)])
    assert whole.time_of("process") == whole.time_of("operation") == spent
    assert len({key.name for key in whole.of_kind("process")}) == GROUPS + 1
    assert Key("process", "other", "(others)", "running") in whole.sums
    write_partial(partial, tmp_path / "p", "mark")
    assert (tmp_path / "p").stat().st_size <= 64_000


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Partial]:
    path = write_trace(tmp_path_factory.mktemp("one") / "a.duckdb", [Step()] * 5)
    with open_trace(path) as trace:
        return path, partial_of(trace)


def damaged(kind: str, path: Path) -> None:
    connection = duckdb.connect()
    if kind == "bytes":
        path.write_bytes(path.read_bytes()[:-100] + bytes(100))
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "link":
        path.rename(path.with_suffix(".elsewhere"))
        path.symlink_to(path.with_suffix(".elsewhere"))
    else:
        changed = {
            "far": "SELECT * REPLACE (CASE WHEN kind = 'iteration_time' THEN 9223372036854775807"
            " ELSE number END AS number) FROM p",
            "negative": "SELECT * REPLACE (-time_ns AS time_ns) FROM p",
            "many": "SELECT p.* FROM p, range(5000)",
            "other": "SELECT 1 AS x",
            "kind": "SELECT * REPLACE ('what' AS kind) FROM p",
            "limit": "SELECT * REPLACE ('what' AS name) FROM p",
            "words": "SELECT * REPLACE (repeat('x', 5000) AS role) FROM p",
            "text": "SELECT * REPLACE ('x' AS time_ns) FROM p",
        }[kind]
        keys = {
            bytes(key).decode(): bytes(value).decode()
            for key, value in connection.execute(
                "SELECT key, value FROM parquet_kv_metadata($1)", [str(path)]
            ).fetchall()
        }
        connection.execute(f"CREATE TABLE p AS FROM read_parquet('{path}')")
        facts = keys["facts"].replace("'", "''")
        connection.execute(
            f"COPY ({changed}) TO '{path}' (FORMAT parquet,"
            f" KV_METADATA {{mark: '{keys['mark']}', facts: '{facts}'}})"
        )


@pytest.mark.parametrize(
    "kind",
    [
        "bytes",
        "empty",
        "far",
        "link",
        "negative",
        "many",
        "other",
        "kind",
        "limit",
        "words",
        "text",
    ],
)
def test_a_partial_that_is_not_ours_is_not_used(kind: str, one: tuple[Path, Partial]) -> None:
    trace_path, partial = one
    mark = fingerprint(trace_path, reader="1", per=None)
    path = partial_path(trace_path)
    path.unlink(missing_ok=True)
    write_partial(partial, path, mark)
    with PartialReader([trace_path]) as reader:
        assert reader.read(trace_path, mark) == partial
    damaged(kind, path)
    with PartialReader([trace_path]) as reader:
        assert reader.read(trace_path, mark) is None


def test_quantiles_of_a_histogram_are_within_its_steps() -> None:
    chance = random.Random(2)
    times = sorted(round(chance.lognormvariate(14, 2)) for _ in range(5000))
    counts = dict(
        duckdb.execute(
            "SELECT floor(log2(t) * 8)::BIGINT AS step, count(*)"
            " FROM (SELECT unnest($1::BIGINT[]) AS t) GROUP BY step",
            [times],
        ).fetchall()
    )
    for part in (0.5, 0.9, 0.99):
        found, exact = quantile(counts, part), times[int(part * len(times))]
        assert found == pytest.approx(exact, rel=0.045)
    assert quantile({}, 0.5) is None


def test_the_same_member_is_not_merged_twice() -> None:
    one = of_one("a", Partial(FACTS, ()))
    with pytest.raises(ValueError, match="merged twice: a"):
        one + one
    with pytest.raises(ValueError, match="merged twice: a"):
        merged([("a", Partial(FACTS, ())), ("a", Partial(FACTS, ()))])


def test_limits_of_iterations_stay_small_and_whole(tmp_path: Path) -> None:
    """As many as there is room for, each with all of its limits."""
    chance = random.Random(5)
    steps = [
        Step(simulation=chance.randrange(10**8), inference=chance.randrange(10**8),
             asleep=chance.randrange(10**8), rest=chance.randrange(10**8))
        for _ in range(1100)
    ]  # fmt: skip
    trace_path = write_trace(tmp_path / "a.duckdb", steps)
    with open_trace(trace_path) as trace:
        partial = partial_of(trace, per="iteration")
    write_partial(partial, tmp_path / "p", "mark")
    assert (tmp_path / "p").stat().st_size <= 64_000
    ((_, iterations),) = merged([("a", partial)]).iterations.items()
    kept = [one for one in iterations if one.limits]
    assert [one.number for one in kept] == list(range(2, len(kept) + 2))
    assert all(sum(time_ns for _, time_ns in one.limits) == one.time_ns for one in kept)
    rows = sum(len(one.limits) for one in kept)
    assert LIMITS - 10 < rows <= LIMITS


def test_iterations_have_their_own_time(tmp_path: Path) -> None:
    trace_path = write_trace(tmp_path / "a.duckdb", [Step(simulation=7 * MS)] * 4)
    with open_trace(trace_path) as trace:
        (iterations,) = merged([("a", partial_of(trace, per="iteration"))]).iterations.values()
    assert [one.time_ns for one in iterations] == [58 * MS] * 4
    # Of the first, which findings leave out, it is not known.
    assert [one.waited_ns for one in iterations] == [None, 0, 0, 0]
    assert [sum(time_ns for _, time_ns in one.limits) for one in iterations[1:]] == [58 * MS] * 3
    assert iterations[0].limits == ()
