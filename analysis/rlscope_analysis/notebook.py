"""A trace that shows itself in a notebook: the first screen of the report, and charts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from rlscope_analysis import trace as traces_of_files
from rlscope_analysis.page.read import read_first_screen
from rlscope_analysis.plots import Plots
from rlscope_analysis.renderers.html import render_first_screen
from rlscope_analysis.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

_HEIGHT_PX = 860


class ShownTrace(Trace):
    """A trace as `rlscope_analysis.open` returns it."""

    __slots__ = ()

    def __enter__(self) -> ShownTrace:
        return self

    @property
    def plot(self) -> Plots:
        """Charts by Altair, for example `trace.plot.iterations()`; needs the extra `plot`."""
        return Plots(self)

    def _repr_html_(self) -> str:
        """Return verdict, figures, phases, processes and findings, in a frame without scripts.

        A frame, as its style is that of a page: nothing else of the notebook may change by it.
        """
        page = escape(render_first_screen(read_first_screen(self)), quote=True)
        style = f"width:100%;height:{_HEIGHT_PX}px;border:0"
        return f'<iframe sandbox title="rlscope-trace" style="{style}" srcdoc="{page}"></iframe>'


def open_trace(path: Path | str, **options: Any) -> ShownTrace:  # noqa: ANN401
    """Open a trace for reading, as `rlscope_analysis.trace.open_trace` does with its options."""
    opened = traces_of_files.open_trace(path, **options)
    return ShownTrace(opened.path, opened.connection, opened.schema_version)
