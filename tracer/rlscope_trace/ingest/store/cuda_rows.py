"""Calls of the CUDA API that probes recorded: rows of cuda_call, as CUPTI's are.

Their layer distinguishes them from other calls, and name and kind follow from their site. Of a
process whose calls CUPTI reported meanwhile, those stay: they have a correlation, and more
functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.enums import word_of
from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS
from rlscope_trace.cuda_names import cuda_call_kind
from rlscope_trace.ingest.store.cupti_intervals import IS_OF_CUPTI, create_intervals
from rlscope_trace.ingest.store.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlscope_trace.ingest.store.probe_facts import Site
    from rlscope_trace.ingest.store.processes import Columns
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

CALL_LAYER = word_of("LAYER", "layer")
"""The layer of a call in a batch of them."""
_SORTED = "ORDER BY t.process_id, t.thread_id, c.start_ns, c.end_ns DESC"


class ProbedCudaCalls:
    """The calls of one spool on their way into cuda_call_coded, after those that CUPTI reported."""

    def __init__(self, trace: TraceWriter, sites: Mapping[int, Site]) -> None:
        self._trace = trace
        self._con = trace.con
        self._sites = sites
        create_intervals(self._con)
        self._con.execute(
            "CREATE TEMP TABLE staged_cuda_call"
            " (thread_id INTEGER, start_ns BIGINT, end_ns BIGINT, site_id INTEGER)"
        )

    # DuckDB finds the columns by the name of the parameter that holds them.
    def stage(self, batch: Columns) -> None:
        """Take the calls of the CUDA API out of a batch of calls."""
        self._con.execute(
            "INSERT INTO staged_cuda_call SELECT thread_id, start_ns, end_ns, site_id FROM batch"  # noqa: S608
            f" WHERE {CALL_LAYER} = 'cuda_api'"
        )

    def store(self) -> None:
        """Write the rows."""
        ((count,),) = self._con.execute(
            "SELECT count(*) FROM staged_cuda_call AS c JOIN thread AS t USING (thread_id)"  # noqa: S608
            f" WHERE NOT {IS_OF_CUPTI}"
        ).fetchall()
        if count:
            self._store()
        self._con.execute("DROP TABLE staged_cuda_call")

    def _store(self) -> None:
        self._name_sites()
        self._con.execute(
            "CREATE TEMP TABLE all_cuda_calls AS FROM cuda_call_coded UNION ALL"  # noqa: S608
            " SELECT c.thread_id, c.start_ns, c.end_ns, coalesce(n.kind, 'other'), n.name_id, NULL"
            " FROM staged_cuda_call AS c JOIN thread AS t USING (thread_id)"
            " LEFT JOIN cuda_site AS n USING (site_id)"
            f" WHERE NOT {IS_OF_CUPTI}"
        )
        # Those of CUPTI are there already, and the table is sorted.
        self._trace.clear("cuda_call_coded")
        self._trace.insert(
            "cuda_call_coded",
            f"SELECT c.* FROM all_cuda_calls AS c JOIN thread AS t USING (thread_id) {_SORTED}",  # noqa: S608
        )
        self._con.execute("DROP TABLE all_cuda_calls")
        self._con.execute("DROP TABLE cuda_site")

    def _name_sites(self) -> None:
        strings = Strings(self._trace)
        sites = [site for site in self._sites.values() if site.layer == "cuda_api"]
        names = [strings.number(site.symbol) for site in sites]
        kinds = [CUDA_CALL_KINDS[cuda_call_kind(site.symbol)] for site in sites]
        strings.insert()
        self._con.execute(
            "CREATE TEMP TABLE cuda_site AS SELECT unnest(?::INTEGER[]) AS site_id,"
            " unnest(?::CUDA_CALL_KIND[]) AS kind, unnest(?::INTEGER[]) AS name_id",
            [[site.site_id for site in sites], kinds, names],
        )
