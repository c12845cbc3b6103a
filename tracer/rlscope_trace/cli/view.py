"""`rlscope-trace view`: the whole trace as a timeline in a browser of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.renderers.html import view as page
from rlscope_analysis.result.timeline import Whole
from rlscope_analysis.trace import Trace, open_trace
from rlscope_analysis.viewport.lanes import read_whole
from rlscope_analysis.viewport.place import read_place
from rlscope_analysis.viewport.search import search
from rlscope_analysis.viewport.slices import read_slices
from rlscope_trace.cli import messages
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.view_server import LOOPBACK, Answers, ViewServer
from rlscope_trace.errors import TracerError, reason_of
from rlscope_trace.signals import signals_interrupt

_MOST_LANES, _MOST_PIXELS, _MOST_WORDS = 64, 8192, 200
_LAST_PORT = 65535


def view(
    trace: Annotated[Path, typer.Argument(help="The trace to view.", show_default=False)],
    port: Annotated[
        int,
        typer.Option(help="The port to listen on; 0: any free one.", min=0, max=_LAST_PORT),
    ] = 0,
) -> None:
    """Show the whole trace as a timeline, in a browser: open the address that is printed.

    Listens on 127.0.0.1 only, for whoever has that address. Ctrl-C ends it. docs/view.md explains
    what is shown, and how to look from another machine.
    """
    with signals_interrupt():
        try:
            # From what follows on this process can open no socket any more, nor connect one.
            server = ViewServer(port)
        except OSError as error:
            raise TracerError(
                f"cannot listen on {LOOPBACK}:{port}: {reason_of(error)}",
                hint="rlscope-trace view TRACE takes any port that is free",
            ) from error
        with server:
            write_nothing_but()
            _serve(server, trace)


def _serve(server: ViewServer, path: Path) -> None:
    try:
        with sweeping() as progress, damage_reported(path):
            opened = open_trace(path, progress=progress)
        with opened:
            server.answers = _answers(opened, read_whole(opened))
            messages.say(f"open {server.url}")
            messages.say("Ctrl-C ends it")
            try:
                server.serve_forever()
            finally:
                opened.connection.interrupt()
                # No thread may be inside DuckDB when it goes away.
                server.alone.acquire(timeout=5)
    except KeyboardInterrupt:
        messages.say("ended")


def _answers(trace: Trace, whole: Whole) -> Answers:
    first, last = whole.start_ns, whole.end_ns
    keys = {lane.key for lane in whole.lanes}

    def slices(asked: dict[str, str]) -> str:
        start, end = first + int(asked["from"]), first + int(asked["to"])
        lanes = [int(key) for key in asked["lanes"].split(",")[:_MOST_LANES]]
        pixels = int(asked["pixels"])
        if not first <= start < end <= last or not keys.issuperset(lanes):
            raise ValueError("outside of the trace")
        pixels = min(max(pixels, 1), _MOST_PIXELS)
        found = read_slices(trace, lanes, (start, end), pixels=pixels, has_path=whole.has_path)
        return page.slices_json(found, first)

    def place(asked: dict[str, str]) -> str:
        lane, ts_ns = int(asked["lane"]), first + int(asked["at"])
        if lane not in keys or not first <= ts_ns < last:
            raise ValueError("outside of the trace")
        found = read_place(trace, lane, ts_ns, has_path=whole.has_path)
        return page.place_json(found, whole, ts_ns)

    def find(asked: dict[str, str]) -> str:
        ts_ns = min(max(first + int(asked["at"]), first - 1), last)
        return page.found_json(search(trace, asked["words"][:_MOST_WORDS], ts_ns), first)

    shown = page.whole_json(whole)
    return {
        "": ("text/html", lambda _: page.view_page()),
        "view.css": ("text/css", lambda _: page.view_style()),
        "view.js": ("text/javascript", lambda _: page.view_script()),
        "trace.json": ("application/json", lambda _: shown),
        "slices.json": ("application/json", slices),
        "place.json": ("application/json", place),
        "find.json": ("application/json", find),
    }
