"""Trace databases of strangers: odd values in any column, other types, missing tables, and damage.

Each is opened and summarized, or asked one question, as `summarize` does; what is shown may hold no
control character, and the only error is one with a message.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import atheris
import duckdb
from python_target import claim_printable, flipped, run, work_folder

with atheris.instrument_imports(include=["rlscope_analysis"]):
    from rlscope_analysis.derive import complete
    from rlscope_analysis.errors import TraceError
    from rlscope_analysis.renderers import csv, json, text
    from rlscope_analysis.reports import REPORTS
    from rlscope_analysis.reports.answer import answer
    from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
    from rlscope_analysis.summary.answer import answer_of
    from rlscope_analysis.summary.read import summarize
    from rlscope_analysis.trace import Trace, open_trace

from trace_builder import TraceBuilder, sleep, woken
from trace_builder import run as ran

_FOLDER = work_folder("traces")
if TYPE_CHECKING:
    from pathlib import Path

_VALUES = (
    "NULL", "0", "-1", "1", "255", "2147483647", "-2147483648", "4611686018427387903",
    "9223372036854775807", "-9223372036854775808", "''", "'\x1b[31mred\x07'", "'[1, 2'", "'{}'",
    "'null'", "'[[]]'", "repeat('x', 100000)", "'a' || chr(10) || 'b'", "'NaN'::DOUBLE",
    "'inf'::DOUBLE", "true", "chr(127) || chr(155)", "'1e400'",
)  # fmt: skip
_TYPES = ("VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN", "BIGINT[]", "BLOB", "HUGEINT", "TIMESTAMP")


def _sound_trace() -> Path:
    meta = {
        "schema_version": str(SCHEMA_VERSION), "tool_version": "0.1",
        "argv": '["python", "train.py"]',
        "host": "box", "start_ns": "0", "end_ns": "10",
    }  # fmt: skip
    builder = TraceBuilder(_FOLDER / "sound.duckdb", meta=dict(meta), with_views=False)
    process = builder.process(pid=5, command="python train.py")
    first = builder.thread(process, states=[ran(6), sleep(4)])
    builder.thread(process, states=[woken(3, by=first), ran(7)])
    builder.operation(first, 1, 9, "step")
    builder.operation(first, 2, 5, "inside")
    builder.native_call(first, 2, 5, "backend")
    builder.cuda_call(first, 3, 4, correlation_id=1)
    builder.gpu_activity(process, 3, 8, correlation_id=1, name="gemm")
    builder.wait(first, 6, 10, "lock")
    builder.loss(count=3)
    path = builder.write()
    # As it is recorded: with what saving derives, which opening would have to make up for.
    with duckdb.connect(str(path)) as connection:
        complete(connection)
    return path


def _edit(path: Path, provider: atheris.FuzzedDataProvider) -> None:
    """Make one to four changes that the database allows."""
    with duckdb.connect(str(path)) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        ).fetchall()
        for _ in range(provider.ConsumeIntInRange(1, 4)):
            table, column = columns[provider.ConsumeIntInRange(0, len(columns) - 1)]
            value = _VALUES[provider.ConsumeIntInRange(0, len(_VALUES) - 1)]
            kind = _TYPES[provider.ConsumeIntInRange(0, len(_TYPES) - 1)]
            change = provider.ConsumeIntInRange(0, 9)
            statement = f"UPDATE {table} SET {column} = {value}"
            if change == 0:
                statement = f"DROP TABLE {table}"
            elif change == 1:
                statement = f"ALTER TABLE {table} DROP COLUMN {column}"
            elif change == 2:
                statement = f"ALTER TABLE {table} ALTER {column} TYPE {kind} USING {value}"
            elif change == 3:
                statement = f"INSERT INTO {table} FROM {table}"
            elif change == 4:
                statement = f"COMMENT ON TABLE {table} IS '\x1b[2Jgone'"
            try:
                connection.execute(statement)
            except duckdb.Error:
                continue  # not all values fit all columns


def _read(path: Path, asked: int) -> None:
    """Ask one question: each takes a while."""
    with open_trace(path) as trace:
        if asked == 0:
            _summarize(trace)
            return
        report = [*REPORTS.values()][asked % len(REPORTS)]
        found = answer(trace, report)
        claim_printable(text.render(found, limit=None))


def _summarize(trace: Trace) -> None:
    found = answer_of(summarize(trace), top=3)
    claim_printable(text.render(found, limit=None, width=100))
    "".join(json.render(found)).encode()
    "".join(csv.render(found.data)).encode()


def target(data: bytes) -> None:
    """Change a sound trace and read it."""
    provider = atheris.FuzzedDataProvider(data)
    path = _FOLDER / "trace.duckdb"
    asked = provider.ConsumeIntInRange(0, 31)
    shutil.copy(_SOUND, path)
    if provider.ConsumeIntInRange(0, 7) == 0:
        edits = provider.ConsumeBytes(provider.remaining_bytes())
        path.write_bytes(flipped(path.read_bytes(), edits))
    else:
        _edit(path, provider)
    with contextlib.suppress(TraceError):
        _read(path, asked)


if __name__ == "__main__":
    _SOUND = _sound_trace()
    run(target)
