"""The answer of `fleet summarize`."""

from __future__ import annotations

from dataclasses import asdict
from math import isqrt
from typing import TYPE_CHECKING, Any

from rlscope_analysis.fleet.histogram import quantile
from rlscope_analysis.fleet.job_path import job_path
from rlscope_analysis.fleet.merge import OF_ITERATIONS
from rlscope_analysis.fleet.stragglers import align, straggling
from rlscope_analysis.reports import BUCKETS
from rlscope_analysis.result.column import Column, Role, Unit
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import Answer, Table, total_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlscope_analysis.fleet.collect import Collected
    from rlscope_analysis.fleet.job_path import Held
    from rlscope_analysis.fleet.merge import Key, Merged, Sum
    from rlscope_analysis.fleet.stragglers import Alignment, Offset, Straggling
    from rlscope_analysis.result.note import Note
    from rlscope_analysis.result.table import Values

_DATA_KINDS = ("process", "operation", "bucket", "cause", "limit", "finding")


def answer_of(
    whole: Merged, collected: Collected, offsets: Mapping[str, Offset] | None = None
) -> Answer:
    """Tell what all members did together, and in what they differ.

    offsets: as `stragglers.align` takes them.
    """
    alignment = align(whole, offsets)
    stragglers, path = straggling(alignment), job_path(whole, alignment, offsets)
    size = _size(whole, collected)
    pace = _pace(whole)
    notes = _notes(whole, collected)
    breakdown = _breakdown(whole)
    return Answer(
        tables=(
            _limits(whole), breakdown, _spread(whole), *_stragglers(alignment, stragglers),
            *_path(path), _members(whole),
        ),
        data=_data(whole),
        facts={
            "view": "fleet",
            **size,
            "critical_path_ns": whole.time_of("cause"),
            "limits_total_ns": whole.time_of("limit"),
            **pace,
            "alignment": alignment.how,
            "aligned_iterations": len(alignment.rows),
            "stragglers": stragglers,
            "job_path_ns": sum(held.time_ns for held in path),
            "job_path": path,
            "members": [
                {"member": name, **asdict(fact)} for name, fact in sorted(whole.members.items())
            ],
            "left_out_traces": collected.left_out,
        },
        head=(("fleet", note("fleet_size", **size)), ("pace", note("fleet_iterations", **pace))),
        opening=tuple(notes),
        closing=(
            *((note("fleet_not_aligned"),) if len(whole.members) > 1 and not stragglers else ()),
            note("fleet_quantiles"),
        ),
        is_complete=all(fact.is_complete for fact in whole.members.values()),
    )  # fmt: skip


def _size(whole: Merged, collected: Collected) -> dict[str, Any]:
    facts = whole.members.values()
    return {
        "traces": len(whole.members),
        "hosts": len({(fact.host, fact.boot_id) for fact in facts}),
        "processes": sum(fact.processes for fact in facts),
        "threads": sum(fact.threads for fact in facts),
        "breakdown_total_ns": whole.time_of("process"),
        "left_out": len(collected.left_out),
    }


def _pace(whole: Merged) -> dict[str, Any]:
    times, queue = _counts(whole, "iteration_time"), _counts(whole, "run_queue")
    without = sum(fact.is_whole for fact in whole.members.values())
    return {
        "iterations": sum(times.values()),
        "without": without if without < len(whole.members) else 0,
        "p50_ns": quantile(times, 0.5), "p99_ns": quantile(times, 0.99),
        "queue_ns": quantile(queue, 0.99),
    }  # fmt: skip


def _counts(whole: Merged, kind: str) -> dict[int, int]:
    return {key.number or 0: value.count or 0 for key, value in whole.of_kind(kind).items()}


def _notes(whole: Merged, collected: Collected) -> list[Note]:
    cut = [name for name, fact in sorted(whole.members.items()) if not fact.is_complete]
    return [
        *(note("fleet_left_out", member=one.member, why=one.why) for one in collected.left_out),
        *(note("fleet_cut_off", member=name) for name in cut),
    ]


def _limits(whole: Merged) -> Table:
    total = whole.time_of("limit")
    found = {key.name: value.members for key, value in whole.of_kind("finding").items()}
    rows: list[Values] = [
        (
            key.name, note("fleet_limit", code=key.name), value.time_ns, value.time_ns / total,
            found.get(key.name, 0), *_extremes(value, _iterating(whole)),
        )
        for key, value in _longest(whole.of_kind("limit"))
        if total
    ]  # fmt: skip
    columns = (
        Column("code", role=Role.HIDDEN),
        Column("what", label="an iteration"),
        Column("time_ns", Unit.NS, additive=True),
        Column("share", Unit.SHARE, additive=True),
        Column("finding_in", Unit.COUNT, label="finding in traces"),
        *_EXTREMES,
    )
    return Table(
        "limits", "what limits the iterations of all members, and in which it does most", columns,
        rows, total=total_of(columns, rows), noun="limit",
    )  # fmt: skip


_EXTREMES = (
    Column("least_share", Unit.SHARE, label="least"),
    Column("most_share", Unit.SHARE, label="most"),
    Column("most_in", label="most in", most=32),
)


def _iterating(whole: Merged) -> int:
    """Count the members with iterations; where none has any, all."""
    return sum(fact.has_iterations for fact in whole.members.values()) or len(whole.members)


def _extremes(value: Sum, members: int) -> tuple[float, float, str]:
    """Return the smallest and the largest share in one of so many, and where it is largest."""
    # A member without such a row has none of it.
    least = float(value.least[0]) if value.members == members else 0.0
    return least, float(value.most[0]), value.most[1]


def _longest(sums: Mapping[Key, Sum]) -> list[tuple[Key, Sum]]:
    return sorted(
        sums.items(), key=lambda item: (-item[1].time_ns, [str(part) for part in item[0]])
    )


def _breakdown(whole: Merged) -> Table:
    groups: dict[tuple[str | None, str | None], int] = {}
    for key, value in whole.of_kind("process").items():
        groups[key.role, key.name] = groups.get((key.role, key.name), 0) + value.time_ns
    ordered = sorted(
        whole.of_kind("process").items(),
        key=lambda item: (-groups[item[0].role, item[0].name], item[0].role or "",
                          item[0].name or "", item[0].bucket or ""),
    )  # fmt: skip
    rows: list[Values] = [(key.role, key.name, key.bucket, value.time_ns) for key, value in ordered]
    columns = (
        Column("role"), Column("process", most=40), Column("bucket"),
        Column("time_ns", Unit.NS, additive=True),
    )  # fmt: skip
    return Table(
        "breakdown", "thread time of all members by role, process and bucket, in ms and %", columns,
        rows, pivot=BUCKETS, total=total_of(columns, rows), title_has_units=True,
    )  # fmt: skip


def _spread(whole: Merged) -> Table:
    total = whole.time_of("process")
    rows: list[Values] = [
        (key.bucket, value.time_ns, value.time_ns / total, *_extremes(value, len(whole.members)))
        for key, value in _longest(whole.of_kind("bucket"))
        if total
    ]
    columns = (
        Column("bucket"), Column("time_ns", Unit.NS, additive=True),
        Column("share", Unit.SHARE, additive=True), *_EXTREMES,
    )  # fmt: skip
    return Table(
        "spread", "how far the shares of the members differ", columns, rows,
        total=total_of(columns, rows),
    )  # fmt: skip


def _stragglers(alignment: Alignment, found: tuple[Straggling, ...]) -> tuple[Table, ...]:
    columns = (
        Column("member", most=40),
        Column("iterations", Unit.COUNT),
        Column("iteration_ns", Unit.NS, label="iteration"),
        Column("own_ns", Unit.NS, label="own"),
        Column("slowest", Unit.COUNT, label="slowest in"),
        Column("beyond_ns", Unit.NS, label="slower than the next by"),
    )
    rows: list[Values] = [
        (
            one.member, one.iterations, one.time_ns // one.iterations, one.own_ns // one.iterations,
            one.slowest, one.beyond_ns,
        )
        for one in found
    ]  # fmt: skip
    if not rows:
        return ()
    aligned = note(
        "fleet_aligned", aligned=len(alignment.rows), how=alignment.how,
        left_out=alignment.left_out,
    )  # fmt: skip
    remarks = (aligned, note("fleet_own"))
    title = "which member the iterations wait for; times of an iteration are means"
    return (Table("stragglers", title, columns, rows, remarks=remarks, noun="member"),)


def _path(path: tuple[Held, ...]) -> tuple[Table, ...]:
    total = sum(held.time_ns for held in path)
    rows: list[Values] = [
        (
            held.member, held.code, note("fleet_limit", code=held.code), held.task,
            held.iterations, held.time_ns, held.time_ns / total,
        )
        for held in path
        if total
    ]  # fmt: skip
    columns = (
        Column("member", most=40),
        Column("code", role=Role.HIDDEN),
        Column("what", label="an iteration"),
        Column("task", label="in task", most=40),
        Column("iterations", Unit.COUNT),
        Column("time_ns", Unit.NS, additive=True),
        Column("share", Unit.SHARE, additive=True),
    )
    if not rows:
        return ()
    title = "what limits the job: in each iteration, what the member did that others waited for"
    table = Table("job_path", title, columns, rows, total=total_of(columns, rows), noun="limit")
    return (table,)


def _members(whole: Merged) -> Table:
    columns = (
        Column("member", most=40), Column("host", most=24), Column("processes", Unit.COUNT),
        Column("threads", Unit.COUNT), Column("duration_ns", Unit.NS),
        Column("iterations", Unit.COUNT),
    )  # fmt: skip
    rows: list[Values] = [
        (
            name, fact.host, fact.processes, fact.threads,
            None if fact.start_ns is None or fact.end_ns is None else fact.end_ns - fact.start_ns,
            fact.iterations,
        )
        for name, fact in sorted(whole.members.items())
    ]  # fmt: skip
    return Table("members", "members", columns, rows, noun="member")


def _data(whole: Merged) -> Table:
    columns = (
        Column("kind"), Column("role"), Column("name"), Column("bucket"),
        Column("time_ns", Unit.NS), Column("gpu_busy_ns", Unit.NS), Column("count", Unit.COUNT),
        Column("sampled_ns", Unit.NS), Column("stderr_ns", Unit.NS),
        Column("members", Unit.COUNT), Column("least_share", Unit.SHARE),
        Column("most_share", Unit.SHARE), Column("most_in"),
    )  # fmt: skip
    rows: list[Values] = [
        (
            key.kind, key.role, key.name, key.bucket, value.time_ns, value.part_ns, value.count,
            value.sampled_ns, isqrt(value.variance_ns2), value.members,
            *_extremes(value, _iterating(whole) if kind in OF_ITERATIONS else len(whole.members)),
        )
        for kind in _DATA_KINDS
        for key, value in _longest(whole.of_kind(kind))
    ]  # fmt: skip
    return Table("fleet", "", columns, rows)
