"""What overlap() takes and gives: kinds of tables and columns, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from rlscope_analysis import TraceError, inclusive, overlap, overlap_regions, overlap_transitions

if TYPE_CHECKING:
    from collections.abc import Callable

pd = pytest.importorskip("pandas")

INTERVALS = pd.DataFrame(
    {"category": ["GPU", "CPU", "GPU"], "start_ns": [4, 0, 8], "end_ns": [10, 6, 12]}
)
OPERATIONS = pd.DataFrame({"name": ["train", "step"], "start_ns": [2, 5], "end_ns": [20, 9]})
EXPECTED = [
    ("(unannotated)", ["CPU"], 2, 1, 0, 2),
    ("train", [], 8, 1, 12, 20),
    ("train", ["CPU"], 2, 1, 2, 4),
    ("train", ["CPU", "GPU"], 1, 1, 4, 5),
    ("train", ["GPU"], 3, 1, 9, 12),
    ("step", ["CPU", "GPU"], 1, 1, 5, 6),
    ("step", ["GPU"], 3, 1, 6, 9),
]


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame.itertuples(index=False, name=None))


def test_regions() -> None:
    regions = overlap_regions(INTERVALS, operations=OPERATIONS)
    numbers = ["time_ns", "count", "first_ns", "last_ns"]
    assert list(regions.columns) == ["operation", "categories", *numbers]
    assert rows(regions) == EXPECTED
    assert (regions[numbers].dtypes == "int64").all()


def test_overlap_is_regions_without_extent() -> None:
    found = overlap(INTERVALS, operations=OPERATIONS)
    assert list(found.columns) == ["operation", "categories", "time_ns", "count"]
    assert rows(found) == [row[:4] for row in EXPECTED]
    assert all(type(names) is list for names in found["categories"])


def test_without_operations_all_time_is_unannotated() -> None:
    assert rows(overlap(INTERVALS)) == [
        ("(unannotated)", ["CPU"], 4, 1),
        ("(unannotated)", ["CPU", "GPU"], 2, 1),
        ("(unannotated)", ["GPU"], 6, 1),
    ]


def test_transitions_stay_within_an_operation() -> None:
    found = overlap_transitions(INTERVALS, operations=OPERATIONS)
    assert list(found.columns) == ["operation", "from_categories", "to_categories", "count"]
    assert rows(found) == [
        ("train", ["CPU"], ["CPU", "GPU"], 1),
        ("train", ["GPU"], [], 1),
        ("step", ["CPU", "GPU"], ["GPU"], 1),
    ]


def test_inclusive_sizes_are_by_operation() -> None:
    assert rows(inclusive(overlap(INTERVALS, operations=OPERATIONS))) == [
        ("(unannotated)", ["CPU"], 2),
        ("train", ["CPU"], 3),
        ("train", ["CPU", "GPU"], 1),
        ("train", ["GPU"], 4),
        ("step", ["CPU"], 1),
        ("step", ["CPU", "GPU"], 1),
        ("step", ["GPU"], 4),
    ]


def test_operations_of_one_name_that_touch_continue_an_interval() -> None:
    steps = pd.DataFrame({"name": ["step"] * 3, "start_ns": [0, 5, 11], "end_ns": [5, 10, 12]})
    assert rows(overlap(INTERVALS.iloc[:0], operations=steps)) == [("step", [], 11, 2)]


def test_an_operation_may_be_named_unannotated() -> None:
    named = pd.DataFrame({"name": ["(unannotated)"], "start_ns": [3], "end_ns": [30]})
    found = overlap(INTERVALS, operations=named)
    assert rows(found)[0] == ("(unannotated)", [], 18, 1)
    assert rows(found)[1:] == rows(overlap(INTERVALS))


def test_empty_intervals_leave_no_trace() -> None:
    empty = pd.DataFrame({"category": ["IO", "CPU"], "start_ns": [1, 3], "end_ns": [1, 3]})
    both = pd.concat([INTERVALS, empty])
    assert rows(overlap_regions(both)) == rows(overlap_regions(INTERVALS))


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_empty_interval_at_the_earliest_time_hides_no_other(jobs: int) -> None:
    earliest = -(2**63)
    starts, ends = [earliest, earliest], [earliest + 2, earliest]
    both = pd.DataFrame({"category": ["CPU", "CPU"], "start_ns": starts, "end_ns": ends})
    assert rows(overlap(both, jobs=jobs)) == [("(unannotated)", ["CPU"], 2, 1)]


@pytest.mark.parametrize("dtype", [None, "int64", "object"])
def test_empty_frames(dtype: str | None) -> None:
    empty = pd.DataFrame(columns=["category", "start_ns", "end_ns"], dtype=dtype)
    nothing = overlap(empty, operations=empty.rename(columns={"category": "name"}))
    assert rows(nothing) == []
    assert list(nothing.columns) == ["operation", "categories", "time_ns", "count"]
    assert rows(inclusive(nothing)) == []
    assert rows(overlap_transitions(empty)) == []


def test_empty_columns_have_no_type() -> None:
    empty = pd.DataFrame({"category": [], "start_ns": [], "end_ns": []})
    operations = empty.rename(columns={"category": "name"})
    assert rows(overlap(empty, operations=operations)) == []
    assert rows(overlap(INTERVALS, operations=operations)) == rows(overlap(INTERVALS))


def as_polars(frame: pd.DataFrame) -> Any:  # noqa: ANN401
    return pytest.importorskip("polars").DataFrame(frame.to_dict("list"))


def as_arrow(frame: pd.DataFrame) -> Any:  # noqa: ANN401
    return pytest.importorskip("pyarrow").table(frame.to_dict("list"))


def as_arrow_dictionary(frame: pd.DataFrame) -> Any:  # noqa: ANN401
    table = as_arrow(frame)
    return table.set_column(0, "category", table["category"].dictionary_encode())


def as_relation(frame: pd.DataFrame) -> Any:  # noqa: ANN401
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (category VARCHAR, start_ns BIGINT, end_ns BIGINT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", frame.values.tolist())
    return connection.table("t")


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "polars": as_polars,
    "pyarrow": as_arrow,
    "pyarrow dictionary": as_arrow_dictionary,
    "duckdb relation": as_relation,
    "duckdb fetchnumpy": lambda frame: as_relation(frame).fetchnumpy(),
    "dict of lists": lambda frame: frame.to_dict("list"),
    "other index": lambda frame: frame.set_axis([9, 9, 7]),
    "string": lambda frame: frame.astype({"category": "string"}),
    "object": lambda frame: frame.astype(object),
    "nullable": lambda frame: frame.astype({"start_ns": "Int32", "end_ns": "UInt64"}),
    "small": lambda frame: frame.astype({"start_ns": "uint8", "end_ns": "int16"}),
    "strided": lambda frame: pd.concat([frame, frame]).iloc[::2].iloc[[0, 2, 1]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables(kind: str) -> None:
    found = overlap(KINDS[kind](INTERVALS), operations=OPERATIONS)
    assert rows(found) == [row[:4] for row in EXPECTED]


REFUSED: dict[str, tuple[Any, str]] = {
    "no table": (7, "intervals is no table but int"),
    "a column is missing": (INTERVALS[["category", "start_ns"]], "exactly one column end_ns"),
    "a column comes twice": (
        pd.concat([INTERVALS, INTERVALS["end_ns"]], axis=1),
        "exactly one column end_ns",
    ),
    "float": (INTERVALS.astype({"start_ns": float}), "start_ns is float64: times are integers"),
    "bool": (INTERVALS.astype({"start_ns": bool}), "start_ns is bool"),
    "text": (INTERVALS.astype({"end_ns": str}), "end_ns is"),
    "datetime": (INTERVALS.astype({"end_ns": "datetime64[ns]"}), r"end_ns is datetime64\[ns\]"),
    "beyond int64": (
        INTERVALS.assign(end_ns=np.array([2**63, 6, 12], np.uint64)),
        "end_ns exceeds 64 bits",
    ),
    "far beyond int64": (
        INTERVALS.assign(end_ns=pd.Series([2**70, 6, 12], dtype=object)),
        "end_ns exceeds 64 bits",
    ),
    "NULL time": (
        INTERVALS.assign(end_ns=pd.array([10, None, 12], dtype="Int64")),
        "end_ns has no value in row 1",
    ),
    "NaN": (INTERVALS.assign(end_ns=[10, float("nan"), 12]), "end_ns has no value in row 1"),
    "NULL name": (INTERVALS.assign(category=["a", None, "b"]), "category has no value in row 1"),
    "NULL Categorical": (
        INTERVALS.assign(category=pd.Categorical(["a", "b", None])),
        "category has no value in row 2",
    ),
    "masked": (
        {
            **INTERVALS.to_dict("list"),
            "end_ns": np.ma.array([10, 6, 12], mask=[False, True, False]),
        },
        "end_ns has no value in row 1",
    ),
    "mixed names": (INTERVALS.assign(category=["a", 1, "b"]), "mixes int and str"),
    "lists as names": (INTERVALS.assign(category=[["a"], ["b"], ["c"]]), "category: "),
    "lengths": ({**INTERVALS.to_dict("list"), "end_ns": [1]}, "differ in length"),
    "end before start": (
        INTERVALS.assign(end_ns=[10, 6, 7]),
        r"row 2 \('GPU'\) ends at 7, before it starts at 8",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why: str) -> None:
    intervals, message = REFUSED[why]
    with pytest.raises(TraceError, match=message) as refused:
        overlap(intervals)
    assert refused.value.hint


def test_refused_operations_are_named() -> None:
    with pytest.raises(TraceError, match=r"operations: row 0 \('step'\) ends at 4, before"):
        overlap(INTERVALS, operations={"name": ["step"], "start_ns": [5], "end_ns": [4]})


def test_too_long_a_time_is_refused() -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    with pytest.raises(TraceError, match="2\\^63"):
        overlap({"category": ["a"], "start_ns": [least], "end_ns": [most]})


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_jobs(jobs: int) -> None:
    with pytest.raises(TraceError, match=f"jobs is {jobs}"):
        overlap(INTERVALS, jobs=jobs)


def test_jobs_do_not_change_the_result() -> None:
    rng = np.random.default_rng(1)
    start = rng.integers(0, 100_000, 20_000)
    many = pd.DataFrame(
        {
            "category": rng.choice(list("abcdef"), start.size),
            "start_ns": start,
            "end_ns": start + rng.integers(0, 30, start.size),
        }
    )
    operations = many.iloc[::20].rename(columns={"category": "name"})
    for function in (overlap_regions, overlap_transitions):
        expected = function(many, operations=operations, jobs=1)
        pd.testing.assert_frame_equal(function(many, operations=operations, jobs=4), expected)


def test_without_pandas_there_is_a_hint() -> None:
    program = (
        "import sys; sys.modules['pandas'] = None\n"
        "import rlscope_analysis\n"
        "try: rlscope_analysis.overlap({'category': [], 'start_ns': [], 'end_ns': []})\n"
        "except rlscope_analysis.TraceError as error: print(error.hint)\n"
    )
    reported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert reported.stdout == "pip install pandas\n"


def test_importing_the_package_does_not_import_pandas() -> None:
    program = "import sys, rlscope_analysis.sweep.sets; print('pandas' in sys.modules)"
    reported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert reported.stdout == "False\n"
