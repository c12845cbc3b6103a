"""`rlscope-trace sql`: one query on a trace, or a small shell."""

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.query import Result, run_query
from rlscope_analysis.renderers import csv, json, text
from rlscope_analysis.result.column import Column, Unit, is_number
from rlscope_analysis.result.table import Table
from rlscope_analysis.trace import Trace, open_trace
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.sql_shell import SqlShell, dot_command, history_file
from rlscope_trace.errors import UsageError

TABLE_ROWS = 1000


class ResultFormat(str, Enum):
    """How the result of a query is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


ResultFormatOption = Annotated[
    ResultFormat, typer.Option("--format", help="Print a table, a JSON array, or CSV.")
]
EveryRowOption = Annotated[
    bool, typer.Option("--all", help=f"Print every row: a table else ends after {TABLE_ROWS}.")
]


def sql(
    trace: Annotated[Path, typer.Argument(help="The trace to ask.", show_default=False)],
    query: Annotated[
        str | None,
        typer.Argument(
            help="One SQL query, or .tables or .schema NAME; else it is read from a pipe, or a"
            " shell opens.",
            show_default=False,
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=TRACE",
            help="Another trace, whose tables and views are NAME.thread and so on; more than once.",
            show_default=False,
        ),
    ] = None,
    output_format: ResultFormatOption = ResultFormat.TABLE,
    every: EveryRowOption = False,
) -> None:
    """Ask a trace anything in SQL (DuckDB's); the trace is only read, never changed."""
    is_shell = query is None and sys.stdin.isatty()
    write_nothing_but(*([history] if is_shell and (history := history_file()) else []))
    others = dict(map(_named, beside or []))
    with damage_reported(trace, asks_our_own=False), open_trace(trace, beside=others) as opened:

        def chunks(query: str) -> Iterator[str]:
            return answer(opened, query, output_format, limit=None if every else TABLE_ROWS)

        is_data = output_format is ResultFormat.CSV

        if is_shell:
            SqlShell(trace=opened, answer=chunks).run()
        else:
            write_stdout(chunks(sys.stdin.read() if query is None else query), is_data=is_data)


def _named(option: str) -> tuple[str, Path]:
    name, mark, path = option.partition("=")
    if not mark or not path:
        raise UsageError(f"--with {option} names no trace", hint="--with NAME=TRACE")
    return name, Path(path)


def answer(
    trace: Trace, query: str, output_format: ResultFormat, *, limit: int | None
) -> Iterator[str]:
    """Answer a query or a dot command, piece by piece."""
    if query.strip().startswith("."):
        return dot_command(trace, query)
    return render_result(run_query(trace, query), output_format, limit=limit)


def render_result(
    result: Result, output_format: ResultFormat, *, limit: int | None
) -> Iterator[str]:
    """Return the text of the result of a query, piece by piece."""
    units = {True: Unit.DATABASE_NUMBER, False: Unit.DATABASE_VALUE}
    columns = tuple(
        Column(name, units[is_number(type_name)], label=name)
        for name, type_name in zip(result.columns, result.types, strict=True)
    )
    table = Table("result", "", columns, result.rows)
    if output_format is ResultFormat.JSON:
        return json.render_rows(table)
    if output_format is ResultFormat.CSV:
        return csv.render(table)
    return text.stream_rows(table, limit=limit, is_terminal=sys.stdout.isatty())
