"""The shim loaded into a program that has initialised CUDA long before."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.context import last_object
from gpu_check_lib.listening import listen
from gpu_check_lib.steps.launches import check_order

if TYPE_CHECKING:
    from gpu_check_lib.context import Context

_LAUNCHES = 2000
_LIMIT_S = 30.0


def run(context: Context) -> None:
    """Attach to a program that waits, have it launch kernels, count them."""
    from rlscope_trace.errors import TracerError
    from rlscope_trace.record import inject, shims

    listener = listen(context, "late")
    process = subprocess.Popen(
        context.program("launches", "--count", _LAUNCHES, "--wait"), env=context.environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    # It has a context, and has launched nothing.
    ready = process.stdout.readline().strip()
    if ready != "ready":
        context.check("the program starts", False, process.communicate()[1].strip()[-200:])
        return
    try:
        done = inject.inject_shim(
            process.pid, shims.LIBRARY, auto=False, environment=listener.environment()
        )
        listener.collector.find(process.pid)
        context.check(
            "the shim is loaded", True, f"one thread stood still for {done.stopped_ns} ns",
            stopped_ns=done.stopped_ns, missing=done.missing,
        )  # fmt: skip
    except TracerError as error:
        context.check("the shim is loaded", False, str(error))
    output, errors = process.communicate("go\n", timeout=_LIMIT_S)
    context.check("the program went on", process.returncode == 0, errors.strip()[-200:])
    if process.returncode == 0:
        _judge(context, last_object(output, 0, errors), listener.records())


def _judge(context: Context, reported: dict[str, Any], found: records.Records) -> None:
    status = found.status()
    if status is None:
        context.check("a status is told", False, "none: the shim did not start CUPTI")
        return
    context.tell(
        "late CUPTI",
        f"state {status.state}, code {status.code}: {status.reason}",
        is_late=status.is_late, has_clock=status.has_clock,
    )  # fmt: skip
    context.check("the status says that it is late", status.is_late, f"{status.is_late}")
    if status.state != records.ON:
        return
    kernels = found.of(records.KERNEL)
    context.check(
        "as many kernels as launches after the attach", len(kernels) == reported["launches"],
        f"{len(kernels)} of {reported['launches']}",
    )  # fmt: skip
    own = [kernel for kernel in kernels if kernel.start_ns < records.REALTIME_NS]
    context.tell("clock of kernels", f"{len(own)} of {len(kernels)} on CLOCK_MONOTONIC")
    check_order(context, "after the attach", found)
