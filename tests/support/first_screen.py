"""Reads the first screen of `summarize` as a person does, and asks the views for each number."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any

import rlscope_analysis
from recording import rlscope
from rlscope_analysis.renderers.json import render
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer

if TYPE_CHECKING:
    from pathlib import Path

LINES, COLUMNS = 25, 100
_TABLES = {
    "where the ": ("phases", ("operation", "time_ns", "share", "python_share", "native_share",
                              "queue_share", "waits_share", "instances", "each_ns")),
    "the other processes": ("processes", (None, "cpu_share", "queue_share", "sleeps_share", None,
                                          "waits_share")),
    "what to try first": ("findings", ("code", "share", None, None)),
}  # fmt: skip
# How kinds of losses are worded.
_KINDS = {
    "in part": "unmatched", "cut short": "truncated", "left out": "skipped",
    "beyond the rate": "rate-limited",
}  # fmt: skip
# What a shown unit is in the views.
_FACTORS = {"time_ns": 1e6, "each_ns": 1e6, "instances": 1}
_PACE = re.compile(
    r"(?P<iterations>[\d,]+) iterations? \(.*\) of (?P<mean>[\d,.]+) ms"
    r"(?:, (?P<all>[\d,.]+) s in all, (?:p99|the slowest) (?P<p99>[\d,.]+) ms)?"
    r"(?:; the first iteration took (?P<first>[\d,.]+) ms)?"
    r"(?:; (?P<steps>[\d,]+) environment steps/s"
    r"(?: and (?P<evaluation>[\d,]+) in evaluation)?)?(?:; \S+ uses (?P<cpus>[\d.]+) CPUs"
    r"(?:, (?P<spinning>[\d.]+) of them spinning)?)?\."
)


def check(trace: Path) -> list[str]:
    """Hold every number of the first screen to its view; return the lines of the screen."""
    shown = rlscope("summarize", trace)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    with rlscope_analysis.open(trace) as opened:
        _check_tables(opened, lines)
        _check_head(opened, lines)
        _check_pace(opened, lines)
        _check_end(opened, lines)
    return lines


def _equal(shown: str, value: float | None, factor: float = 1) -> None:
    """Hold a shown number to its value, as far as its digits go."""
    if shown == "-":
        assert value is None or math.isnan(value), (shown, value)
        return
    digits = len(shown.partition(".")[2])
    assert value is not None, shown
    assert abs(float(shown.replace(",", "")) - value / factor) <= 0.501 * 10**-digits, (
        shown, value / factor,
    )  # fmt: skip


def _check_tables(trace: rlscope_analysis.Trace, lines: list[str]) -> None:
    for start, (view, columns) in _TABLES.items():
        at = next((at for at, line in enumerate(lines) if line.startswith(start)), None)
        as_json = "".join(render(answer(trace, REPORTS[view])))
        rows: list[dict[str, Any]] = json.loads(as_json)["rows"]
        rows = [row for row in rows if not row.get("is_lead")]
        if at is None:
            assert not rows, f"{view} is not shown"
            continue
        reported = lines[at + 1 : lines.index("", at)]
        for line, row in zip(reported, rows, strict=False):
            parts = re.split(r"\s{2,}", line.strip())
            if re.match(r"[\d,]+ more(: |$)", parts[0]):
                rest = rows[len(reported) - 1 :]
                assert parts[0].partition(":")[0] == f"{len(rest):,} more"
                added = {"phases": "time_ns", "processes": "cpu_share"}.get(view)
                if added is not None:
                    _equal(parts[1], sum(row[added] for row in rest), _FACTORS.get(added, 0.01))
                continue
            for name, part in zip(columns, parts, strict=False):
                if name is None:
                    continue
                if isinstance(row[name], str):
                    assert part == row[name]
                else:
                    _equal(part, row[name], _FACTORS.get(name, 0.01))


def _one(trace: rlscope_analysis.Trace, query: str) -> Any:  # noqa: ANN401 - any column
    ((value,),) = trace.sql(query).fetchall()
    return value


def _check_head(trace: rlscope_analysis.Trace, lines: list[str]) -> None:
    number = r"([\d,.]+)"
    reported = re.match(
        rf"\S+   {number} s(?: \(start-up {number} s\))?"
        rf"(?:   ended (?:by \w+|with exit status {number}))?"
        rf"   {number} process(?:es)?(?: on|   |$)",
        lines[0],
    )
    assert reported is not None, lines[0]
    _equal(reported[1], _one(trace, "SELECT max(end_ns) - min(start_ns) FROM thread"), 1e9)
    _equal(reported[4], _one(trace, "SELECT count(*) FROM process"))
    if reported[3]:
        _equal(
            reported[3], _one(trace, "SELECT exit_code FROM process ORDER BY process_id LIMIT 1")
        )
    if reported[2]:
        begun = "SELECT any_value(process_id) FROM iteration"
        query = f"SELECT start_ns FROM process WHERE process_id = ({begun})"
        first_ns = _one(trace, "SELECT min(start_ns) FROM iteration")
        _equal(reported[2], first_ns - _one(trace, query), 1e9)


def _check_pace(trace: rlscope_analysis.Trace, lines: list[str]) -> None:
    rows = trace.sql(
        "SELECT end_ns - start_ns, environment_steps, source, is_first, evaluation_steps"
        " FROM iteration"
    ).fetchall()
    if not rows or rows[0][2] == "whole":
        assert any(line.startswith("No iterations were found") for line in lines)
        return
    steady = [row for row in rows if not row[3]] if len(rows) >= 3 else rows
    # The sentence may go on in the next line.
    reported = _PACE.search(" ".join(itertools.takewhile(bool, lines[2:])))
    assert reported is not None, lines
    times = sorted(row[0] for row in steady)
    _equal(reported["iterations"], len(times))
    _equal(reported["mean"], sum(times) / len(times), 1e6)
    _equal(reported["all"], sum(times), 1e9)
    _equal(reported["p99"], times[math.ceil(0.99 * len(times)) - 1], 1e6)
    is_slow_first = len(steady) < len(rows) and max(row[0] for row in rows if row[3]) >= 2 * sum(
        times
    ) / len(times)
    assert (reported["first"] is not None) == is_slow_first
    if reported["first"]:
        _equal(reported["first"], max(row[0] for row in rows if row[3]), 1e6)
    if reported["steps"]:
        _equal(reported["steps"], sum(row[1] for row in steady) / sum(times) * 1e9)
    if reported["evaluation"]:
        _equal(reported["evaluation"], sum(row[4] for row in steady) / sum(times) * 1e9)
    if reported["cpus"]:
        _equal(
            reported["cpus"], _one(trace, "SELECT cpu_share FROM training_process WHERE is_lead")
        )
    if reported["spinning"]:
        query = "SELECT spin_share FROM training_process WHERE is_lead"
        _equal(reported["spinning"], _one(trace, query))
    share = re.search(r"[:(] ?(\d+) % ?(?:of|\))|\((\d+) %\)", lines[2])
    if share is not None:
        shares = trace.sql("SELECT share FROM limit_share UNION SELECT share FROM finding")
        percents = {round(share * 100) for (share,) in shares.fetchall()}
        assert int(share[1] or share[2]) in percents, lines[2]


def _check_end(trace: rlscope_analysis.Trace, lines: list[str]) -> None:
    said = " ".join(lines)
    counts = dict(
        trace.sql(
            "SELECT kind, coalesce(sum(count), 0)::BIGINT FROM trace_stat GROUP BY 1"
        ).fetchall()
    )
    lost = re.search(r"lost: (nothing|[\d,]+ records?)(?: \(([^)]*): --all\))?;", said)
    assert lost is not None, said
    parts = [re.split(r" records? ", part) for part in lost[2].split(", ")] if lost[2] else []
    shown = {_KINDS[words]: count for count, words in parts}
    if lost[1] != "nothing":
        shown["dropped"] = lost[1].split()[0]
    assert shown.keys() == counts.keys()
    for kind, count in counts.items():
        _equal(shown[kind], count)
