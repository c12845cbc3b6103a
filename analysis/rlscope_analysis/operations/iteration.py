"""Chooses the operation that counts as an iteration, and counts its instances per process."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_analysis.critical_path.iterations import (
    PHASES,
    RANGE,
    find_iterations,
    updates_by_process,
)
from rlscope_analysis.errors import TraceError
from rlscope_analysis.operations.names import choice_of, known_name
from rlscope_analysis.schema.vocabulary import UNANNOTATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

# What is counted where no range is: backpropagations with no acting between them.
UPDATE = "update"
_NUMBER = re.compile("#[0-9]+$")

Row = dict[str, Any]
Key = tuple[int | None, int]


@dataclass(frozen=True, slots=True)
class Iteration:
    """What counts as one iteration, and how often it occurred in each process."""

    name: str
    source: str | None
    """Who marked it; None: several sources did."""
    by_process: dict[int | None, int]
    """process_id -> instances, those with most first. Those inside another one do not count."""


def find_iteration(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[Row], name: str | None
) -> Iteration | None:
    """Choose what the table `iteration` has, or among the rows of scope path, by name.

    Returns None where nothing looks like one. Raises TraceError where nothing has the name.
    """
    operations = [row for row in paths if row["instances"]]
    if name is not None:
        return _count(operations, _named(operations, name))
    found = find_iterations(connection)
    if found.source == RANGE and found.name is not None:
        # Profilers number their ranges.
        return _count(
            [row | {"operation": _NUMBER.sub("", row["operation"] or "")} for row in operations],
            found.name,
        )
    if found.source == PHASES:
        counts = updates_by_process(connection)
        # A window leaves out those that it cuts.
        lead = next(iter(counts))
        return Iteration(UPDATE, "auto", counts | {lead: len(found.rows)})
    return None


def _named(operations: Sequence[Row], name: str) -> str:
    known = Counter[str]()
    for row in operations:
        if row["operation"] is not None:
            known[row["operation"]] += row["instances"]
    if name == UNANNOTATED and name not in known:
        raise TraceError(f"{name} has no instances to count", hint=choice_of(name, known))
    return known_name(name, known)


def _count(operations: Sequence[Row], name: str) -> Iteration:
    matching = [row for row in operations if row["operation"] == name]
    inside: dict[Key, Row] = {(row["process_id"], row["path_id"]): row for row in matching}
    parents = {(row["process_id"], row["path_id"]): row["parent_path_id"] for row in operations}
    counts = Counter[int | None]()
    for (process_id, path_id), row in inside.items():
        if not _lies_in_another(process_id, path_id, parents, inside):
            counts[process_id] += row["instances"]
    sources = {row["source"] for row in matching}
    return Iteration(name, sources.pop() if len(sources) == 1 else None, dict(counts.most_common()))


def _lies_in_another(
    process_id: int | None,
    path_id: int,
    parents: Mapping[Key, int | None],
    matching: Mapping[Key, Row],
) -> bool:
    parent = parents.get((process_id, path_id))
    while parent is not None:
        if (process_id, parent) in matching:
            return True
        parent = parents.get((process_id, parent))
    return False
