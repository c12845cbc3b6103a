"""Charts of one trace; Altair is imported when the first is made."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import TraceError
from rlscope_analysis.plots import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair

    from rlscope_analysis.trace import Trace

# Those of the report: told apart by the colour-blind.
_HUES = ("#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#7a5bd0", "#b8a200", "#7d4e2d")
_PARTS = {
    "Python": "#2f3e5c", "native code": "#7d8fb3", "on a CPU": "#3d4d6e", data.QUEUE: "#d55e00",
    data.WAITS: "#d5d6d2", data.LOST: "#a3290c", data.UNKNOWN: "#eeeeeb",
}  # fmt: skip
_WIDTH, _HEIGHT = 640, 240


@dataclass(frozen=True, slots=True)
class Plots:
    """What `trace.plot` offers: each method returns an Altair chart, whose `data` is a DataFrame.

    Needs `pip install "rlscope-trace[plot]"`. Raises TraceError without it, and where the trace has
    nothing of what is asked for.
    """

    trace: Trace

    def iterations(self) -> altair.Chart:
        """Show every iteration in ms, by what the leading thread did; above 600 means."""
        alt = _altair()
        rows = data.iteration_rows(self.trace)
        phases = list(dict.fromkeys(rows["phase"]))
        chart: altair.Chart = _chart(alt, rows, "Every iteration").mark_bar().encode(
            x=alt.X("start_s:Q", title="s since the first iteration began"),
            x2="end_s:Q",
            y=alt.Y("from_ms:Q", title="ms an iteration"),
            y2="to_ms:Q",
            color=_color(alt, "phase", phases, _HUES),
            tooltip=["first_id", "last_id", "phase", "time_ms"],
        )  # fmt: skip
        return chart

    def phases(self) -> altair.Chart:
        """Show what the leading thread did in each phase, from the first iteration to the last."""
        alt = _altair()
        rows = data.phase_rows(self.trace)
        parts = [part for part in _PARTS if part in set(rows["part"])]
        chart: altair.Chart = _chart(alt, rows, "Phases of the leading thread").mark_bar().encode(
            x=alt.X("time_ms:Q", title="ms"),
            y=alt.Y("phase:N", sort=list(dict.fromkeys(rows["phase"])), title=None),
            color=_color(alt, "part", parts, [_PARTS[part] for part in parts]),
            order=alt.Order("rank:Q"),
            tooltip=["phase", "part", "time_ms", "share"],
        ).transform_calculate(rank=f"indexof({_words(parts)}, datum.part)")  # fmt: skip
        return chart

    def processes(self) -> altair.Chart:
        """Show the CPU time of each process, and how long its leading thread waited; 40 at most."""
        alt = _altair()
        rows = data.process_rows(self.trace)
        points = _chart(alt, rows, "Processes").mark_point(filled=True, size=90)
        chart: altair.Chart = points.encode(
            x=alt.X("share:Q", title="part of the iterations (CPU time: 1 is one CPU)"),
            y=alt.Y("process:N", sort=list(dict.fromkeys(rows["process"])), title=None),
            color=_color(alt, "part", ["CPU time", data.QUEUE, "waits for a process"],
                         ["#2f3e5c", "#d55e00", "#7d8fb3"]),
            shape=alt.Shape("part:N", title=None),
            tooltip=["process", "part", "share"],
        )  # fmt: skip
        return chart

    def limits(self) -> altair.LayerChart:
        """Show what holds the iterations up: shares of the critical path, with 95 % intervals."""
        alt = _altair()
        rows = data.limit_rows(self.trace)
        y = alt.Y("code:N", sort=list(rows["code"]), title=None)
        base = _chart(alt, rows, "What an iteration takes its time for")
        bars = base.mark_bar(color=_HUES[0]).encode(
            x=alt.X("share:Q", title="part of the iterations"),
            y=y,
            tooltip=["code", "share", "low_share", "high_share", "time_ms"],
        )
        spans = base.mark_rule(color="#16181d").encode(x="low_share:Q", x2="high_share:Q", y=y)
        chart: altair.LayerChart = alt.layer(bars, spans, data=rows)
        return chart

    def run_queue(self) -> altair.Chart:
        """Show how long threads waited for a CPU, by the time that waits of a length make up."""
        alt = _altair()
        rows = data.run_queue_rows(self.trace)
        chart: altair.Chart = _chart(alt, rows, "Waits for a CPU").mark_bar().encode(
            x=alt.X("from_us:Q", title="length of a wait, us", scale=alt.Scale(type="log")),
            x2="to_us:Q",
            y=alt.Y("from_ms:Q", title="ms together"),
            y2="to_ms:Q",
            color=_color(alt, "who", [data.LEAD, "workers", "others"], _HUES[:3]),
            tooltip=["who", "from_us", "to_us", "waits", "time_ms"],
        )  # fmt: skip
        return chart


def _altair() -> Any:  # noqa: ANN401 - a module that may be absent
    try:
        return importlib.import_module("altair")
    except ImportError as error:
        raise TraceError(
            "charts need Altair, which is not installed",
            hint='pip install "rlscope-trace[plot]"',
        ) from error


def _chart(alt: Any, rows: Any, title: str) -> Any:  # noqa: ANN401
    return alt.Chart(rows, title=title).properties(width=_WIDTH, height=_HEIGHT)


def _color(alt: Any, column: str, names: Sequence[str], colors: Sequence[str]) -> Any:  # noqa: ANN401
    scale = alt.Scale(domain=list(names), range=list(colors)[: len(names)])
    return alt.Color(f"{column}:N", scale=scale, title=None)


def _words(names: Sequence[str]) -> str:
    """Return names as a list of the expressions of Vega: JSON is one."""
    return json.dumps(list(names))
