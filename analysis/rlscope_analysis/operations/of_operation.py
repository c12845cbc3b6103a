"""A report that shows one operation: `summarize --view ... --operation NAME`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from rlscope_analysis.operations.names import known_name
from rlscope_analysis.query import run_query
from rlscope_analysis.reports import REPORTS, Report, report_sql
from rlscope_analysis.schema.vocabulary import UNANNOTATED

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

# Stands in a query where a condition on its rows can: shares are of all operations even so.
_MARK = "/* of_operation */"
# Reports that can show one operation only.
REPORTS_OF_OPERATION = tuple(name for name in REPORTS if _MARK in report_sql(name))
_KNOWN_SQL = """
SELECT p.name, count(*) FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
GROUP BY p.name
"""


@dataclass(frozen=True, slots=True)
class _OfOperation(Report):
    operation: str = UNANNOTATED

    @property
    def sql(self) -> str:
        """The query, of which only the rows of the operation are left."""
        quoted = self.operation.replace("'", "''")
        return report_sql(self.name).replace(_MARK, f"QUALIFY operation = '{quoted}'")


def of_operation(trace: Trace, report: Report, name: str) -> Report:
    """Return the report of REPORTS_OF_OPERATION with the rows of one operation.

    Raises TraceError where the trace has no operation of that name.
    """
    known = Counter({str(found): count for found, count in run_query(trace, _KNOWN_SQL).rows})
    known[UNANNOTATED] += 0
    whole = {field.name: getattr(report, field.name) for field in fields(Report)}
    return _OfOperation(**whole, operation=known_name(name, known))
