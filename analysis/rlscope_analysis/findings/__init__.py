"""What limits the iterations, by code: the catalogue, and the shares of the critical path.

Every piece of the critical path counts for one code of the catalogue; docs/findings.md.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from rlscope_analysis.findings.catalog import CATALOG

if TYPE_CHECKING:
    import duckdb

RELATIONS = ("limit_piece", "limit_time", "limit_share", "finding")
"""What `add_findings` makes."""


def add_findings(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the relations of the findings, in memory, out of iteration and critical_path."""
    remove_findings(connection)
    try:
        connection.execute(_sql("pieces").replace("{rules}", _rules()))
        connection.execute(_sql("shares").replace("{limits}", _limits()))
    except BaseException:
        # What is there in part would be taken for all there is.
        remove_findings(connection)
        raise


def remove_findings(connection: duckdb.DuckDBPyConnection) -> None:
    """Remove them: they are of another critical path."""
    connection.execute(
        "DROP VIEW IF EXISTS finding; DROP VIEW IF EXISTS limit_share;"
        " DROP TABLE IF EXISTS limit_time; DROP TABLE IF EXISTS limit_piece"
    )


@cache
def _sql(name: str) -> str:
    return resources.files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def _rules() -> str:
    return "\n    ".join(
        f"WHEN {limit.rule} THEN '{limit.code}'" for limit in CATALOG if limit.rule is not None
    )


def _limits() -> str:
    """Return the rows (code, place, least_share): least_share is NULL where it is no finding."""
    return ", ".join(
        f"('{limit.code}', {at}, {'NULL' if limit.least_share is None else limit.least_share})"
        for at, limit in enumerate(CATALOG)
    )
