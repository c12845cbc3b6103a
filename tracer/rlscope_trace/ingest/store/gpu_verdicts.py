"""What was measured of a process, from the statuses of its shim: rows of table coverage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.coverage import COVERAGE
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.store.gpu_devices import INT64_MAX
from rlscope_trace.ingest.store.gpu_reasons import failed_call, failure, reason_of
from rlscope_trace.ingest.writer.coverages import KindCoverage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ON = 1
CUPTI = Fact("cupti")
_SILENT = Fact("cupti_silent_program")
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
class Program:
    """What is known of one of the programs that a process was, one after the other."""

    status: Mapping[str, Any]
    """The last one it reported."""
    clock: tuple[Fact, ...]
    """How exact its times are, if they were converted."""
    has_rest: bool
    """Whether records were left behind in CUPTI."""

    @property
    def is_on(self) -> bool:
        """Whether CUPTI reported on it."""
        return bool(self.status["state"] == ON)


def costs_records(status: Mapping[str, Any]) -> bool:
    """Tell whether records are missing, nobody knows how many: CUPTI was on, and a call failed."""
    return status["state"] == ON and failed_call(status) in (*_READING, _CALLING[0])


def verdicts_of(
    process_id: int, programs: Sequence[Program], unheard_ns: int | None
) -> list[KindCoverage]:
    """Return what was measured of one process.

    unheard_ns: when it replaced its program by one that reported nothing, after one that did;
    None: it did not.
    """
    reported = [program for program in programs if program.is_on] or programs[-1:]
    by_kind: dict[str, list[KindCoverage]] = {}
    for program in reported:
        for verdict in _of_program(process_id, program):
            by_kind.setdefault(verdict.kind, []).append(verdict)
    gaps = [
        fact
        for program in programs
        if not program.is_on and reported[0].is_on
        for fact in (_SILENT, *_reason(program.status))
    ]
    if unheard_ns is not None:
        gaps.append(Fact("program_replaced", ts_ns=min(unheard_ns, INT64_MAX)))
    return [_joined(verdicts, gaps) for verdicts in by_kind.values()]


def _joined(verdicts: Sequence[KindCoverage], gaps: Sequence[Fact]) -> KindCoverage:
    """Make one of what was measured of each program of a process."""
    if not any(verdict.measured for verdict in verdicts):
        return verdicts[-1]
    if not gaps and len({(one.measured, one.facts) for one in verdicts}) == 1:
        return verdicts[-1]
    missing = [fact for one in verdicts if not one.measured for fact in one.facts]
    facts = [*gaps, *(fact for one in verdicts if one.measured for fact in one.facts)]
    # What was not measured of one program is missing in what was measured of all.
    facts += [_SILENT] * any(not COVERAGE[fact.code].is_part for fact in missing) + missing
    is_whole = facts == [CUPTI] * len(facts)
    kept = dict.fromkeys(fact for fact in facts if is_whole or fact != CUPTI)
    return replace(verdicts[-1], measured=True, facts=tuple(kept))


def _of_program(process_id: int, program: Program) -> Iterator[KindCoverage]:
    status = program.status
    if not program.is_on:
        for kind in ("cuda_call", "gpu_activity"):
            yield KindCoverage(process_id, kind, False, _not_on(status))
        return
    recorded, refused = status["recorded"], status["refused"]
    late = [Fact("gpu_late")] if status["is_late"] else []
    rest = [Fact("cupti_held_records")] if program.has_rest else []
    if recorded & CALL_KINDS:
        no_calls = _failure(status, (*_READING, *_CALLING))
        facts = _how([*late, *_lacking(refused & CALL_KINDS), *rest, *no_calls])
        yield KindCoverage(process_id, "cuda_call", True, facts)
    else:
        why = _lacking(refused & CALL_KINDS) or _not_on(status)
        yield KindCoverage(process_id, "cuda_call", False, tuple(why))
    lost = _failure(status, _READING)
    if recorded & (_KERNEL_KINDS | _GRAPH_KIND):
        others = _lacking(
            refused & ~(WORK_KINDS | CALL_KINDS | _MEMORY_KINDS), "cupti_refused_others"
        )
        graphs = [Fact("graphs_whole")] if recorded & _GRAPH_KIND else []
        facts = _how(
            [*late, *_lacking(refused & WORK_KINDS), *rest, *lost, *others, *graphs,
             *program.clock]
        )  # fmt: skip
        yield KindCoverage(process_id, "gpu_activity", True, facts)
    else:
        why = _lacking(refused) or _reason(status) or [Fact("no_kernels")]
        yield KindCoverage(process_id, "gpu_activity", False, tuple(why))
    memory = _lacking(refused & _MEMORY_KINDS)
    if recorded & _MEMORY_KINDS:
        lost = [fact for fact in lost if COVERAGE[fact.code].is_part]
        yield KindCoverage(process_id, "gpu_memory", True, _how([*late, *memory, *rest, *lost]))
    elif memory:
        yield KindCoverage(process_id, "gpu_memory", False, tuple(memory))


def _reason(status: Mapping[str, Any]) -> tuple[Fact, ...]:
    found = reason_of(status)
    return () if found is None else (found,)


def _not_on(status: Mapping[str, Any]) -> tuple[Fact, ...]:
    return _reason(status) or (Fact("cupti_not_started"),)


def _how(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return how something was measured: by CUPTI, which what it lacks says too."""
    is_part = any(COVERAGE[fact.code].is_part for fact in facts)
    return tuple(facts) if is_part else (CUPTI, *facts)


def _failure(status: Mapping[str, Any], costly: Sequence[str]) -> list[Fact]:
    """Return a call of CUPTI that failed, by whether that costs records; or another reason."""
    call = failed_call(status)
    if call is None:
        return list(_reason(status))
    # The kinds that are refused are named one by one.
    if call == "cuptiActivityEnable":
        return []
    if call not in costly:
        return [failure(status, "cupti_failed")]
    if call not in _READING:
        return [failure(status, "cupti_failed_in_part")]
    ts_ns = min(status["ts_ns"], INT64_MAX)
    return [replace(failure(status, "cupti_failed_to_read"), ts_ns=ts_ns)]


def _lacking(refused: int, code: str = "cupti_refused") -> list[Fact]:
    return [Fact(code, kinds_of(refused))] if refused else []


def kinds_of(bits: int) -> str:
    """Name the kinds of CUPTI records that a mask holds."""
    return ", ".join(_KINDS.get(bit, str(bit)) for bit in range(64) if bits >> bit & 1)
