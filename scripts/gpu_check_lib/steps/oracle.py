"""The same work under torch.profiler and under the shim, in turn: whether they agree."""

from __future__ import annotations

import shutil
import statistics
from typing import TYPE_CHECKING

from gpu_check_lib import records
from gpu_check_lib.listening import listen

if TYPE_CHECKING:
    from gpu_check_lib.context import Context

_PAIRS = 3
_STEPS = 300
_TOLERANCE = 0.01


def run(context: Context) -> None:
    """Compare counts by name exactly, and sums of durations within 1 %."""
    ratios = []
    for number in range(_PAIRS):
        theirs = by_profiler(context, number)
        ours = by_shim(context, number)
        if number == 0 and not same_counts(context, ours, theirs):
            return
        ratios.append(_sum(ours) / _sum(theirs) - 1)
    error = statistics.median(ratios)
    context.check(
        "sum of kernel times, against torch.profiler",
        abs(error) < _TOLERANCE,
        f"{100 * error:+.2f} %, median of {len(ratios)} pairs",
        ratios=ratios,
    )


def by_profiler(context: Context, number: int) -> dict[str, list[float]]:
    """Return the durations of kernels by name, ns, as torch.profiler has them."""
    trace = context.folder / f"profile-{number}.json"
    reported = context.run(context.program("torch_loop", "--steps", _STEPS, "--profile", trace))
    if number == 0:
        shutil.copyfile(trace, context.home / "fixtures" / "torch-profiler.json")
    kernels: dict[str, list[float]] = reported["kernels"]
    return kernels


def by_shim(context: Context, number: int) -> dict[str, list[float]]:
    """Return the same by the shim: what began within the steps."""
    listener = listen(context, f"pair-{number}", finds_cupti=True)
    settings = {}
    if number == 0:
        dump = context.home / "fixtures" / "torch"
        dump.mkdir()
        settings["CUPTI_DUMP"] = str(dump)
    reported = context.run(
        context.program("torch_loop", "--steps", _STEPS), listener.environment(**settings)
    )
    found = listener.records()
    if number == 0:
        _check_library(context, reported["cupti"], found)
        shutil.copyfile(listener.folder / "shim.bin", context.home / "fixtures" / "shim.bin")
    kernels: dict[str, list[float]] = {}
    names = {kernel.name: records.demangled(kernel.name) for kernel in found.of(records.KERNEL)}
    for kernel in found.of(records.KERNEL):
        if records.monotonic(found, kernel.start_ns) >= reported["start_ns"]:
            kernels.setdefault(names[kernel.name], []).append(kernel.end_ns - kernel.start_ns)
    return kernels


def _check_library(context: Context, mapped: list[str], found: records.Records) -> None:
    status = found.status()
    used = status.library if status else ""
    context.check(
        "the libcupti of PyTorch is the one that is used", used in mapped and len(mapped) == 1,
        f"{used or 'none'}; mapped: {', '.join(mapped) or 'none'}",
    )  # fmt: skip


def same_counts(
    context: Context, ours: dict[str, list[float]], theirs: dict[str, list[float]]
) -> bool:
    """Check which kernels ran, and how often each."""
    counts = [{name: len(times) for name, times in kernels.items()} for kernels in (ours, theirs)]
    total = [sum(found.values()) for found in counts]
    context.check("names of kernels, as torch.profiler", set(ours) == set(theirs),
                  f"{len(set(ours) ^ set(theirs))} differ",
                  ours=sorted(ours)[:20], theirs=sorted(theirs)[:20])  # fmt: skip
    return context.check(
        "counts of kernels, as torch.profiler",
        counts[0] == counts[1] and total[0] > 0,
        f"{total[0]} and {total[1]}",
    )


def _sum(kernels: dict[str, list[float]]) -> float:
    return sum(sum(times) for times in kernels.values())
