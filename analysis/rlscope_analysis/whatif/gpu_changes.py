"""Changes of what the GPU does: faster kernels, and launches of an operation as one graph."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.errors import TraceError
from rlscope_analysis.whatif.program import GAP, KERNEL, LAUNCHED, RUN, SLEEP
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.whatif.gpu import Gpu
    from rlscope_analysis.whatif.program import Program
    from rlscope_analysis.whatif.read import Recorded

    Column = npt.NDArray[Any]

# So many of the times that an operation occurs must launch the same.
_ALIKE = 0.95


def of_gpu(
    kernels: float | None, graphs: tuple[str, ...], recorded: Recorded, program: Program
) -> Column:
    """Return the factors of items: of kernels, and for operations that become graphs.

    Raises TraceError where there is no GPU, or no graph can be made.
    """
    gpu = recorded.gpu
    if gpu is None:
        raise TraceError(
            "cannot be answered: nothing in the iterations was launched on a GPU",
            hint="rlscope-trace summarize TRACE --view gpu",
        )
    factor = np.ones(len(program.kind))
    if kernels is not None:
        factor[program.path_id == KERNEL] = kernels
        if not kernels:
            factor[program.path_id == GAP] = 0
    for operation in graphs:
        factor *= _as_graph(operation, gpu, recorded, program)
    return factor


def _as_graph(operation: str, gpu: Gpu, recorded: Recorded, program: Program) -> Column:
    """Return factors with which an operation takes one launch, and its kernels are in a row."""
    paths = recorded.paths_of.get(operation, [])
    instances = _instances(operation, gpu)
    _refuse(operation, gpu, instances, recorded.process_of)
    factor = np.ones(len(program.kind))
    threads = {thread for thread, _, _ in instances}
    inside = np.isin(program.path_id, paths) & np.isin(program.thread_id, [*threads])
    inside &= (program.kind == RUN) | (program.kind == SLEEP)
    total = float(program.length_ns[inside].sum())
    launch = _launch_ns(gpu) * len(instances)
    factor[inside] = min(1.0, launch / total) if total else 1.0
    latency = (program.path_id <= LAUNCHED) & np.isin(LAUNCHED - program.path_id, paths)
    long = latency & (program.length_ns > gpu.least_latency_ns)
    factor[long] = gpu.least_latency_ns / program.length_ns[long]
    return factor


def _launch_ns(gpu: Gpu) -> float:
    """Return what the call of a launch takes: that of a graph is taken to be the same."""
    of = gpu.activities
    calls = (of["returned_ns"] - of["call_ns"])[of["is_kernel"]]
    return float(np.median(calls)) if len(calls) else 0.0


def _instances(operation: str, gpu: Gpu) -> list[tuple[int, int, int]]:
    """Return thread, start and end of each time that an operation occurs, outermost ones only."""
    rows = gpu.operations
    found: list[tuple[int, int, int]] = []
    for at in np.flatnonzero(rows["name"] == operation).tolist():
        one = tuple(int(rows[name][at]) for name in ("thread_id", "start_ns", "end_ns"))
        if not found or found[-1][0] != one[0] or found[-1][2] <= one[1]:
            found.append((one[0], one[1], one[2]))
    return found


def _within(thread: Column, ts_ns: Column, instances: list[tuple[int, int, int]]) -> list[Column]:
    """Return for each instance the rows in it, in the order of their instants."""
    order = np.lexsort((ts_ns, thread))
    lives, first = np.unique(thread[order], return_index=True)
    ends = dict(
        zip(lives.tolist(), zip(first, np.r_[first[1:], len(thread)], strict=True), strict=True)
    )
    found = []
    for of_thread, start_ns, end_ns in instances:
        begin, end = ends.get(of_thread, (0, 0))
        rows = order[begin:end]
        low, high = np.searchsorted(ts_ns[rows], (start_ns, end_ns))
        found.append(rows[low:high])
    return found


def _by_others(gpu: Gpu, instances: list[tuple[int, int, int]], process_of: dict[int, int]) -> int:
    """Return how much other threads of the process launch meanwhile, as PyTorch's for gradients."""
    of, threads = gpu.activities, [thread for thread, _, _ in instances]
    order = np.argsort(of["call_ns"], kind="stable")
    order = order[~np.isin(of["thread_id"][order], threads)]
    calls, processes, found = of["call_ns"][order], of["process_id"][order], 0
    for thread, start_ns, end_ns in instances:
        low, high = np.searchsorted(calls, (start_ns, end_ns))
        found += int((processes[low:high] == process_of.get(thread)).sum())
    return found


def _refuse(
    operation: str, gpu: Gpu, instances: list[tuple[int, int, int]], process_of: dict[int, int]
) -> None:
    """Raise TraceError where no graph can be made of an operation."""
    of, name = gpu.activities, printable(operation)
    launched = _within(of["thread_id"], of["call_ns"], instances)
    seen = [tuple(of["name_id"][rows].tolist()) for rows in launched]
    stops = gpu.forbidden
    stopped = _within(stops["thread_id"], stops["start_ns"], instances)
    forbidden = sum(map(len, stopped)) + sum(
        int(of["is_blocking"][rows].sum()) for rows in launched
    )
    if not any(seen):
        why = f"{name!r} launches nothing on a GPU"
    elif forbidden:
        why = (
            f"{name!r} waits for the GPU or allocates memory {forbidden} times, which a CUDA graph"
            " cannot hold"
        )
    elif others := _by_others(gpu, instances, process_of):
        why = (
            f"while {name!r} is open, other threads of its process launch {others} times (the"
            " backward pass of PyTorch does); what of that belongs to it is not known"
        )
    elif (most := Counter(seen).most_common(1)[0][1]) < _ALIKE * len(seen):
        why = f"{name!r} launches the same kernels only {most} of {len(seen)} times"
    else:
        return
    raise TraceError(f"cannot be answered: {why}", hint="docs/whatif.md tells what a graph needs")
