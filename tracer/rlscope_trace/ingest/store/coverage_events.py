"""What coverage says of calls, samples and waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rlscope_analysis.schema.facts.fact import Fact, fact_of
from rlscope_analysis.schema.vocabulary import LAYER_COVERAGE, PYTHON_RANGES
from rlscope_trace.ingest.store.coverage_cuda import add_cuda_coverage
from rlscope_trace.ingest.store.coverage_rows import NOT_REPORTED
from rlscope_trace.ingest.store.gil_ranges import life_of
from rlscope_trace.ingest.writer.coverages import Coverages, KindCoverage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from rlscope_trace.ingest.store.probe_facts import Interpreter, ProbeFacts
    from rlscope_trace.ingest.store.processes import Life

_MESSAGES = ("early_message:socket", "early_message:pipe")
# Those whose system calls the BPF programs know.
_WAIT_MACHINES = ("x86_64", "aarch64")
_CALL_LAYERS = ("simulator", "backend", "cuda_api")
_Reported = TypeVar("_Reported")


def add_event_coverage(
    coverages: Coverages,
    con: duckdb.DuckDBPyConnection,
    session: Mapping[str, object],
    facts: ProbeFacts,
    lives: Sequence[Life],
) -> None:
    """Set what is known of them, and of calls of CUDA that probes recorded."""
    of_all = _of_all(session, facts)
    coverages.set(*of_all)
    # Nothing more can be said of a process where a kind was not measured at all.
    measured = {coverage.kind for coverage in of_all if coverage.measured}
    of_processes = _of_processes(session, facts, lives, several=_with_several_threads(con))
    coverages.set(*(one for one in of_processes if one.kind in measured))
    clients = processes_with(facts.nvtx_packages, lives)
    coverages.set(
        *(KindCoverage(process_id, PYTHON_RANGES, measured=True) for process_id in clients)
    )
    other_clock = (Fact("other_clock"),)
    for process_id in processes_with(facts.other_clocks, lives):
        coverages.set(KindCoverage(process_id, "operation", False, other_clock))
    reported = session.get("probe_settings")
    mode = reported.get("cuda_calls") if isinstance(reported, dict) else None
    add_cuda_coverage(coverages, con, facts, lives, lacking=_failures(facts), mode=mode)


def _failures(facts: ProbeFacts) -> tuple[Fact, ...]:
    """Return why probes were taken away before the end, if they were."""
    if facts.gave_up is not None:
        return (facts.gave_up,)
    return () if facts.failure is None else (Fact("recorder_failed", detail=facts.failure),)


def _of_all(session: Mapping[str, object], facts: ProbeFacts) -> list[KindCoverage]:
    reported = session.get("probe_settings")
    if not isinstance(reported, dict):
        kinds = (
            "native_call", "cpu_sample", "wait", "gil_release", "other_run", "cpu_quota_wait",
            *_MESSAGES,
        )  # fmt: skip
        return [KindCoverage(None, kind, False, (NOT_REPORTED,)) for kind in kinds]
    reasons = {kind: fact_of(why) for kind, why in (reported.get("not_measured") or {}).items()}
    missing = {kind: () if fact is None else (fact,) for kind, fact in reasons.items()}
    has_waits = session.get("capture") == "btf" and session.get("machine") in _WAIT_MACHINES
    failed = () if facts.failure is None else (Fact("recorder_failed", detail=facts.failure),)
    others = () if session.get("capture") == "btf" else (Fact("btf_needed"),)
    rows = [
        *(KindCoverage(None, kind, not others, others) for kind in ("other_run", "cpu_quota_wait")),
        KindCoverage(None, "wait", has_waits, () if has_waits else (Fact("btf_needed"),)),
        _of_calls(reported["layers"], missing.get("native_call"), facts),
        KindCoverage(
            None, "cpu_sample", "cpu_sample" not in missing,
            missing.get("cpu_sample", failed or (Fact("sampled", count=reported["sample_hz"]),)),
        ),
        *(
            KindCoverage(None, kind, kind not in missing, missing.get(kind, ()))
            for kind in _MESSAGES
        ),
        _of_gil_releases(reported["gil"], missing.get("native_call"), facts),
    ]  # fmt: skip
    for layer in _CALL_LAYERS if "native_call" not in missing else ():
        is_probed = layer in reported["layers"]
        # Said of each layer, too: what is said of one goes before what is said of all.
        why = _failures(facts) if is_probed else _how_to_get(layer, reported.get("cuda_calls"))
        rows.append(KindCoverage(None, LAYER_COVERAGE.format(layer=layer), is_probed, why))
    return rows


def _of_calls(layers: object, refused: tuple[Fact, ...] | None, facts: ProbeFacts) -> KindCoverage:
    if refused is not None:
        return KindCoverage(None, "native_call", False, refused)
    if not layers:
        return KindCoverage(
            None, "native_call", False, (Fact("not_asked_for", "--transitions off"),)
        )
    return KindCoverage(None, "native_call", True, _failures(facts))


def _of_gil_releases(
    asked: object, missing: tuple[Fact, ...] | None, facts: ProbeFacts
) -> KindCoverage:
    kind = "gil_release"
    if asked != "full":
        return KindCoverage(None, kind, False, (Fact("not_asked_for", "--gil full"),))
    refused = [why for why in facts.gil_states.values() if why is not None]
    if missing is not None or (refused and len(refused) == len(facts.gil_states)):
        return KindCoverage(None, kind, False, missing or tuple(refused[:1]))
    return KindCoverage(None, kind, True, tuple(refused[:1]) or _failures(facts))


def _how_to_get(layer: str, cuda_calls: object) -> tuple[Fact, ...]:
    if layer != "cuda_api":
        return (Fact("not_asked_for", "--transitions all"),)
    return (Fact("cuda_not_probed" if cuda_calls in (None, "off") else "see_cuda_call"),)


def _of_processes(
    session: Mapping[str, object], facts: ProbeFacts, lives: Sequence[Life], *, several: set[int]
) -> list[KindCoverage]:
    if not isinstance(session.get("probe_settings"), dict):
        return []
    found = _by_process(lives, [(one.pid, one.ts_ns, one) for one in facts.interpreters])
    looked = _by_process(lives, [(pid, ts_ns, True) for pid, ts_ns in facts.without_python])
    held_up = _by_process(lives, [(pid, ts_ns, True) for pid, ts_ns in facts.held_up])
    rows: list[KindCoverage] = []
    for life in lives:
        if life.process_id not in found and not life.exec_ns:
            _inherit(found, life)
            _inherit(looked, life)
        python = found.get(life.process_id)
        if life.process_id in held_up:
            why = Fact("held_up")
            rows.append(KindCoverage(life.process_id, "native_call", python is not None, (why,)))
        elif python is None:
            why = Fact("python_not_found" if life.process_id in looked else "ended_unseen")
            rows.append(KindCoverage(life.process_id, "native_call", False, (why,)))
        else:
            rows += _of_process(life.process_id, python)
        is_unseen = python is None and life.process_id not in looked
        # One thread alone has no such wait.
        if is_unseen and life.process_id in several:
            rows.append(KindCoverage(life.process_id, "wait", True, (Fact("gil_not_looked_for"),)))
    return rows


def _with_several_threads(con: duckdb.DuckDBPyConnection) -> set[int]:
    found = con.execute("SELECT process_id FROM thread GROUP BY process_id HAVING count(*) > 1")
    return {process_id for (process_id,) in found.fetchall()}


def processes_with(reported: Sequence[tuple[int, int]], lives: Sequence[Life]) -> list[int]:
    """Return the process_id of each process of which something was reported, by pid and time (ns).

    Of a fork is true what was reported of its parent.
    """
    found = _by_process(lives, [(pid, ts_ns, True) for pid, ts_ns in reported])
    for life in lives:
        if life.process_id not in found and not life.exec_ns:
            _inherit(found, life)
    return sorted(found)


def _inherit(reported: dict[int, _Reported], life: Life) -> None:
    """Say of a fork what was reported of its parent: it runs the same."""
    if life.parent_process_id in reported:
        reported[life.process_id] = reported[life.parent_process_id]


def _by_process(
    lives: Sequence[Life], reported: Sequence[tuple[int, int, _Reported]]
) -> dict[int, _Reported]:
    """Return by process_id what was reported last, of those reported by pid and time."""
    latest: dict[int, _Reported] = {}
    for pid, ts_ns, what in sorted(reported, key=lambda one: one[1]):
        life = life_of(lives, pid, ts_ns)
        if life is not None:
            latest[life.process_id] = what
    return latest


def _of_process(process_id: int, python: Interpreter) -> list[KindCoverage]:
    if python.implementation != "cpython":
        return [
            KindCoverage(process_id, "native_call", False, (Fact("pypy"),)),
            KindCoverage(process_id, "cpu_sample", True, (Fact("pypy_samples"),)),
        ]
    if python.free_threaded:
        facts = (Fact("free_threaded"),)
        return [KindCoverage(process_id, kind, True, facts) for kind in ("wait", "cpu_sample")]
    if python.gil_start == python.gil_end:
        return [KindCoverage(process_id, "wait", True, (Fact("gil_not_found"),))]
    if python.interpreters is not None and python.interpreters > 1:
        return [KindCoverage(process_id, "wait", True, (Fact("subinterpreters"),))]
    return []
