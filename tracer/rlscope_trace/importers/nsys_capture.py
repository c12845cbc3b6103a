"""What Nsight Systems measured of a process, and what it did not."""

from dataclasses import dataclass
from typing import Any

from rlscope_trace.importers import nsys_nvtx, nsys_sched
from rlscope_trace.importers.nsys_calls import CALL_TABLES
from rlscope_trace.importers.nsys_gpu import GPU_TABLES
from rlscope_trace.importers.nsys_sqlite import NsysFile

Verdict = tuple[bool, str | None]
"""Whether a kind of record was measured; how, or why not."""

_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
# A stream that waits: not the work of a GPU.
_SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_NEVER = "Nsight Systems does not record it"


@dataclass(frozen=True, slots=True)
class Found:
    """What the tables of an export held."""

    launches: int
    """CUDA calls that launch something on a GPU."""
    has_switches: bool
    told_processes: frozenset[int]
    """Whose thread states are known."""


def verdicts(file: NsysFile, found: Found) -> dict[str, Verdict]:
    """Return the verdict on each kind of record that is the same for all processes."""
    has_calls = any(file.has_rows(table) for table in CALL_TABLES)
    return {
        "operation": _of_table(nsys_nvtx.TABLE, "nvtx", present=file.has_rows(nsys_nvtx.TABLE)),
        "native_call": (False, _NEVER),
        "wait": (False, "calls of the OS runtime are not imported"),
        "cuda_call": _of_table(CALL_TABLES[0], "cuda", present=has_calls),
        "gpu_activity": _of_gpu(file, found, has_calls=has_calls),
    }


def state_verdict(found: Found, process: int) -> Verdict:
    """Return the verdict on the thread states of a process, as Owners numbers it."""
    if process in found.told_processes:
        return True, nsys_sched.MEASURED
    if found.has_switches:
        return False, nsys_sched.UNTOLD
    return False, f"the export has no rows of {nsys_sched.TABLE}: no context switches"


def capture_table(rows: list[tuple[int, str, Verdict]]) -> dict[str, list[Any]]:
    """Return the table capture, of process ids, kinds and verdicts."""
    return {
        "process_id": [process_id for process_id, _, _ in rows],
        "kind": [kind for _, kind, _ in rows],
        "measured": [measured for _, _, (measured, _) in rows],
        "reason": [reason for _, _, (_, reason) in rows],
    }


def _of_table(table: str, trace: str, *, present: bool) -> Verdict:
    if present:
        return True, f"nsys profile --trace={trace}"
    return False, f"the export has no rows of {table}: not recorded, or none occurred"


def _of_gpu(file: NsysFile, found: Found, *, has_calls: bool) -> Verdict:
    if file.has_rows(_GRAPHS):
        return True, "a CUDA graph is one activity: its kernels were not recorded one by one"
    if any(file.has_rows(table) for table in GPU_TABLES - {_SYNCS}):
        return True, "nsys profile --trace=cuda"
    if has_calls and not found.launches:
        return True, "nsys profile --trace=cuda: no call gave work to a GPU"
    if has_calls:
        return False, "the export has calls that launch work, but no activity of a GPU"
    return False, "the export has no activity of a GPU: not recorded, or none occurred"
