"""Renderers know units, roles and notes, and no answer: one table that has all of them."""

from __future__ import annotations

import csv
import json
import re
from typing import Any

import pytest

from rlscope_analysis import note_sentences
from rlscope_analysis.note_sentences import SENTENCES, sentence_of
from rlscope_analysis.renderers import csv as csv_renderer
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.result.column import Column, Role, Scale, Unit, unit_of
from rlscope_analysis.result.names import ProcessName
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import NO_VALUE, Answer, Group, Pivot, Table, total_of
from trace_builder import REPOSITORY

COLUMNS = (
    Column("operation"),
    Column("pid", Unit.ID),
    Column("time_ns", Unit.NS, additive=True, share_of="wall_ns"),
    Column("wall_ns", Unit.NS, Role.HIDDEN),
    Column("busy_share", Unit.SHARE),
    Column("count", Unit.COUNT, additive=True),
    Column("rate", Unit.RATE, scale=Scale.TWO_DIGITS),
    Column("why"),
)
ROWS = [
    ("learn", 12345, 3_000_000, 4_000_000, 0.25, 1234, 1.5, None),
    ("env", 7, None, 4_000_000, None, 1, 0.25, note("nothing_lost")),
]


def answer_of(table: Table) -> Answer:
    return Answer((table,), table, {"view": table.name})


@pytest.fixture
def table() -> Table:
    return Table("toy", "a title", COLUMNS, ROWS, total=total_of(COLUMNS, ROWS))


def lines_of(table: Table, limit: int | None = None) -> list[str]:
    shown = text.render(answer_of(table), limit=limit)
    return [" ".join(line.split()) for line in shown.splitlines()]


def test_units_make_headings_and_cells(table: Table) -> None:
    assert lines_of(table) == [
        "a title",
        "operation pid time ms % busy % count rate why",
        "learn 12345 3.000 75.0 25.0 1,234 1.50 -",
        "env 7 - - - 1 0.25 nothing lost",
        # What is not known of one row leaves no sum.
        "total - 1,235",
    ]


def test_programs_get_whole_numbers_and_what_was_not_measured_as_such(table: Table) -> None:
    document = json.loads("".join(json_renderer.render(answer_of(table))))
    assert document["view"] == "toy"
    names = [column.name for column in COLUMNS]
    assert document["rows"] == [
        dict(zip(names, ROWS[0], strict=True)),
        dict(zip(names, (*ROWS[1][:-1], "nothing lost"), strict=True)),
    ]
    rows = list(csv.reader("".join(csv_renderer.render(table)).splitlines()))
    assert rows == [
        names,
        ["learn", "12345", "3000000", "4000000", "0.25", "1234", "1.5", ""],
        ["env", "7", "", "4000000", "", "1", "0.25", "nothing lost"],
    ]


def test_a_pivot_has_a_column_per_value_and_what_is_not_known_is_in_no_sum() -> None:
    columns = (
        Column("name"),
        Column("bucket"),
        Column("time_ns", Unit.NS),
        Column("key", Unit.ID, Role.KEY),
        Column("stderr_ns", Unit.NS, Role.ERROR),
    )
    rows = [
        ("a", "off", 1_000_000, 1, 0),
        ("a", "on", 3_000_000, 1, 400_000),
        ("a", "on", 2_000_000, 2, 0),
        ("b", "on", None, 3, 0),
    ]
    pivot = Pivot("bucket", "time_ns", ("on",))
    lines = lines_of(Table("toy", "title", columns, rows, pivot=pivot, title_has_units=True))
    assert lines[1:6] == [
        "name on % off % total",
        "a 3.00 75.0 ± 10.0 1.00 25.0 4.00",
        "a 2.00 100.0 0.00 0.0 2.00",
        "b - - 0.00 - -",
        "total - - 1.00 - -",
    ]
    assert lines[6].startswith("±: standard error")


def test_groups_show_the_largest_rows_and_tell_of_the_rest() -> None:
    columns = (
        Column("name", most=8),
        Column("count", Unit.COUNT, additive=True),
        Column("depth", Unit.COUNT, Role.HIDDEN),
        Column("rank", role=Role.HIDDEN),
    )
    rows = [("a", 1, 1, 1), ("a long name", 5, 1, 5), ("rest", 2, 1, None), ("b", 3, 1, 3)]
    head = (ProcessName("p", 1), 8, 0, NO_VALUE)
    table = Table(
        "toy",
        "title",
        columns,
        rows,
        groups=(Group(head, 3), Group(ProcessName("q", None, threads=1), 1)),
        rank="rank",
        depth="depth",
        noun="thing",
    )
    shown = text.render(answer_of(table), limit=1)
    assert shown.splitlines()[2:] == [
        "p (pid 1)       8",
        "  a lon...      5",
        "  rest          2",
        "(2 more things; all of them: --all)",
    ]
    assert "q (pid not known, 1 thread)\n  b " in text.render(answer_of(table), limit=None)


@pytest.mark.parametrize(
    ("name", "type_name", "unit", "words"),
    [
        ("off_cpu_ns", "BIGINT", Unit.NS, "off CPU"),
        ("share", "DOUBLE", Unit.SHARE, ""),
        ("self_share", "DOUBLE", Unit.SHARE, "self"),
        ("peer_pid", "BIGINT", Unit.ID, "peer pid"),
        ("process_ids", "BIGINT[]", Unit.TEXT, "process ids"),
        ("count", "HUGEINT", Unit.COUNT, "count"),
        ("cpus", "DOUBLE", Unit.RATE, "cpus"),
        ("on_cpu", "BOOLEAN", Unit.FLAG, "on CPU"),
    ],
)
def test_units_end_the_names(name: str, type_name: str, unit: Unit, words: str) -> None:
    assert unit_of(name, type_name) is unit
    assert Column(name, unit).words == words


def test_each_note_is_used_and_can_be_said() -> None:
    written: set[str] = set()
    for package in ("analysis/rlscope_analysis", "tracer/rlscope_trace"):
        for path in (REPOSITORY / package).rglob("*.py"):
            if path.name != "note_sentences.py":
                content = path.read_text(encoding="utf-8")
                written |= set(re.findall(r"""["'](\w+)["']""", content))
                said = set(re.findall(r"""\bnote\(\s*["'](\w+)["']""", content))
                assert said <= SENTENCES.keys(), path
    codes = {code for report in REPORTS.values() for _, code in report.notes}
    codes |= {said.code for report in REPORTS.values() for _, said in report.said}
    assert SENTENCES.keys() - written == set()
    assert codes <= SENTENCES.keys()


def test_other_words_change_no_number(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(table.rows)
    words: dict[str, Any] = dict.fromkeys(SENTENCES, "other words")
    monkeypatch.setattr(note_sentences, "SENTENCES", words)
    assert sentence_of(note("nothing_lost")) == "other words"
    assert lines_of(table)[3] == "env 7 - - - 1 0.25 other words"
    assert list(table.rows) == before
