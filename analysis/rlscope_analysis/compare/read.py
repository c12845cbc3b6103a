"""Reads what is compared out of an open trace."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.compare.cpu_time import add_cpu_time
from rlscope_analysis.compare.environment import environment_of
from rlscope_analysis.compare.gpu_speed import GPU_SPEED, GPU_SPEED_SQL, gpu_speed_of
from rlscope_analysis.compare.normalise import PROBES, probes_of
from rlscope_analysis.compare.run import (
    COUNT,
    GPU_BUSY,
    RECORDING,
    SEEN_COUNT,
    SEEN_TIME,
    WALL,
    Key,
    Run,
)  # fmt: skip
from rlscope_analysis.compare.side import content_of
from rlscope_analysis.cpu_list import own_cpu_count
from rlscope_analysis.critical_path.iterations import RANGE
from rlscope_analysis.damage import damage_reported
from rlscope_analysis.errors import TraceError, UnknownRangeError
from rlscope_analysis.query import run_query
from rlscope_analysis.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rlscope_analysis.compare.run import Sums
    from rlscope_analysis.trace import Trace

_AT_ONCE = 4
# What an import says of itself in table coverage, and what it is called.
_IMPORTS = ("kineto", "nsys", "xplane")
_FACTS_SQL = """
SELECT
  (SELECT any_value(value) FROM meta WHERE key = 'loader'),
  (SELECT list(DISTINCT code) FROM coverage WHERE code IS NOT NULL),
  (SELECT coalesce(bool_or(measured), false) FROM coverage WHERE kind = 'thread_state'),
  (SELECT coalesce(sum(coalesce(count, 1)), 0)::BIGINT FROM trace_stat),
  (SELECT any_value(value) FROM meta WHERE key = 'sampler')
"""
_GPUS_SQL = """
SELECT DISTINCT name FROM gpu_device WHERE name IS NOT NULL ORDER BY name LIMIT 16
"""
_ITERATIONS_SQL = """
SELECT iteration_id, source, name FROM iteration ORDER BY iteration_id
"""


class Series:
    """Collects sums by iteration."""

    def __init__(self, iterations: int) -> None:
        self.length = iterations
        self.found: dict[Key, Sums] = {}

    def of(self, key: Key) -> Sums:
        """Return the sums of a key, to add to."""
        if key not in self.found:
            self.found[key] = np.zeros(self.length, np.int64)
        return self.found[key]


def read_run(trace: Trace, *, name: str, per: str | None = None) -> Run:
    """Read what is compared of an open trace.

    per: the range that counts as an iteration. Raises TraceError where the trace has no iteration,
    or none called so.
    """
    trace.critical_path(per=per)
    numbers = _rows(trace, _ITERATIONS_SQL)
    if not numbers:
        raise TraceError(
            f"{trace.path} has no iteration", hint="it holds no thread: rlscope-trace summarize"
        )
    ((loader, codes, has_states, lost, sampler),) = _rows(trace, _FACTS_SQL)
    series = Series(len(numbers))
    at = {number: place for place, (number, *_) in enumerate(numbers)}
    period_ns = _period_ns(sampler)
    _add(series, _asked(trace, "path"), at, lambda row: [((WALL, *row[:4]), row[4])])
    _add(series, _asked(trace, "counts"), at, lambda row: [((COUNT, *row[:2]), row[2])])
    _add(series, _asked(trace, "seen", period_ns=period_ns), at, _seen)
    _add(series, _asked(trace, "gpu_busy"), at, lambda row: [((GPU_BUSY,), row[0])])
    if has_states:
        add_cpu_time(trace, series, len(numbers))
    _, source, range_name = numbers[0]
    meta = dict(_rows(trace, "SELECT key, value FROM meta WHERE value IS NOT NULL"))
    gpus = [name for (name,) in _rows(trace, _GPUS_SQL)]
    return Run(
        name=name,
        kind=_kind(loader, codes or []),
        iteration=range_name if source == RANGE else source,
        iterations=np.ones(len(numbers), np.int64),
        series=series.found,
        overhead=dict(_asked(trace, "overhead")) or None,
        environment=environment_of(meta) | ({"GPUs": ", ".join(gpus)} if gpus else {}),
        facts={
            "states": has_states, "lost": lost, PROBES: probes_of(meta),
            GPU_SPEED: gpu_speed_of(_rows(trace, GPU_SPEED_SQL)),
        },
    )  # fmt: skip


def _kind(loader: str | None, codes: Iterable[str]) -> str:
    if loader != "import":
        return RECORDING
    return next((kind for kind in _IMPORTS if any(kind in code for code in codes)), "import")


def _period_ns(sampler: str | None) -> int:
    """Return what a sample stands for; a trace may come from a stranger."""
    try:
        period = json.loads(sampler or "{}").get("period_ns")
    except (ValueError, AttributeError):
        return 0
    return period if isinstance(period, int) and 0 < period < 10**10 else 0


def _rows(trace: Trace, query: str) -> list[tuple[Any, ...]]:
    return list(run_query(trace, query).rows)


def _asked(trace: Trace, name: str, **values: object) -> list[tuple[Any, ...]]:
    query = resources.files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return _rows(trace, query.format(**values) if values else query)


def _add(
    series: Series,
    rows: Iterable[tuple[Any, ...]],
    at: dict[int, int],
    keys: Callable[[tuple[Any, ...]], Iterable[tuple[Key, int]]],
) -> None:
    for number, *rest in rows:
        for key, value in keys(tuple(rest)):
            series.of(key)[at[number]] += value


def _seen(row: tuple[Any, ...]) -> Iterable[tuple[Key, int]]:
    kind, name, time_ns, count = row
    yield (SEEN_TIME, kind, name), time_ns
    # Of a function only samples are known: how often it was called is not.
    if kind != "function":
        yield (SEEN_COUNT, kind, name), count


def read_sides(
    base: Sequence[Path], new: Sequence[Path], *, per: str | None = None
) -> tuple[list[Run], list[Run]]:
    """Read the traces of both sides, as many at a time as there are CPUs, four at most.

    per: the range that counts as an iteration. Raises TraceError where one cannot be read, and
    where a side has one recording twice.
    """
    paths = [*base, *new]
    workers = max(1, min(_AT_ONCE, own_cpu_count(), len(paths)))
    with ThreadPoolExecutor(max_workers=workers) as executor:
        runs = list(executor.map(partial(_read, per=per), paths))
    sides = runs[: len(base)], runs[len(base) :]
    for side in sides:
        _check_once(side)
    return sides


def _check_once(side: Sequence[Run]) -> None:
    """Refuse a recording beside its copy: two runs that do not differ would make anything sure."""
    seen: dict[tuple[int, bytes], str] = {}
    for run in side:
        content = content_of(run)
        if content[1] and content in seen:
            raise TraceError(
                f"the same recording twice on one side: {seen[content]} and {run.name}",
                hint="give each run once",
            )
        seen[content] = run.name


def _read(path: Path, *, per: str | None) -> Run:
    with damage_reported(path), open_trace(path) as trace:
        try:
            return read_run(trace, name=str(path), per=per)
        except UnknownRangeError as error:
            raise UnknownRangeError(str(per), path=path) from error
