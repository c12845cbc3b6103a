"""The shim loaded into a program that has initialised CUDA long before."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.context import last_object
from gpu_check_lib.listening import listen
from gpu_check_lib.steps.launches import check_order
from rlscope_analysis.sentences import fact_sentence

if TYPE_CHECKING:
    from gpu_check_lib.context import Context

_LAUNCHES = 2000
_STEPS = 100
# Of torch_loop: what torch.profiler sees of a step.
_KERNELS_OF_A_STEP = 5
_LIMIT_S = 30.0


def run(context: Context) -> None:
    """Attach to programs that wait, have them launch kernels, count them."""
    _attach(context, "driver", context.program("launches", "--count", _LAUNCHES, "--wait"))
    if not context.missing.get("torch"):
        _attach(context, "runtime", context.program("torch_loop", "--steps", _STEPS, "--wait"))


def _attach(context: Context, name: str, command: list[str]) -> None:
    from rlscope_trace.errors import TracerError
    from rlscope_trace.record import inject, shims

    listener = listen(context, name)
    dump = context.home / "fixtures" / f"late-{name}"
    dump.mkdir()
    process = subprocess.Popen(
        command, env=context.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    # It has a context, and has launched nothing.
    ready = process.stdout.readline().strip()
    if ready != "ready":
        context.check(f"{name}: the program starts", False, process.communicate()[1].strip()[-200:])
        return
    try:
        done = inject.inject_shim(
            process.pid,
            shims.LIBRARY,
            auto=False,
            environment=listener.environment(CUPTI_DUMP=str(dump)),
        )
        listener.collector.find(process.pid)
        context.check(
            f"{name}: the shim is loaded", True, f"one thread stood still for {done.stopped_ns} ns",
            stopped_ns=done.stopped_ns, missing=[*map(fact_sentence, done.missing)],
        )  # fmt: skip
    except TracerError as error:
        context.check(f"{name}: the shim is loaded", False, str(error))
    output, errors = process.communicate("go\n", timeout=_LIMIT_S)
    context.check(f"{name}: the program went on", process.returncode == 0, errors.strip()[-200:])
    if process.returncode == 0:
        _judge(context, name, last_object(output, 0, errors), listener.records())


def _judge(context: Context, name: str, reported: dict[str, Any], found: records.Records) -> None:
    status = found.status()
    if status is None:
        context.check(f"{name}: a status is reported", False, "none: the shim did not start CUPTI")
        return
    context.tell(
        f"{name}: late CUPTI",
        str(status),
        is_late=status.is_late, has_clock=status.has_clock,
    )  # fmt: skip
    context.check(f"{name}: the status says that it is late", status.is_late, f"{status.is_late}")
    if status.state != records.ON:
        return
    kernels = found.of(records.KERNEL)
    launches = reported.get("launches") or reported["steps"] * _KERNELS_OF_A_STEP
    context.check(
        f"{name}: as many kernels as launches after the attach", len(kernels) == launches,
        f"{len(kernels)} of {launches}",
    )  # fmt: skip
    own = [kernel for kernel in kernels if kernel.start_ns < records.REALTIME_NS]
    context.tell(f"{name}: clock of kernels", f"{len(own)} of {len(kernels)} on CLOCK_MONOTONIC")
    names = Counter(call.name for call in found.calls)
    context.tell(f"{name}: calls after the attach", f"{dict(names)}"[:300])
    check_order(context, f"{name}, after the attach", found)
