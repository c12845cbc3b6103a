"""RL-Scope's own cases of overlap, and those where it is wrong: we give the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rlscope_analysis import inclusive, overlap, overlap_regions
from rlscope_analysis._sweep import overlap_streams

if TYPE_CHECKING:
    from collections.abc import Iterator

pd = pytest.importorskip("pandas")

FILE = Path(__file__).resolve().parents[1] / "data" / "overlap" / "overlap_cases.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text())["unit_test_cases"]
EDGES: dict[str, dict[str, Any]] = {
    case["id"].removeprefix("edge."): case
    for case in json.loads(FILE.read_text())["edge_cases_where_rlscope_is_wrong"]
}
# Cases of RL-Scope's own helpers, for which there is nothing here.
NOT_OVERLAP = {"merge_sorted", "min_nonzero", "path"}
# Cases without an expected result upstream: the union of each.
UNIONS = {
    "py.overlap.04_full_self_overlap": 3,
    "py.overlap.05_duplicate": 3,
    "py.overlap.06_unsorted": 4,
}


def of_kind(*kinds: str) -> pytest.MarkDecorator:
    cases = [case for case in CASES if case["kind"] in kinds]
    assert cases
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def scaled(time: float) -> int:
    """Return a time of the file as an integer: some are halves."""
    return int(time * 1000)


def table(name: str, rows: list[tuple[str, float, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [(who, scaled(start), scaled(end)) for who, start, end in rows],
        columns=[name, "start_ns", "end_ns"],
    )


def rows_of(events: dict[str, list[list[float]]]) -> list[tuple[str, float, float]]:
    return [(name, start, end) for name, ranges in events.items() for start, end in ranges]


def sizes(regions: pd.DataFrame) -> dict[str, int]:
    return {
        "+".join(names): time
        for names, time in zip(regions["categories"], regions["time_ns"], strict=True)
    }


def scaled_sizes(expected: dict[str, float]) -> dict[str, int]:
    return {names: scaled(time) for names, time in expected.items()}


def test_every_kind_of_case_is_known() -> None:
    tested = {"overlap", "flatten_ops", "flatten_ops_streaming", "merge_then_overlap"}
    assert {case["kind"] for case in CASES} == tested | {"merge_intervals", "venn"} | NOT_OVERLAP
    assert (len(CASES), len(EDGES)) == (28, 7)


@of_kind("overlap")
def test_overlap(case: dict[str, Any]) -> None:
    regions = overlap_regions(table("category", rows_of(case["events"])))
    assert sizes(regions) == scaled_sizes(case["expect_overlap"])
    extents = zip(regions["first_ns"], regions["last_ns"], strict=True)
    assert dict(zip(map("+".join, regions["categories"]), extents, strict=True)) == {
        names: (scaled(first), scaled(last))
        for names, (first, last) in case["expect_region_extent"].items()
    }


@of_kind("merge_then_overlap")
def test_lists_of_one_category_are_united(case: dict[str, Any]) -> None:
    rows = [
        row
        for name, lists in case["event_lists"].items()
        for ranges in lists
        for row in rows_of({name: ranges})
    ]
    regions = overlap(table("category", rows))
    wanted = case.get("filter_must_include")
    if wanted is not None:
        regions = regions[[wanted in names for names in regions["categories"]]]
    expected = case["expect_overlap"] or {"c1": UNIONS[case["id"]]}
    assert sizes(regions) == scaled_sizes(expected)
    for name, merged in case.get("expect_merged", {}).items():
        assert pieces(name, [row for row in rows if row[0] == name]) == merged


@of_kind("merge_intervals")
def test_intervals_are_united(case: dict[str, Any]) -> None:
    assert pieces("a", rows_of({"a": case["in"]})) == case["expect"]


def pieces(name: str, rows: list[tuple[str, float, float]]) -> list[list[float]]:
    """Return the intervals of a category: operations that cut time finely tell them apart."""
    ticks = [(f"{tick:04}", tick / 2, (tick + 1) / 2) for tick in range(40)]
    regions = overlap_regions(table("category", rows), operations=table("name", ticks))
    found: list[list[float]] = []
    for names, first, last in zip(
        regions["categories"], regions["first_ns"], regions["last_ns"], strict=True
    ):
        if names != [name]:
            continue
        if found and found[-1][1] == first / 1000:
            found[-1][1] = last / 1000
        else:
            found.append([first / 1000, last / 1000])
    assert overlap(table("category", rows))["count"].sum() == len(found)
    return found


def owned(regions: pd.DataFrame) -> list[list[Any]]:
    """Return [operation, start, end] of regions whose categories are one segment each."""
    assert all(len(names) == 1 for names in regions["categories"])
    assert (regions["count"] == 1).all()
    columns = zip(regions["operation"], regions["first_ns"], regions["last_ns"], strict=True)
    return sorted([[*row] for row in columns], key=lambda row: row[1])


def expected_segments(case: dict[str, Any]) -> list[list[Any]]:
    return [[name, scaled(start), scaled(end)] for name, start, end in case["expect_segments"]]


@of_kind("flatten_ops")
def test_the_innermost_operation_owns_the_time(case: dict[str, Any]) -> None:
    operations = case["events_list"] if "events_list" in case else rows_of(case["events"])
    segments = [(str(at), start, end) for at, (_, start, end) in enumerate(case["expect_segments"])]
    regions = overlap_regions(
        table("category", segments), operations=table("name", list(map(tuple, operations)))
    )
    assert owned(regions) == expected_segments(case)
    for name, expected in case.get("expect_filtered", {}).items():
        mine = regions[regions["operation"] == name]
        assert owned(mine) == expected_segments({"expect_segments": expected})


@of_kind("flatten_ops_streaming")
def test_an_open_operation_is_carried_into_the_next_chunk(case: dict[str, Any]) -> None:
    names = ["A", "B"]
    expected = [one for chunk in case["chunks"] for one in expected_segments(chunk)]

    def chunks() -> Iterator[tuple[Any, Any, Any]]:
        for chunk in case["chunks"]:
            rows = sorted(rows_of(chunk["events"]), key=lambda row: (row[1], -row[2]))
            code, start, end = zip(*rows, strict=True)
            yield (
                np.array([names.index(name) for name in code], dtype=np.int32),
                np.array([scaled(time) for time in start]),
                np.array([scaled(time) for time in end]),
            )

    segments = [iter([(np.array([start]), np.array([end]))]) for _, start, end in expected]
    found = overlap_streams(segments, chunks())
    rows = zip(found.operation, found.first_ns, found.last_ns, strict=True)
    assert (
        sorted(([names[code], *rest] for code, *rest in rows), key=lambda row: row[1]) == expected
    )


@of_kind("venn")
def test_inclusive_sizes(case: dict[str, Any]) -> None:
    exclusive = pd.DataFrame(
        {
            "operation": "op",
            "categories": [names.split("+") for names in case["exclusive_overlap"]],
            "time_ns": list(case["exclusive_overlap"].values()),
        }
    )
    assert sizes(inclusive(exclusive)) == case["inclusive_venn"]


def resources(name: str) -> dict[str, int]:
    """Return CPU and GPU time of an edge case: the union of whatever runs there."""
    case = EDGES[name]
    rows = rows_of({key: case[key] for key in ("Python", "Framework API C", "GPU") if key in case})
    for ranges in case.get("CUDA API CPU by tid", {}).values():
        rows += rows_of({"CUDA API CPU": ranges})
    regions = overlap(
        table("category", rows), operations=table("name", list(map(tuple, case["op"])))
    )
    is_gpu = np.array(["GPU" in names for names in regions["categories"]])
    is_cpu = np.array([bool(set(names) - {"GPU"}) for names in regions["categories"]])
    found = {"CPU": regions["time_ns"][is_cpu].sum(), "GPU": regions["time_ns"][is_gpu].sum()}
    return {who: int(time) for who, time in found.items() if time}


@pytest.mark.parametrize(
    "name",
    [
        "gpu_partial_overlap",
        "gpu_nested",
        "gpu_identical",
        "cuda_api_two_threads",
        "time_outside_any_operation",
    ],
)
def test_where_rlscope_is_wrong(name: str) -> None:
    case = EDGES[name]
    truth = case.get("truth") or case["truth_if_unannotated_time_is_kept"]
    assert resources(name) == scaled_sizes(truth)
    assert resources(name) != scaled_sizes(case["rlscope_reported"])


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("partially_overlapping_ops", {"A": 40, "B": 60}),
        ("nested_ops", {"A": 60, "B": 30, "C": 10}),
    ],
)
def test_time_of_operations(name: str, truth: dict[str, int]) -> None:
    case = EDGES[name]
    regions = overlap(
        table("category", rows_of({"Python": case["Python"]})),
        operations=table("name", list(map(tuple, case["op"]))),
    )
    found = dict(zip(regions["operation"], regions["time_ns"], strict=True))
    assert found == scaled_sizes(truth)
