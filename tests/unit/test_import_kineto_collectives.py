"""`import kineto`: which kernels of several ranks are one collective, and who let whom go on.

Kernels look as PyTorch 2.13 writes them: what `record_param_comms` knows stands among the arguments
of the kernel that it launched.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from flow_checks import check_edges
from kineto_builder import call, kernel, losses, op, run_import, write_kineto, write_text
from rlscope_analysis.views import view_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kineto_builder import Event

NAME, SIZE = "Collective name", "Group size"
BASE_NS = 1_790_857_026_000_000_000
EDGES = """
SELECT
  (from_ns - (SELECT min(start_ns) FROM gpu_activity)) // 1000, from_process_id,
  (to_ns - (SELECT min(start_ns) FROM gpu_activity)) // 1000, to_process_id, correlation_id
FROM flow WHERE kind = 'collective' ORDER BY ALL
"""


def collective(start_us: int, end_us: int, seq: object = 1, **changed: object) -> list[Event]:
    """Return a call of the default group of two ranks, and its kernel; changed: its arguments."""
    number = 10 * start_us + 1
    args = {
        "External id": number, "Collective name": "allreduce", "In msg nelems": 64,
        "Out msg nelems": 64, "Group size": 2, "dtype": "Float", "In split size": "[]",
        "Out split size": "[]", "Process Group Name": "0",
        "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
        "Seq": seq, "Comms Id": 12_345_678_901_234_567_890,
    } | changed  # fmt: skip
    given = {key: value for key, value in args.items() if value is not None}
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    return [
        op("record_param_comms", start_us - 5, start_us - 2, **given),
        call("cudaLaunchKernelExC", start_us - 4, start_us - 3, number),
        kernel(name, start_us, end_us, number, stream=20, **given),
    ]


def rank(
    path: Path, number: int, events: list[Event], *, host: str | None = "node7",
    base_ns: int | None = BASE_NS,
) -> Path:  # fmt: skip
    """Write the file of a rank; its events are some microseconds after the base."""
    since_base = [{**event, "ts": event["ts"] - 1_695_835_542_000_000} for event in events]
    header: dict[str, Any] = {"distributedInfo": {"backend": "nccl", "rank": number}}
    if host is not None:
        header["host_name"] = host
    if base_ns is not None:
        header["baseTimeNanoseconds"] = base_ns
    return write_kineto(path / f"rank{number}.json", since_base, **header)


@contextmanager
def opened(*files: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Import files, and make the views that edges are made of: all would take seconds."""
    output = files[0].with_name("imported.duckdb")
    run_import(files, output)
    with duckdb.connect(str(output)) as con:
        for topic in ("state_step", "gil_wait", "launch", "waits_on_peer", "collective", "flow"):
            con.execute(view_sql(topic))
        yield con


def edges(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    check_edges(con)
    return con.execute(EDGES).fetchall()


def lost(con: duckdb.DuckDBPyConnection) -> dict[str, int | None]:
    return {source.removeprefix("kineto_collective_"): n for (_, source), n in losses(con).items()}


def test_who_began_last_lets_the_others_end(tmp_path: Path) -> None:
    first = rank(tmp_path, 0, [*collective(100, 200, 1), *collective(300, 420, 2)])
    second = rank(tmp_path, 1, [*collective(150, 202, 1), *collective(290, 419, 2)])
    with opened(first, second) as con:
        assert edges(con) == [(50, 2, 100, 1, 1001), (200, 1, 319, 2, 2901)]
        assert losses(con) == {}
        assert con.execute(
            "SELECT collective_id, name, process_group, sequence, process_id, device_id, stream_id"
            " FROM gpu_collective ORDER BY ALL"
        ).fetchall() == [
            (1, "allreduce", "0", 1, 1, 0, 20), (1, "allreduce", "0", 1, 2, 0, 20),
            (2, "allreduce", "0", 2, 1, 0, 20), (2, "allreduce", "0", 2, 2, 0, 20),
        ]  # fmt: skip


def test_groups_count_for_themselves(tmp_path: Path) -> None:
    # Four ranks in two groups of the same name: their ranks tell them apart.
    files = [
        rank(tmp_path, n, collective(100 + n, 200, 7, **{"Process Group Ranks": ranks}))
        for n, ranks in enumerate(("[0, 1]", "[0, 1]", "[2, 3]", "[2, 3]"))
    ]
    with opened(*files) as con:
        assert [edge[1::2] for edge in edges(con)] == [(2, 1), (4, 3)]


LEFT_OUT = {
    "other numbers": ([collective(100, 200, 1), collective(150, 202, 2)], {"incomplete": 2}),
    "a third rank": (
        [collective(start, 200, **{SIZE: 3}) for start in (100, 150)], {"incomplete": 1}
    ),
    "a number that comes again": (
        [
            [*collective(100, 200), *collective(210, 230)],
            [*collective(150, 202), *collective(211, 231)],
        ],
        {"ambiguous": 1},
    ),
    "a number that comes again on one rank": (
        [collective(100, 200), [*collective(150, 202), *collective(203, 204)]], {"ambiguous": 1}
    ),
    "one that is there twice, one that is missing": (
        [
            [*collective(100, 200, **{SIZE: 3}), *collective(210, 230, **{SIZE: 3})],
            collective(150, 202, **{SIZE: 3}),
        ],
        {"ambiguous": 1},
    ),
    "other names": (
        [collective(100, 200), collective(150, 202, **{NAME: "barrier"})],
        {"ambiguous": 1},
    ),
    "more ranks than there are": (
        [collective(start, 200) for start in (100, 150, 160)], {"ambiguous": 1}
    ),
    "an end before the start of the last": (
        [collective(100, 149), collective(150, 202)], {"backward": 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_may_be_another_call_has_no_edge_and_is_counted(tmp_path: Path, case: str) -> None:
    events, counts = LEFT_OUT[case]
    files = [rank(tmp_path, number, found) for number, found in enumerate(events)]
    with opened(*files) as con:
        assert edges(con) == []
        assert lost(con) == counts
        assert con.execute("FROM gpu_collective").fetchall() == []


@pytest.mark.parametrize(
    ("first", "second"), [("node7", "node8"), ("node7", None), (None, None)]
)  # fmt: skip
def test_ranks_of_several_machines_have_clocks_of_their_own(
    tmp_path: Path, first: str | None, second: str | None
) -> None:
    files = [
        rank(tmp_path, number, collective(100, 200), host=host)
        for number, host in enumerate((first, second))
    ]
    with opened(*files) as con:
        assert edges(con) == []
        assert lost(con) == {"clocks": 1}


def test_a_file_without_the_time_of_day_has_a_clock_of_its_own(tmp_path: Path) -> None:
    files = [
        rank(tmp_path, number, collective(100, 200), base_ns=base_ns)
        for number, base_ns in enumerate((BASE_NS, None))
    ]
    with opened(*files) as con:
        assert edges(con) == []
        assert lost(con) == {"clocks": 1, "kineto_clock_unknown": 1}


def test_where_not_all_wait_for_all_there_is_no_edge(tmp_path: Path) -> None:
    names = (
        "broadcast", "reduce", "gather", "scatter", "all_to_allv", "send", "recv", "of the future",
        "all_gather",
    )  # fmt: skip
    files = [
        rank(
            tmp_path,
            number,
            [
                event
                for seq, name in enumerate(names, start=1)
                for event in collective(100 * seq + number, 100 * seq + 50, seq, **{NAME: name})
            ],
        )
        for number in range(2)
    ]
    with opened(*files) as con:
        assert [edge[1::2] for edge in edges(con)] == [(2, 1)]
        assert losses(con) == {}


def test_one_rank_alone_lost_nothing(tmp_path: Path) -> None:
    with opened(rank(tmp_path, 0, collective(100, 200))) as con:
        assert edges(con) == []
        assert losses(con) == {}


# What earlier ones write, and what nothing should write.
ODD = {
    "without a number": {"Seq": None, "Comms Id": None},
    "without a group": {"Seq": None, "Process Group Name": None, "Process Group Ranks": None},
    "a number beyond 64 bits": {"Seq": 10**30},
    "a number below 0": {"Seq": -1},
    "a fraction": {"Seq": 1.5},
    "a list": {"Seq": [1], "Group size": {"of": 2}},
    "no group size": {"Group size": None},
    "a group of many": {"Group size": 2**63},
    "a group of itself": {"Group size": 1},
    "no name": {"Collective name": None},
    "a name that is none": {"Collective name": 7},
}


def test_odd_arguments_make_no_collective(tmp_path: Path) -> None:
    files = [
        rank(
            tmp_path,
            number,
            [
                event
                for place, changed in enumerate(ODD.values(), start=1)
                for event in collective(100 * place + number, 100 * place + 50, place, **changed)
            ],
        )
        for number in range(2)
    ]
    with opened(*files) as con:
        assert edges(con) == []
        assert losses(con) == {}
        assert con.execute("SELECT count(*) FROM gpu_activity").fetchall() == [(2 * len(ODD),)]


@pytest.mark.parametrize("key", [NAME, "Process Group Name", "Process Group Ranks"])
def test_a_long_text_is_cut(tmp_path: Path, key: str) -> None:
    files = [
        rank(tmp_path, number, collective(100 + number, 200, **{key: "x" * 10**6}))
        for number in range(2)
    ]
    with opened(*files) as con:
        # Of a name that is none it is not known who waits for whom.
        assert len(edges(con)) == (key != NAME)
        assert losses(con)["truncated", "kineto_text_cut"] >= 2
        ((longest,),) = con.execute("SELECT max(length(value)) FROM string").fetchall()
        assert longest <= 1 << 16


def test_numbers_as_text_are_numbers(tmp_path: Path) -> None:
    files = [
        rank(tmp_path, number, collective(100 + number, 200, seq, **{SIZE: size}))
        for number, (seq, size) in enumerate(((9, 2), ("9", "2")))
    ]
    with opened(*files) as con:
        assert len(edges(con)) == 1


def test_arguments_of_other_events_are_no_collectives(tmp_path: Path) -> None:
    files = []
    for number in range(2):
        made, called, worked = collective(100 + number, 200)
        copied = {**worked, "cat": "gpu_memcpy"}
        # Around the arguments, or deeper in them, the same keys say nothing.
        nested = {**worked, "args": {"correlation": 5, "inner": worked["args"]}}
        outside = {**worked, **worked["args"], "args": {"correlation": 6}}
        files.append(rank(tmp_path, number, [made, called, copied, nested, outside]))
    with opened(*files) as con:
        assert edges(con) == []
        assert losses(con).keys() <= {("unmatched", "kineto_gpu_without_call")}


def test_distinct_process_groups_are_bounded(tmp_path: Path) -> None:
    events = [kernel("k", n, n + 1, **{
        "Collective name": "barrier", "Process Group Name": str(n), "Group size": 2, "Seq": 1,
    }) for n in range(10_050)]  # fmt: skip
    text = json.dumps({"traceEvents": [op("a", 0, 1), *events]})
    with opened(write_text(tmp_path / "a.json", text)) as con:
        assert losses(con)["dropped", "kineto_collectives_too_many"] == 50
