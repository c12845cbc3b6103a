"""What Nsight Systems measured of a process, and what it did not."""

from dataclasses import dataclass
from typing import Any

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.importers import nsys_nvtx, nsys_sched
from rlscope_trace.ingest.importers.nsys_calls import CALL_TABLES
from rlscope_trace.ingest.importers.nsys_gpu import GPU_TABLES
from rlscope_trace.ingest.importers.nsys_sqlite import NsysFile
from rlscope_trace.ingest.writer.coverages import COVERAGE_COLUMNS, KindCoverage

Verdict = tuple[bool, Fact]
"""Whether a kind of record was measured; how, or why not."""

_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
# A stream that waits: not the work of a GPU.
_SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"


@dataclass(frozen=True, slots=True)
class Found:
    """What the tables of an export held."""

    launches: int
    """CUDA calls that launch something on a GPU."""
    has_switches: bool
    reported_processes: frozenset[int]
    """Whose thread states are known."""


def verdicts(file: NsysFile, found: Found) -> dict[str, Verdict]:
    """Return the verdict on each kind of record that is the same for all processes."""
    has_calls = any(file.has_rows(table) for table in CALL_TABLES)
    return {
        "operation": _of_table(nsys_nvtx.TABLE, "nvtx", present=file.has_rows(nsys_nvtx.TABLE)),
        "native_call": (False, Fact("nsys_never")),
        "wait": (False, Fact("nsys_os_runtime")),
        "cuda_call": _of_table(CALL_TABLES[0], "cuda", present=has_calls),
        "gpu_activity": _of_gpu(file, found, has_calls=has_calls),
    }


def state_verdict(found: Found, process: int) -> Verdict:
    """Return the verdict on the thread states of a process, as Owners numbers it."""
    if process in found.reported_processes:
        return True, Fact("nsys_switches")
    if found.has_switches:
        return False, Fact("nsys_switches_unreported")
    return False, Fact("nsys_no_switches", nsys_sched.TABLE)


def coverage_table(rows: list[tuple[int, str, Verdict]]) -> dict[str, list[Any]]:
    """Return the table coverage, of process ids, kinds and verdicts."""
    stored = [
        row
        for process_id, kind, (measured, fact) in rows
        for row in KindCoverage(process_id, kind, measured, (fact,)).rows()
    ]
    return {name: [row[at] for row in stored] for at, name in enumerate(COVERAGE_COLUMNS)}


def _of_table(table: str, trace: str, *, present: bool) -> Verdict:
    if present:
        return True, Fact("nsys_trace", trace)
    return False, Fact("nsys_table_missing", table)


def _of_gpu(file: NsysFile, found: Found, *, has_calls: bool) -> Verdict:
    if file.has_rows(_GRAPHS):
        return True, Fact("graphs_whole")
    if any(file.has_rows(table) for table in GPU_TABLES - {_SYNCS}):
        return True, Fact("nsys_trace", "cuda")
    if has_calls and not found.launches:
        return True, Fact("nsys_no_gpu_work")
    return False, Fact("nsys_launches_only" if has_calls else "nsys_no_gpu")
