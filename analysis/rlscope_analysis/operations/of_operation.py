"""A report that shows one operation: `summarize --view ... --operation NAME`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from rlscope_analysis.operations.names import known_name
from rlscope_analysis.query import run_query
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.schema.vocabulary import UNANNOTATED

if TYPE_CHECKING:
    from rlscope_analysis.reports import Report
    from rlscope_analysis.trace import Trace

# Reports that can show one operation only.
REPORTS_OF_OPERATION = tuple(name for name, report in REPORTS.items() if report.takes_operation)
_KNOWN_SQL = """
SELECT p.name, count(*) FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
GROUP BY p.name
"""


def of_operation(trace: Trace, report: Report, name: str) -> Report:
    """Return the report of REPORTS_OF_OPERATION with the rows of one operation.

    Raises TraceError where the trace has no operation of that name.
    """
    known = Counter({str(found): count for found, count in run_query(trace, _KNOWN_SQL).rows})
    known[UNANNOTATED] += 0
    return replace(report, operation=known_name(name, known))
