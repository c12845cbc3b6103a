"""CPU time by iteration: whose, in which operation, in which layer.

A thread without operations of its own, as those of a pool, works for what the leading thread of its
process does meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.run import CPU, LEADING, NO_LAYER, OTHER, PROCESS, WALL
from rlscope_analysis.schema.enums import code_of, word_of
from rlscope_analysis.schema.vocabulary import LAYERS, NOT_MEASURED, UNANNOTATED
from rlscope_analysis.sweep.segments import segments

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from rlscope_analysis.compare.run import Key, Sums
    from rlscope_analysis.trace import Trace

    Column = npt.NDArray[Any]

_SEGMENTS_SQL = f"""
CREATE OR REPLACE TEMP TABLE _compare_segment AS
SELECT
  thread_id, start_ns, end_ns, path_id, layer,
  {word_of("THREAD_STATE", "state")} = 'running' AS runs
FROM _compare_stream
"""  # noqa: S608 - words of our own
# Who has operations tells of itself; of the leading process, what its leading thread does.
_RAN_SQL = """
WITH led AS (
  SELECT any_value(thread_id) AS thread_id, any_value(process_id) AS process_id FROM iteration
), has AS (
  SELECT DISTINCT thread_id FROM operation_coded
)
SELECT
  s.thread_id, s.start_ns, s.end_ns, s.path_id, s.layer,
  coalesce(t.process_id = l.process_id, false) AS leads,
  coalesce(t.process_id, 0)::INTEGER AS process_id,
  coalesce(t.process_id = l.process_id AND s.thread_id NOT IN (FROM has), false) AS helps
FROM _compare_segment AS s CROSS JOIN led AS l JOIN thread AS t ON t.thread_id = s.thread_id
WHERE s.runs
"""
_LED_SQL = """
SELECT start_ns, end_ns, path_id FROM _compare_segment
WHERE thread_id = (SELECT any_value(thread_id) FROM iteration) AND path_id > 0 ORDER BY start_ns
"""
_SAMPLES_SQL = f"""
SELECT thread_id, ts_ns, {code_of("LAYER", "layer")} AS sampled
FROM cpu_sample_coded WHERE layer IS NOT NULL
"""  # noqa: S608 - words of our own
# Numbers that lie closer together than that are told apart by a table of all of them.
_DENSE = 4


class _Ran:
    """Pieces of running time, each in one iteration and one operation."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self.columns = columns

    def cut(self, edges: Column, name: str, values: Column) -> _Ran:
        """Cut them at edges (sorted), and say of each piece which of `values` it lies in.

        values[n] is what holds from edges[n] to edges[n + 1]; what lies before the first or after
        the last edge is left out.
        """
        start, end = self.columns["start_ns"], self.columns["end_ns"]
        first = np.searchsorted(edges, start, side="right") - 1
        last = np.searchsorted(edges, end, side="left") - 1
        counts = np.maximum(last - first + 1, 0)
        piece = np.repeat(np.arange(len(start)), counts)
        offset = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
        slot = first[piece] + offset
        columns = {key: column[piece] for key, column in self.columns.items()}
        inside = (slot >= 0) & (slot < len(values))
        columns["start_ns"] = np.maximum(columns["start_ns"], edges[np.maximum(slot, 0)])
        following = edges[np.minimum(slot + 1, len(edges) - 1)]
        columns["end_ns"] = np.minimum(columns["end_ns"], following)
        columns[name] = values[np.clip(slot, 0, len(values) - 1)]
        # Between edges that are the same: it would hide what begins there.
        inside &= columns["end_ns"] > columns["start_ns"]
        return _Ran({key: column[inside] for key, column in columns.items()})


def add_cpu_time(trace: Trace, series: Any, iterations: int) -> None:  # noqa: ANN401 - read.Series
    """Add the CPU time of all threads in the iterations, and split that of the path by samples."""
    connection = trace.connection
    columns = connection.execute(
        "SELECT start_ns, end_ns FROM iteration ORDER BY start_ns"
    ).fetchnumpy()
    start, end = (np.ma.getdata(column).astype(np.int64) for column in columns.values())
    connection.register(
        "_compare_stream", segments(trace, start_ns=int(start[0]), end_ns=int(end[-1]))
    )
    try:
        connection.execute(_SEGMENTS_SQL)
    finally:
        connection.unregister("_compare_stream")
    names = dict(
        connection.execute(
            "SELECT path_id, regexp_replace(name, '#[0-9]+$', '') FROM operation_path"
        ).fetchall()
    )
    ran = _Ran(_numpy(connection, _RAN_SQL)).cut(*_edges(start, end, iterations))
    ran = _Ran({k: v[ran.columns["iteration"] >= 0] for k, v in ran.columns.items()})
    _lead(ran, _numpy(connection, _LED_SQL))
    shares = _shares(ran, _numpy(connection, _SAMPLES_SQL), names)
    _store(series, ran, names, shares)
    _split_path(series, shares)
    connection.execute("DROP TABLE _compare_segment")


def _numpy(connection: Any, query: str) -> dict[str, Column]:  # noqa: ANN401
    fetched = connection.execute(query).fetchnumpy()
    # Wider than the columns: keys are made of them.
    columns = {name: np.ma.getdata(column) for name, column in fetched.items()}
    return {n: c.astype(np.int64) for n, c in columns.items()}


def _edges(start: Column, end: Column, iterations: int) -> tuple[Column, str, Column]:
    """Return where iterations begin and end, and which one holds from there on; -1: none."""
    edges = np.empty(2 * iterations, np.int64)
    edges[0::2], edges[1::2] = start, end
    values = np.full(2 * iterations - 1, -1, np.int64)
    values[0::2] = np.arange(iterations)
    return edges, "iteration", values


def _lead(ran: _Ran, led: dict[str, Column]) -> None:
    """Give what helps the leading thread the operation that this is in."""
    if not len(led["start_ns"]) or not ran.columns["helps"].any():
        return
    helps = ran.columns["helps"] > 0
    helpers = _Ran({name: column[helps] for name, column in ran.columns.items()})
    count = len(led["start_ns"])
    edges = np.empty(2 * count + 2, np.int64)
    edges[0], edges[-1] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    edges[1:-1:2], edges[2:-1:2] = led["start_ns"], led["end_ns"]
    values = np.zeros(2 * count + 1, np.int64)
    values[1::2] = led["path_id"]
    cut = helpers.cut(edges, "path_id", values)
    for name, column in ran.columns.items():
        ran.columns[name] = np.concatenate([column[~helps], cut.columns[name]])


def _shares(
    ran: _Ran, samples: dict[str, Column], names: dict[int, str]
) -> dict[tuple[str, str, str], list[tuple[str, int]]]:
    """Return how many samples of each layer fell into (place, operation, layer of the call)."""
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    columns = ran.columns
    if not len(samples["ts_ns"]) or not len(columns["start_ns"]):
        return {}
    first_ns = columns["start_ns"].min()
    span = int(columns["end_ns"].max() - first_ns) + 1
    order = np.argsort(columns["thread_id"] * span + (columns["start_ns"] - first_ns))
    keys = (columns["thread_id"] * span + (columns["start_ns"] - first_ns))[order]
    after = samples["ts_ns"] - first_ns
    wanted = (after >= 0) & (after < span)
    at = np.searchsorted(keys, (samples["thread_id"] * span + after)[wanted], side="right") - 1
    place = order[np.maximum(at, 0)]
    inside = (
        (at >= 0)
        & (columns["thread_id"][place] == samples["thread_id"][wanted])
        & (columns["end_ns"][place] > samples["ts_ns"][wanted])
    )
    fell = [columns[name][place[inside]] for name in ("leads", "path_id", "layer")]
    distinct, which = _distinct(*fell, samples["sampled"][wanted][inside])
    for (leads, path_id, call, layer), count in zip(
        distinct, np.bincount(which).tolist(), strict=True
    ):
        counts = found.setdefault(_place_of(leads, path_id, call, names), {})
        counts[_layer(layer)] = counts.get(_layer(layer), 0) + count
    return {key: sorted(counts.items()) for key, counts in found.items()}


def _distinct(*columns: Column) -> tuple[list[tuple[int, ...]], Column]:
    """Return the distinct rows of columns, and which of them each row is."""
    code = np.zeros(len(columns[0]), np.int64)
    count = 1
    for column in columns:
        # The codes so far and the values of a column are few: their product is small.
        value, values = _numbered(column)
        code, count = _numbered(code * values + value)
    row = np.empty(count, np.int64)
    # Which of the rows with a code stays there does not matter: they are the same.
    row[code] = np.arange(len(code))
    return list(zip(*(column[row].tolist() for column in columns), strict=True)), code


def _numbered(values: Column) -> tuple[Column, int]:
    """Return which of the distinct values each is, in their order, and how many there are."""
    if not len(values):
        return values, 0
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > _DENSE * len(values):
        distinct, found = np.unique(values, return_inverse=True)
        return found, len(distinct)
    # Without a sort: of a long trace that takes most of the time.
    is_there = np.zeros(span, bool)
    is_there[values - least] = True
    place = np.cumsum(is_there) - 1
    return place[values - least], int(is_there.sum())


def _place_of(leads: int, path_id: int, layer: int, names: dict[int, str]) -> tuple[str, str, str]:
    place = LEADING if leads else OTHER
    return place, names.get(path_id, UNANNOTATED), _layer(layer)


def _layer(code: int) -> str:
    return NO_LAYER if code == NOT_MEASURED else LAYERS[code] or NO_LAYER


def _store(
    series: Any,  # noqa: ANN401
    ran: _Ran,
    names: dict[int, str],
    shares: dict[tuple[str, str, str], list[tuple[str, int]]],
) -> None:
    columns = ran.columns
    time_ns = columns["end_ns"] - columns["start_ns"]
    groups = [columns[name] for name in ("leads", "path_id", "layer", "process_id")]
    distinct, which = _distinct(*groups)
    others = sorted({row[3] for row in distinct if not row[0]})
    for number, (leads, path_id, layer, process_id) in enumerate(distinct):
        chosen = which == number
        sums = np.zeros(series.length, np.int64)
        np.add.at(sums, columns["iteration"][chosen], time_ns[chosen])
        place, operation, call = _place_of(leads, path_id, layer, names)
        who = LEADING if leads else f"{OTHER} {others.index(process_id) + 1}"
        series.of((PROCESS, who))[:] += sums
        for part, of_part in _split(sums, call, shares, place, operation):
            series.of((CPU, place, operation, part))[:] += of_part


def _split(
    sums: Sums,
    layer: str,
    shares: dict[tuple[str, str, str], list[tuple[str, int]]],
    place: str,
    operation: str,
) -> list[tuple[str, Sums]]:
    """Share sums out by samples, to the nanosecond; what no sample tells of keeps its layer."""
    counts = shares.get((place, operation, layer))
    if not counts:
        return [(layer, sums)]
    whole = sum(count for _, count in counts)
    parts, until, given = [], 0, np.zeros_like(sums)
    for name, count in counts:
        until += count
        through = np.rint(sums * (until / whole)).astype(np.int64)
        parts.append((name, through - given))
        given = through
    return parts


def _split_path(series: Any, shares: dict[tuple[str, str, str], list[tuple[str, int]]]) -> None:  # noqa: ANN401
    """Give the time in which the path is on a thread that runs the layers that samples found."""
    found: dict[Key, Sums] = series.found
    running = [key for key in found if key[0] == WALL and key[4] == "running"]
    taken = [(key, found.pop(key)) for key in running]
    for (_, place, operation, layer, cause), sums in taken:
        for part, of_part in _split(sums, layer, shares, place, operation):
            new = (WALL, place, operation, part, cause)
            found[new] = found[new] + of_part if new in found else of_part
