"""What docs/transitions.md says of the split by samples, in plain Python over whole rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any

from coded import coded

if TYPE_CHECKING:
    import duckdb

BACKEND, SPIN = 3, 5
Group = tuple[Any, ...]


def estimate_rows(connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """Return the rows that layer_estimate_coded should have, sorted, without stderr_ns last."""
    process = dict(
        connection.execute("SELECT thread_id, coalesce(process_id, 0) FROM thread").fetchall()
    )
    name = dict(connection.execute("SELECT path_id, name FROM operation_path").fetchall())
    drawn: dict[Group, Counter[int]] = defaultdict(Counter)
    spinning = set()
    for thread, path, call, gpu, layer, count in connection.execute(
        f"FROM {coded('sample_count_coded')}"
    ).fetchall():
        if call not in {0, BACKEND}:
            continue
        kind = layer if call == 0 or layer == SPIN else call
        if call and kind == SPIN:
            spinning.add(process[thread])
        for group in _groups(thread, path, gpu, call, process[thread], name):
            drawn[group][kind] += count
    rows = []
    for thread, path, layer, gpu, time_ns in connection.execute(
        "SELECT thread_id, path_id, layer, gpu, time_ns"
        f" FROM {coded('thread_overlap_coded')} WHERE state = 0"
    ).fetchall():
        if layer == 0 or (layer == BACKEND and process[thread] in spinning):
            groups = _groups(thread, path, gpu, layer, process[thread], name)
            donor = next((group for group in groups if drawn.get(group)), None)
            if donor:
                elsewhere = drawn.get(("thread", thread, layer), Counter[int]())
                rows += [
                    (thread, path, layer, gpu, *part)
                    for part in _split(time_ns, drawn[donor], set(elsewhere), METHODS[donor[0]])
                ]
    return sorted(rows)


METHODS = {"own": 1, "path": 2, "operation": 3, "thread": 4, "process": 5}


def _groups(
    thread: int, path: int, gpu: int, call: int, process: int, name: dict[int, str]
) -> list[Group]:
    groups: list[Group] = [("own", thread, path, gpu, call), ("path", thread, path, call)]
    if path:
        groups.append(("operation", process, name[path], call))
    return [*groups, ("thread", thread, call), ("process", process, call)]


def _split(
    time_ns: int, counts: Counter[int], elsewhere: set[int], method: int
) -> list[tuple[Any, ...]]:
    n = counts.total()
    layers = sorted(set(counts) | elsewhere)
    exact = {layer: Fraction(time_ns * counts[layer], n) for layer in layers}
    times = {layer: int(exact[layer]) for layer in layers}
    for layer in sorted(layers, key=lambda layer: (times[layer] - exact[layer], layer))[
        : time_ns - sum(times.values())
    ]:
        times[layer] += 1
    rows = []
    for layer in layers:
        share, adjusted = counts[layer] / n, (counts[layer] + 2) / (n + 4)
        variance = adjusted * (1 - adjusted) / (n + 4) + (share - adjusted) ** 2
        rows.append((layer, times[layer], n, method, time_ns * sqrt(variance)))
    return rows
