"""A trace on its way into a timeline file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.errors import TraceError
from rlscope_analysis.export.chrome import ChromeFormat
from rlscope_analysis.export.perfetto import PerfettoFormat
from rlscope_analysis.export.plan import make_plan
from rlscope_analysis.window import window_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlscope_analysis.export.plan import Plan
    from rlscope_analysis.export.stream import Format
    from rlscope_analysis.trace import Trace

FORMATS: dict[str, Callable[[Plan], Format]] = {"perfetto": PerfettoFormat, "chrome": ChromeFormat}
_PIECE_BYTES = 1 << 20
# DuckDB turns a Ctrl-C during a query into a RuntimeError with this text.
_INTERRUPTED = "Query interrupted"


class Timeline:
    """One export: what it will hold, its bytes, and afterwards what it holds.

    start, end: only slices that reach into this interval, in seconds since the start of the trace
    or with a unit ("1.5", "200ms"); they are kept whole. Raises TraceError where the trace
    cannot be read, or where these are no times.
    """

    def __init__(
        self, trace: Trace, form: str, *, start: str | None = None, end: str | None = None
    ) -> None:
        self._trace = trace
        window = window_of(trace.connection, start, end)
        with self._readable():
            self._plan = make_plan(trace.connection, window)
        self._form = FORMATS[form](self._plan)
        self.total_rows = None if window else self._plan.rows
        """How many rows will be read; None: that is not known."""
        self.is_complete = False
        """Whether all of it was written."""
        self.slices = 0
        """How many slices were written."""
        self.unplaced = 0
        """How many were not, because they are of a thread or process that the trace has not."""
        self.unreadable = self._plan.unreadable
        """How many rows are no intervals: without an end, or with one before the start."""

    def pieces(self, progress: Callable[[int], None] = lambda _rows: None) -> Iterator[bytes]:
        """Yield the file piece by piece; progress(rows) is told how many rows were read.

        Memory does not grow with the trace. Raises TraceError where the trace cannot be read on.
        """
        with self._readable():
            yield from self._form.head()
            for prepare in self._form.passes():
                yield prepare()
                yield from self._slices(progress)
            yield self._form.tail()
        self.is_complete = True

    def _slices(self, progress: Callable[[int], None]) -> Iterator[bytes]:
        writer, before = self._form.writer, self.slices + self.unplaced
        while piece := writer.next(_PIECE_BYTES):
            yield piece
            progress(before + writer.rows)
        self.slices += writer.rows - writer.unplaced
        self.unplaced += writer.unplaced

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Let what DuckDB says of a trace, also through Arrow, become one error."""
        try:
            yield
        except (duckdb.Error, RuntimeError) as error:
            message = str(error).strip().partition("\n")[0]
            if message == _INTERRUPTED:
                raise KeyboardInterrupt from error
            raise TraceError(f"cannot read {self._trace.path}: {message}") from error
