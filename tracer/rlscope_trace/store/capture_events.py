"""The rows of table capture that tell of calls, samples and waits: see store/capture_rows.py."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import duckdb

from rlscope_analysis.schema.vocabulary import LAYER_CAPTURE, PYTHON_RANGES
from rlscope_trace.store.calibration_windows import calls_away
from rlscope_trace.store.capture_cuda import insert_cuda_capture
from rlscope_trace.store.capture_rows import NOT_RECORDED, OTHER_CLOCK
from rlscope_trace.store.gil_ranges import life_of
from rlscope_trace.store.probe_facts import Interpreter, ProbeFacts
from rlscope_trace.store.processes import Life

_CALL_LAYERS = ("simulator", "backend", "cuda_api")
_NO_WAITS = "needs the capture btf: x86-64, and an OS kernel with BTF"
_NO_PYTHON = "no Python was found in it"
_TOO_SHORT = "it ended before it could be looked at"
_FREE_THREADED = (
    "in part: this Python is free-threaded: it has no GIL to wait for, and its functions are not"
    " sampled"
)
_NO_GIL_FOUND = "in part: where its GIL lies was not found: waits for it count as lock"
_SUBINTERPRETERS = (
    "in part: it has several interpreters: waits for a GIL of their own count as lock"
)
_PYPY = "it runs PyPy, whose calls are compiled: nothing can be probed"

_Told = TypeVar("_Told")
_Row = tuple[int | None, str, bool, str | None]


def insert_event_capture(
    con: duckdb.DuckDBPyConnection,
    session: Mapping[str, object],
    facts: ProbeFacts,
    lives: Sequence[Life],
) -> int:
    """Insert the rows; returns how many."""
    rows = _of_all(session, facts)
    # Nothing more can be said of a process where a kind was not measured at all.
    measured = {kind for _, kind, is_measured, _ in rows if is_measured}
    rows += [row for row in _of_processes(session, facts, lives) if row[1] in measured]
    clients = processes_with(facts.nvtx_packages, lives)
    rows += [(process_id, PYTHON_RANGES, True, None) for process_id in clients]
    for row in rows:
        con.execute("INSERT INTO capture VALUES (?, ?, ?, ?)", row)
    failure = f"the recorder failed: {facts.failure}" if facts.failure else None
    lacking = _in_part(facts.gave_up or failure, calls_away(facts))
    told = session.get("instruments")
    mode = told.get("cuda_calls") if isinstance(told, dict) else None
    added = len(rows) + _insert_other_clocks(con, facts, lives)
    return added + insert_cuda_capture(con, facts, lives, lacking=lacking, mode=mode)


def _of_all(session: Mapping[str, object], facts: ProbeFacts) -> list[_Row]:
    told = session.get("instruments")
    if not isinstance(told, dict):
        kinds = ("native_call", "cpu_sample", "wait", "gil_release")
        return [(None, kind, False, NOT_RECORDED) for kind in kinds]
    missing = told.get("not_measured", {})
    has_waits = session.get("capture") == "btf" and session.get("machine") == "x86_64"
    has_calls = "native_call" not in missing
    failure = f"the recorder failed: {facts.failure}" if facts.failure else None
    failed = _in_part(failure)
    gave_up = _in_part(facts.gave_up or failure)
    calls = _in_part(facts.gave_up or failure, calls_away(facts))
    refused = missing.get("native_call")
    off = None if told["layers"] else "not asked for: --transitions off"
    rows: list[_Row] = [
        (None, "wait", has_waits, None if has_waits else _NO_WAITS),
        (None, "native_call", has_calls and not off, refused or off or calls),
        (None, "cpu_sample", "cpu_sample" not in missing,
         missing.get("cpu_sample", failed or f"{told['sample_hz']} samples per second and CPU")),
        _of_gil_releases(told["gil"], refused, facts.gil_states, gave_up),
    ]  # fmt: skip
    for layer in _CALL_LAYERS if has_calls else ():
        is_probed = layer in told["layers"]
        # Said of each layer, too: what is said of one goes before what is said of all.
        reason = calls if is_probed else _how_to_get(layer, told.get("cuda_calls", "off"))
        rows.append((None, LAYER_CAPTURE.format(layer=layer), is_probed, reason))
    return rows


def _in_part(*reasons: str | None) -> str | None:
    known = [reason for reason in reasons if reason]
    return f"in part: {'; '.join(known)}" if known else None


def _of_gil_releases(
    asked: object, missing: str | None, states: Mapping[str, str], gave_up: str | None
) -> _Row:
    if asked != "full":
        return (None, "gil_release", False, "not asked for: --gil full")
    refused = [f"{path}: {state}" for path, state in states.items() if state != "probed"]
    if missing or (refused and len(refused) == len(states)):
        return (None, "gil_release", False, missing or refused[0])
    return (None, "gil_release", True, f"in part: {refused[0]}" if refused else gave_up)


def _how_to_get(layer: str, cuda_calls: object) -> str:
    if layer == "cuda_api" and cuda_calls == "off":
        return "the CUDA API is not probed"
    if layer == "cuda_api":
        return "recorded of processes that use CUDA: cuda_call"
    return "not asked for: --transitions all"


def _of_processes(
    session: Mapping[str, object], facts: ProbeFacts, lives: Sequence[Life]
) -> list[_Row]:
    if not isinstance(session.get("instruments"), dict):
        return []
    found = _by_process(lives, [(one.pid, one.ts_ns, one) for one in facts.interpreters])
    looked = _by_process(lives, [(pid, ts_ns, _NO_PYTHON) for pid, ts_ns in facts.without_python])
    rows: list[_Row] = []
    for life in lives:
        if life.process_id not in found and not life.exec_ns:
            _inherit(found, life)
            _inherit(looked, life)
        python = found.get(life.process_id)
        if python is None:
            reason = looked.get(life.process_id, _TOO_SHORT)
            rows.append((life.process_id, "native_call", False, reason))
        else:
            rows += _of_process(life.process_id, python)
    return rows


def processes_with(told: Sequence[tuple[int, int]], lives: Sequence[Life]) -> list[int]:
    """Return the process_id of each process of which something was told, by pid and time (ns).

    Of a fork is true what was told of its parent.
    """
    found = _by_process(lives, [(pid, ts_ns, True) for pid, ts_ns in told])
    for life in lives:
        if life.process_id not in found and not life.exec_ns:
            _inherit(found, life)
    return sorted(found)


def _insert_other_clocks(
    con: duckdb.DuckDBPyConnection, facts: ProbeFacts, lives: Sequence[Life]
) -> int:
    """Say of processes with another clock that their operations were left out; return rows more."""
    added = 0
    for process_id in processes_with(facts.other_clocks, lives):
        ((gone,),) = con.execute(
            "DELETE FROM capture WHERE process_id = ? AND kind = 'operation'", [process_id]
        ).fetchall()
        con.execute(
            "INSERT INTO capture VALUES (?, 'operation', false, ?)", [process_id, OTHER_CLOCK]
        )
        added += 1 - gone
    return added


def _inherit(told: dict[int, _Told], life: Life) -> None:
    """Tell of a fork what was told of its parent: it runs the same."""
    if life.parent_process_id in told:
        told[life.process_id] = told[life.parent_process_id]


def _by_process(lives: Sequence[Life], told: Sequence[tuple[int, int, _Told]]) -> dict[int, _Told]:
    """Return by process_id what was told last, of those told by pid and time."""
    latest: dict[int, _Told] = {}
    for pid, ts_ns, what in sorted(told, key=lambda one: one[1]):
        life = life_of(lives, pid, ts_ns)
        if life is not None:
            latest[life.process_id] = what
    return latest


def _of_process(process_id: int, python: Interpreter) -> list[_Row]:
    if python.implementation != "cpython":
        return [
            (process_id, "native_call", False, _PYPY),
            (process_id, "cpu_sample", True, "in part: its Python functions are not sampled"),
        ]
    if python.free_threaded:
        return [(process_id, kind, True, _FREE_THREADED) for kind in ("wait", "cpu_sample")]
    if python.gil_start == python.gil_end:
        return [(process_id, "wait", True, _NO_GIL_FOUND)]
    if python.interpreters is not None and python.interpreters > 1:
        return [(process_id, "wait", True, _SUBINTERPRETERS)]
    return []
