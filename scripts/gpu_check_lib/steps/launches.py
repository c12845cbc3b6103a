"""The shim on programs that launch a known number of kernels, memcpy and memset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.listening import listen

if TYPE_CHECKING:
    from gpu_check_lib.context import Context
    from gpu_check_lib.records import Records

_DRIVER, _RUNTIME = 4, 5
_LAUNCHES = 1000
_RATE, _RATED = 10_000, 30_000


def run(context: Context) -> None:
    """Count launches at rest and at 10,000 per second, copies, and threads."""
    reported, found = record(context, "plain", "--count", _LAUNCHES, "--copies", 20)
    if not is_on(context, found):
        return
    check_counts(context, "1,000 launches", reported, found)
    check_copies(context, reported, found)
    check_calls(context, reported, found)
    reported, found = record(context, "rated", "--count", _RATED, "--rate", _RATE)
    rate = reported["launches"] / (reported["end_ns"] - reported["start_ns"]) * 1e9
    check_counts(context, f"{rate:,.0f} launches a second", reported, found)
    reported, found = record(context, "threads", "--count", 2000, "--threads", 4)
    check_counts(context, "four threads with a stream each", reported, found)
    check_calls(context, reported, found)


def record(context: Context, name: str, *options: object) -> tuple[dict[str, Any], Records]:
    """Run launches.py with the shim; return what it says of itself, and what the shim reported."""
    listener = listen(context, name)
    dump = context.home / "fixtures" / name
    # Only what is small: whole buffers travel home.
    keep = {"CUPTI_DUMP": str(dump)} if name in ("plain", "threads") else {}
    if keep:
        dump.mkdir()
    reported = context.run(context.program("launches", *options), listener.environment(**keep))
    return reported, listener.records()


def is_on(context: Context, found: Records) -> bool:
    """Check the status that the process reported."""
    status = found.status()
    if status is None:
        return context.check("GPU activity is recorded", False, "the shim reported no status")
    context.tell(
        "what was recorded",
        f"{status.library}, API {status.api}, clock {'taken' if status.has_clock else 'refused'}",
        recorded=kinds(status.recorded), refused=kinds(status.refused), api=status.api,
        driver=status.driver, library=status.library, has_clock=status.has_clock,
    )  # fmt: skip
    context.learn("known", cupti_library=status.library, cupti_api=status.api)
    return context.check("GPU activity is recorded", status.state == records.ON, str(status))


def kinds(bits: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    return [bit for bit in range(64) if bits >> bit & 1]


def check_counts(context: Context, what: str, reported: dict[str, Any], found: Records) -> None:
    """Check that each launch has its kernel, and nothing was lost."""
    kernels = found.of(records.KERNEL)
    context.check(
        f"{what}: as many kernels as launches",
        len(kernels) == reported["launches"],
        f"{len(kernels)} of {reported['launches']}",
    )
    lost = found.dropped + sum(found.lost.values())
    context.check(f"{what}: nothing lost", lost == 0, f"{lost}", rings=found.dropped,
                  cupti=found.lost)  # fmt: skip
    calls = {call.correlation for call in found.calls}
    without = sum(kernel.correlation not in calls for kernel in kernels)
    context.check(f"{what}: each kernel has its call", without == 0, f"{without} have none")
    check_order(context, what, found)


def check_order(context: Context, what: str, found: Records) -> None:
    """Check that no kernel begins before the call that launched it."""
    began = {
        call.correlation: records.monotonic(found, call.start_ns)
        for call in found.calls
        if call.api == _DRIVER or call.correlation
    }
    latencies = sorted(
        records.monotonic(found, kernel.start_ns) - began[kernel.correlation]
        for kernel in found.of(records.KERNEL)
        if kernel.correlation in began
    )
    early = sum(latency < 0 for latency in latencies)
    detail = "no kernel has a call" if not latencies else (
        f"{early} of {len(latencies)} earlier; latency {latencies[0]} .. {latencies[-1]} ns"
    )  # fmt: skip
    context.check(
        f"{what}: every kernel begins after its call", bool(latencies) and early == 0, detail,
        early=early, median_ns=latencies[len(latencies) // 2] if latencies else None,
    )  # fmt: skip


def check_copies(context: Context, reported: dict[str, Any], found: Records) -> None:
    """Check that memcpy and memset are all there, with their sizes."""
    copies, sets = found.of(records.MEMCPY), found.of(records.MEMSET)
    passed = len(copies) == 2 * reported["copies"] and len(sets) == reported["copies"]
    context.check("memcpy and memset", passed, f"{len(copies)} copies, {len(sets)} sets")
    sizes = {copy.bytes for copy in copies}
    context.check("their bytes", sizes == {1 << 20}, f"{sorted(sizes)}")


def check_calls(context: Context, reported: dict[str, Any], found: Records) -> None:
    """Check names, threads and times of calls against what the program knows."""
    launches = [call for call in found.calls if "LaunchKernel" in call.name]
    context.check(
        "calls have names", len(launches) == reported["launches"],
        f"{len(launches)} launches among {sorted({call.name for call in found.calls})}"[:300],
    )  # fmt: skip
    tids = {call.tid for call in launches}
    context.check("calls name their threads", tids == set(reported["tids"]), f"{sorted(tids)}")
    inside = sum(
        reported["start_ns"] <= records.monotonic(found, call.start_ns) <= reported["end_ns"]
        for call in launches
    )
    context.check(
        "calls lie where the program made them", inside == len(launches) > 0,
        f"{inside} of {len(launches)} on CLOCK_MONOTONIC",
    )  # fmt: skip
