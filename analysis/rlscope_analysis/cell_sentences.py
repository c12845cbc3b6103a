"""What the cells of tables say where that is not their value alone: entries of note_sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Named

NO_NAME = "(no name)"
_ALL = "(all)"
_PEERS = {
    "outside": "(outside the trace)",
    "timer": "(a timer)",
    "device": "(a device or the network)",
    "interrupt": "(a timer or device)",
}


def thread_words(name: str | None, tid: int | None) -> str:
    """Name a thread."""
    return f"{printable(name or '?')}/{tid or '?'}"


def _gpu(host: str | None, device_id: int | None, *more: str | None) -> str:
    number = f"GPU {'?' if device_id is None else device_id}"
    return " ".join(filter(None, (host, number, *more)))


def _gpu_scope(n: Named) -> str:
    pid = f"pid {'not known' if n.pid is None else n.pid}"
    if n.scope == "trace":
        return "all"
    if n.scope == "machine":
        return n.host or "machine not known"
    if n.scope == "process":
        return " ".join(filter(None, (n.value, f"({pid})")))
    if n.scope == "device":
        return _gpu(n.host, n.device_id, n.value)
    if n.scope == "stream":
        stream = f"stream {'?' if n.stream_id is None else n.stream_id}"
        return " ".join(filter(None, (f"{pid}, {_gpu(n.host, n.device_id)}, {stream}", n.value)))
    return n.kind or "-"


def _waited_for(n: Named) -> str:
    if n.peer_process_id is None:
        return _PEERS.get(n.peer_kind, "(not known)")
    return "(itself)" if n.peer_process_id == n.process_id else n.value or NO_NAME


def _known_or(words: str) -> Callable[[Any], str]:
    return lambda n: words if n.value is None else n.value


def _together(members: list[Any] | str) -> str:
    # A row that adds up others has a word in the place of a list.
    return members if isinstance(members, str) else " + ".join(map(str, members))


CELLS: dict[str, str | Callable[[Any], str]] = {
    "no_name": lambda n: n.value or NO_NAME,
    "or_not_known": _known_or("not known"),
    "or_not_measured": _known_or("not measured"),
    "launching_operation": _known_or("(call not in the trace)"),
    "function_or_none": _known_or("(no Python function)"),
    "layer_or_none": lambda n: n.value or "-",
    "from_layer": lambda n: n.value or ("no known call" if n.counted else "-"),
    "resource_on_cpu": _known_or("CPU, GPU not measured"),
    "set_or_others": lambda n: (
        "(all other sets)" if n.value is None else _together(n.value) or "(none)"
    ),
    "process_or_gpu": lambda n: n.value or NO_NAME if n.device_id is None else f"GPU {n.device_id}",
    "cpu_had_by": lambda n: n.value or (NO_NAME if n.by_kind == "process" else "-"),
    "waited_for": _waited_for,
    "gil_holder": lambda n: (
        "(not known)" if n.value is None else thread_words(n.value, n.holder_tid)
    ),
    "leading_thread": lambda n: thread_words(n.value, n.leading_tid),
    "gpu": lambda n: _gpu(
        n.host, n.device_id, n.uuid if n.uuid and n.uuid.startswith("MIG-") else None, n.value
    ),
    "gpu_scope": _gpu_scope,
    # Of a scope that holds several, all of them are meant.
    "process_of_scope": lambda n: _ALL if n.scope == "trace" else n.value or NO_NAME,
    "operation_of_scope": lambda n: _ALL if n.scope in {"trace", "process"} else n.value or "-",
    "bucket_of_scope": lambda n: n.value or "-" if n.scope == "bucket" else _ALL,
}
