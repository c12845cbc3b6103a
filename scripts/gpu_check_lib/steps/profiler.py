"""torch.profiler and the shim in one process: who gets what, and that both say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.context import ProgramError
from gpu_check_lib.listening import listen

if TYPE_CHECKING:
    from gpu_check_lib.context import Context
    from gpu_check_lib.records import Records, Status

_STEPS = 50


def run(context: Context) -> None:
    """Profile with the shim on, then with the shim yielding, then under Kineto's daemon mode."""
    alone = _profile(context, None)
    if alone is None:
        return
    context.check("torch.profiler alone sees kernels", alone > 0, f"{alone}")
    _with_shim(context, "the shim first", {}, None)
    _with_shim(context, "the shim first, KINETO_USE_DAEMON", {"KINETO_USE_DAEMON": "1"}, None)
    _with_shim(context, "--cupti yield", {"RLSCOPE_CUPTI": "yield"}, alone)


def _profile(context: Context, environment: dict[str, str] | None) -> int | None:
    """Return how many kernels torch.profiler sees; None where the program failed."""
    trace = context.folder / "profile.json"
    try:
        reported: dict[str, Any] = context.run(
            context.program("torch_loop", "--steps", _STEPS, "--profile", trace), environment
        )
    except ProgramError as error:
        context.check("the profiled program runs", False, str(error))
        return None
    return sum(len(times) for times in reported["kernels"].values())


def _with_shim(context: Context, way: str, more: dict[str, str], wanted: int | None) -> None:
    """Profile with the shim; wanted: how many kernels torch.profiler must see."""
    listener = listen(context, way.replace(" ", "-").strip("-"), finds_cupti=True)
    seen = _profile(context, {**listener.environment(), **more})
    found = listener.records()
    if seen is None:
        return
    status = found.status()
    detail = f"torch.profiler saw {seen}, the shim {len(found.of(records.KERNEL))} kernels"
    context.tell(way, detail, status=_reported(status), statuses=len(found.statuses))
    if wanted is None:
        # One of the two must have them: both without would be a silent loss.
        context.check(f"{way}: somebody has the kernels", bool(seen or _has(found)), detail)
        return
    context.check(f"{way}: torch.profiler sees all", seen == wanted, f"{seen} of {wanted}")
    context.check(
        f"{way}: the shim says that it yields",
        status is not None and status.state == records.OFF and status.why == records.YIELDED,
        _reported(status),
    )


def _has(found: Records) -> bool:
    return bool(found.of(records.KERNEL))


def _reported(status: Status | None) -> str:
    return "no status" if status is None else str(status)
