"""Nesting of ranges: depths, parents and operation paths, against a plain reading of the rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlscope_trace._ingest import intern_paths, nest
from rlscope_trace.ingest.importers.nesting import OperationNames, operation_tables
from rlscope_trace.ingest.store.nested_ranges import nest_ranges

Range = tuple[int, int, int]  # thread, start, end

ranges = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 20), st.integers(0, 12)).map(
        lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
    ),
    max_size=30,
)


def nested(given_: list[Range]) -> tuple[list[int], list[int], int]:
    """Return depths, parents and crossings of sorted ranges, from the rule itself."""
    depths, parents, crossings = [], [], 0
    for index, (thread, start, end) in enumerate(given_):
        open_ = [
            other
            for other in range(index)
            if given_[other][0] == thread and given_[other][2] > start
        ]
        depths.append(len(open_))
        parents.append(open_[-1] if open_ else -1)
        crossings += bool(open_) and given_[open_[-1]][2] < end
    return depths, parents, crossings


@given(ranges)
def test_nesting_follows_the_rule(drawn: list[Range]) -> None:
    columns = np.array(drawn, dtype=np.int64).reshape(-1, 3)
    found = nest_ranges(columns[:, 0], columns[:, 1], columns[:, 2])
    rows = list(
        zip(found.thread_id.tolist(), found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    )
    assert rows == sorted(drawn, key=lambda row: (row[0], row[1], -row[2]))
    assert [tuple(columns[place]) for place in found.order] == rows
    depths, parents, crossings = nested(rows)
    assert found.depth.tolist() == depths
    assert found.parent.tolist() == parents
    assert found.crossing_count == crossings
    assert len(found.losses("ranges")) == (crossings > 0)


@given(ranges, st.integers(1, 4))
def test_paths_are_a_tree_of_the_names_around(drawn: list[Range], name_count: int) -> None:
    columns = np.array(drawn, dtype=np.int64).reshape(-1, 3)
    found = nest_ranges(columns[:, 0], columns[:, 1], columns[:, 2])
    key = np.arange(len(drawn)) % name_count
    nothing = [None] * name_count
    names = [f"name {index}" for index in range(name_count)]
    tables = operation_tables(found, key, OperationNames(names, nothing, nothing, names))
    path = tables["operation_path"]
    assert path["path_id"] == list(range(1, len(path["path_id"]) + 1))

    def stack(path_id: int | None) -> list[str]:
        if not path_id:
            return []
        return [*stack(path["parent_path_id"][path_id - 1]), path["name"][path_id - 1]]

    stacks = [stack(path_id) for path_id in path["path_id"]]
    assert len({tuple(names) for names in stacks}) == len(stacks)
    assert [len(names) - 1 for names in stacks] == list(path["depth"])
    for row, path_id in enumerate(tables["operation_coded"]["path_id"]):
        expected, at = [], row
        while at >= 0:
            expected.insert(0, names[key[at]])
            at = int(found.parent[at])
        assert stack(int(path_id)) == expected


def test_depth_beyond_its_column_is_cut_and_told() -> None:
    count = 70_000
    starts = np.arange(count, dtype=np.int64)
    found = nest_ranges(np.ones(count), starts, 2 * count - starts)
    assert found.depth[-1] == count - 1
    assert found.stored_depth()[-1] == 65_535
    assert [(loss.kind, loss.count) for loss in found.losses("ranges")] == [
        ("truncated", count - 65_536)
    ]


def test_rows_out_of_order_are_refused() -> None:
    threads, ends = np.ones(2, dtype=np.int32), np.full(2, 9, dtype=np.int64)
    with pytest.raises(ValueError, match="not in the order"):
        nest(threads, np.array([5, 4], dtype=np.int64), ends)
    with pytest.raises(ValueError, match="equally long"):
        nest(threads, np.array([5], dtype=np.int64), ends)
    with pytest.raises(ValueError, match="after its child"):
        intern_paths(np.array([0], dtype=np.int64), np.array([1], dtype=np.int64))
