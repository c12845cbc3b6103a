"""The progress bar of work that is not recording; only on a terminal, and gone when it is done."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress


@contextmanager
def live_progress() -> Iterator[Progress]:
    """Show bars on stderr while work is done, where that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    )  # fmt: skip
    console = Console(stderr=True)
    shown = sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        yield progress


@contextmanager
def sweeping() -> Iterator[Callable[[int, int], None]]:
    """Yield progress(done, total) for the sweep over a trace."""
    if not sys.stderr.isatty():
        # Nobody sees the bar: the library that draws it takes 40 ms to import.
        yield lambda _done, _total: None
        return
    with live_progress() as bar:
        task = bar.add_task("reading the trace", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield progress
