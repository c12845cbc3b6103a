"""Writes what is neither thread nor state: staged as it comes, then sorted as the schema says."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlscope_analysis.schema.enums import word_of
from rlscope_trace._ingest import EventRows, SpoolScan
from rlscope_trace.ingest.store.cuda_rows import CALL_LAYER, ProbedCudaCalls
from rlscope_trace.ingest.store.probe_facts import ProbeFacts, Site
from rlscope_trace.ingest.store.processes import Columns
from rlscope_trace.ingest.writer.database_file import BATCH_ROWS
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.spool.directory import RECORD_KINDS

# Staged table -> where its rows go, and in which order those of one thread are stored.
_STAGED = {
    "native_call": ("start_ns, depth", "native_call_coded"),
    "gil_release": ("start_ns", "gil_release_coded"),
    "cpu_sample": ("ts_ns", "cpu_sample_coded"),
    "cpu_quota_wait": ("ts_ns", "cpu_quota_wait_coded"),
    "early_message": ("read_ns", "early_message"),
}
# Of no thread: sorted by CPU.
_OTHERS, _OTHERS_TABLE = "other_run", "other_run_coded"
_KINDS = ("call", "gil_release", "sample", "stack", "other_run", "quota", "early_message")
# The flags are those of bpf/records.h: RLS_CALL_*, RLS_SAMPLE_*.
_CALL = f"""
  thread_id, start_ns, end_ns, {CALL_LAYER}, {word_of("LAYER", "parent_layer")},
  depth, site_id,
  CASE WHEN flags & 2 = 2 THEN 'open' WHEN flags & 1 = 1 THEN 'unwound' ELSE 'returned' END
"""
_SAMPLE = f"""
  thread_id, ts_ns, {word_of("LAYER", "layer")}, flags & 1 = 1, flags & 2 = 2, nullif(stack_id, 0)
"""
# RLS_FILE_PIPE of bpf/records.h.
_PIPE = 1


@dataclass(frozen=True, slots=True)
class Events:
    """What could not be read, and what belongs to no thread of the trace."""

    malformed_count: int
    unknown_thread_count: int


class EventWriter:
    """Copies the events of a spool into a database whose thread table is filled."""

    def __init__(self, trace: TraceWriter, scan: SpoolScan) -> None:
        self._trace = trace
        self._con = trace.con
        self._scan = scan
        self._rows = EventRows(scan)

    def write(self, facts: ProbeFacts) -> Events:
        """Write all of them, and the sites; what CUPTI reported has been written before."""
        self._insert_sites([*facts.sites.values(), *facts.unprobed])
        records = self._scan.records()
        if not any(records[RECORD_KINDS.index(kind)] for kind in _KINDS):
            return Events(0, 0)
        for name, table in (*((n, t) for n, (_, t) in _STAGED.items()), (_OTHERS, _OTHERS_TABLE)):
            self._con.execute(f"CREATE TEMP TABLE staged_{name} AS FROM {table} LIMIT 0")
        cuda = ProbedCudaCalls(self._trace, facts.sites)
        while (batch := self._rows.next_batch(BATCH_ROWS)) is not None:
            self._stage_calls(batch["calls"])
            cuda.stage(batch["calls"])
            self._stage_releases(batch["releases"])
            self._stage_samples(batch["samples"])
            self._insert_stacks(batch["stacks"])
            self._stage_others(batch["other_runs"], batch["programs"])
            self._stage_quotas(batch["quotas"])
            self._stage_messages(batch["messages"])
            self._trace.progress("calls", self._rows.position, self._scan.file_bytes)
        self._store()
        cuda.store()
        return Events(self._rows.malformed_count, self._rows.unknown_thread_count)

    def _store(self) -> None:
        for name, (order, table) in _STAGED.items():
            self._trace.insert(
                table,
                f"SELECT s.* FROM staged_{name} AS s"  # noqa: S608
                f" JOIN thread AS t USING (thread_id) ORDER BY t.process_id, thread_id, {order}",
            )
            self._con.execute(f"DROP TABLE staged_{name}")
        self._trace.insert(_OTHERS_TABLE, f"FROM staged_{_OTHERS} ORDER BY cpu, start_ns, end_ns")
        self._con.execute(f"DROP TABLE staged_{_OTHERS}")

    # DuckDB finds the numpy columns below by the name of the parameter that holds them.

    def _stage_calls(self, batch: Columns) -> None:
        self._con.execute(
            f"INSERT INTO staged_native_call SELECT {_CALL} FROM batch"  # noqa: S608
            f" WHERE {CALL_LAYER} IS DISTINCT FROM 'cuda_api'"
        )

    def _stage_releases(self, batch: Columns) -> None:
        self._con.execute(
            "INSERT INTO staged_gil_release SELECT thread_id, start_ns, end_ns FROM batch"
        )

    def _stage_samples(self, batch: Columns) -> None:
        self._con.execute(
            f"INSERT INTO staged_cpu_sample SELECT {_SAMPLE} FROM batch"  # noqa: S608
        )

    def _stage_others(self, batch: Columns, programs: Sequence[tuple[int, int, bytes]]) -> None:
        self._con.execute(
            f"INSERT INTO staged_{_OTHERS} SELECT cpu, start_ns, end_ns, program_id FROM batch"  # noqa: S608
        )
        rows = [
            (program_id, pid, name.decode("utf-8", "replace")) for program_id, pid, name in programs
        ]
        self._trace.insert_rows("other_program", rows)

    def _stage_quotas(self, batch: Columns) -> None:
        self._con.execute("INSERT INTO staged_cpu_quota_wait SELECT thread_id, ts_ns FROM batch")

    def _stage_messages(self, batch: Columns) -> None:
        self._con.execute(
            "INSERT INTO staged_early_message SELECT thread_id, read_ns, sent_ns,"  # noqa: S608
            f" sender_thread_id, if(file = {_PIPE}, 'pipe', 'socket') FROM batch"
        )

    def _insert_stacks(self, stacks: Sequence[tuple[int, bytes]]) -> None:
        for first in range(0, len(stacks), BATCH_ROWS):
            chunk = stacks[first : first + BATCH_ROWS]
            ids = [stack_id for stack_id, _ in chunk]
            texts = [text.decode("utf-8", "replace").removesuffix("\n") for _, text in chunk]
            query = "SELECT unnest(?), string_split(unnest(?), chr(10))"
            self._trace.insert("stack_coded", query, values=[ids, texts])

    def _insert_sites(self, sites: Sequence[Site]) -> None:
        numbers = iter(range(max((site.site_id for site in sites), default=0) + 1, 2**31))
        rows = [
            (
                site.site_id or next(numbers), site.module, site.symbol, site.layer,
                site.file_offset, site.state, site.probed_ns, site.dropped_ns, site.hits,
                site.time_ns, site.is_expensive, site.code, site.detail, site.numbers,
            )
            for site in sites
        ]  # fmt: skip
        self._trace.insert_rows("site", rows)
