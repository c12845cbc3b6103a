"""The first screen as an answer: three tables, with a verdict above them and the losses below."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import TraceError
from rlscope_analysis.findings.catalog import BY_CODE
from rlscope_analysis.overview.values import Overview
from rlscope_analysis.overview.where import where_of
from rlscope_analysis.query import run_query, run_records, run_together
from rlscope_analysis.result.column import Column, Scale, Unit
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import Answer, Table, Values
from rlscope_analysis.schema.vocabulary import NO_PHASE, WAITING
from rlscope_analysis.summary.gpu import gpu_summary
from rlscope_analysis.summary.losses import losses_of
from rlscope_analysis.summary.overhead import overhead_of
from rlscope_analysis.window import SPAN_SQL, asked_window
from rlscope_analysis.wording import role_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.trace import Trace

    _Row = dict[str, Any]

# A screen.
_LINES = 25


@dataclass(frozen=True, slots=True)
class _Detail:
    """How many of each the first screen names; the others are counted."""

    phases: int
    processes: int
    findings: int
    no_phase: int


# The first with which it fits is shown; phases of the leading process are left out last.
_DETAILS = (
    _Detail(5, 4, 3, 2), _Detail(5, 4, 3, 0), _Detail(5, 3, 3, 0), _Detail(5, 2, 3, 0),
    _Detail(5, 2, 2, 0), _Detail(3, 2, 2, 0), _Detail(1, 1, 1, 0),
)  # fmt: skip
# What is less is written as 0.0 %.
_LEAST_SHOWN = 0.0005
# What takes less does not limit a run.
_LEAST_VERDICT = 0.2
# Who waits for a CPU beside one that is idle for most of that time does not lack CPUs.
_LEAST_IDLE = 0.5
# A process that used less than this of the CPU time needs no phase.
_LEAST_CPU_SHARE = 0.1
_LONGEST_COMMAND = 4096
_PACE_SQL = """
SELECT
  count(*) AS iterations, any_value(source) AS source, any_value(name) AS name,
  avg(end_ns - start_ns) AS mean_ns,
  sum(environment_steps) / sum(end_ns - start_ns) * 1e9 AS steps_per_s,
  sum(evaluation_steps) / sum(end_ns - start_ns) * 1e9 AS evaluation_steps_per_s,
  quantile_disc(end_ns - start_ns, 0.99) AS p99_ns,
  (
    SELECT end_ns - start_ns FROM iteration
    WHERE is_first AND iteration_id NOT IN (SELECT iteration_id FROM _steady_iteration)
  ) AS first_ns,
  (
    SELECT min(i.start_ns) - min(p.start_ns)
    FROM iteration AS i JOIN process AS p ON p.process_id = i.process_id WHERE i.source <> 'whole'
      AND NOT EXISTS (FROM coverage WHERE code = 'kept_last')
  ) AS start_up_ns
FROM iteration WHERE iteration_id IN (SELECT iteration_id FROM _steady_iteration)
"""
_LARGEST_SQL = "SELECT code, share FROM limit_share ORDER BY share DESC, place LIMIT 1"
# Of each process without an operation, why it has none.
_NO_PHASE_SQL = """
WITH measured AS (
  SELECT process_id, bool_and(measured) AS is_recorded, bool_or(code = 'nvtx_ranges') AS is_off
  FROM coverage WHERE kind = 'operation' GROUP BY process_id
), python AS (
  SELECT DISTINCT t.process_id
  FROM cpu_sample AS s JOIN thread AS t ON t.thread_id = s.thread_id WHERE s.layer = 'python'
)
SELECT
  p.process_id,
  CASE
    WHEN NOT coalesce(own.is_recorded, every.is_recorded, false) THEN 'not_recorded'
    WHEN coalesce(own.is_off, every.is_off) THEN 'not_looked_for'
    WHEN p.python_name IS NOT NULL OR p.process_id IN (FROM python)
      OR regexp_matches(coalesce(p.command, ''), '^[^ ]*(python|pypy)[0-9.]*( |$)')
      THEN 'nothing_known'
    ELSE 'no_python'
  END AS reason
FROM process AS p
LEFT JOIN measured AS own ON own.process_id = p.process_id
LEFT JOIN measured AS every ON every.process_id IS NULL
WHERE p.process_id IN (SELECT process_id FROM training_process WHERE NOT is_marked)
"""
_MACHINE_SQL = """
SELECT
  (SELECT count(*) FROM process) AS processes,
  (SELECT value FROM meta WHERE key = 'cpus_allowed') AS cpus,
  (SELECT arg_min(command, process_id) FROM process) AS command,
  (SELECT exit_code FROM process ORDER BY process_id LIMIT 1) AS exit_code,
  (
    SELECT coalesce(bool_or(measured), false) FROM coverage WHERE kind = 'thread_state'
  ) AS has_states,
  (SELECT value FROM meta WHERE key = 'ranks') AS ranks,
  (SELECT any_value(value) FROM meta WHERE key = 'ended_cleanly') AS ended_cleanly,
  (SELECT any_value(duration_ns) FROM coverage WHERE code = 'kept_last') AS left_out_ns,
  (
    SELECT bool_and(code IS NOT DISTINCT FROM 'cuda_not_initialised')
    FROM coverage WHERE kind = 'gpu_activity'
  ) AS is_gpu_unused
"""


def overview(trace: Trace, *, per: str | None = None) -> Overview:
    """Find out what the first screen says.

    per: the range that counts as an iteration; TraceError where none is called so. Where else the
    critical path cannot be worked out, the reason stands for what it would tell.
    """
    pace = pace_of(trace, per=per)
    return completed(trace, replace(facts_of(trace), **pace))


def completed(trace: Trace, begun: Overview) -> Overview:
    """Add what can be said of limits and training where iterations were found."""
    if begun.pace is None:
        return begun
    limits, training = run_together(trace, limits_of, training_of)
    return replace(begun, **{**limits, **training})


def pace_of(trace: Trace, *, per: str | None = None) -> dict[str, Any]:
    """Find the iterations; return what an Overview says of them, or why there are none."""
    if per is not None:
        trace.critical_path(per=per)
    try:
        (pace,) = run_records(trace, _PACE_SQL)
    except TraceError as error:
        return {"reason": str(error)}
    return {"pace": pace}


def facts_of(trace: Trace) -> Overview:
    """Return the first screen as far as it needs no iteration."""
    (machine,) = run_records(trace, _MACHINE_SQL)
    ((first_ns, last_ns),) = run_query(trace, SPAN_SQL).rows
    return Overview(
        trace=trace.path.name,
        machine=machine,
        is_complete=machine["ended_cleanly"] != "false",
        duration_ns=None if first_ns is None else last_ns - first_ns,
        losses=losses_of(trace),
        overhead=overhead_of(trace),
        gpu=gpu_summary(lambda query: list(run_query(trace, query).rows)),
        window=asked_window(trace.connection),
    )


def limits_of(trace: Trace) -> dict[str, Any]:
    """Return what an Overview says of limits, or why nothing of iterations can be said."""
    try:
        found = tuple(run_records(trace, "FROM finding"))
        findings = tuple(_finding(trace, row) for row in found)
        largest = next(run_records(trace, _LARGEST_SQL), None)
    except TraceError as error:
        return {"pace": None, "reason": str(error)}
    return {"findings": findings, "largest": largest}


def training_of(trace: Trace) -> dict[str, Any]:
    """Return what an Overview says of the training, or why nothing of iterations can be said."""
    try:
        phases = tuple(run_records(trace, "FROM training_phase"))
        processes = tuple(run_records(trace, "FROM training_process"))
        no_phase = {row["process_id"]: row["reason"] for row in run_records(trace, _NO_PHASE_SQL)}
    except TraceError as error:
        return {"pace": None, "reason": str(error)}
    return {"phases": phases, "processes": processes, "no_phase": no_phase}


def _finding(trace: Trace, row: dict[str, Any]) -> dict[str, Any]:
    limit, where = BY_CODE[row["code"]], where_of(trace, row)
    return {
        "code": row["code"],
        "share": row["share"],
        "low": row["low_share"],
        "high": row["high_share"],
        "of": note("share_of", of_path=row["of_path"]),
        "of_path": row["of_path"],
        "where": where,
        "evidence": limit.evidence,
        "remedy": limit.advice(
            by_program=where.get("by_program"),
            is_beside_idle=(where.get("idle_share") or 0) >= _LEAST_IDLE,
        ),
    }


def answer_of(reported: Overview) -> Answer:
    """Lay the first screen out, with as much as fits on it."""
    found = None
    facts, opening = _facts(reported), tuple(_opening(reported))
    for detail in reversed(_DETAILS):
        tables = () if reported.pace is None else tuple(_tables(reported, detail))
        found = Answer(
            tables=tables,
            data=Table("phases", "", (), []),
            facts=facts,
            opening=opening,
            closing=tuple(_closing(reported, detail)),
            is_complete=reported.is_complete,
            lines=_LINES,
            shorter=found,
        )
    assert found is not None
    return found


def answer_with(reported: Overview, summary: Answer) -> Answer:
    """Put the first screen above a summary of everything."""
    first = answer_of(reported)
    explained = (replace(table, remarks=tuple(_explained(table))) for table in first.tables)
    return replace(
        summary,
        tables=(*explained, *summary.tables),
        facts={**summary.facts, **first.facts},
        opening=first.opening,
    )


def _explained(table: Table) -> Iterable[Note]:
    """Say what the words of a table mean that the first screen has no room for."""
    outside = tuple(row[0] for row in table.rows if row[0] in (NO_PHASE, WAITING))
    if table.name == "phases" and outside:
        yield note("in_no_phase", names=outside)
    if table.name == "findings":
        yield note("at_stake")


def _facts(reported: Overview) -> dict[str, Any]:
    return {
        "verdict": verdict(reported) if reported.pace else None,
        "iterations": reported.pace,
        "findings": reported.findings,
        "phases": reported.phases,
        "training_processes": reported.processes,
        "no_phase": reported.no_phase,
        "not_known": tuple(not_known_notes(reported)),
    }


def _tables(reported: Overview, detail: _Detail) -> Iterable[Table]:
    if reported.phases:
        yield _phases(reported, detail.phases)
    others = [row for row in reported.processes if not row["is_lead"]]
    if others:
        yield _processes(reported, others, detail.processes)
    if reported.findings:
        yield _findings(reported, detail.findings)


def _split(rows: Sequence[_Row], most: int) -> tuple[Sequence[_Row], Sequence[_Row]]:
    """Return the rows to show and those to count: one alone takes the line that counts it."""
    shown = len(rows) if len(rows) <= most else most - (most > 1)
    return rows[:shown], rows[shown:]


def _more(rows: Sequence[_Row], name: str, most: int) -> Note:
    """Count rows, and name them by a column, each name once, as far as that fits."""
    named = (row | {name: f"worker {row['number']}"} if _is_worker(row) else row for row in rows)
    names = tuple(dict.fromkeys(row[name] or "" for row in named))
    return note("more_rows", count=len(rows), names=names, most=most)


def _is_worker(row: _Row) -> bool:
    """Whether a row is of a process that is called by its number."""
    return row.get("number") is not None and not row["is_titled"]


def _phases(reported: Overview, most: int) -> Table:
    who = role_words(reported.lead["role"] if reported.lead else "main")
    has_lost = any(row["lost_share"] for row in reported.phases)
    lost = (Column("lost_share", Unit.SHARE, label="lost"),) if has_lost else ()
    columns = (
        Column("operation", label=f"where the {who}'s time went", most=24),
        Column("time_ns", Unit.NS, label="time ms", scale=Scale.SHORT_MS),
        Column("share", Unit.SHARE, label="%"),
        Column("python_share", Unit.SHARE, label="Python"),
        Column("native_share", Unit.SHARE, label="native"),
        Column("queue_share", Unit.SHARE, label="queue"),
        Column("waits_share", Unit.SHARE, label="waits"),
        *lost,
        Column("instances", Unit.COUNT, label="count"),
        Column("each_ns", Unit.NS, label="each ms", scale=Scale.SHORT_MS),
    )
    shown, rest = _split(reported.phases, most)
    rows = [tuple(row[column.name] for column in columns) for row in shown]
    if rest:
        sums = {name: _sum(rest, name) for name in ("time_ns", "share")}
        sums["operation"] = _more(rest, "operation", 30)
        rows.append(tuple(sums.get(column.name) for column in columns))
    return Table("phases", "", columns, rows, title_has_units=True)


def _processes(reported: Overview, others: list[_Row], most: int) -> Table:
    known = {row["process_id"]: row for row in reported.processes}
    columns = (
        Column("process", label="the other processes", most=40),
        Column("cpu_share", Unit.SHARE, label="CPU"),
        Column("queue_share", Unit.SHARE, label="queue"),
        Column("sleeps_share", Unit.SHARE, label="waits"),
        Column("for", label="most of it for", most=30),
        Column("waits_share", Unit.SHARE, label=""),
    )
    shown, rest = _split(others, most)
    rows = [
        (
            role_note(row), row["cpu_share"], row["queue_share"], row["sleeps_share"],
            *_waited_for(row, known),
        )
        for row in shown
    ]  # fmt: skip
    if rest:
        rows.append((_more(rest, "name", 40), _sum(rest, "cpu_share"), None, None, "", None))
    return Table("processes", "", columns, rows)


def _waited_for(row: _Row, known: dict[int, _Row]) -> tuple[Note | str, float | None]:
    """Return for which process it waited most and how long: nobody where the figure would be 0."""
    is_shown = (row["waits_share"] or 0) >= _LEAST_SHOWN
    other = known.get(row["waits_for_process_id"]) if is_shown else None
    return "-" if other is None else role_note(other), row["waits_share"]


def _sum(rows: Sequence[_Row], name: str) -> Any:  # noqa: ANN401 - what the column holds
    known = [row[name] for row in rows]
    return None if None in known else sum(known)


def role_note(row: dict[str, Any]) -> Note:
    """Name a row of training_process."""
    known = ("role", "number", "name", "is_titled", "pid")
    return note("role", **{name: row[name] for name in known})


def _findings(reported: Overview, most: int) -> Table:
    columns = (
        Column("code", label="what to try first"),
        Column("share", Unit.SHARE, label="at stake"),
        Column("remedy", most=50),
        Column("proof", label="look at --view"),
    )
    rows: list[Values] = [
        (
            found["code"],
            found["share"],
            found["remedy"],
            BY_CODE[found["code"]].proof.removeprefix("--view "),
        )
        for found in reported.findings[:most]
    ]
    rest = reported.findings[most:]
    if rest:
        codes = ", ".join(f"{found['code']} {found['share'] * 100:.1f} %" for found in rest)
        rows.append((_more(rest, "code", 0), None, codes, "findings"))
    return Table("findings", "", columns, rows)


def _opening(reported: Overview) -> Iterable[Note]:
    yield note(
        "traced_program",
        program=program_of(reported.machine["command"]) or reported.trace,
        duration_ns=reported.duration_ns,
        left_out_ns=reported.machine["left_out_ns"],
        window=str(reported.window) if reported.window else None,
        exit_code=reported.machine["exit_code"],
        processes=reported.machine["processes"],
        cpus=reported.machine["cpus"],
        gpu=asdict(reported.gpu),
        is_gpu_unused=reported.machine["is_gpu_unused"],
        start_up_ns=reported.pace["start_up_ns"] if reported.pace else None,
    )
    yield note("blank")
    if reported.pace is None:
        yield note("no_verdict", reason=reported.reason)
        return
    yield verdict(reported)
    if not reported.pace["iterations"]:
        return
    lead = reported.lead
    uses = {"cpu_share": None, "spin_share": None} | (lead or {})
    who = lead["role"] if lead else None
    yield note(
        "pace", **reported.pace,
        who=who, cpu_share=uses["cpu_share"], spin_share=uses["spin_share"],
    )  # fmt: skip


def verdict(reported: Overview) -> Note:
    """Say in one sentence what limits the run."""
    if reported.findings and reported.findings[0]["share"] >= _LEAST_VERDICT:
        first = reported.findings[0]
        is_of_lead = BY_CODE[first["code"]].is_of_lead
        where = (reported.lead if is_of_lead else None) or first["where"]
        who = [row for row in reported.processes if row["process_id"] == where["process_id"]]
        reported_of = {name: first[name] for name in ("code", "share", "of_path")}
        is_whole = reported.pace is not None and reported.pace["source"] == "whole"
        found = first["where"]
        function = found.get("by_function") or ""
        if not function.startswith("<module>"):
            function = function.partition(" (")[0]
        by = found.get("by_program") or found.get("by_holder") or function or None
        others = 0 if is_of_lead else where.get("others", 0)
        only_cpu, idle = found.get("only_cpu"), found.get("idle_share") or 0
        return note(
            "verdict", **reported_of,
            who=role_note(who[0]) if who else None, others=others, by=by, is_whole=is_whole,
            waiter=_waiter(reported, first), largest=_larger(reported, first), only_cpu=only_cpu,
            half=_other_half(reported, found.get("other_half")), causes=found.get("causes"),
            idle=idle if idle >= _LEAST_IDLE else None,
        )  # fmt: skip
    if reported.largest:
        return note("no_finding", **reported.largest)
    return note("no_thread")


def _larger(reported: Overview, first: dict[str, Any]) -> dict[str, Any] | None:
    """Return what takes more than the limit that is named, and is less than a limit of its kind."""
    largest = reported.largest
    if largest is None or BY_CODE[largest["code"]].least_share is None:
        return None
    is_more = first["of_path"] and largest["share"] > first["share"]
    return largest if is_more else None


def _other_half(reported: Overview, code: str | None) -> dict[str, Any] | None:
    """Return what else the function takes that is named, under another heading."""
    rows = [found for found in reported.findings if found["code"] == code and found["of_path"]]
    return {"code": code, "share": rows[0]["share"]} if rows else None


def _waiter(reported: Overview, found: dict[str, Any]) -> Note | None:
    """Name the leading process where the limit is another's, and its words do not say who waits."""
    limit, lead = BY_CODE[found["code"]], reported.lead
    blamed = found["where"]["process_id"]
    if lead is None or limit.is_of_lead or limit.tells_waiter or blamed is None:
        return None
    return None if blamed == lead["process_id"] else role_note(lead)


def not_known_notes(reported: Overview) -> Iterable[Note]:
    """Say what cannot be said from a trace of this kind."""
    if reported.pace is not None and not reported.machine["has_states"]:
        yield note("no_states")
    sizes = [rank["world_size"] for rank in _ranks(reported.machine["ranks"])]
    if max(sizes, default=0) > len(sizes):
        yield note("ranks_missing", ranks=len(sizes), world_size=max(sizes))


def _ranks(text: str | None) -> list[dict[str, Any]]:
    """Return the ranks that an import noted; a trace may come from a stranger."""
    try:
        ranks = json.loads(text or "[]")
    except ValueError:
        return []
    if not isinstance(ranks, list):
        return []
    return [
        rank for rank in ranks if isinstance(rank, dict) and isinstance(rank.get("world_size"), int)
    ]


def _closing(reported: Overview, detail: _Detail) -> Iterable[Note]:
    yield from not_known_notes(reported)
    all_ns = sum(row["running_ns"] or 0 for row in reported.processes)
    busy = [
        row
        for row in reported.processes
        if not row["is_marked"] and (row["running_ns"] or 0) > _LEAST_CPU_SHARE * all_ns
    ]
    for row in busy[: detail.no_phase]:
        share, reason = row["running_ns"] / all_ns, reported.no_phase[row["process_id"]]
        yield note("no_phase", who=role_note(row), share=share, reason=reason)
    rest = busy[detail.no_phase :]
    if rest:
        share = sum(row["running_ns"] for row in rest) / all_ns
        yield note("no_phase_in_more", count=len(rest), share=share, is_all=not detail.no_phase)
    yield note(
        "losses_and_overhead",
        **_losses(reported),
        cpu_ns=reported.overhead.cpu_ns,
        overhead_ns=reported.overhead.overhead_ns,
    )


def _losses(reported: Overview) -> dict[str, Any]:
    """Count what was lost, and by kind what is missing otherwise; None: how much is not known."""
    counts: dict[str, list[int | None]] = {}
    for loss in reported.losses:
        counts.setdefault(loss.kind, []).append(loss.count)
    sums = {
        kind: None if None in found else sum(count or 0 for count in found)
        for kind, found in counts.items()
    }
    return {"lost": sums.pop("dropped", 0), "others": sums}


def program_of(command: str | None) -> str | None:
    """Name the program as a person would: the script, not its interpreter."""
    # Of megabytes of arguments: to split them takes minutes, and the name is among the first.
    command = (command or "")[:_LONGEST_COMMAND]
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    if words and Path(words[0]).name.startswith("python"):
        words = [word for word in words[1:] if not word.startswith("-")] or words
    return Path(words[0]).name if words else None
