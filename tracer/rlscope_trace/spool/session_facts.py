"""What session.json tells of a recording: facts of the right shape, whatever stands in the file."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.fact import fact_of
from rlscope_trace.spool.regular_files import open_regular
from rlscope_trace.texts import storable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

# No recorder tells so much, of anything.
_MOST_BYTES = 4 << 20
_MOST_LETTERS = 1 << 16
_MOST_DEPTH = 32
_IMPOSSIBLE = 2**63


def read_session(path: Path) -> tuple[dict[str, object], int]:
    """Return the facts of a session.json, and how many of its facts cannot be read.

    A file that is damaged as a whole counts as one fact; it must not cost the records. Raises
    OSError where a file that is there cannot be read.
    """
    try:
        with open_regular(path) as file:
            text = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return {}, 0
    try:
        reported = json.loads(text) if len(text) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        reported = None
    if not isinstance(reported, dict):
        return {}, 1
    sound = {_stored(key): _stored(fact) for key, fact in reported.items() if _is_sound(key, fact)}
    return sound, len(reported) - len(sound)


def _is_sound(key: str, fact: object) -> bool:
    """Tell whether a fact is one that a trace can hold, and has the shape of its kind."""
    shape = _SHAPES.get(key)
    return _is_plain(key) and _is_plain(fact) and (shape is None or shape(fact))


def _stored(fact: Any) -> Any:  # noqa: ANN401 - any value that JSON can hold
    """Return a fact with texts that DuckDB takes: argv may hold bytes that are no UTF-8."""
    if isinstance(fact, list):
        return [_stored(part) for part in fact]
    if isinstance(fact, dict):
        return {_stored(key): _stored(part) for key, part in fact.items()}
    return storable(fact)


def _is_plain(fact: object, depth: int = 0) -> bool:
    """Tell whether a trace can hold a value: not what is infinite, or endless."""
    if isinstance(fact, str):
        return len(fact) <= _MOST_LETTERS
    if isinstance(fact, bool) or fact is None:
        return True
    if isinstance(fact, int):
        return -_IMPOSSIBLE <= fact < _IMPOSSIBLE
    if isinstance(fact, float):
        return math.isfinite(fact)
    if depth > _MOST_DEPTH:
        return False
    if isinstance(fact, dict):
        return all(_is_plain(part, depth + 1) for item in fact.items() for part in item)
    return isinstance(fact, list) and all(_is_plain(part, depth + 1) for part in fact)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _pid(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _IMPOSSIBLE


def _list_of(shape: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(shape(part) for part in value)


def _fact(value: object) -> bool:
    return fact_of(value) is not None


def _facts_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(map(_fact, value.values()))


def _dictionary(value: object) -> bool:
    return isinstance(value, dict)


def _perhaps(shape: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or shape(value)


def _with(**shapes: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return the shape of a dictionary that has these entries, and perhaps others."""
    return lambda value: isinstance(value, dict) and _has(value, shapes)


def _has(value: Mapping[str, Any], shapes: Mapping[str, Callable[[object], bool]]) -> bool:
    return all(shape(value.get(name)) for name, shape in shapes.items())


_SHAPES: dict[str, Callable[[object], bool]] = {
    "tool_version": _text,
    "host": _text,
    "machine": _text,
    "capture": _text,
    "recorder_pid": _pid,
    "ring_mib": lambda value: _pid(value) and value != 0,
    "probe_settings": _with(
        layers=_list_of(_text),
        sample_hz=_number,
        gil=_text,
        cuda_calls=_perhaps(_text),
        call_probes=_perhaps(_text),
        not_measured=_perhaps(_facts_by_name),
    ),
    "environment": _dictionary,
    "environment_variables": _dictionary,
    "kept_from_ns": _time,
    "operations": _with(measured=_flag, fact=_perhaps(_fact)),
    "gpu": _with(measured=_flag, fact=_perhaps(_fact)),
    "operations_late": _list_of(_with(pid=_pid, measured=_flag, fact=_perhaps(_fact))),
    "shim_taken_pids": _list_of(_pid),
    "shim_refused_pids": _list_of(_pid),
    "ray": _dictionary,
}
