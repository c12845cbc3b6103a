"""A baseline file: what is compared of some runs, in blocks of iterations, as JSON.

It holds sums and counts, no events: small enough to be committed beside the program.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.compare.baseline_words import key_before_kinds, key_of_words
from rlscope_analysis.compare.gpu_speed import GPU_SPEED, known_gpu_speed
from rlscope_analysis.compare.normalise import PROBES, known_probes
from rlscope_analysis.compare.run import (
    COUNT,
    COUNTS,
    CPU,
    GPU_BUSY,
    PROCESS,
    WALL,
    Run,
)  # fmt: skip
from rlscope_analysis.errors import TraceError
from rlscope_analysis.foreign_file import open_regular, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rlscope_analysis.compare.run import Key

FORMAT, VERSION = "rlscope-trace baseline", 3
_KEPT = (WALL, CPU, PROCESS, COUNT, GPU_BUSY)
# The first iteration is left out of most comparisons, so it is a block of its own.
_BLOCKS = 16
_MOST_RUNS = 1000
# Of all runs: each is a value again when it has been read, however few bytes say so.
_MOST_ITERATIONS = 4_000_000
# Each of them in each series: 20 ns are spent on one.
_MOST_VALUES = 100_000_000
_MOST_FACTS = 1000
# What recording cost, as a part of a time: a thousand times the time itself is none.
_MOST_PARTS = 1000
# By version: what makes a key of the words of a series.
_KEYS: dict[int, Callable[[Key], Key]] = {
    1: lambda key: key_before_kinds(key_of_words(key)),
    2: key_before_kinds,
    VERSION: lambda key: key,
}
_HINT = "write it anew: rlscope-trace gate --save FILE TRACES"


def is_baseline(path: Path) -> bool:
    """Tell whether a file is none of a database: JSON begins with a brace."""
    try:
        with open_regular(path) as file:
            return file.read(1) == b"{"
    except (OSError, ValueError):
        return False


def text_of(runs: Sequence[Run]) -> str:
    """Return the text of a baseline file. Raises TraceError where it would hold too much."""
    if _is_too_much(runs):
        raise TraceError(
            f"a baseline holds {_MOST_ITERATIONS:,} iterations, and {_MOST_VALUES:,} values of"
            " operations and processes in them, and the runs have more",
            hint="fewer runs, or --per a range that comes less often",
        )
    reported = {"format": FORMAT, "version": VERSION, "runs": [_reported(run) for run in runs]}
    lines = json.dumps(reported, ensure_ascii=True)
    # A line for each series: what changed is to be seen in a diff.
    return lines.replace('], [["', '],\n[["') + "\n"


def _is_too_much(runs: Sequence[Run]) -> bool:
    values = sum(run.length * len(run.series) for run in runs)
    return sum(run.length for run in runs) > _MOST_ITERATIONS or values > _MOST_VALUES


def _reported(run: Run) -> dict[str, Any]:
    edges = _edges(run.length)
    blocks = np.diff(np.append(edges, run.length)).tolist()
    return {
        "name": run.name.rpartition("/")[2],
        "kind": run.kind,
        "iteration": run.iteration,
        "iterations": blocks,
        "overhead": run.overhead,
        "environment": run.environment,
        "facts": run.facts,
        "series": [
            [list(key), np.add.reduceat(run.series[key], edges).tolist()]
            for key in sorted(run.series)
            if key[0] in _KEPT
        ],
    }


def _edges(length: int) -> list[int]:
    rest = np.linspace(1, length, min(_BLOCKS, max(length - 1, 1)), endpoint=False)
    return sorted({0, *(int(edge) for edge in rest if edge < length)})


def read_baseline(path: Path) -> list[Run]:
    """Return the runs of a baseline file. Raises TraceError where it is none."""
    try:
        reported = read_json(path)
        if not isinstance(reported, dict) or reported["format"] != FORMAT:
            raise ValueError("another format")
        key_of = _KEYS[reported["version"]]
        if not 0 < len(reported["runs"]) <= _MOST_RUNS:
            raise ValueError("no runs")
        runs = [_run(one, key_of) for one in reported["runs"]]
        if _is_too_much(runs):
            raise ValueError("too many iterations")
        return runs
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TraceError(f"{path} is no baseline", hint=_HINT) from error


def _run(reported: dict[str, Any], key_of: Callable[[Key], Key]) -> Run:
    iterations = _numbers(reported["iterations"])
    # Each, before they are added up: a sum of 64 bits can wrap.
    if not len(iterations) or not ((iterations >= 1) & (iterations <= _MOST_ITERATIONS)).all():
        raise ValueError("no iterations")
    series = {}
    for words, sums in reported["series"]:
        series[_checked(key_of(tuple(words)))] = _numbers(sums)
        if len(sums) != len(iterations):
            raise ValueError("not of all iterations")
    if len(reported["environment"]) > _MOST_FACTS:
        raise ValueError("more than is known of a machine")
    overhead, facts = reported["overhead"], reported["facts"]
    return Run(
        name=str(reported["name"]), kind=str(reported["kind"]),
        iteration=str(reported["iteration"]), iterations=iterations, series=series,
        overhead=None if overhead is None else {k: _part(v) for k, v in overhead.items()},
        environment={str(k): str(v) for k, v in reported["environment"].items()},
        facts=_facts(facts),
    )  # fmt: skip


_LENGTHS = {WALL: 5, CPU: 4, PROCESS: 2, COUNT: 3, GPU_BUSY: 1}


def _checked(key: Key) -> Key:
    """Return a key; one that is none: ValueError."""
    if not key or key[0] not in _KEPT or not all(isinstance(word, str) for word in key):
        raise ValueError("no key")
    if len(key) != _LENGTHS[key[0]] or (key[0] == COUNT and key[1] not in COUNTS):
        raise ValueError("no key of such a series")
    return key


def _part(value: Any) -> float:  # noqa: ANN401 - of JSON
    """Return a part of a time; one that is no number, or none that a part can be: ValueError."""
    if not isinstance(value, (int, float)) or not abs(value) < _MOST_PARTS:
        raise ValueError("no part")
    return float(value)


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    states, lost = found.get("states"), found.get("lost")
    if not isinstance(states, bool | int | None) or not isinstance(lost, int | None):
        raise ValueError("no facts")
    return {
        "states": states, "lost": lost, PROBES: known_probes(found.get(PROBES)),
        GPU_SPEED: known_gpu_speed(found.get(GPU_SPEED)),
    }  # fmt: skip


def _numbers(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:  # noqa: ANN401 - of JSON
    if not all(isinstance(value, int) and 0 <= value < 2**62 for value in values):
        raise ValueError("no times and counts")
    return np.array(values, np.int64)
