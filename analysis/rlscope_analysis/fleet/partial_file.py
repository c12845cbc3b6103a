"""The file of a partial: Parquet beside its trace, read as warily as a trace is.

It says of which trace it is (size, time of its last change, first bytes) and of which version; one
that does not fit is worked out again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import duckdb

from rlscope_analysis.findings.catalog import BY_CODE
from rlscope_analysis.fleet.histogram import STEPS
from rlscope_analysis.fleet.members import PARTIAL_SUFFIX
from rlscope_analysis.fleet.partial import (
    GROUPS,
    ITERATIONS,
    KINDS,
    LIMITS,
    TASKS,
    WAITS,
    Facts,
    Partial,
    Row,
)
from rlscope_analysis.foreign_file import open_regular
from rlscope_analysis.own_name import is_ours_alone
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_analysis.trace_file import own_configuration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# One more whenever a partial of the same trace would hold something else.
_VERSION = 2
MOST_BYTES = 256 << 10
# All that a partial of ours can hold: groups by bucket, causes and limits, histograms, iterations.
_MOST_ROWS = 2 * (GROUPS + 1) * 14 + 200 + 2 * 8 * 64 + ITERATIONS + LIMITS + WAITS + 8 * TASKS
# Both headers of a DuckDB file lie in it: each change of the database changes one.
_HEAD_BYTES = 12 << 10
_LONGEST_WORD = 80
# Their number is a step of a time, and times are below 2^63 ns.
_HISTOGRAMS, _STEPS = ("run_queue", "iteration_time"), 63 * STEPS
_NAMED_BY_CODE = ("limit", "finding", "iteration_limit", "iteration_wait", "task_limit")
_PLACED = ("iteration", "iteration_wait", "task")
_NUMBERED = (*_PLACED, "iteration_limit", "task_limit")
_TYPES = {
    "kind": "VARCHAR", "role": "VARCHAR", "name": "VARCHAR", "bucket": "VARCHAR",
    "number": "BIGINT", "at_ns": "BIGINT", "time_ns": "BIGINT", "part_ns": "BIGINT",
    "count": "BIGINT", "sampled_ns": "BIGINT", "stderr_ns": "BIGINT",
}  # fmt: skip


def partial_path(trace: Path) -> Path:
    """Return where the partial of a trace lies."""
    return trace.with_name(trace.name + PARTIAL_SUFFIX)


def fingerprint(trace: Path, *, reader: str, per: str | None) -> str:
    """Return what changes with a trace, with what is asked of it, and with who reads. OSError."""
    with open_regular(trace) as file:
        found = os.fstat(file.fileno())
        head = file.read(_HEAD_BYTES)
    asked = [_VERSION, SCHEMA_VERSION, reader, per, found.st_size, found.st_mtime_ns]
    return hashlib.sha256(json.dumps(asked).encode() + head).hexdigest()


def write_partial(partial: Partial, path: Path, mark: str) -> None:
    """Write a partial to a new file in a folder of ours. Raises duckdb.Error."""
    facts = json.dumps(asdict(partial.facts)).replace("'", "''")
    columns = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, kind in _TYPES.items())
    quoted = str(path).replace("'", "''")
    with duckdb.connect(":memory:", config=own_configuration()) as connection:
        # A list for each column: row by row takes a millisecond each.
        lists = [list(column) for column in zip(*partial.rows, strict=True)] or [[] for _ in _TYPES]
        connection.execute(f"CREATE TABLE partial AS SELECT {columns}", lists)
        connection.execute(
            f"COPY partial TO '{quoted}' (FORMAT parquet, COMPRESSION zstd,"
            f" KV_METADATA {{mark: '{mark}', facts: '{facts}'}})"
        )


class PartialReader:
    """Reads partials of these traces, and no other file; a context manager that closes it."""

    def __init__(self, traces: Sequence[Path]) -> None:
        # What a shell passes on may be any bytes; DuckDB takes text.
        allowed = [
            path for trace in traces if (path := str(partial_path(trace).absolute())).isprintable()
        ]
        self._connection = duckdb.connect(":memory:", config=own_configuration())
        listed = ", ".join("'{}'".format(path.replace("'", "''")) for path in allowed)
        self._connection.execute(f"SET allowed_paths = [{listed}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def __enter__(self) -> PartialReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self, trace: Path, mark: str) -> Partial | None:
        """Return the partial of a trace; None: there is none that fits."""
        path = partial_path(trace).absolute()
        if not _is_trusted(path):
            return None
        # A name that DuckDB would take for a pattern is one that it cannot be asked for.
        if any(mark in str(path) for mark in "*?["):
            return None
        try:
            return self._checked(str(path), mark)
        except (duckdb.Error, ValueError, TypeError, KeyError, RecursionError, RuntimeError):
            return None

    def _checked(self, path: str, mark: str) -> Partial | None:
        entries = dict(
            self._connection.execute(
                "SELECT key, value FROM parquet_kv_metadata($1)", [path]
            ).fetchall()
        )
        if entries.get(b"mark") != mark.encode():
            return None
        # Words that are all the same take no bytes in the file, whatever their length.
        columns = ", ".join(
            f"left({name}::VARCHAR, {_LONGEST_WORD + 1})"
            if kind == "VARCHAR"
            else f"{name}::{kind}"
            for name, kind in _TYPES.items()
        )
        rows = self._connection.execute(
            f"SELECT {columns} FROM read_parquet($1) LIMIT {_MOST_ROWS + 1}",  # noqa: S608 - names of our own
            [path],
        ).fetchall()
        return Partial(_facts(json.loads(entries[b"facts"])), _rows(rows))


def _is_trusted(path: Path) -> bool:
    """Tell whether it is a file of ours that nobody can swap, and no larger than they are."""
    try:
        found = path.lstat()
        is_ours = found.st_uid in (0, os.geteuid()) and is_ours_alone(path)
    except OSError:
        return False
    return is_ours and stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES


def _rows(found: Sequence[tuple[Any, ...]]) -> tuple[Row, ...]:
    """Return rows that hold what ours can hold; ValueError."""
    if len(found) > _MOST_ROWS:
        raise ValueError("too many rows")
    rows = tuple(Row(*row) for row in found)
    for row in rows:
        if row.kind not in KINDS or row.sampled_ns is None or row.stderr_ns is None:
            raise ValueError("no row of a partial")
        if (row.kind != "finding") != (row.time_ns is not None):
            raise ValueError("no time")
        if any(value is not None and value < 0 for value in row[6:]):
            raise ValueError("a time below 0")
        if any(len(word or "") > _LONGEST_WORD for word in row[:4]):
            raise ValueError("a long word")
        if row.kind in ("process", "operation") and not (row.name and row.bucket):
            raise ValueError("no name")
        if row.kind in _NAMED_BY_CODE and row.name not in BY_CODE:
            raise ValueError("no limit")
        if row.kind in _NUMBERED and row.number is None:
            raise ValueError("no number")
        if row.kind in _PLACED and row.at_ns is None:
            raise ValueError("no instant")
        if row.kind in _HISTOGRAMS and not 0 <= (row.number or 0) < _STEPS:
            raise ValueError("a time that no column holds")
    iterations = [row.number for row in rows if row.kind == "iteration"]
    if len(set(iterations)) < len(iterations):
        raise ValueError("an iteration twice")
    return rows


def _facts(found: dict[str, Any]) -> Facts:
    """Return facts of the types that ours have; ValueError, KeyError, TypeError."""
    facts = Facts(**{of.name: found[of.name] for of in fields(Facts)})
    for of in fields(Facts):
        value, kind = getattr(facts, of.name), str(of.type)
        allowed = {"str": str, "int": int, "bool": bool}[kind.partition(" ")[0]]
        if not (isinstance(value, allowed) or (value is None and "None" in kind)):
            raise ValueError(of.name)
        if isinstance(value, str) and len(value) > _LONGEST_WORD:
            raise ValueError(of.name)
    return facts
