"""What limits the iterations, by code: the catalogue, and the shares of the critical path.

Every piece of the critical path counts for one code of the catalogue; docs/findings.md.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from rlscope_analysis.cpu_list import allowed_cpus
from rlscope_analysis.findings.catalog import BY_FUNCTION, BY_OTHERS, CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

_STEPS = ("threads", "pieces", "functions", "shares")
# First what says that they are there: an interrupt may come in between.
_MADE = (
    ("TABLE", "limit_time"), ("VIEW", "finding"), ("VIEW", "limit_share"),
    ("VIEW", "_listed_limit"), ("TABLE", "_limit_cause"), ("TABLE", "_limit_held"),
    ("TABLE", "limit_function"), ("TABLE", "limit_piece"), ("TABLE", "_limit_start"),
    ("TABLE", "_limit_asked"),
    ("TABLE", "_limit_lock"), ("TABLE", "_limit_watched"), ("TABLE", "_limit_disk"),
    ("TABLE", "_limit_sample"), ("TABLE", "_limit_worker"), ("TABLE", "_limit_team"),
    ("TABLE", "_limit_thread"), ("TABLE", "_limit_path"),
)  # fmt: skip
RELATIONS = ("limit_piece", "limit_function", "limit_time", "limit_share", "finding")
"""What `add_findings` makes."""


def add_findings(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the relations of the findings, in memory, out of iteration and critical_path."""
    remove_findings(connection)
    filled = _joins(connection) | {
        "{rules}": _rules(), "{limits}": _limits(), "{code_of_function}": _listed(BY_FUNCTION),
        "{code_of_others}": _listed(BY_OTHERS),
        "{allowed_cpus}": str(len(allowed_cpus(connection)) or "NULL"),
    }  # fmt: skip
    try:
        for name in _STEPS:
            script = _sql(name)
            for mark, text in filled.items():
                script = script.replace(mark, text)
            connection.execute(script)
    except BaseException:
        # What is there in part would be taken for all there is.
        remove_findings(connection)
        raise


def remove_findings(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove them: they are of another critical path."""
    connection.execute("".join(f"DROP {kind} IF EXISTS {name};" for kind, name in _MADE))


def _joins(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return how what only some traces have is joined: not at all where there is none of it."""
    ((samples, gpu, evaluation, quota),) = connection.execute(
        "SELECT EXISTS (FROM cpu_sample_coded), EXISTS (FROM gpu_activity_coded),"
        " EXISTS (FROM _evaluation_path),"
        # Where the waits for it were recorded one by one, nothing is to be guessed.
        " EXISTS (FROM os_counter WHERE name = 'quota_throttled')"
        " AND NOT EXISTS (FROM coverage WHERE kind = 'cpu_quota_wait' AND measured)"
    ).fetchall()
    return {
        "{has_samples}": "true" if samples else "false",
        "{if_samples}": "ASOF" if samples else "",
        "{if_samples_on}": "s.ts_ns <= c.end_ns" if samples else "false",
        "{if_quota}": "ASOF" if quota else "",
        "{if_quota_on}": "q.ts_ns >= c.start_ns" if quota else "false",
        "{if_evaluation}": "ASOF" if evaluation else "",
        "{if_evaluation_on}": "v.ts_ns <= c.start_ns" if evaluation else "false",
        "{if_gpu}": "ASOF" if gpu else "",
        "{if_gpu_on_launch}": "g.ts_ns <= c.start_ns" if gpu else "false",
        "{if_gpu_on_copy}": "m.start_ns <= c.start_ns" if gpu else "false",
    }


def findings_sql() -> str:
    """Return the statements that make and comment the relations, with places for the rest."""
    return "".join(map(_sql, _STEPS))


@cache
def _sql(name: str) -> str:
    return resources.files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def _rules() -> str:
    return "\n    ".join(
        f"WHEN {limit.rule} THEN '{limit.code}'" for limit in CATALOG if limit.rule is not None
    )


def _listed(codes: Iterable[str]) -> str:
    return ", ".join(f"'{code}'" for code in codes)


def _limits() -> str:
    """Return the rows (code, place, least_share, least_of_life): NULL where it is no finding."""
    return ", ".join(
        f"('{limit.code}', {at}, {_number(limit.least_share)}, {_number(limit.least_of_life)})"
        for at, limit in enumerate(CATALOG)
    )


def _number(value: float | None) -> str:
    return "NULL" if value is None else f"{value}"
