"""Chooses the operation that counts as an iteration, and counts its instances per process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import TraceError
from rlscope_analysis.operations.names import choice_of, known_name
from rlscope_analysis.schema.vocabulary import ITERATION_NAMES, UNANNOTATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The phase found by ourselves that every training has: a call of the environment.
AUTO_ITERATION = "simulation"

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


def find_iteration(paths: Sequence[Row], name: str | None) -> Iteration | None:
    """Choose among the rows of scope path; by name, or else what looks like an iteration.

    Returns None where nothing looks like one. Raises TraceError where nothing has the name.
    """
    operations = [row for row in paths if row["instances"]]
    if name is not None:
        return _count(operations, _named(operations, name))
    wanted = [row for row in operations if row["operation"].lower() in ITERATION_NAMES]
    if wanted:
        first = min(
            wanted,
            key=lambda row: (
                row["depth"],
                ITERATION_NAMES.index(row["operation"].lower()),
                -row["instances"],
            ),
        )
        return _count(operations, first["operation"])
    has_auto = any(
        row["operation"] == AUTO_ITERATION and row["source"] == "auto" for row in operations
    )
    return _count(operations, AUTO_ITERATION, only_auto=True) if has_auto else None


def _named(operations: Sequence[Row], name: str) -> str:
    known = Counter[str]()
    for row in operations:
        known[row["operation"]] += row["instances"]
    if name == UNANNOTATED and name not in known:
        raise TraceError(f"{name} has no instances to count", hint=choice_of(name, known))
    return known_name(name, known)


def _count(operations: Sequence[Row], name: str, *, only_auto: bool = False) -> Iteration:
    matching = [
        row
        for row in operations
        if row["operation"] == name and (not only_auto or row["source"] == "auto")
    ]
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
