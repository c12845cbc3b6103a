"""What people read in a cell is made of typed columns: programs get these, and no words."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import rlscope_analysis.reports
from rlscope_analysis.explain.answer import explain
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers import markdown, text
from rlscope_analysis.renderers.cells import cells_of, grid_column
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.column import Column, Role, Said, Unit
from rlscope_analysis.result.note import note
from rlscope_analysis.result.pivot import pivoted
from rlscope_analysis.result.table import NO_VALUE, Answer, Pivot, Table, total_of
from rlscope_analysis.schema.vocabulary import LOST_OPERATION, NO_PHASE, UNANNOTATED
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

MS = 10**6
# Groups that have a name, and resources: the only words of a query that are not codes.
NAMES = {UNANNOTATED, LOST_OPERATION, NO_PHASE, "CPU", "CPU+GPU"}
QUERIES = sorted(
    found.name
    for found in resources.files(rlscope_analysis.reports).iterdir()
    if found.name.endswith(".sql")
)


def cells(found: Answer, name: str) -> list[str]:
    """Return what people see in a column."""
    (table, *_) = found.tables
    written = cells_of(table)
    return [written(row, table.place(name)) for row in table.rows]


def values(found: Answer, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found.tables[0].records()]


def test_a_cell_says_several_columns() -> None:
    columns = (
        Column("pid", Unit.ID),
        Column("gpu", said=Said("process_or_gpu", ("device_id",), label="where")),
        Column("device_id", Unit.ID, Role.HIDDEN),
        Column("time_ns", Unit.NS, additive=True),
    )
    rows = [(1, "train", None, MS), (1, "train", 3, MS), (2, None, None, MS)]
    table = Table("toy", "", columns, rows, total=total_of(columns, rows))
    found = Answer((table,), table, {})
    assert [line.split() for line in text.render(found, limit=None).splitlines()][1:] == [
        ["1", "train", "1.000"],
        ["1", "GPU", "3", "1.000"],
        ["2", "(no", "name)", "1.000"],
        # No GPU is told of a sum.
        ["total", "3.000"],
    ]
    assert "| 1 | GPU 3 | 1.000 |\n" in "".join(markdown.render(found, limit=None))
    assert [row["gpu"] for row in table.records()] == ["train", "train", None]


def test_what_has_a_name_of_its_own_is_said_as_that() -> None:
    """A row that tells of a whole group has a note in the place of a name."""
    column = Column("name", said=Said("no_name"), most=8)
    written = cells_of(Table("toy", "", (column,), []))
    assert written((note("nothing_lost"),), 0) == "nothing lost"
    assert written((NO_VALUE,), 0) == ""
    assert written((None,), 0) == "(no n..."
    assert written(("\x1b[2J name",), 0) == "\\x1b[..."


@pytest.fixture
def builder(tmp_path: Path) -> TraceBuilder:
    made = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in ("thread_state", "gpu_activity", "wait", "cuda_call", "operation"):
        made.coverage(kind)
    return made


def test_the_scopes_of_gpu_time(builder: TraceBuilder) -> None:
    builder.device(0, name="H200")
    builder.process(pid=10, name="train", end_ns=100)
    builder.process(pid=None, name=None, end_ns=100)
    builder.gpu_activity(1, 0, 50, stream_id=7)
    builder.gpu_activity(2, 60, 80, device_id=1, stream_id=None)
    path = builder.write()
    with duckdb.connect(path) as connection:
        connection.execute("UPDATE process SET host = 'node'")
        connection.execute("UPDATE gpu_device SET host = 'node'")
        connection.execute(
            "INSERT INTO gpu_stream (process_id, device_id, context_id, stream_id, name)"
            " VALUES (1, 0, 1, 7, 'compute')"
        )
    with open_trace(path) as trace:
        found = answer(trace, REPORTS["gpu"])
    assert cells(found, "name") == [
        "all", "node", "train (pid 10)", "(pid not known)", "node GPU 0 H200", "node GPU 1",
        "pid 10, node GPU 0, stream 7 compute", "pid not known, node GPU 1, stream ?", "kernel",
    ]  # fmt: skip
    assert values(found, "scope", "name", "pid", "device_id", "stream_id", "kind") == [
        ("trace", None, None, None, None, None),
        ("machine", None, None, None, None, None),
        ("process", "train", 10, None, None, None),
        ("process", None, None, None, None, None),
        ("device", "H200", None, 0, None, None),
        ("device", None, None, 1, None, None),
        ("stream", "compute", 10, 0, 7, None),
        ("stream", None, None, 1, None, None),
        ("kind", None, None, None, None, "kernel"),
    ]


def gpu_path(builder: TraceBuilder) -> Trace:
    """Return a process without a name that waits for its GPU."""
    thread = builder.thread(
        builder.process(pid=10, name=None), states=[run(30 * MS), sleep(60 * MS), run(10 * MS)]
    )
    builder.cuda_call(thread, 10 * MS, 12 * MS, correlation_id=1)
    builder.cuda_call(
        thread, 25 * MS, 92 * MS, kind="sync", name="cudaStreamSynchronize", correlation_id=2
    )
    builder.gpu_activity(1, 20 * MS, 88 * MS, correlation_id=1)
    return open_trace(builder.write())


def test_the_path_tells_processes_and_gpus_apart(builder: TraceBuilder) -> None:
    with gpu_path(builder) as trace:
        trace.critical_path()
        path = answer(trace, REPORTS["critical-path"])
        parts = explain(trace, "median", keep=True)
    for found in (path, parts):
        assert set(cells(found, "process")) == {"(no name)", "GPU 0"}
        assert set(values(found, "process", "device_id")) == {(None, None), (None, 0)}
    assert set(cells(path, "layer")) == {"-", "cuda_api"}
    assert {value for (value,) in values(path, "layer")} == {None, "cuda_api"}


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("process", "train", "train"),
        ("process", None, "(no name)"),
        ("program", "make", "make"),
        (None, None, "-"),
    ],
)
def test_who_had_the_cpu(kind: str | None, name: str | None, words: str) -> None:
    assert sentence_of(note("cpu_had_by", value=name, by_kind=kind)) == words


@pytest.mark.parametrize(
    ("name", "kind", "process_id", "words"),
    [
        ("sim", "process", 2, "sim"),
        (None, "process", 2, "(no name)"),
        ("train", "process", 1, "(itself)"),
        (None, "timer", None, "(a timer)"),
        (None, "outside", None, "(outside the trace)"),
        (None, "unknown", None, "(not known)"),
    ],
)
def test_whom_a_thread_waited_for(
    name: str | None, kind: str, process_id: int | None, words: str
) -> None:
    said = note("waited_for", value=name, process_id=1, peer_kind=kind, peer_process_id=process_id)
    assert sentence_of(said) == words


@pytest.mark.parametrize(
    ("name", "tid", "holder", "leading"),
    [
        ("main", 7, "main/7", "main/7"),
        ("main", None, "main/?", "main/?"),
        (None, 7, "(not known)", "?/7"),
    ],
)
def test_threads(name: str | None, tid: int | None, holder: str, leading: str) -> None:
    assert sentence_of(note("gil_holder", value=name, holder_tid=tid)) == holder
    assert sentence_of(note("leading_thread", value=name, leading_tid=tid)) == leading


def test_a_part_of_a_gpu_is_told_by_its_uuid() -> None:
    said = {
        uuid: sentence_of(note("gpu", value="H200", host="node", device_id=0, uuid=uuid))
        for uuid in ("MIG-1", "GPU-1", None)
    }
    assert said == {
        "MIG-1": "node GPU 0 MIG-1 H200", "GPU-1": "node GPU 0 H200", None: "node GPU 0 H200",
    }  # fmt: skip


def test_the_sums_of_corrected_time_say_what_they_are_of(builder: TraceBuilder) -> None:
    for event in ("switch", "wakeup"):
        builder.cost(event, 1000, error_ns=100)
    thread = builder.thread(builder.process(pid=10, name=None, end_ns=100), states=[run(100)])
    builder.operation(thread, 0, 60, "learn")
    with open_trace(builder.write()) as trace:
        found = answer(trace, REPORTS["corrected"])
    assert list(
        zip(*(cells(found, name) for name in ("process", "operation", "bucket")), strict=True)
    ) == [
        ("(all)", "(all)", "(all)"),
        ("(no name)", "(all)", "(all)"),
        ("(no name)", "learn", "(all)"),
        ("(no name)", "learn", "running"),
        ("(no name)", "(unannotated)", "(all)"),
        ("(no name)", "(unannotated)", "running"),
    ]
    assert values(found, "scope", "operation", "bucket") == [
        ("trace", None, None),
        ("process", None, None),
        ("operation", "learn", None),
        ("bucket", "learn", "running"),
        ("operation", "(unannotated)", None),
        ("bucket", "(unannotated)", "running"),
    ]


def words_in(sql: str) -> list[str]:
    """Return the words that a query gives for a value that it does not have, and other prose.

    In what order rows stand may depend on the words that people see.
    """
    shown, _, _ = re.sub(r"--.*", "", sql).partition("\nORDER BY")
    prose = [word for word in re.findall(r"'([^']*)'", shown) if not re.fullmatch("[a-z_:]+", word)]
    defaults = re.findall(r"coalesce\([^']*, '([^']*)'\)", shown)
    return [word for word in prose + defaults if word not in NAMES]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_makes_no_text(name: str) -> None:
    sql = resources.files(rlscope_analysis.reports).joinpath(name).read_text(encoding="utf-8")
    assert words_in(sql) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("coalesce(wait, 'not known')", ["not known"]),
        ("coalesce(state::VARCHAR, 'unknown')", ["unknown"]),
        ("CASE WHEN n = 0 THEN '-' ELSE name END", ["-"]),
        ("coalesce(k.frames, ['(no Python function)'])", ["(no Python function)"]),
        ("array_to_string(members, ' + ')", [" + "]),
        ("CASE WHEN path_id = 0 THEN '(unannotated)' WHEN kind = 'kernel' THEN name END", []),
    ],
)
def test_text_in_a_query_is_found(value: str, words: list[str]) -> None:
    sql = (
        f"-- What it's about.\nSELECT {value} AS name\nFROM x\nORDER BY coalesce(name, 'not known')"
    )
    assert sorted(set(words_in(sql))) == words


@pytest.fixture
def partly_known(builder: TraceBuilder) -> Iterator[Trace]:
    """Open a trace of which hardly anything is known beside the times."""
    for kind in ("native_call", "cpu_sample"):
        builder.coverage(kind)
    thread = builder.thread(
        builder.process(pid=10, name="train", end_ns=100), states=[run(40), sleep(60)]
    )
    builder.native_call(thread, 10, 20, "backend", "aten::mm")
    builder.sample(thread, 5, None)
    builder.operation(thread, 0, 30, "learn")
    builder.gpu_activity(1, 0, 20)
    builder.gpu_activity(1, 30, 50)
    with open_trace(builder.write()) as trace:
        yield trace


@pytest.mark.parametrize(
    ("view", "column", "told"),
    [
        ("blocked", "wait", [(None, "not known")]),
        ("blocked", "inside", [(None, "-")]),
        ("blocked", "state", [("sleeping", "sleeping")]),
        ("functions", "function", [(None, "(no Python function)")]),
        ("operation-functions", "function", [(None, "(no Python function)")]),
        ("operation-functions", "layer", [(None, "not known")]),
        ("launch", "operation", [(None, "(call not in the trace)")]),
        ("attribution", "operation", [(None, "(call not in the trace)")]),
        ("gpu-idle", "operation", [(None, "(call not in the trace)")]),
        ("idle", "operation", [(None, "(call not in the trace)")]),
        ("idle", "cause", [(None, "not known")]),
        ("idle", "state", [(None, "not known")]),
        ("layer", "layer", [("backend", "backend"), (None, "not known")]),
        ("transitions", "from_layer", [(None, "no known call")]),
        ("process-overlap", "process_ids", [([1], "1")]),
        ("operation-overlap", "operations", [(["learn"], "learn")]),
    ],
)
def test_what_is_not_known_is_null_and_has_words(
    partly_known: Trace, view: str, column: str, told: list[tuple[Any, str]]
) -> None:
    found = answer(partly_known, REPORTS[view])
    pairs = list(
        zip((value for (value,) in values(found, column)), cells(found, column), strict=True)
    )
    assert [pair for at, pair in enumerate(pairs) if pair not in pairs[:at]] == told


def test_resources_at_once_are_a_list(partly_known: Trace) -> None:
    found = answer(partly_known, REPORTS["resource-overlap"])
    told = dict(zip(cells(found, "resources"), values(found, "resources"), strict=True))
    assert told["(none)"] == ([],)
    assert told["cpu + gpu"] == (["cpu", "gpu"],)


def test_layers_tell_where_no_gpu_was_measured(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in ("thread_state", "cuda_call"):
        builder.coverage(kind)
    builder.thread(builder.process(pid=1, end_ns=10), states=[run(10)])
    with open_trace(builder.write()) as trace:
        layers, resources_ = (answer(trace, REPORTS[name]) for name in ("layer", "resource"))
    assert values(layers, "resource") == values(resources_, "resource") == [(None,)]
    assert cells(layers, "resource") == ["CPU, GPU not measured"]
    assert text.render(resources_, limit=None).splitlines()[1].split() == [
        "operation", "not", "measured", "%", "total",
    ]  # fmt: skip


def test_what_was_not_counted_came_from_no_layer_that_is_known() -> None:
    said = [sentence_of(note("from_layer", value=None, counted=count)) for count in (3, 0, None)]
    assert said == ["no known call", "-", "-"]


def test_where_no_call_was_counted_nothing_is_known_of_the_layer(builder: TraceBuilder) -> None:
    builder.coverage("native_call")
    builder.site("simulator", "mj_step", probed_ns=60)
    builder.thread(builder.process(pid=1, end_ns=100), states=[run(100)])
    with open_trace(builder.write()) as trace:
        (table,) = answer(trace, REPORTS["transitions"]).tables
    assert {row["counted"] for row in table.records()} >= {0}
    assert table.columns[table.place("from_layer")].unit is Unit.UNKNOWN


def test_the_rest_of_many_sets_has_no_list() -> None:
    columns = (
        Column("sets", said=Said("set_or_others")),
        Column("time_ns", Unit.NS, additive=True),
    )
    rows = [(["a", "b"], MS), (None, MS)]
    total = total_of(columns, rows)
    assert total is not None
    written = cells_of(Table("toy", "", columns, rows, total=total))
    assert [written(row, 0) for row in (*rows, total)] == ["a + b", "(all other sets)", "total"]


def test_a_heading_says_the_value_that_it_is_for() -> None:
    columns = (
        Column("name"), Column("state", said=Said("or_not_known")), Column("time_ns", Unit.NS)
    )  # fmt: skip
    rows = [("main", None, MS), ("main", "lost", MS)]
    wide = pivoted(Table("toy", "", columns, rows), Pivot("state", "time_ns", ("lost",)))
    shown = [column for column in wide.columns if column.role is Role.SHOWN]
    assert [grid_column(column, has_unit=False).heading for column in shown] == [
        "name", "lost", "not known", "total",
    ]  # fmt: skip
