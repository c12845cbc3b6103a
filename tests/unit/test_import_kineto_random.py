"""`import kineto` on random files in the styles of 2020 to 2026: an independent reader agrees."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kineto_builder import imported, losses, measures

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import pytest

Intervals = dict[tuple[object, ...], list[tuple[int, int]]]

CATEGORIES = {
    "kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset",
    "Kernel": "kernel", "Memcpy": "memcpy", "Memset": "memset",
}  # fmt: skip
UNREADABLE = "kineto_unreadable"
ORPHANS = "kineto_gpu_without_call"
EPOCHS_NS = (0, 3_141_592_653_589, 1_695_835_542_514_261_123)
PIDS = (4242, 77)
# Most activities have none; a field that is None is left out.
DAMAGES: list[dict[str, str | None]] = [
    *[{}] * 12, {"dur": None}, {"dur": "-1.5"}, {"ts": '"soon"'},
]  # fmt: skip


@st.composite
def microseconds(draw: st.DrawFn, time_ns: int) -> str:
    """Write a time as JSON, in one of the ways in which programs write it."""
    whole, fraction = divmod(time_ns, 1000)
    plain = f"{whole}.{fraction:03}"
    shortest = plain.rstrip("0").rstrip(".")
    return draw(
        st.sampled_from([plain, shortest, f'"{plain}"', f"{plain}00", f"{time_ns}e-3",
                         f"{time_ns / 1:.0f}E-03" if time_ns < 2**53 else plain])
    )  # fmt: skip


@st.composite
def activity(draw: st.DrawFn, epoch_ns: int) -> str:
    """Make the JSON of one GPU activity; a few of them are unreadable."""
    device, stream = draw(st.sampled_from([0, 1])), draw(st.sampled_from([7, 20, 94_089_345_345]))
    fields = {
        "ph": '"X"',
        "cat": json.dumps(draw(st.sampled_from(list(CATEGORIES)))),
        "name": json.dumps(draw(st.sampled_from(["gemm", 'k<"\\u00e9\\\\">', "{[", ""]))),
        "ts": draw(microseconds(epoch_ns + draw(st.integers(0, 20_000)))),
        "dur": draw(microseconds(draw(st.integers(0, 5_000)))),
    }
    args: dict[str, object] = {"grid": [1, {"ts": 5}], "est": None}
    if draw(st.booleans()):
        args |= {draw(st.sampled_from(["device", "inDevice"])): device, "stream": stream}
        fields["tid"] = draw(st.sampled_from(['"stream 7"', "0"]))
        fields |= draw(st.sampled_from([{"pid": "9"}, {}, {"pid": '"GPU 1"'}]))
    else:
        fields |= {"pid": draw(st.sampled_from([f'"{device}"', f"{device}"])), "tid": str(stream)}
    correlation = draw(st.sampled_from([None, 0, -1, *range(1, 9)]))
    if correlation is not None:
        args["correlation"] = correlation
    fields["args"] = json.dumps(args)
    damage: dict[str, str | None] = draw(
        st.sampled_from([{}] * 12 + [{"dur": None}, {"dur": "-1.5"}, {"ts": '"soon"'}])
    )
    order = draw(st.permutations([key for key in fields if damage.get(key, "") is not None]))
    return "{" + ", ".join(f'"{key}": {damage.get(key) or fields[key]}' for key in order) + "}"


def launch(correlation: int, epoch_ns: int) -> str:
    """Make the JSON of the call that a correlation names: odd ones are of the first process."""
    pid = PIDS[0] if correlation % 2 else PIDS[1]
    return (
        f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": {pid}, "tid": 1,'
        f' "ts": {epoch_ns // 1000}, "dur": 1, "args": {{"correlation": {correlation}}}}}'
    )


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Make a file; calls 1 to 5 are in it, so that the first process launches most."""
    epoch_ns = draw(st.sampled_from(EPOCHS_NS))
    events = [launch(correlation, epoch_ns) for correlation in range(1, 6)]
    events += draw(st.lists(activity(epoch_ns), max_size=30))
    listed = draw(st.sampled_from([", ", ",", ",\n  "])).join(draw(st.permutations(events)))
    text = draw(
        st.sampled_from(
            [
                "[{}]",
                '{{"schemaVersion": 1, "traceEvents": [{}]}}',
                '{{"traceEvents": [\n{}\n], "traceName": "a[b].json"}}\n',
            ]
        )
    )
    data = text.format(listed).encode()
    middle = len(data) // 2
    packed = gzip.compress(data[:middle]) + gzip.compress(data[middle:])
    return draw(st.sampled_from([data, packed]))


def nanoseconds(value: object) -> int | None:
    try:
        return int(Decimal(str(value)) * 1000)
    except ArithmeticError:
        return None


def read_independently(data: bytes) -> tuple[Intervals, int, int]:
    """Return intervals by kind, device, stream and pid; how many are unreadable; and orphans."""
    text = gzip.decompress(data) if data[:1] == b"\x1f" else data
    trace = json.loads(text, parse_float=Decimal)
    events: list[dict[str, Any]] = trace if isinstance(trace, list) else trace["traceEvents"]
    caller = {e["args"]["correlation"]: e["pid"] for e in events if e["cat"] == "cuda_runtime"}
    found: Intervals = defaultdict(list)
    unreadable = orphans = 0
    for event in events:
        if event["cat"] not in CATEGORIES:
            continue
        start, length = nanoseconds(event["ts"]), nanoseconds(event.get("dur"))
        if start is None or length is None or length < 0:
            unreadable += 1
            continue
        args = event["args"]
        device = args.get("device", args.get("inDevice", event.get("pid")))
        stream = args.get("stream", event["tid"])
        pid = caller.get(args.get("correlation"))
        orphans += pid is None
        key = (CATEGORIES[event["cat"]], int(device), int(stream), pid or PIDS[0])
        found[key].append((start, start + length))
    return found, unreadable, orphans


def stored(con: duckdb.DuckDBPyConnection) -> Intervals:
    rows = con.execute(
        "SELECT kind, device_id, stream_id, pid, start_ns, end_ns FROM gpu_activity"
    ).fetchall()
    found: Intervals = defaultdict(list)
    for *key, start_ns, end_ns in rows:
        found[tuple(key)].append((start_ns, end_ns))
    return found


def measures_by(intervals: Intervals, *columns: int) -> dict[tuple[object, ...], dict[str, int]]:
    joined: Intervals = defaultdict(list)
    for key, some in intervals.items():
        joined[tuple(key[column] for column in columns)] += some
    return {key: measures(some) for key, some in joined.items()}


@settings(max_examples=20, deadline=None)
@given(data=files())
def test_every_style_equals_the_reference(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path: Path = tmp_path_factory.mktemp("random") / "trace.json"
    path.write_bytes(data)
    expected, unreadable, orphans = read_independently(data)
    with imported(path) as con:
        found = stored(con)
        for columns in ((), (0,), (1,), (3,), (0, 1), (0, 1, 2, 3)):
            assert measures_by(found, *columns) == measures_by(expected, *columns)
        assert losses(con).get(("dropped", UNREADABLE), 0) == unreadable
        assert losses(con).get(("unmatched", ORPHANS), 0) == orphans
