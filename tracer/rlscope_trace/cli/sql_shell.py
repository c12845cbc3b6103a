"""The shell of `rlscope-trace sql`: reads statements line by line and prints their answers."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.catalog import describe, public
from rlscope_analysis.errors import TraceError
from rlscope_analysis.query import split_statements
from rlscope_analysis.renderers.text import render_table
from rlscope_analysis.result.column import Column
from rlscope_analysis.result.table import Table
from rlscope_trace.cli import messages
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.outputs.trusted import is_own_place, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlscope_analysis.trace import Trace

_HELP = """\
SQL ends with a semicolon and may take several lines; the trace is only read.
.tables       the tables and views, with what they hold
.schema NAME  the columns of one of them, with what they mean
.help         this
.quit         leave; so does Ctrl-D. Ctrl-C drops the line, or stops a query
"""
_PROMPT, _CONTINUED = "trace> ", "  ...> "
_HISTORY_LINES = 1000
# What may hold a semicolon that ends nothing; an unfinished one stays and holds the line open.
_QUOTED = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/", re.DOTALL
)


def is_finished(text: str) -> bool:
    """Whether the text ends with a semicolon that ends a statement."""
    bare = _QUOTED.sub(" ", text).rstrip()
    return bare.endswith(";") and not re.search(r"['\"]|/\*|\$\w*\$", bare)


def dot_command(trace: Trace, text: str) -> Iterator[str]:
    """Answer .tables, .schema NAME or .help."""
    command, *arguments = text.strip().rstrip(";").split()
    if command == ".tables" and not arguments:
        return iter([_tables(trace)])
    if command == ".schema" and len(arguments) == 1:
        return iter([_schema(trace, arguments[0])])
    if command == ".help" and not arguments:
        return iter([_HELP])
    raise TraceError(f"no such command: {text.strip()}", hint=".tables, .schema NAME, .help, .quit")


def _tables(trace: Trace) -> str:
    rows = [
        (relation.name, relation.kind, relation.comment or "")
        for relation in public(trace.connection)
    ]
    return _text("", ("name", "kind", "what it holds"), rows)


def _schema(trace: Trace, name: str) -> str:
    trace.provide(name)
    relations = {relation.name: relation for relation in describe(trace.connection)}
    relation = relations.get(name.lower())
    if relation is None:
        raise TraceError(f"the trace has no table or view {name}", hint=".tables lists them")
    rows = [(column.name, column.type, column.comment or "") for column in relation.columns]
    title = f"{relation.kind} {relation.name}: {relation.comment or ''}"
    return _text(title, ("column", "type", "what it means"), rows)


def _text(title: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return render_table(Table("", title, tuple(map(Column, names)), rows), limit=None)


@dataclass(frozen=True, slots=True)
class SqlShell:
    """Reads from a terminal until Ctrl-D; `answer` turns one statement into text."""

    trace: Trace
    answer: Callable[[str], Iterator[str]]
    read_line: Callable[[str], str] = input

    def run(self) -> None:
        """Read and answer until the user leaves."""
        history = _open_history()
        write_stdout([f"{self.trace.path}: .tables lists what it holds, .help the rest\n"])
        try:
            while self._step():
                pass
        finally:
            _save_history(history)

    def _step(self) -> bool:
        """Read and answer once; False when the user leaves."""
        try:
            text = self._read()
            if text is not None:
                self._answer(text)
        except KeyboardInterrupt:
            messages.say("stopped")
            return True
        return text is not None

    def _read(self) -> str | None:
        """Read one statement or dot command; None when the user leaves."""
        lines: list[str] = []
        while True:
            try:
                lines.append(self.read_line(_CONTINUED if lines else _PROMPT))
            except EOFError:
                write_stdout(["\n"])
                return None
            except KeyboardInterrupt:
                write_stdout(["\n"])
                lines.clear()
                continue
            first = lines[0].strip()
            if len(lines) == 1 and first.rstrip(";") in (".quit", ".exit"):
                return None
            if not first and len(lines) == 1:
                lines.clear()
            elif first.startswith(".") or is_finished("\n".join(lines)):
                return "\n".join(lines)

    def _answer(self, text: str) -> None:
        try:
            is_command = text.lstrip().startswith(".")
            for part in [text] if is_command else split_statements(self.trace, text):
                write_stdout(self.answer(part))
        except TraceError as error:
            messages.failure(error)


def history_file() -> Path | None:
    """Return where the history of shells is kept, in a folder that is there; None: nowhere."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    path = Path(state) / "rlscope-trace" / "sql_history"
    try:
        make_folder(path.parent)
        # Root may have the home of another user, who could lead it anywhere.
        return path if os.geteuid() != 0 or is_own_place(path.parent) else None
    except OSError:
        return None


def _open_history() -> Path | None:
    """Load the history of earlier shells; None where there is no line editing."""
    try:
        import readline
    except ImportError:
        return None
    path = history_file()
    if path is not None:
        with suppress(OSError):
            readline.read_history_file(path)
    return path


def _save_history(path: Path | None) -> None:
    if path is None:
        return
    import readline

    # A history that cannot be kept, in a home that is read-only, is not worth a word.
    with suppress(OSError):
        readline.set_history_length(_HISTORY_LINES)
        readline.write_history_file(path)
