"""A trace that goes out as Chrome's JSON and comes in again through `import kineto` is the same."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kineto_builder import imported
from rlscope_analysis.export.timeline import Timeline
from rlscope_analysis.trace import Trace
from trace_builder import TraceBuilder

DATA = Path(__file__).resolve().parents[1] / "data" / "kineto"

# What Kineto has a word for. Ids are not compared, what they stand for is; domains and categories
# of NVTX are lost on that way.
TABLES = {
    "operation": "SELECT o.pid, t.tid, o.start_ns, o.end_ns, o.name, o.depth"
    " FROM operation AS o JOIN thread AS t USING (thread_id)",
    "native_call": "SELECT c.pid, t.tid, c.start_ns, c.end_ns, s.symbol, s.module, c.layer,"
    " c.parent_layer, c.depth FROM native_call AS c JOIN site AS s USING (site_id)"
    " JOIN thread AS t USING (thread_id)",
    "cuda_call": "SELECT c.pid, t.tid, c.start_ns, c.end_ns, c.kind, c.name, c.correlation_id"
    " FROM cuda_call AS c JOIN thread AS t USING (thread_id)",
    "gpu_activity": "SELECT * EXCLUDE (process_id) FROM gpu_activity",
    "gpu_device": "SELECT device_id, name, memory_bytes, multiprocessors, compute_capability"
    " FROM gpu_device",
    "thread": "SELECT tid, name FROM thread",
}


def rows(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: connection.execute(f"{query} ORDER BY ALL").fetchall()
        for table, query in TABLES.items()
    }


def sent_round(connection: duckdb.DuckDBPyConnection, directory: Path) -> Path:
    path = directory / "exported.json"
    timeline = Timeline(Trace(Path("in-memory"), connection, 1), "chrome")
    path.write_bytes(b"".join(timeline.pieces()))
    return path


@pytest.mark.parametrize("name", ["alexnet.json.gz", "triton_example.json.gz"])
def test_a_real_trace_comes_back(tmp_path: Path, name: str) -> None:
    original = tmp_path / name
    original.write_bytes((DATA / name).read_bytes())
    with imported(original) as before:
        truth = rows(before)
        exported = sent_round(before, tmp_path)
    assert truth["gpu_activity"]
    with imported(exported) as after:
        assert rows(after) == truth


# Kineto knows a thread by its line: what has a line of its own, as it overlaps, comes back on a
# thread of its own. What nests, as all that was recorded does, stays where it was.
CALLS = st.lists(st.tuples(st.integers(0, 99), st.none() | st.integers(1, 99)), max_size=8)
SPANS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)).map(lambda pair: (pair[0], sum(pair))),
    max_size=8,
)


def add_nested(
    builder: TraceBuilder, thread: int, origin: int, calls: list[tuple[int, int | None]]
) -> None:
    nested = ((0, 10**6, "iteration"), (0, 300_000, "forward"), (400_000, 900_000, "backward"))
    for start, end, name in nested:
        builder.operation(thread, origin + start, origin + end, name, source="record_function")
    builder.native_call(thread, origin, origin + 200_000, "python", "step:12")
    for slot, (length, correlation) in enumerate(calls):
        start = origin + slot * 100_000
        builder.cuda_call(thread, start, start + length, correlation_id=correlation)
    builder.cuda_call(
        thread, origin + 10**6, origin + 10**6 + 5, kind="sync", name="cuCtxSynchronize"
    )


@settings(deadline=None, max_examples=12)
@given(st.data(), CALLS, SPANS, st.sampled_from([0, 1_700_000_000_123_456_789]))
def test_generated_traces_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    calls: list[tuple[int, int | None]],
    spans: list[tuple[int, int]],
    origin: int,
) -> None:
    builder = TraceBuilder(Path("in-memory"), with_views=False)
    process = builder.process(pid=4242, name="python")
    thread = builder.thread(process, tid=4242, name="main", states=[])
    add_nested(builder, thread, origin, calls)
    for start, end in spans:
        builder.gpu_activity(
            process, origin + start, origin + end,
            name=data.draw(st.sampled_from(["gemm", 'π "x"'])),
            kind=data.draw(st.sampled_from(["kernel", "memcpy", "memset", "sync"])),
            device_id=data.draw(st.integers(0, 3)),
            stream_id=data.draw(st.none() | st.integers(0, 9)),
            correlation_id=data.draw(st.none() | st.integers(1, 99)),
            graph_id=data.draw(st.none() | st.integers(1, 3)),
            byte_count=data.draw(st.none() | st.integers(0, 2**53)),
        )  # fmt: skip
    with duckdb.connect() as connection:
        builder.fill(connection)
        truth = rows(connection)
        exported = sent_round(connection, tmp_path_factory.mktemp("round"))
    with imported(exported) as after:
        assert rows(after) == truth
