"""What was measured of a process, from the statuses that its shim told: rows of table capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ON = 1
IN_PART = "in part: "
# Of CUPTI, as far as any of them is asked for.
_KINDS = {
    1: "memcpy", 2: "memset", 3: "kernel", 4: "driver", 5: "runtime", 8: "device", 9: "context",
    10: "concurrent_kernel", 11: "name", 17: "overhead", 22: "memcpy2", 36: "cuda_event",
    37: "stream", 38: "synchronization", 39: "external_correlation", 45: "memory",
    46: "pcie", 48: "internal_launch_api", 49: "memory2", 50: "memory_pool", 51: "graph_trace",
}  # fmt: skip
_KERNEL_KINDS = (1 << 3) | (1 << 10)
CALL_KINDS = (1 << 4) | (1 << 5)
_MEMORY_KINDS = (1 << 45) | (1 << 49)
_GRAPH_KIND = 1 << 51
# Without these a trace lacks rows of gpu_activity.
WORK_KINDS = (1 << 1) | (1 << 2) | (1 << 10) | (1 << 22) | (1 << 38) | _GRAPH_KIND
# Calls of CUPTI that cost records where they fail: of calls and activities, of calls alone.
_READING = ("cuptiActivityFlushAll", "cuptiActivityGetNextRecord")
_CALLING = (
    "cuptiSetThreadIdType", "cuptiActivityEnableRuntimeApi", "cuptiActivityEnableDriverApi",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GpuVerdict:
    """What was measured of a process: a row of the table capture."""

    process_id: int
    kind: str
    measured: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Program:
    """What is known of one of the programs that a process was, one after the other."""

    status: Mapping[str, Any]
    """The last one it told."""
    clock: str | None
    """How exact its times are, if they were converted."""
    rest: str | None
    """What was left behind in CUPTI."""

    @property
    def is_on(self) -> bool:
        """Whether CUPTI told of it."""
        return bool(self.status["state"] == ON)


def costs_records(status: Mapping[str, Any]) -> bool:
    """Tell whether records are missing, nobody knows how many: CUPTI was on, and a call failed."""
    return status["state"] == ON and _call_of(status) in (*_READING, _CALLING[0])


def verdicts_of(
    process_id: int, programs: Sequence[Program], unheard_ns: int | None, start_ns: int
) -> list[GpuVerdict]:
    """Return the rows of one process.

    unheard_ns: when it replaced its program by one that told nothing, after one that did; None: it
    did not. start_ns: the start of the trace.
    """
    told = [program for program in programs if program.is_on] or programs[-1:]
    by_kind: dict[str, list[GpuVerdict]] = {}
    for program in told:
        for verdict in _of_program(process_id, program, start_ns):
            by_kind.setdefault(verdict.kind, []).append(verdict)
    gaps = [
        f"it was another program too, of which CUPTI did not tell: {program.status['reason']}"
        for program in programs
        if not program.is_on and told[0].is_on
    ]
    if unheard_ns is not None:
        gaps.append(f"not after it replaced its program, {_after(unheard_ns, start_ns)}")
    return [_joined(verdicts, gaps) for verdicts in by_kind.values()]


def _joined(verdicts: Sequence[GpuVerdict], gaps: Sequence[str]) -> GpuVerdict:
    """Make one row of what was measured of each program of a process."""
    measured = [verdict for verdict in verdicts if verdict.measured]
    if not measured:
        return verdicts[-1]
    missing = [verdict.reason for verdict in verdicts if not verdict.measured]
    reasons = [verdict.reason for verdict in measured]
    is_whole = not gaps and not missing
    distinct = list(dict.fromkeys(reason for reason in [*reasons, *missing] if reason))
    if is_whole and len(distinct) == 1:
        return measured[-1]
    is_in_part = not is_whole or any(reason.startswith(IN_PART) for reason in distinct)
    words = [*gaps, *(reason.removeprefix(IN_PART) for reason in distinct if reason != "CUPTI")]
    reason = (IN_PART if is_in_part else "") + "; ".join(words)
    last = measured[-1]
    return GpuVerdict(last.process_id, last.kind, measured=True, reason=reason)


def _of_program(process_id: int, program: Program, start_ns: int) -> Iterator[GpuVerdict]:
    status = program.status
    if not program.is_on:
        reason = status["reason"] or "CUPTI could not be started"
        yield GpuVerdict(process_id, "cuda_call", measured=False, reason=reason)
        yield GpuVerdict(process_id, "gpu_activity", measured=False, reason=reason)
        return
    recorded, refused = status["recorded"], status["refused"]
    late = "the process had run before: not what came until then" if status["is_late"] else None
    lost, odd = _failure(status, _READING, start_ns)
    has_calls = bool(recorded & CALL_KINDS)
    lacking = _lacking(refused & CALL_KINDS)
    no_calls, odd_for_calls = _failure(status, (*_READING, *_CALLING), start_ns)
    told = _words(late, lacking, program.rest, no_calls, also=[odd_for_calls])
    reason = told if has_calls else lacking or status["reason"]
    yield GpuVerdict(process_id, "cuda_call", measured=has_calls, reason=reason)
    if recorded & (_KERNEL_KINDS | _GRAPH_KIND):
        others = _lacking(refused & ~(WORK_KINDS | CALL_KINDS | _MEMORY_KINDS))
        parts = [late, _lacking(refused & WORK_KINDS), program.rest, lost]
        told = _words(*parts, also=[others, _graphs(recorded), program.clock, odd])
        yield GpuVerdict(process_id, "gpu_activity", measured=True, reason=told)
    else:
        why = _lacking(refused) or status["reason"] or "CUPTI records no kernels"
        yield GpuVerdict(process_id, "gpu_activity", measured=False, reason=why)
    memory = _lacking(refused & _MEMORY_KINDS)
    if recorded & _MEMORY_KINDS:
        told = _words(late, memory, program.rest, lost)
        yield GpuVerdict(process_id, "gpu_memory", measured=True, reason=told)
    elif memory:
        yield GpuVerdict(process_id, "gpu_memory", measured=False, reason=memory)


def _call_of(status: Mapping[str, Any]) -> str | None:
    """Return the call of CUPTI that failed, as the shim begins the reason with it."""
    reason: str | None = status["reason"]
    return reason.split(" ", 1)[0].split("(", 1)[0] if reason else None


def _failure(
    status: Mapping[str, Any], costly: Sequence[str], start_ns: int
) -> tuple[str | None, str | None]:
    """Return a call that failed: first where it costs records, second where it does not."""
    call, reason = _call_of(status), status["reason"]
    # The kinds that are refused are named one by one.
    if call is None or call == "cuptiActivityEnable":
        return None, None
    if call not in costly:
        return None, reason
    if call not in _READING:
        return reason, None
    return f"perhaps nothing from {_after(status['ts_ns'], start_ns)} on: {reason}", None


def _after(ts_ns: int, start_ns: int) -> str:
    """Name an instant by its distance from the start of the trace."""
    return f"{max(ts_ns - start_ns, 0) / 1e9:.3f} s after the start"


def _words(*parts: str | None, also: list[str | None] | None = None) -> str:
    """Return how something was measured: by CUPTI, what it lacks, and what else is to be known."""
    lacking = [part for part in parts if part]
    known = [part for part in also or [] if part]
    if lacking:
        return f"{IN_PART}{'; '.join([*lacking, *known])}"
    return "; ".join(["CUPTI", *known])


def _lacking(refused: int) -> str | None:
    return f"CUPTI refused {kinds_of(refused)}" if refused else None


def _graphs(recorded: int) -> str | None:
    if not recorded & _GRAPH_KIND:
        return None
    return "a CUDA graph is one activity: its kernels were not recorded one by one"


def kinds_of(bits: int) -> str:
    """Name the kinds of CUPTI records that a mask holds."""
    return ", ".join(_KINDS.get(bit, str(bit)) for bit in range(64) if bits >> bit & 1)
