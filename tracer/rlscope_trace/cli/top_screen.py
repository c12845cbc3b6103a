"""The screen of `top`, made of views: 80 x 24 is enough, more shows more."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import PurePath
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.text import Text

from rlscope_analysis.schema.vocabulary import NO_PHASE
from rlscope_analysis.wording import printable
from rlscope_trace.cli.top_words import (
    NOT_MEASURED,
    called,
    clock,
    duration,
    gpu,
    percent,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderResult

    from rlscope_trace.record.live.view import Times, View

_LEVELS = " ▁▂▃▄▅▆▇█"
_HISTORY = 120
_PHASE_STYLES = {
    "backpropagation": "blue", "simulation": "green", "inference": "bright_cyan",
    "data": "magenta", None: "bright_black",
}  # fmt: skip
_PYTHON, _NATIVE, _QUEUE, _WAITS = "white", "bright_blue", "dark_orange", "bright_black"
# Besides rows of a table: head, verdict, figures, sparkline, and the keys.
_OTHER_LINES = 7
_MOST_VERDICT = 2
_MOST_PHASES = 6
_MOST_PROGRAM = 24
KEYS = "q Quit  p Pause  t Threads  w Waits  f Functions  r Keep trace  ? Help  Esc Back"
KEYS_KEPT = "q Save and quit  p Pause  t Threads  w Waits  f Functions  ? Help  Esc Back"
KEPT = "the last seconds are kept, and what follows; q ends and saves"
HELP = (
    "Times are of the last two seconds. Of a process they are those of its busiest",
    "thread: on a CPU, in the queue for one, waiting. Python and native code are",
    "distinguished by samples. CPUs counts all threads. waits for: who ended most",
    "of its waiting.",
    "(no phase): the leading thread is in none of those that are known. recorder:",
    "CPU time of the recorder, as a share of one CPU.",
    "r keeps a trace of the last minute (--last) and of what follows: q saves it.",
)


@dataclass(slots=True)
class Screen:
    """What is shown; `page` is the key of the list below the head."""

    program: str
    cpus: int
    page: str = ""
    is_paused: bool = False
    is_kept: bool = False
    """Whether a trace will be saved."""
    message: str = ""
    view: View | None = None
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))

    def show(self, view: View) -> None:
        """Take over a new view, unless it is paused; the history goes on."""
        if view.steps_per_s is not None:
            self.steps.append(view.steps_per_s)
        if not self.is_paused:
            self.view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw as much as there is room for."""
        height = options.height or console.height
        width = options.max_width
        lines = list(self._lines(width, height))
        for text in lines[: max(height - 1, 1)]:
            text.no_wrap = True
            text.truncate(width, overflow="ellipsis")
            yield text
        yield Text("\n" * max(height - 2 - len(lines), 0), end="")
        keys = KEYS_KEPT if self.is_kept else KEYS
        foot = Text(self.message or keys, style="reverse", end="")
        foot.truncate(width)
        yield foot

    def _lines(self, width: int, height: int) -> Iterator[Text]:
        view = self.view
        if view is None:
            yield Text.assemble((" rlscope-trace top ", "reverse"), "  ", (self.program, "bold"))
            yield Text("waiting for the first two readings ...")
            return
        yield self._head(view, width)
        said = wrap(verdict(view.headline), max(width, 1))[:_MOST_VERDICT]
        yield from (Text(words, style="bold") for words in said)
        height -= len(said) - 1
        yield _figures(view, self.cpus, width)
        yield from self._sparkline(width)
        if self.page == "?":
            yield from (Text(line) for line in HELP)
            return
        rows = max(height - _OTHER_LINES, 3)
        pages = {"t": _threads, "w": _waits, "f": _functions}
        if self.page in pages:
            yield from pages[self.page](view, rows + 3)
            return
        phases = list(_phases(view, width, min(_MOST_PHASES, max(rows // 2, 2))))
        yield from phases
        yield from _processes(view, width, max(rows - len(phases) + 2, 2))

    def _head(self, view: View, width: int) -> Text:
        program = Text(printable(_program(view) or self.program), style="bold")
        program.truncate(_MOST_PROGRAM, overflow="ellipsis")
        count = len(view.processes) - 1
        pid = view.processes[0].pid if view.processes else 0
        parts = [
            (3, Text.assemble((" top ", "reverse"), " ")), (0, program), (4, Text(f"  pid {pid}")),
            (5, Text(f" and {count:,} more" if count > 0 else "")),
            (2, Text(f"  {clock(view.elapsed_ns)}")),
            (0, Text("  paused" if self.is_paused else "", style="yellow")),
            (0, Text.assemble("  ", (f"lost {view.lost:,}", "red" if view.lost else "green"))),
            (1, Text(f"  recorder {100 * view.recorder:.1f} %")),
        ]  # fmt: skip
        return _fitting(parts, width)

    def _sparkline(self, width: int) -> Iterator[Text]:
        if not self.steps:
            return
        shown = list(self.steps)[-max(width - 36, 10) :]
        top = max(shown) or 1.0
        bars = "".join(_LEVELS[round(value / top * (len(_LEVELS) - 1))] for value in shown)
        yield Text.assemble(
            ("steps/s  ", "bright_black"), (bars, "bright_cyan"),
            (f"  {min(shown):,.0f} .. {max(shown):,.0f}, {len(shown)} s", "bright_black"),
        )  # fmt: skip


def _program(view: View) -> str:
    """Return the script, or else the program, that the leading process runs."""
    words = view.processes[0].command.split() if view.processes else []
    scripts = [word for word in words[1:] if not word.startswith("-")]
    is_python = bool(words) and PurePath(words[0]).name.startswith("python")
    chosen = scripts[0] if is_python and scripts else "".join(words[:1])
    return PurePath(chosen).name


def _fitting(parts: list[tuple[int, Text]], width: int) -> Text:
    """Return the parts for which there is room: those of the highest number are left out first."""
    while sum(len(text) for _, text in parts) > width and (most := max(rank for rank, _ in parts)):
        parts = [part for part in parts if part[0] < most]
    return Text.assemble(*(text for _, text in parts))


def _figures(view: View, cpus: int, width: int) -> Text:
    steps = NOT_MEASURED if view.steps_per_s is None else f"{view.steps_per_s:,.0f}"
    share = gpu(view)
    parts = [
        (0, Text.assemble((steps, "bold"), " env steps/s")),
        (1, Text.assemble("   ", (duration(view.iteration_ns), "bold"), " an iteration")),
        (2, Text.assemble("   ", (f"{view.cpus:.1f} of {cpus}", "bold"), " CPUs")),
        (3, Text.assemble("   GPU ", (percent(share), "bold"))),
        (4, Text("" if share is not None else " (not measured)")),
    ]
    return _fitting(parts, width)


def _phases(view: View, width: int, most: int) -> Iterator[Text]:
    if view.phases is None:
        yield Text("Phases: none is known of this program", style="bright_black")
        return
    role = view.processes[0].role if view.processes else "program"
    yield Text(f"Phases of the {role}, last {view.window_s:.0f} s", style="bright_black")
    room = max(width - 34, 10)
    named, rest = view.phases[:-1], view.phases[-1]
    for phase in (*named[: most - 1], rest):
        name = NO_PHASE if phase.name is None else printable(phase.name) or "(unnamed)"
        style = _PHASE_STYLES.get(phase.name, "cyan")
        bar = "█" * round(phase.share * room)
        yield Text.assemble(
            f"{name[:18]:18} ", (f"{bar:·<{room}}", style), f" {percent(phase.share):>6}"
        )
    if left := sum(phase.share for phase in named[most - 1 :]):
        yield Text(f"{'(other phases)':18} {'':{room}} {percent(left):>6}")


def _processes(view: View, width: int, rows: int) -> Iterator[Text]:
    room = max(width - 60, 8)
    yield Text.assemble(
        ("Processes  ", "bright_black"), ("█", _PYTHON), " Python ", ("█", _NATIVE), " native ",
        ("█", _QUEUE), " queue ", ("·", _WAITS), " waits",
    )  # fmt: skip
    yield Text(f"{'':18} {'':{room}}   CPUs queue  waits   Py.  waits for", style="bright_black")
    for process in view.processes[: max(rows - 4, 1)]:
        times = process.times
        name = called(process.role, process.number)
        yield Text.assemble(
            f"{name[:10]:10} {process.pid:>7} ", _bar(times, process.python, room),
            f"  {process.cpus:4.2f} {percent(times.queue):>5} {percent(times.waits):>6}"
            f" {percent(process.python):>5}  {process.waits_for or NOT_MEASURED}",
        )  # fmt: skip
    if (left := len(view.processes) - max(rows - 4, 1)) > 0:
        yield Text(f"and {left} more processes", style="bright_black")


def _bar(times: Times, python: float | None, room: int) -> Text:
    running = round(times.running * room)
    in_python = 0 if python is None else round(python * times.running * room)
    queue = min(round(times.queue * room), room - running)
    rest = room - running - queue
    return Text.assemble(
        ("█" * in_python, _PYTHON), ("█" * (running - in_python), _NATIVE), ("█" * queue, _QUEUE),
        ("·" * rest, _WAITS),
    )  # fmt: skip


def _threads(view: View, rows: int) -> Iterator[Text]:
    yield Text(f"{'pid':>8} {'tid':>8} {'run':>6} {'queue':>6} {'waits':>6} {'lost':>6} "
               f"{'switches/s':>11}  thread", style="bright_black")  # fmt: skip
    for thread in view.threads[:rows]:
        times = thread.times
        yield Text(
            f"{thread.pid:>8} {thread.tid:>8} {percent(times.running):>6} {percent(times.queue):>6}"
            f" {percent(times.waits):>6} {percent(times.lost):>6} {thread.switches_per_s:>11,.0f}"
            f"  {printable(thread.name)}"
        )


def _waits(view: View, rows: int) -> Iterator[Text]:
    yield Text(f"{'who':12} {'waits':>6} {'wakes/s':>9}  for", style="bright_black")
    for wait in view.waits[:rows]:
        yield Text(
            f"{called(wait.role, wait.number):12} {percent(wait.share):>6}"
            f" {wait.wakes_per_s:>9,.0f}  {wait.waker}"
        )


def _functions(view: View, rows: int) -> Iterator[Text]:
    yield Text("samples  Python function (innermost)", style="bright_black")
    if not view.functions:
        yield Text("no samples of Python functions in this window")
    for function in view.functions[:rows]:
        yield Text(f"{percent(function.share):>7}  {printable(function.name)}")
