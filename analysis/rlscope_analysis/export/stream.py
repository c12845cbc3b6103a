"""Feeds queries into a format, in pieces that leave room for Ctrl-C and for progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rlscope_analysis.export import sources
from rlscope_analysis.export.names import arguments_of, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis._perfetto import Writer
    from rlscope_analysis.export.names import Wording
    from rlscope_analysis.export.plan import Plan
    from rlscope_analysis.export.sources import Kind

# Prepares one pass over some tracks, and returns what has to stand before its slices.
Pass = Callable[[], bytes]


class Format(Protocol):
    """What writes a trace: a head, the passes over its slices, a tail."""

    @property
    def writer(self) -> Writer:
        """Return what the passes fill."""

    def head(self) -> Iterator[bytes]:
        """Yield everything that comes before the slices."""

    def passes(self) -> Iterator[Pass]:
        """Yield the passes, each to be run to its end before the next one is prepared."""

    def tail(self) -> bytes:
        """Return what comes after the slices."""


def add_source(
    writer: Writer, plan: Plan, kind: Kind, wording: Wording, wakers: dict[int, str]
) -> None:
    """Add the slices of one kind to the pass that is being prepared."""
    ordered = kind is sources.ASYNC_RANGE or not plan.in_order[kind.table]
    query = sources.slices_sql(kind, plan.window, shift_ns=plan.shift_ns, ordered=ordered)
    names, unknown = names_of(plan.connection, kind, wording)
    # Several queries are under way at once: each needs a connection of its own.
    writer.add_source(
        plan.connection.cursor().sql(query),
        is_gpu=kind.is_gpu,
        keys=len(kind.keys),
        names=names,
        unknown=unknown,
        arguments=arguments_of(kind, wakers),
        correlation=kind.correlation_index,
    )
